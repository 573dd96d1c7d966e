"""``rotameter diagnose``: the verdict in the terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from rotameter.cli._common import Given, echo_json, input_options, load
from rotameter.errors import UsageError

__all__ = ["diagnose"]

_LEVELS = {
    "critical": 0,
    "high": 0,
    "warning": 1,
    "medium": 1,
    "info": 2,
    "low": 2,
}
FINDINGS_FOUND = 3


@click.command()
@click.argument("trace", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--knobs", type=click.Path(), help="JSON file of what you can turn.")
@click.option(
    "--fail-on",
    type=click.Choice(list(_LEVELS)),
    help="Exit with 3 when a finding of this severity or above is there.",
)
@input_options
def diagnose(
    trace: tuple[str, ...], as_json: bool, knobs: str | None, fail_on: str | None, given: Given
) -> int:
    """Say what TRACE lost and why, and what to do.

    \b
    Example:
      rotameter diagnose run.rmt
    """  # noqa: D301
    from rotameter import api
    from rotameter.profiler import diagnose as rules

    turnable = _read_knobs(knobs) if knobs else None
    opened = load(list(trace), given)
    verdict = api.diagnose(opened)
    if as_json:
        echo_json(rules.to_json(opened, verdict, knobs=turnable))
    else:
        click.echo(rules.to_text(verdict))
    if fail_on is not None:
        limit = _LEVELS[fail_on]
        if any(_LEVELS[finding.severity] <= limit for finding in verdict.findings):
            return FINDINGS_FOUND
    return 0


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
