"""``rotameter convert``: a trace or another tool's log as a table, or in another format."""

from __future__ import annotations

import contextlib
import difflib
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rotameter.cli._common import Given, input_options, load
from rotameter.errors import TraceWarning, UnknownPlugin, UsageError, WouldOverwrite, no_folder
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = ["convert", "export", "format_for"]

_SUFFIXES = {".csv": "csv", ".parquet": "parquet", ".rmt": "rmt"}
_OF_ONE_TABLE = ("csv", "parquet")


@click.command()
@click.argument("trace", nargs=-1, required=True)
@click.option("--to", "to", help="csv, parquet, perfetto, wfformat, otlp, snakemake or rmt.")
@click.option("--table", help="Which table, for csv and parquet  [default: tasks].")
@click.option("-o", "--output", type=click.Path(), help="Where to  [default for csv: stdout].")
@click.option("--force", is_flag=True, help="Replace what is there.")
@input_options
def convert(
    trace: tuple[str, ...],
    to: str | None,
    table: str | None,
    output: str | None,
    force: bool,
    given: Given,
) -> None:
    """Write TRACE, or what another tool left behind, in another format.

    \b
    Example:
      rotameter convert run.rmt --to csv --table tasks -o tasks.csv
    """  # noqa: D301
    to = to or format_for(output)
    _check_format(to, table)
    if table is not None and to not in _OF_ONE_TABLE:
        raise UsageError(f"--table does not go with --to {to}", hint="it is for csv and parquet")
    if output in (None, "-") and to != "csv":
        raise UsageError(f"--to {to} needs a file", hint="add -o OUT")
    refuse_existing(output, force=force)
    opened = load(list(trace), given)
    export(opened, to, output, table=table, force=force)


def format_for(output: str | None) -> str:
    """Give the format that a file's name stands for.

    Examples
    --------
    >>> format_for("tasks.csv"), format_for(None), format_for("day.rmt/")
    ('csv', 'csv', 'rmt')
    """
    if output in (None, "-"):
        return "csv"
    suffix = Path(str(output)).suffix.lower()
    if suffix not in _SUFFIXES:
        raise UsageError(
            f"{output}: which format?",
            hint="say it with --to (csv, parquet, perfetto, wfformat, otlp, snakemake, rmt)",
        )
    return _SUFFIXES[suffix]


def refuse_existing(output: str | None, *, force: bool, file: bool = False) -> None:
    """Raise where the output is there without ``--force``, or where a file has no place."""
    if output in (None, "-"):
        return
    place = Path(str(output))
    if file and place.is_dir():
        raise UsageError(f"{output} is a folder", hint="name a file in it")
    if file and not place.parent.is_dir():
        raise no_folder(place.parent)
    if force:
        return
    if Path(str(output)).exists() or Path(str(output)).is_symlink():
        raise WouldOverwrite(
            f"{output} exists", hint="choose another name, or pass --force to replace it"
        )


def _check_format(to: str, table: str | None) -> None:
    """Say what is wrong with the names before a large input is read."""
    from rotameter import plugins
    from rotameter.profiler.schema import TABLES

    if to != "rmt":
        _known_format(to)
        plugins.get("exporters", to)
    if table is not None and table not in TABLES:
        raise UsageError(f"a trace has no table {table!r}", hint=f"tables: {', '.join(TABLES)}")


def _known_format(to: str) -> None:
    """Say which formats there are; a trace's own is no plug-in, but one of them."""
    from rotameter import plugins

    known = sorted({*plugins.names("exporters"), "rmt"})
    if to in known:
        return
    near = difflib.get_close_matches(to.lower(), known, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise UnknownPlugin(f"--to {to}: no such format", hint=f"{hint}known: {', '.join(known)}")


def export(
    trace: Trace, to: str, output: str | None, *, table: str | None = None, force: bool = False
) -> None:
    """Write a trace and say so on stderr."""
    from rotameter import plugins

    written: Any = None
    if to == "rmt":
        trace.save(str(output), force=force)
    else:
        options: dict[str, Any] = {}
        if to in _OF_ONE_TABLE:
            options["table"] = table or "tasks"
        exporter = plugins.get("exporters", to)()
        with _told():
            exporter.write(trace, output or "-", **options)
        written = getattr(exporter, "written", None)  # others' exporters need not say
    for reason in getattr(written, "reasons", list)():
        click.echo(f"warning: left out: {reason}", err=True)
    if output in (None, "-"):
        sys.stdout.flush()
        return
    rows = len(trace.table(table or "tasks"))
    what = many(rows, "attempt")
    if to in _OF_ONE_TABLE:
        what = f"{many(rows, 'row')} of {table or 'tasks'}"
    click.echo(f"Wrote {output} ({written or what})", err=True)


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Show Python's warnings as those of all commands are shown."""

    def show(message: Warning | str, *args: Any, **kwargs: Any) -> None:
        click.echo(f"warning: {message}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", TraceWarning)
        warnings.showwarning = show
        yield
