"""What was imported from a real file of any format does not survive anonymising."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

import pytest

import rotameter
from rotameter.adapters._anonymise_devices import DEVICE_LABEL
from rotameter.adapters._anonymise_words import COLUMN_WORDS, ERRORS
from rotameter.adapters.anonymise import anonymise
from rotameter.errors import RotameterError
from rotameter.profiler.schema import TABLES, columns_of

SHARED = Path(os.environ.get("ROTAMETER_SHARED") or Path(__file__).parents[3] / "shared")
SHORTEST = 6
SMALL_BYTES = 400_000
PEOPLES = set(
    [
        "task_id",
        "parent",
        "depends_on",
        "run_id",
        "group",
        "worker",
        "host",
        "user",
        "account",
        "queue",
        "object",
        "peer",
        "subject",
        "error",
        "lane",
        "name",
        "text",
        "reason",
        "devices",
        "file",
    ]
)
KNOWN = {word for found in COLUMN_WORDS.values() for word in found} | set(ERRORS) | set(TABLES)


def inputs() -> list[Path]:
    """One small file of each suffix of each format, and all bug cases."""
    found: dict[tuple[str, str], Path] = {}
    for path in sorted(SHARED.glob("data/formats/*/**/*")):
        own = not path.name.startswith(("SOURCES", "ORACLE"))
        if path.is_file() and own and path.stat().st_size <= SMALL_BYTES:
            found.setdefault((str(path.parent), path.suffix), path)
    cases = [p for p in sorted(SHARED.glob("bugcases/*/*")) if p.name != "expected.md"]
    return [*found.values(), *cases]


def values_of(trace: Any) -> set[str]:
    """Give what users would recognise: names, paths and words in tables and the input's path."""
    out = {str(name) for name in (trace.meta.get("input") or {}).get("files", [])}
    for table in TABLES:
        for column in PEOPLES & set(columns_of(table)):
            out.update(v for v in trace.table(table)[column].unique().to_pylist() if v)
    for features in trace.table("tasks")["features"].to_pylist():
        out.update(name for name, _ in features or ())
    return out


@pytest.mark.parametrize("path", inputs(), ids=lambda p: str(p.relative_to(SHARED)))
def test_no_text_survives(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            trace = rotameter.open(path)
        except RotameterError:
            pytest.skip("refused")
    was = {text for text in values_of(trace) if len(text) >= SHORTEST and text not in KNOWN}
    was = {text for text in was if not DEVICE_LABEL.fullmatch(text)}
    hidden = anonymise(trace, key=b"a key for tests")
    assert not was & values_of(hidden)
    tables = [hidden.table(name).to_pylist() for name in TABLES]
    said = json.dumps([hidden.meta, *tables], default=str)
    long = {text for text in was if len(text) >= 10 and not text.replace(".", "").isdigit()}
    assert not [text for text in long if json.dumps(text)[1:-1] in said]


def test_the_shared_folder(rotameter_shared):
    assert len(inputs()) > 40
