"""``rotameter live``: what a running Dask cluster does, and why it does not."""

from __future__ import annotations

import json
import time

import click

from rotameter.cli._common import echo_json

__all__ = ["live"]


@click.command()
@click.argument("address")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema 1).")
@click.option(
    "--watch",
    "watch_s",
    type=click.FloatRange(min=0.2),
    metavar="S",
    help="Look again every S seconds, until interrupted.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0.1, max=600),
    default=2.0,
    show_default=True,
    metavar="S",
    help="The most that one answer may take, in seconds.",
)
def live(address: str, as_json: bool, watch_s: float | None, timeout_s: float) -> None:
    """Say what the Dask cluster at ADDRESS does, when it is done, and what does not run and why.

    Nothing is changed there and nothing stays there. The cluster need not have rotameter.

    \b
    Example:
      rotameter live tcp://10.0.0.1:8786
    """  # noqa: D301
    from rotameter.adapters.dask.why import why_at

    while True:
        found = why_at(address, timeout_s)
        if as_json and watch_s is not None:  # one document a line
            click.echo(json.dumps(found.to_dict(), allow_nan=False))
        elif as_json:
            echo_json(found.to_dict())
        else:
            click.echo(found.to_text())
        if watch_s is None:
            return
        if not as_json:
            click.echo()
        time.sleep(watch_s)
