"""The made-up inputs are what they are said to be."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.text_inputs import WRITERS, write_input

import rotameter as rm


@pytest.mark.parametrize("name", WRITERS)
def test_inputs(name: str, tmp_path: Path) -> None:
    path = write_input(name, tmp_path, 60_000)
    assert 50_000 < path.stat().st_size < 200_000
    again = write_input(name, tmp_path, 60_000).read_bytes()
    assert again == path.read_bytes()
    trace = rm.open(path)
    facts = trace.meta["importer"]
    assert facts["name"] == name.partition("_plain")[0]
    assert facts["records"]["rejected"] == 0 and trace.table("tasks").num_rows > 0
