"""``rotameter report``: the HTML report."""

from __future__ import annotations

from pathlib import Path

import click

from rotameter.cli._common import load, strict_option

__all__ = ["report"]


@click.command()
@click.argument("trace")
@click.option("-o", "--output", type=click.Path(), help="The HTML file  [default: NAME.html].")
@click.option("--findings-json", type=click.Path(), help="Also write the same facts as JSON.")
@click.option("--force", is_flag=True, help="Replace existing files.")
@strict_option
def report(
    trace: str, output: str | None, findings_json: str | None, force: bool, strict: bool
) -> None:
    """Write the report of TRACE: one HTML file that opens offline.

    \b
    Example:
      rotameter report run.rmt -o report.html
    """  # noqa: D301
    from rotameter import api

    opened = load(trace, strict=strict)
    target = output or f"{Path(trace.rstrip('/')).name.removesuffix('.rmt')}.html"
    written = api.report(opened, target, force=force, findings_json=findings_json)
    tasks = len(opened.table("tasks"))
    size_kb = written.stat().st_size / 1e3
    click.echo(f"Wrote {written} ({size_kb:,.0f} kB, {tasks:,} attempts)")
    if findings_json:
        click.echo(f"Wrote {findings_json}")
