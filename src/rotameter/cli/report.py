"""``rotameter report``: the HTML report."""

from __future__ import annotations

from typing import Any

import click

from rotameter.cli._common import Given, input_options, load, short_name
from rotameter.cli._storage import advice_of, storage_options
from rotameter.cli.diagnose import keep_predictions
from rotameter.units import many

__all__ = ["report"]


@click.command()
@click.argument("trace", nargs=-1, required=True)
@click.option("-o", "--output", type=click.Path(), help="The HTML file  [default: NAME.html].")
@click.option("--findings-json", type=click.Path(), help="Also write the same facts as JSON.")
@click.option("--force", is_flag=True, help="Replace existing files.")
@click.option(
    "--no-store",
    is_flag=True,
    help="Do not keep the predicted savings with a recorded trace, for `compare`.",
)
@storage_options
@input_options
def report(
    trace: tuple[str, ...],
    output: str | None,
    findings_json: str | None,
    force: bool,
    no_store: bool,
    storage: tuple[str, dict[str, Any]] | None,
    given: Given,
) -> None:
    """Write the report of TRACE: one HTML file that opens offline.

    \b
    Example:
      rotameter report run.rmt -o report.html
    """  # noqa: D301
    from rotameter import api

    target = output or f"{short_name(trace[0])}.html"
    api.report_targets(target, findings_json, force=force)
    opened = load(list(trace), given)
    advice = advice_of(opened, storage)
    verdict = api.diagnose(opened)
    written = api.report(
        *(opened, target),
        force=force,
        findings_json=findings_json,
        verdict=verdict,
        advice=advice,
    )
    tasks = len(opened.table("tasks"))
    size_kb = written.stat().st_size / 1e3
    click.echo(f"Wrote {written} ({size_kb:,.0f} kB, {many(tasks, 'attempt')})")
    if findings_json:
        click.echo(f"Wrote {findings_json}")
    if len(trace) == 1 and not no_store:
        keep_predictions(trace[0], opened, verdict)
