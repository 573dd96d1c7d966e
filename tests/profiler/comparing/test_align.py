"""Groups found again: by name, without digits, by place."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from rotameter.profiler.comparing.align import Pair, align_groups, plain_name
from rotameter.profiler.comparing.facts import facts_of
from rotameter.profiler.trace import Trace

Make = Callable[..., Trace]


def pairs(one: Trace, other: Trace) -> dict[str, Pair]:
    found = align_groups([facts_of(one)], [facts_of(other)])
    return {" ".join(p.before) or " ".join(p.after): p for p in found}


def test_by_name_first(run: Make) -> None:
    one = run([("load-1", 4, 1.0), ("load-2", 4, 1.0)])
    found = pairs(one, run([("load-2", 4, 1.0), ("load-3", 4, 1.0)]))
    assert found["load-2"] == Pair(("load-2",), ("load-2",), "name")
    assert found["load-1"] == Pair(("load-1",), ("load-3",), "digits")


def test_families_without_digits_are_one(run: Make) -> None:
    one = run([("part-1", 4, 1.0), ("part-2", 4, 1.0)])
    other = run([("part-11", 4, 1.0), ("part-12", 4, 1.0), ("part-13", 4, 1.0)])
    (pair,) = pairs(one, other).values()
    assert pair == Pair(("part-1", "part-2"), ("part-11", "part-12", "part-13"), "digits")


def test_names_of_nothing_but_digits_are_not_the_same(run: Make) -> None:
    found = pairs(run([("2024", 4, 1.0)]), run([("2025", 9, 1.0)]))
    assert {p.how for p in found.values()} == {"only"}


def test_what_is_between_the_same_neighbours(run: Make) -> None:
    one = run([("load", 4, 1.0), ("clean", 4, 1.0), ("save", 4, 1.0)])
    other = run([("load", 4, 1.0), ("scrub", 4, 1.0), ("save", 4, 1.0)])
    assert pairs(one, other)["clean"] == Pair(("clean",), ("scrub",), "place")
    # Far more tasks: another step.
    many = run([("load", 4, 1.0), ("scrub", 40, 1.0), ("save", 4, 1.0)])
    assert pairs(one, many)["clean"].how == "only"


def test_without_neighbours_no_place_is_the_same(run: Make) -> None:
    found = pairs(run([("clean", 4, 1.0)]), run([("scrub", 4, 1.0)]))
    assert sorted(p.how for p in found.values()) == ["only", "only"]


NAMES = st.lists(st.sampled_from(["a1", "a2", "b", "c-9f86d0818", "7", "d"]), unique=True)


@given(NAMES, NAMES)
def test_each_group_is_in_exactly_one_pair(before: list[str], after: list[str]) -> None:
    def trace(names: list[str]) -> Trace:
        return Trace.from_tables({"tasks": [{"task_id": n, "group": n} for n in names]})

    found = align_groups([facts_of(trace(before))], [facts_of(trace(after))])
    assert sorted(n for p in found for n in p.before) == sorted(before)
    assert sorted(n for p in found for n in p.after) == sorted(after)


@given(st.text(max_size=20))
def test_plain_names_have_no_digit(name: str) -> None:
    assert not any(char in "0123456789" for char in plain_name(name))
    assert plain_name(plain_name(name)) == plain_name(name)
