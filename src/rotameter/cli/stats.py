"""``rotameter stats``: counts and sums."""

from __future__ import annotations

from typing import Any

import click

from rotameter.cli._common import Given, echo_json, input_options, load

__all__ = ["stats"]


@click.command()
@click.argument("trace", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema 1).")
@input_options
def stats(trace: tuple[str, ...], as_json: bool, given: Given) -> None:
    """Print what TRACE holds: tasks, attempts, outcomes and sums.

    \b
    Example:
      rotameter stats run.rmt --json
    """  # noqa: D301
    from rotameter.cli.text import stats_text
    from rotameter.profiler.stats import stats as count

    found: dict[str, Any] = count(load(list(trace), given))
    if as_json:
        echo_json(found)
    else:
        click.echo(stats_text(found))
