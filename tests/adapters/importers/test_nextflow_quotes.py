"""Traces that passed through a program that quotes some cells, under a header without quotes."""

from __future__ import annotations

import pytest

from rotameter.adapters.importers.nextflow import Importer
from rotameter.testing import import_bytes

COLUMNS = ("task_id", "hash", "name", "status", "realtime", "peak_rss")


def trace(*rows: tuple[str, ...], separator: str = ",", columns: tuple[str, ...] = COLUMNS):
    lines = [separator.join(row) + "\n" for row in (columns, *rows)]
    return import_bytes(Importer, {"t.csv": "".join(lines).encode()})


def tasks(made) -> list[tuple[str, str, float]]:
    return [(t["task_id"], t["group"], t["wall_s"]) for t in made.table("tasks").to_pylist()]


def row(number: int, name: str, *rest: str) -> tuple[str, ...]:
    return (str(number), f"ab/00000{number}", name, "COMPLETED", "7s", "2 MB", *rest)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("within", ["{}", "x{}y"])
def test_quotes_of_a_program_are_undone(separator: str, within: str) -> None:
    one, two = (f"P ({within.format(separator)}{i})" for i in (1, 2))
    made = trace(row(1, f'"{one}"'), row(2, f'"{two}"'), separator=separator)
    one, two = (name.replace("\t", " ") for name in (one, two))
    assert tasks(made) == [(one, "P", 7.0), (two, "P", 7.0)]
    assert not len(made.table("rejects"))


@pytest.mark.parametrize("separator", [",", "\t"])
def test_quotes_without_need_are_undone_too(separator: str) -> None:
    made = trace(row(1, '"P (a)"'), row(2, "P (b)"), separator=separator)
    assert tasks(made) == [("P (a)", "P", 7.0), ("P (b)", "P", 7.0)]


def test_a_row_without_quotes_among_others_is_still_put_right() -> None:
    made = trace(row(1, '"P (a,b)"'), row(2, "P (a,b)"))
    assert tasks(made) == [("P (a,b)", "P", 7.0), ("P (a,b) [ab/000002]", "P", 7.0)]


def test_doubled_quotes_are_one() -> None:
    assert tasks(trace(row(1, '"P (""q"")"'))) == [('P ("q")', "P", 7.0)]


def test_quotes_that_nextflow_wrote_stay() -> None:
    columns = (*COLUMNS, "tag", "script")
    made = trace(row(1, 'P ("q")', '"q"', '"$A" "$B"'), separator="\t", columns=columns)
    assert tasks(made) == [('P ("q")', "P", 7.0)]
