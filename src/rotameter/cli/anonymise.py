"""``rotameter anonymise``: a trace that can be shown to others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from rotameter.cli._common import Given, input_options, load
from rotameter.cli.convert import export, format_for, refuse_existing
from rotameter.errors import UsageError
from rotameter.units import many

__all__ = ["anonymise"]

_FACTS_NAMED = 12


@click.command()
@click.argument("trace", nargs=-1, metavar="TRACE... OUTPUT")
@click.option("--key", help="Secret that keeps pseudonyms the same from file to file.")
@click.option("--key-file", type=click.Path(), help="The same, from a file: safer than --key.")
@click.option(
    "--shift", metavar="SECONDS", help="Move all times: seconds, or 'relative' to begin at 0."
)
@click.option("--table", help="Which table, when OUTPUT is a csv or parquet file.")
@click.option("--force", is_flag=True, help="Replace what is there.")
@input_options
def anonymise(
    trace: tuple[str, ...],
    key: str | None,
    key_file: str | None,
    shift: str | None,
    table: str | None,
    force: bool,
    given: Given,
) -> None:
    """Write TRACE to OUTPUT with pseudonyms for all names, paths and texts.

    \b
    Example:
      rotameter anonymise run.rmt shared.rmt --key-file my.key
    """  # noqa: D301
    from rotameter.adapters.anonymise import anonymise as without_names

    *inputs, output = trace or ("",)
    if not inputs:
        missing = "OUTPUT is missing" if output else "TRACE and OUTPUT are missing"
        raise UsageError(
            missing, hint="such as: rotameter anonymise run.rmt shared.rmt --key-file my.key"
        )
    secret = _secret(key, key_file)
    moved_ns = _shift_ns(shift)
    to = format_for(output) if Path(output).suffix else "rmt"
    if table is not None and to == "rmt":
        raise UsageError("--table does not go with a trace", hint="it is for csv and parquet")
    refuse_existing(output, force=force)
    opened = load(inputs, given)
    bare = without_names(opened, key=secret, shift_ns=moved_ns)
    export(bare, to, output, table=table, force=force)
    if to == "rmt":
        _say_left_out(opened.meta, bare.meta)


def _say_left_out(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Say which facts of the metadata did not come along."""
    from rotameter.profiler.live.redact import redact
    from rotameter.profiler.view import short

    gone = [
        key for key, value in before.items() if key not in after and value not in (None, [], {})
    ]
    if gone:
        shown = ", ".join(short(redact(str(key)), 40) for key in sorted(gone)[:_FACTS_NAMED])
        more = f" and {len(gone) - _FACTS_NAMED:,} more" if len(gone) > _FACTS_NAMED else ""
        click.echo(f"Left out, since they may hold names: {shown}{more} (metadata)", err=True)
    texts = after["anonymised"]["texts_of_timeline"]
    if texts:
        click.echo(f"Left out of the GPU timeline: {many(texts, 'text')}", err=True)


def _secret(key: str | None, key_file: str | None) -> bytes | None:
    if key is not None and key_file is not None:
        raise UsageError("--key and --key-file were both given", hint="give one")
    if key_file is None:
        return None if key is None else key.encode()
    try:
        return Path(key_file).read_bytes().strip()
    except OSError as error:
        raise UsageError(
            f"cannot read {key_file}: {error.strerror}", hint="check the path"
        ) from None


def _shift_ns(shift: str | None) -> int | None:
    if shift is None:
        return 0
    if shift == "relative":
        return None
    try:
        value = float(shift)
        if abs(value) < 3e9:
            return round(value * 1e9)
    except ValueError:
        pass
    raise UsageError(f"--shift {shift!r}: not a number of seconds", hint="such as -86400")
