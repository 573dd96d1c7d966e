"""``rotameter diagnose``: the verdict in the terminal."""

from __future__ import annotations

import json
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rotameter.cli._common import Given, echo_json, input_options, load, short_name
from rotameter.cli._storage import advice_of, storage_options
from rotameter.errors import UsageError
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.profiler.storing.advice import Advice
    from rotameter.profiler.trace import Trace
    from rotameter.values import Verdict

__all__ = ["diagnose", "keep_predictions"]

_LEVELS = {
    "critical": 0,
    "high": 0,
    "warning": 1,
    "medium": 1,
    "info": 2,
    "low": 2,
}
FINDINGS_FOUND = 3
OUTPUTS = ("text", "json", "md", "mqc")


@click.command()
@click.argument("trace", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the same as --to json.")
@click.option(
    "--to",
    type=click.Choice(OUTPUTS),
    help="What to print; --format takes these words too  [default: text].",
)
@click.option("--knobs", type=click.Path(), help="JSON file of what you can turn.")
@click.option(
    "--fail-on",
    type=click.Choice(list(_LEVELS)),
    help="Exit with 3 when a finding of this severity or above is there.",
)
@click.option(
    "--no-store",
    is_flag=True,
    help="Do not keep the predicted savings with a recorded trace, for `compare`.",
)
@storage_options
@input_options
def diagnose(
    trace: tuple[str, ...],
    as_json: bool,
    to: str | None,
    knobs: str | None,
    fail_on: str | None,
    no_store: bool,
    storage: tuple[str, dict[str, Any]] | None,
    given: Given,
) -> int:
    """Say what TRACE lost and why, and what to do.

    \b
    Example:
      rotameter diagnose run.rmt
      rotameter diagnose run.rmt --format md
      rotameter diagnose run.rmt --storage ior.csv --nodes 4
    """  # noqa: D301
    from rotameter import api

    turnable = _read_knobs(knobs) if knobs else None
    output, given = _output(as_json, to, given)
    opened = load(list(trace), given)
    advice = advice_of(opened, storage)
    verdict = api.diagnose(opened)
    _print(output, opened, verdict, trace[0], turnable, advice)
    if len(trace) == 1 and not no_store:
        keep_predictions(trace[0], opened, verdict)
    if fail_on is not None:
        limit = _LEVELS[fail_on]
        if any(_LEVELS[finding.severity] <= limit for finding in verdict.findings):
            return FINDINGS_FOUND
    return 0


def _output(as_json: bool, to: str | None, given: Given) -> tuple[str, Given]:
    """Tell what to print from how to read: ``--format`` may say either.

    Raises
    ------
    UsageError
        If two outputs are asked for.
    """
    asked = {word for word in (to, "json" if as_json else None) if word}
    if given.format in OUTPUTS:
        asked.add(str(given.format))
        given = replace(given, format=None)
    if len(asked) > 1:
        raise UsageError(
            f"one output at a time: {' or '.join(sorted(asked))}", hint="name one of them"
        )
    return next(iter(asked), "text"), given


def _print(
    output: str,
    opened: Trace,
    verdict: Verdict,
    path: str,
    knobs: dict[str, Any] | None,
    advice: Advice | None,
) -> None:
    from rotameter.profiler import diagnose as rules
    from rotameter.viz.sections.configuration import configuration

    name = short_name(path)
    if output == "json":
        document = rules.to_json(opened, verdict, knobs=knobs)
        if advice is not None:
            document["configuration"] = configuration(advice)
        echo_json(document)
    elif output == "md":
        from rotameter.viz.markdown import escape_markdown, verdict_markdown

        click.echo(verdict_markdown(verdict, name))
        if advice is not None:
            click.echo("\n### Storage\n")
            for line in advice.to_text().splitlines():
                click.echo(f"- {escape_markdown(line)}")
    elif output == "mqc":
        from rotameter.viz.multiqc import verdict_multiqc

        echo_json(verdict_multiqc(verdict, name))
    else:
        click.echo(rules.to_text(verdict, path=path))
        for line in advice.to_text().splitlines() if advice is not None else ():
            click.echo()
            click.echo(textwrap.fill(line, 80, subsequent_indent="  "))


def keep_predictions(path: str, opened: Trace, verdict: Verdict) -> None:
    """Keep what was predicted with a trace of our own; nothing is written to anything else."""
    from rotameter import __version__
    from rotameter.profiler.comparing.predictions import predictions_of
    from rotameter.profiler.comparing.stored import store_predictions

    run = opened.meta.get("run") or {}
    ended_ns = run.get("ended_ns")
    made = predictions_of(verdict, __version__)
    if store_predictions(path, made, ended_ns if isinstance(ended_ns, int) else None):
        click.echo(f"Kept {many(len(made), 'predicted saving')} with {path}, for compare", err=True)


def _read_knobs(path: str) -> dict[str, Any]:
    try:
        knobs = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", hint="check the path") from error
    except ValueError as error:
        raise UsageError(
            f"{path} is not JSON: {error}", hint='{"knob": {"value": 1, …}}'
        ) from error
    if not isinstance(knobs, dict) or not all(isinstance(v, dict) for v in knobs.values()):
        raise UsageError(
            f"{path} is not a mapping of knobs",
            hint='{"partitions": {"value": 8, "kind": "partitioning", "min": 1, "max": 64}}',
        )
    return knobs
