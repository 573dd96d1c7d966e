"""Checked by mypy in test_typing.py: what ``@task`` keeps of a function's type."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import reveal_type

from rotameter.profiler.live.tracer import span, task


@task
def plain(x: int, *, name: str = "") -> str:
    return name * x


@task(group="g", requested_memory="2GiB", features=lambda x: {"x": float(x)})
def with_arguments(x: int) -> list[int]:
    return [x]


@task
async def coroutine(x: int) -> bytes:
    return bytes(x)


@task
def generator(n: int) -> Iterator[int]:
    yield n


@task
async def async_generator(n: int) -> AsyncIterator[int]:
    yield n


class Thing:
    @task
    def method(self, x: int) -> float:
        return float(x)

    @task
    @staticmethod
    def static(x: int) -> float:
        return float(x)

    @classmethod
    @task
    def made(cls, x: int) -> Thing:
        return cls()


async def good() -> None:
    a: str = plain(1, name="a")
    b: list[int] = with_arguments(1)
    c: bytes = await coroutine(1)
    d: list[int] = list(generator(1))
    e: list[int] = [i async for i in async_generator(1)]
    f: float = Thing().method(1) + Thing.static(1)
    g: Thing = Thing.made(1)
    with span("x") as named:
        reveal_type(named)
    reveal_type(plain)
    reveal_type(with_arguments)
    reveal_type(coroutine)
    reveal_type(Thing().method)
    print(a, b, c, d, e, f, g)


def bad() -> None:
    plain("one")
    plain(1, nome="a")
    with_arguments()
    Thing().method("x")
    task(group=3)
    task(requested_memory=2.5)
