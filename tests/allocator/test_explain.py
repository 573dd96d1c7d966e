"""What `explain` says: samples, attempts and chances, the way, bounds, waste, and who decides."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rotameter.allocator.default import Default
from rotameter.allocator.needs import Record, Task, View
from rotameter.allocator.outlook import outlook
from rotameter.allocator.words import amount

GB = 1e9
MOST = {"memory_bytes": 64 * GB}


def made(needs: list[float], kinds: dict[str, str] | None = None, **more: Any) -> Default:
    one = Default(MOST, **more)
    for number, need in enumerate(needs):
        record = Record(
            f"t{number}", "g", "ok", {"memory_bytes": need}, kinds=kinds or {}, wall_s=360.0
        )
        one.observe(record)
    return one


def killed(one: Default, name: str, had: float) -> None:
    record = Record(
        name, "g", "oom", granted={"memory_bytes": had}, exceeded=frozenset({"memory_bytes"})
    )
    one.exceeded(Task(name, "g"), record)


def line(said: str, label: str) -> str:
    (found,) = [row for row in said.splitlines() if row.startswith(f"  {label}")]
    return found


def test_samples_attempts_chances_way_and_waste_are_said() -> None:
    said = made([GB] * 20 + [4 * GB] + [GB] * 20).explain(Task("x", "g"))
    assert said.startswith("memory: ") and "(41 tasks, largest 4 GB)" in said
    attempts = line(said, "attempts")
    chances = [float(x) for x in re.findall(r"([\d.]+) %", attempts)]
    assert chances and chances == sorted(chances) and chances[0] > 90
    assert attempts.endswith("for almost all")
    assert re.search(r"of \d ways it would have cost least so far", line(said, "way"))
    assert re.search(r"\d %.* of what tasks hold, [\d.]+ GB·h a task", line(said, "expected waste"))


def test_few_tasks_do_not_tell_the_ways_apart() -> None:
    assert "too few tasks yet" in line(made([GB, GB]).explain(Task("x", "g")), "way")


def test_each_bound_names_its_source() -> None:
    one = made([GB] * 6, {"memory_bytes": "upper_bound"})
    killed(one, "dead", 3 * GB)
    one.observe(Record("runs", "g", "running", {"memory_bytes": 2 * GB}))
    said = one.explain(Task("x", "g"))
    assert "6 completed tasks used at most so much" in said
    assert "1 task needs more than 3 GB: it ran out of that" in said
    assert "1 task that runs uses 2 GB already" in said
    kept = Default.from_state(json.loads(json.dumps(one.state())))
    assert kept.explain(Task("x", "g")) == said
    one.observe(Record("runs", "g", "ok", {"memory_bytes": 2 * GB}, wall_s=1.0))
    one.observe(Record("dead", "g", "cancelled"))
    assert "already" not in one.explain(Task("x", "g"))
    assert "ran out" not in one.explain(Task("x", "g"))


def test_a_running_task_that_runs_out_is_a_failure_from_then_on() -> None:
    one = made([GB] * 6)
    one.observe(Record("a", "g", "running", {"memory_bytes": 2 * GB}))
    killed(one, "a", 2.5 * GB)
    said = one.explain(Task("x", "g"))
    assert "already" not in said and "1 task needs more than 2.5 GB" in said
    assert "this task ran out of 2.5 GB" in one.explain(Task("a", "g"))


@pytest.mark.parametrize(
    ("asked", "view", "needs", "winner", "given_bytes"),
    [
        ({}, View(), [GB] * 5, "the allocator (", 1.01 * GB),
        ({"memory_bytes": 5 * GB}, View(), [GB] * 5, "the user,", 5 * GB),
        ({}, View(share={"memory_bytes": 8 * GB}), [GB] * 5, "a slot,", 8 * GB),
        ({}, View(), [64 * GB] * 5, "the largest worker,", 64 * GB),
    ],
)
def test_which_number_wins_is_said(
    asked: Any, view: View, needs: list[float], winner: str, given_bytes: float
) -> None:
    task = Task("x", "g", asked=asked)
    one = made(needs)
    said = one.explain(task, view)
    assert line(said, "decided by").startswith(f"  decided by: {winner}")
    assert "order: what the user sets, else the allocator, a slot at least, 64 GB at most" in said
    assert said.startswith(f"memory: {amount('memory_bytes', given_bytes)}: ")
    assert one.request(task, view).memory_bytes == pytest.approx(given_bytes)  # type: ignore[union-attr]


def test_an_unknown_group_says_where_its_guess_comes_from() -> None:
    one = Default(MOST)
    assert "the default; no task of this group has completed" in one.explain(Task("x", "new"))
    for group in "abcd":
        one.observe(Record(group, group, "ok", {"memory_bytes": 3 * GB}, wall_s=1.0))
    assert "guessed from what tasks of other groups used" in one.explain(Task("x", "new"))
    told = Default(MOST, defaults={"memory_bytes": 2 * GB})
    assert told.explain(Task("x", "g")).startswith("memory: 2 GB: what is set for unknown groups")


def test_a_size_that_needs_follow_is_named_and_every_resource_has_its_words() -> None:
    one = Default(MOST, resources=("memory_bytes", "cores"))
    for number in range(60):
        size = float(1 + number % 12)
        used = {"memory_bytes": size * GB, "cores": 2.0}
        one.observe(Record(str(number), "g", "ok", used, wall_s=9.0, size=size))
    said = one.explain(Task("x", "g", size=5.0))
    assert "from what tasks of this size used" in said
    assert "cores: " in said and "GB·h a task" not in said.split("cores: ")[1]


def test_the_outlook_costs_what_happens() -> None:
    """What is foretold of waste is near to what like tasks then waste."""
    rng = random.Random(1)
    needs = [GB if rng.random() < 0.95 else 4 * GB for _ in range(400)]
    one = made(needs)
    learner = one._groups["g"].learners["memory_bytes"]
    seen = outlook(learner, learner.first(), 64 * GB)
    held = used = 0.0
    for _ in range(4000):
        need = GB if rng.random() < 0.95 else 4 * GB
        used += need
        for tried in seen.attempts:
            held += tried
            if tried >= need:
                break
    assert seen.waste_ratio == pytest.approx(1 - used / held, abs=0.03)
    assert seen.mean_s == pytest.approx(360)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(1e6, 6.3e10), min_size=1, max_size=50), st.sampled_from([None, 7e9]))
def test_what_is_said_is_what_is_given(needs: list[float], asked: float | None) -> None:
    one = made(needs, scouts=0)
    task = Task("x", "g", asked={} if asked is None else {"memory_bytes": asked})
    given_bytes = one.request(task).memory_bytes  # type: ignore[union-attr]
    assert given_bytes is not None
    said = one.explain(task)
    head = said.split(": ")[1]
    assert head in {amount("memory_bytes", given_bytes), amount("memory_bytes", given_bytes - 1)}
    learner = one._groups["g"].learners["memory_bytes"]
    seen = outlook(learner, learner.first(), 64 * GB)
    assert list(seen.attempts) == sorted(set(seen.attempts))
    assert list(seen.chances) == sorted(seen.chances) and seen.chances[0] >= 0
    assert seen.attempts[-1] == 64 * GB or seen.chances[-1] == pytest.approx(1)
    assert 0 <= seen.waste_ratio < 1 and seen.used <= seen.held * (1 + 1e-9)


def test_bounds_that_are_no_needs_are_told_of_and_say_what_to_give() -> None:
    one = Default(MOST)
    for number, most in enumerate((3.0, 7.0, 5.0)):
        one.bounded(Record(f"t{number}", "g", "ok", {"memory_bytes": most * GB}))
    said = one.explain(Task("x", "g"))
    assert said.startswith("memory: 7.1 GB: what holds all that was seen; of none of the 3 tasks")
    assert "no task of this group has completed" not in said
    assert line(said, "bound") == (
        "  bound: 3 completed tasks used at most 3 GB to 7 GB, what else ran there included"
    )
    assert one.largest("g", "memory_bytes") is None
    # A need that is known decides; the bounds are told of beside it.
    one.observe(Record("alone", "g", "ok", {"memory_bytes": GB}, wall_s=1.0))
    said = one.explain(Task("x", "g"))
    assert "(1 task, largest 1 GB)" in said and "at most 3 GB to 7 GB" in said
    assert one.request(Task("x", "g")).memory_bytes < 3 * GB  # type: ignore[union-attr, operator]


def test_a_bound_of_nothing_is_passed_over() -> None:
    one = Default(MOST)
    for used in ({}, {"memory_bytes": 0.0}, {"memory_bytes": float("nan")}, {"disk_bytes": GB}):
        one.bounded(Record("t", "g", "ok", used))
    assert "no task of this group has completed" in one.explain(Task("x", "g"))


def test_a_task_that_ran_out_and_completed_beside_others_leaves_no_bound_below() -> None:
    one = Default(MOST)
    killed(one, "a", 2 * GB)
    one.bounded(Record("a", "g", "ok", {"memory_bytes": 5 * GB}))
    assert "ran out" not in one.explain(Task("x", "g"))
    assert one.request(Task("b", "g")).memory_bytes == pytest.approx(5.05 * GB)  # type: ignore
