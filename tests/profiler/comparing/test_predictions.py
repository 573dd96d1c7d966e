"""Predictions as rows, and beside a trace's tables."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotameter.profiler.comparing.predictions import Prediction, from_rows, recorded, to_rows
from rotameter.profiler.comparing.stored import FILE, read_predictions, store_predictions
from rotameter.profiler.store import compact, create, open_trace
from rotameter.profiler.trace import Trace

Make = Callable[..., Trace]
ONE = Prediction("RM1", "spill", ('a "b"\n', "c d"), 1.0, 2.0, 3.0, "do", "how", "1")
FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.text(max_size=9)), FINITE, st.text(), st.none() | FINITE)
def test_rows_and_back(groups: list[str], mid: float, action: str, low: float | None) -> None:
    one = Prediction("RM1", "spill", tuple(groups), low, mid, None, action)
    assert from_rows(to_rows([one], 7)) == [one]


def test_rows_of_others_and_broken_rows_are_left_out() -> None:
    (good,) = to_rows([ONE], None)
    bad = [
        {**good, "policy": "mine"},
        {**good, "subject": "RM1 spill [broken"},
        {**good, "subject": None},
        {**good, "predicted_mid": None},
        {**good, "predicted_mid": float("nan")},
    ]
    assert from_rows([*bad, good]) == [ONE]


def test_they_fit_the_table() -> None:
    trace = Trace.from_tables({"decisions": to_rows([ONE], 5)})
    assert recorded(trace) == [ONE]


def test_kept_with_a_trace_of_our_own_and_its_tables_untouched(run: Make, tmp_path: Path) -> None:
    folder = run([("a", 4, 1.0)]).save(tmp_path / "run.rmt")
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert store_predictions(folder, [ONE], 5)
    assert not store_predictions(folder, [ONE], 5)  # the same is not written twice
    assert read_predictions(folder) == [ONE]
    assert {p: p.read_bytes() for p in before} == before
    made = [p for p in folder.rglob("*") if p.is_file() and p not in before]
    assert [p.name for p in made] == [FILE]
    assert made[0].stat().st_mode & 0o077 == 0
    # It is still a trace, and can be replaced as one.
    assert open_trace(folder).table("tasks").num_rows == 4
    create(folder, force=True)


def test_they_go_with_the_tables_that_they_were_made_of(run: Make, tmp_path: Path) -> None:
    folder = run([("a", 4, 1.0)]).save(tmp_path / "run.rmt")
    store_predictions(folder, [ONE], 5)
    compact(folder)
    assert read_predictions(folder) is None


def test_nothing_is_written_elsewhere(run: Make, tmp_path: Path) -> None:
    imported = run([("a", 4, 1.0)], meta={"origin": "imported"}).save(tmp_path / "i.rmt")
    (tmp_path / "x.csv").write_text("a,b\n")
    for path in (imported, tmp_path, tmp_path / "x.csv", tmp_path / "no.rmt"):
        assert not store_predictions(path, [ONE], 5)
    empty = run([("a", 4, 1.0)]).save(tmp_path / "e.rmt")
    assert not store_predictions(empty, [], 5)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_trace_is_no_error(run: Make, tmp_path: Path) -> None:
    folder = run([("a", 4, 1.0)]).save(tmp_path / "run.rmt")
    (folder / "tables").chmod(0o500)
    try:
        assert not store_predictions(folder, [ONE], 5)
    finally:
        (folder / "tables").chmod(0o700)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 9}', '{"schema": 1, "decisions": 3}'])
def test_a_broken_file_is_none(run: Make, tmp_path: Path, text: str) -> None:
    folder = run([("a", 4, 1.0)]).save(tmp_path / "run.rmt")
    (folder / "tables" / FILE).write_text(text)
    assert read_predictions(folder) is None
    assert store_predictions(folder, [ONE], 5) and read_predictions(folder) == [ONE]


def test_a_failed_write_leaves_the_old_one(
    run: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run([("a", 4, 1.0)]).save(tmp_path / "run.rmt")
    store_predictions(folder, [ONE], 5)

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert not store_predictions(folder, [], 5)
    assert read_predictions(folder) == [ONE]
    assert [p.name for p in (folder / "tables").glob("*tmp*")] == []
