"""Sphinx settings."""

from __future__ import annotations

import sys
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

project = "rotameter"
author = "rotameter developers"
project_copyright = "2026, rotameter developers"
release = version = version_of("rotameter")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
nitpicky = False

html_theme = "furo"
html_title = "rotameter"
html_static_path = ["_static"]
html_show_sphinx = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]

copybutton_prompt_text = "$ "
autodoc_typehints = "description"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False


def schema_tables() -> str:
    """Write the tables of the trace schema as Markdown, from the schema itself."""
    from _columns import COLUMNS, TABLE_TEXT

    from rotameter.profiler.schema import TABLES

    types = {"i": "int64", "f": "float64", "s": "string", "b": "bool", "m": "map of float64"}
    lines: list[str] = []
    for table, columns in TABLES.items():
        lines += [f"## `{table}`", "", TABLE_TEXT.get(table, ""), ""]
        lines += ["| column | type | what |", "|---|---|---|"]
        lines += [
            f"| `{name}` | {types[kind]} | "
            f"{COLUMNS.get(f'{table}.{name}', COLUMNS.get(name, ''))} |"
            for name, kind in columns
        ]
        lines.append("")
    return "\n".join(lines)


def schema_words() -> str:
    """Write the closed lists of words that columns may hold."""
    from rotameter.profiler import schema

    lists = {
        "outcome": schema.OUTCOMES,
        "how a number was obtained (`*_kind`)": schema.KINDS,
        "medium": schema.MEDIA,
        "kind of an interval": schema.INTERVAL_KINDS,
        "kind of an event": tuple(schema.EVENT_KINDS),
    }
    lines = ["| list | words |", "|---|---|"]
    lines += [f"| {name} | {', '.join(f'`{w}`' for w in words)} |" for name, words in lists.items()]
    return "\n".join(lines)


def fill_in(_app: Any, docname: str, source: list[str]) -> None:
    """Put the generated parts where a page asks for them."""
    if docname == "reference/schema":
        source[0] = source[0].replace("<!-- tables -->", schema_tables())
        source[0] = source[0].replace("<!-- words -->", schema_words())


def pages_by_code(app: Any, error: Exception | None) -> None:
    """Let ``findings/RM101.html``, the address in a report, lead to the page of that finding."""
    if error is not None or app.builder.name != "html":
        return
    source, built = (Path(d) / "reference" / "findings" for d in (app.srcdir, app.outdir))
    for page in source.glob("*.md"):
        code, _, kind = page.read_text().splitlines()[0].removeprefix("# ").partition(" ")
        if kind:
            (built / f"{code}.html").write_text(
                f'<!doctype html><title>{code}</title><meta http-equiv="refresh" '
                f'content="0; url={page.stem}.html"><a href="{page.stem}.html">{kind}</a>'
            )


def setup(app: Any) -> None:
    """Connect to Sphinx."""
    app.connect("source-read", fill_in)
    app.connect("build-finished", pages_by_code)
