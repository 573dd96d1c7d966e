"""What a gate has learnt, in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rotameter.adapters.dask.gate_state import read_state, write_state
from rotameter.allocator.default import Default
from rotameter.allocator.needs import Record, Task
from rotameter.errors import TracerWarning


def learnt() -> dict[str, Any]:
    made = Default(scouts=0)
    for n in range(8):
        made.observe(Record(str(n), "train", "ok", {"memory_bytes": 4e9 + n}, wall_s=5.0))
    return made.state()


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    place = tmp_path / "learnt.json"
    write_state(place, learnt())
    again = read_state(place)
    assert again is not None
    request = Default.from_state(again).request(Task("x", "train"))
    assert request == Default.from_state(learnt()).request(Task("x", "train"))
    assert [p.name for p in tmp_path.iterdir()] == ["learnt.json"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"version": 99, "learnt": {}}',
        '{"version": 1}',
        '{"version": 1, "learnt": {"most": 3}}',
        '{"version": 1, "learnt": null}',
        json.dumps({"version": 1, "learnt": {**learnt(), "groups": {"train": {"completed": "x"}}}}),
        "\x00\x01",
    ],
)
def test_what_cannot_be_used_is_set_aside_with_a_warning(tmp_path: Path, text: str) -> None:
    place = tmp_path / "learnt.json"
    place.write_text(text)
    with pytest.warns(TracerWarning, match="begins with nothing learnt"):
        assert read_state(place) is None
    assert (tmp_path / "learnt.json.unreadable").read_text() == text and not place.exists()


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    place = tmp_path / "learnt.json"
    place.write_bytes(b"\xff\xfe\x00")
    with pytest.warns(TracerWarning):
        assert read_state(place) is None


def test_what_is_not_there_is_nothing_learnt(tmp_path: Path) -> None:
    assert read_state(None) is None and read_state(tmp_path / "none") is None
