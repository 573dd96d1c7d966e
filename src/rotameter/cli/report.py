"""``rotameter report``: the HTML report."""

from __future__ import annotations

import click

from rotameter.cli._common import Given, input_options, load, short_name

__all__ = ["report"]


@click.command()
@click.argument("trace", nargs=-1, required=True)
@click.option("-o", "--output", type=click.Path(), help="The HTML file  [default: NAME.html].")
@click.option("--findings-json", type=click.Path(), help="Also write the same facts as JSON.")
@click.option("--force", is_flag=True, help="Replace existing files.")
@input_options
def report(
    trace: tuple[str, ...], output: str | None, findings_json: str | None, force: bool, given: Given
) -> None:
    """Write the report of TRACE: one HTML file that opens offline.

    \b
    Example:
      rotameter report run.rmt -o report.html
    """  # noqa: D301
    from rotameter import api

    opened = load(list(trace), given)
    target = output or f"{short_name(trace[0])}.html"
    written = api.report(opened, target, force=force, findings_json=findings_json)
    tasks = len(opened.table("tasks"))
    size_kb = written.stat().st_size / 1e3
    click.echo(f"Wrote {written} ({size_kb:,.0f} kB, {tasks:,} attempts)")
    if findings_json:
        click.echo(f"Wrote {findings_json}")
