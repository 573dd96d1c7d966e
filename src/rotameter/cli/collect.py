"""``rotameter collect``: fetch what other tools recorded."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["collect"]


@click.group()
def collect() -> None:
    """Fetch what a batch system recorded of jobs, as a file that every command takes."""


@collect.command("slurm")
@click.option("--jobs", metavar="IDS", help="Job numbers, separated by commas.")
@click.option("--name", metavar="NAME", help="All jobs of this name (of the last 30 days).")
@click.option("--since", metavar="WHEN", help="All jobs since then: 7d, 12h, 2025-02-01.")
@click.option("--user", metavar="USER", help="Whose jobs; yours by default.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Where to.")
@click.option("--print", "only_print", is_flag=True, help="Only show the command.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
def slurm(
    jobs: str | None,
    name: str | None,
    since: str | None,
    user: str | None,
    output: Path | None,
    only_print: bool,
    force: bool,
) -> None:
    """Ask sacct for jobs, with all fields that are of use.

    \b
    Example:
      rotameter collect slurm --since 7d -o jobs.txt
      rotameter report jobs.txt -o report.html
    """  # noqa: D301
    from rotameter.adapters.collect import slurm as sacct
    from rotameter.errors import UsageError
    from rotameter.units import many

    query = sacct.Query(jobs=jobs, name=name, since=since, user=user)
    if only_print:
        where = f" > {sacct.quoted(output)}" if output is not None else ""
        click.echo(sacct.shown(sacct.command(query)) + where)
        return
    if output is None:
        raise UsageError("where to?", hint="give -o FILE, or --print to see the command")
    rows = sacct.collect(query, output, force=force)
    click.echo(f"{many(rows, 'row')} to {output}", err=True)
    click.echo(f"next: rotameter report {sacct.quoted(output)}", err=True)
