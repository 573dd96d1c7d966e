"""``rotameter doctor``: what can be measured here, and what cannot and why."""

from __future__ import annotations

import click

from rotameter.cli._common import echo_json

__all__ = ["doctor"]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema 1).")
def doctor(as_json: bool) -> None:
    """Say what can be measured on this machine, and what would enable the rest.

    \b
    Example:
      rotameter doctor
    """  # noqa: D301
    from rotameter.cli.text import doctor_text
    from rotameter.profiler.live.doctor import checks

    found = checks()
    if as_json:
        echo_json({"schema": 1, "checks": found})
    else:
        click.echo(doctor_text(found))
