"""Run coroutines and generators step by step, measuring only what runs between their pauses."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from typing import Any

from rotameter.profiler.live.context import Running

__all__ = ["Driven", "async_generator", "generator"]


class Driven:
    """An awaitable around a coroutine whose attempt has begun; its CPU is what ran between awaits.

    Parameters
    ----------
    session : Session
    running : Running
    coroutine : coroutine
    """

    __slots__ = ("_coroutine", "_running", "_session")

    def __init__(self, session: Any, running: Running, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._session = session
        self._running = running
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, Any]:
        session, running = self._session, self._running
        steps = self._coroutine.__await__()
        value: Any = None
        thrown: BaseException | None = None
        try:
            while True:
                try:
                    if thrown is None:
                        item = steps.send(value)
                    else:
                        error, thrown = thrown, None
                        item = steps.throw(error)
                except StopIteration as stop:
                    result = stop.value
                    break
                session.cpu_off(running)
                try:
                    value = yield item
                except BaseException as error:
                    thrown = error
                finally:
                    session.cpu_on(running)
        except BaseException as error:
            session.end(running, error=error)
            raise
        session.end(running)
        return result


def generator(
    session: Any, begin: Callable[[], Running], inner: Generator[Any, Any, Any]
) -> Generator[Any, Any, Any]:
    """Yield what ``inner`` yields; the attempt begins with the first item asked for."""
    running: Running | None = None
    value: Any = None
    thrown: BaseException | None = None
    while True:
        if running is None:
            running = begin()
        else:
            session.resume(running)
        try:
            if thrown is None:
                item = inner.send(value)
            else:
                error, thrown = thrown, None
                item = inner.throw(error)
        except StopIteration as stop:
            session.end(running)
            return stop.value
        except BaseException as error:
            session.end(running, error=error)
            raise
        session.suspend(running)
        value = None
        try:
            value = yield item
        except GeneratorExit:
            session.resume(running)
            try:
                inner.close()
            except BaseException as error:
                session.end(running, error=error)
                raise
            session.end(running)
            raise
        except BaseException as error:
            thrown = error


async def async_generator(
    session: Any, begin: Callable[[], Running], inner: AsyncGenerator[Any, Any]
) -> AsyncGenerator[Any, Any]:
    """Do as :func:`generator` for an asynchronous one; CPU is not told apart inside its awaits."""
    running: Running | None = None
    value: Any = None
    thrown: BaseException | None = None
    while True:
        if running is None:
            running = begin()
        else:
            session.resume(running)
        try:
            if thrown is None:
                step = _Step(session, running, inner.asend(value))
            else:
                error, thrown = thrown, None
                step = _Step(session, running, inner.athrow(error))
            item = await step
        except StopAsyncIteration:
            session.end(running)
            return
        except BaseException as error:
            session.end(running, error=error)
            raise
        session.suspend(running)
        value = None
        try:
            value = yield item
        except GeneratorExit:
            session.resume(running)
            try:
                await inner.aclose()
            except BaseException as error:
                session.end(running, error=error)
                raise
            session.end(running)
            raise
        except BaseException as error:
            thrown = error


class _Step:
    """One ``asend`` of an asynchronous generator, without the CPU of others during its awaits."""

    __slots__ = ("_inner", "_running", "_session")

    def __init__(self, session: Any, running: Running, inner: Any) -> None:
        self._session = session
        self._running = running
        self._inner = inner

    def __await__(self) -> Generator[Any, Any, Any]:
        session, running = self._session, self._running
        steps = self._inner.__await__()
        value: Any = None
        thrown: BaseException | None = None
        while True:
            try:
                if thrown is None:
                    item = steps.send(value)
                else:
                    error, thrown = thrown, None
                    item = steps.throw(error)
            except StopIteration as stop:
                return stop.value
            session.cpu_off(running)
            try:
                value = yield item
            except BaseException as error:
                thrown = error
            finally:
                session.cpu_on(running)
