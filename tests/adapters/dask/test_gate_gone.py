"""Machines that went away: their tasks are forgiven, unless only the worker died."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace
from typing import Any

import pytest
from distributed.core import Server

from rotameter.adapters.dask import gate_gone
from rotameter.adapters.dask.gate_gone import LIMIT, Gone


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_gone, "DELAY_S", 0.0)
    monkeypatch.setattr(gate_gone, "TIMEOUT_S", 0.3)


def scheduler(*keys: str) -> Any:
    return SimpleNamespace(tasks={key: SimpleNamespace(suspicious=0) for key in keys})


def nobody() -> str:
    """Give an address at which nothing listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{one.getsockname()[1]}"


def test_a_nanny_that_is_gone_too_means_that_nobody_is_to_blame() -> None:
    made = scheduler("a", "b")

    async def run() -> set[Any]:
        gone = Gone(made)
        forgiven = gone.forgive(nobody(), ["a", "b"])
        await asyncio.gather(*gone._looks)
        return forgiven

    assert asyncio.run(run()) == {"a", "b"}
    assert [ts.suspicious for ts in made.tasks.values()] == [0, 0]


def test_a_nanny_that_answers_means_that_only_the_worker_died() -> None:
    made = scheduler("a", "b")

    async def run() -> None:
        nanny = Server({})
        await nanny.listen("tcp://127.0.0.1:0")
        gone = Gone(made)
        assert gone.forgive(nanny.address, ["a", "ended meanwhile"]) == {"a", "ended meanwhile"}
        await asyncio.gather(*gone._looks)
        await nanny.close()

    asyncio.run(run())
    assert made.tasks["a"].suspicious == 1 and made.tasks["b"].suspicious == 0


def test_without_a_nanny_nothing_is_forgiven() -> None:
    assert Gone(scheduler("a")).forgive(None, ["a"]) == set()


def test_what_may_take_machines_down_is_not_forgiven_for_ever() -> None:
    async def run() -> list[set[Any]]:
        gone, where = Gone(scheduler("a", "b")), nobody()
        made = [gone.forgive(where, ["a"]) for _ in range(LIMIT + 2)]
        assert gone.forgive(where, ["a", "b"]) == {"b"}
        gone.forget("a")
        made.append(gone.forgive(where, ["a"]))
        await asyncio.gather(*gone._looks)
        return made

    made = asyncio.run(run())
    assert made == [{"a"}] * LIMIT + [set(), set(), {"a"}]
