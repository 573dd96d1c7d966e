"""``rotameter plugins``: what is installed, and whether it loads."""

from __future__ import annotations

from typing import Any

import click

from rotameter.cli._common import echo_json
from rotameter.errors import UnknownPlugin

__all__ = ["plugins"]


@click.command()
@click.argument("kind", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema 1).")
def plugins(kind: str | None, as_json: bool) -> None:
    """List the plug-ins, all or of one KIND, and whether they load.

    \b
    Example:
      rotameter plugins importers
    """  # noqa: D301
    from rotameter.plugins import KINDS

    if kind is not None and kind not in KINDS:
        kind = kind + "s" if kind + "s" in KINDS else kind
        if kind not in KINDS:
            raise UnknownPlugin(f"no plug-in kind {kind!r}", hint=f"known: {', '.join(KINDS)}")
    rows = [row for one in ([kind] if kind else list(KINDS)) for row in _of_kind(one)]
    if as_json:
        echo_json({"schema": 1, "plugins": rows})
        return
    shown = None
    width = max((len(row["name"]) for row in rows), default=0)
    for row in rows:
        if row["kind"] != shown:
            click.echo(f"{'' if shown is None else chr(10)}{row['kind']}")
            shown = row["kind"]
        said = row["doc"] if row["loads"] else f"does not load: {row['problem']}"
        click.echo(f"  {row['name']:<{width}}  {said}".rstrip())
    if not rows:
        click.echo(f"no {kind or 'plug-ins'} installed")


def _of_kind(kind: str) -> list[dict[str, Any]]:
    """Give one row a plug-in: kind, name, module, doc, and what is wrong with it."""
    from rotameter import plugins as known
    from rotameter.errors import PluginError

    rows = []
    for name in known.names(kind):
        row: dict[str, Any] = {"kind": kind, "name": name, "module": None, "doc": ""}
        try:
            plugin = known.get(kind, name)
        except PluginError as error:
            row.update(loads=False, problem=" ".join(str(error).split()))
        else:
            row.update(
                loads=True,
                problem=None,
                module=getattr(plugin, "__module__", None),
                doc=_first_line(plugin),
            )
        rows.append(row)
    return rows


def _first_line(plugin: Any) -> str:
    text = (getattr(plugin, "__doc__", None) or "").strip()
    return " ".join(text.split("\n\n", 1)[0].split())
