"""The error of a task that gets no more memory: its own one stays to be seen."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest
from distributed.core import error_message
from distributed.protocol import pickle as distributed_pickle
from tests.support.scheduler import GB, Scheduler

from rotameter.adapters.dask.gate import Gate
from rotameter.adapters.dask.gate_refusal import OutOfMemory, Said, too_large
from rotameter.adapters.dask.gate_worker import TOPIC, _pickled
from rotameter.errors import PolicyError


class TooLittle(MemoryError):
    """An error of the user's own."""


def raised(error: BaseException) -> dict[str, Any]:
    """Give what a worker makes of an error."""
    try:
        raise error
    except BaseException as caught:
        return dict(error_message(caught))


@pytest.mark.parametrize("way", [pickle, distributed_pickle])
def test_the_tasks_own_error_is_the_cause_where_the_user_sees_it(way: Any) -> None:
    error = _pickled(raised(TooLittle("cannot hold 9 GB")))
    sent = way.dumps(too_large("load-1", 0.0, 4e9, 4e9, Said("cannot hold 9 GB", error)))
    made = way.loads(sent)
    assert isinstance(made, PolicyError) and isinstance(made, MemoryError)
    assert isinstance(made.__cause__, TooLittle) and str(made.__cause__) == "cannot hold 9 GB"
    assert "the largest worker has 4 GB; it said: cannot hold 9 GB" in str(made)
    assert made.hint == "start a worker with more memory, or split the task"
    # Once more, such as from a scheduler to a second client.
    assert isinstance(way.loads(way.dumps(made)).__cause__, TooLittle)


def test_what_tblib_has_taken_over_arrives_with_its_cause_too() -> None:
    """Classes that were there before distributed are pickled by tblib, their causes apart."""
    import copyreg

    from tblib import pickling_support

    error = _pickled(raised(TooLittle("cannot hold 9 GB")))
    made = too_large("load-1", 0.0, 4e9, 4e9, Said("cannot hold 9 GB", error))
    assert made.__cause__ is not None
    before = dict(copyreg.dispatch_table)
    try:
        pickling_support.install(made, made.__cause__)
        assert isinstance(pickle.loads(pickle.dumps(made)).__cause__, TooLittle)
    finally:
        copyreg.dispatch_table.clear()
        copyreg.dispatch_table.update(before)


@pytest.mark.parametrize("error", [None, b"no pickle", pickle.dumps("no error")])
def test_an_error_that_cannot_be_opened_is_there_in_its_words(error: bytes | None) -> None:
    made = pickle.loads(pickle.dumps(too_large("x", 0.0, 4e9, 4e9, Said("no more", error))))
    assert repr(made.__cause__) == "MemoryError('no more')"


def test_an_error_without_words_is_there_too() -> None:
    made = too_large("x", 0.0, 4e9, 4e9, Said())
    assert isinstance(made, OutOfMemory) and repr(made.__cause__) == "MemoryError('')"
    assert "it said" not in str(made)


def test_what_was_killed_from_outside_has_no_cause() -> None:
    made = too_large("x", 0.0, 4e9, 4e9)
    assert type(made) is PolicyError and made.__cause__ is None


def gate_of(scheduler: Scheduler, **options: Any) -> Gate:
    for name in ("a", "b"):
        scheduler.worker(name)
    gate = scheduler.gate = Gate(**options)
    asyncio.run(gate.start(scheduler))
    return gate


def short(gate: Gate, ts: Any, error: BaseException) -> None:
    said = {
        "key": ts.key, "op": "memory_error", "run_id": 1, "peak": 1, "kind": "exact", "wall": 1.0,
        "why": str(error), "error": _pickled(raised(error)),
    }  # fmt: skip
    gate.log_event(TOPIC, {"tasks": [said]})


def test_a_gate_gives_the_error_with_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[Any] = []
    monkeypatch.setattr(
        "rotameter.adapters.dask.gate._compat.fail_task", lambda *words: ended.append(words[-1])
    )
    scheduler = Scheduler()
    gate = gate_of(scheduler)
    ts = scheduler.task("train-0")
    ts.state, ts.processing_on = "processing", scheduler.workers["a"]
    gate._failed["train-0"] = 20.0 * GB
    short(gate, ts, TooLittle("never enough"))
    gate._amount("train", "train-0", 0.0)
    gate._amount("train", "train-0", 99.0)
    scheduler.loop.run()
    (error,) = ended
    assert isinstance(pickle.loads(pickle.dumps(error)).__cause__, TooLittle)


@pytest.mark.parametrize("why", ["restricted", "unlimited", "observed"])
def test_a_memory_error_that_is_not_for_the_gate_is_the_users_at_once(why: str) -> None:
    """Else its task would run again for ever: nobody gives it more."""
    scheduler = Scheduler()
    gate = gate_of(scheduler, observe=why == "observed")
    if why == "unlimited":
        for ws in scheduler.workers.values():
            ws.memory_limit = 0
            gate.log_event(TOPIC, {"worker": ws.address, "limit": 0})
    ts = scheduler.task("train-0")
    ts.state, ts.processing_on = "processing", scheduler.workers["a"]
    ts.worker_restrictions = {"a"} if why == "restricted" else None
    short(gate, ts, TooLittle("mine"))
    assert not gate.facts()["faults"]
    if why == "observed":  # The worker itself tells of it.
        assert not scheduler.erred
        return
    (told,) = scheduler.erred
    assert (told["key"], told["worker"], told["run_id"]) == ("train-0", "a", 1)
    assert isinstance(pickle.loads(told["exception"]), TooLittle)
    assert gate.facts()["hungry"] == [] and gate.facts()["memory_errors"] == 1
