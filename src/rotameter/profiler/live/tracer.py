"""``@task`` and ``span``: what users put around their own code."""

from __future__ import annotations

import functools
import inspect
import math
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, overload

from rotameter.errors import UsageError
from rotameter.profiler.live import drive
from rotameter.profiler.live.alone import begin_alone
from rotameter.profiler.live.context import current, current_span, hook
from rotameter.profiler.live.redact import clean_name, clip
from rotameter.profiler.live.sizes import size_bytes
from rotameter.profiler.live.timed import begin_timed, end_call

__all__ = ["install", "span", "task"]

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
Features = Mapping[str, float] | Callable[..., Mapping[str, float]]


class _Decorate:
    """``task(group=…)``: what takes the function."""

    def __init__(self, spec: tuple[Any, ...]) -> None:
        self._spec = spec

    @overload
    def __call__(self, func: staticmethod[P, R_co], /) -> staticmethod[P, R_co]: ...
    @overload
    def __call__(self, func: classmethod[T, P, R_co], /) -> classmethod[T, P, R_co]: ...
    @overload
    def __call__(self, func: F, /) -> F: ...
    def __call__(self, func: Any, /) -> Any:
        return _decorate(func, self._spec)


@overload
def task(func: staticmethod[P, R_co], /) -> staticmethod[P, R_co]: ...
@overload
def task(func: classmethod[T, P, R_co], /) -> classmethod[T, P, R_co]: ...
@overload
def task(func: F, /) -> F: ...
@overload
def task(
    *,
    group: str | None = None,
    requested_memory: int | str | None = None,
    features: Features | None = None,
) -> _Decorate: ...
def task(
    func: Any = None,
    /,
    *,
    group: str | None = None,
    requested_memory: int | str | None = None,
    features: Features | None = None,
) -> Any:
    """Record every call of a function while a trace is open.

    Works on functions, coroutine functions, generator functions, asynchronous generator
    functions and methods; the signature is kept. With no trace open a call costs a fraction of
    a microsecond more.

    Parameters
    ----------
    func : callable, optional
        The function, when used without arguments.
    group : str, optional
        What calls are reported under; by default the function's module and name.
    requested_memory : int or str, optional
        Memory set aside for a call: bytes, or text such as ``"2GiB"``.
    features : mapping or callable, optional
        Numbers known before a call, or a function of its arguments that gives them.

    Returns
    -------
    callable
        The function, recorded.

    Raises
    ------
    UsageError
        If ``func`` cannot be called or ``requested_memory`` is no size.

    Examples
    --------
    >>> @task(features=lambda n: {"n": n})
    ... def double(n: int) -> int:
    ...     return 2 * n
    >>> double(21)
    42
    """
    if group is not None and not isinstance(group, str):
        raise UsageError(f"group must be text, not {type(group).__name__}")
    spec = (
        None if group is None else clean_name(group),
        None if requested_memory is None else size_bytes(requested_memory),
        features,
    )
    return _Decorate(spec) if func is None else _decorate(func, spec)


def group_name(func: Any) -> str:
    """Give the name that calls of a function are reported under.

    Examples
    --------
    >>> group_name(task)
    'rotameter.profiler.live.tracer.task'
    """
    name = getattr(func, "__qualname__", None) or getattr(func, "__name__", None)
    name = (name or type(func).__qualname__).replace("<locals>.", "")
    module = getattr(func, "__module__", None)
    if module in (None, "__main__", "__mp_main__"):
        return clip(name)
    return clip(f"{module}.{name}")


def _decorate(func: Any, spec: tuple[Any, ...]) -> Any:
    if isinstance(func, staticmethod | classmethod):
        return type(func)(_decorate(func.__func__, spec))
    if isinstance(func, type) or not callable(func):
        raise UsageError(
            f"@task takes a function, not {func!r:.80}",
            hint="decorate the class's methods instead",
        )
    spec = (spec[0] or group_name(func), *spec[1:])
    if inspect.isasyncgenfunction(func):
        wrapper = _wrap_async_generator(func, spec)
    elif inspect.iscoroutinefunction(func):
        wrapper = _wrap_async(func, spec)
    elif inspect.isgeneratorfunction(func):
        wrapper = _wrap_generator(func, spec)
    else:
        wrapper = _wrap(func, spec)
    return functools.wraps(func)(wrapper)


# The wrappers refer to `hook`, `func` and `spec` only, through their closures: they pickle by
# value (cloudpickle) and run, untraced, where this package is absent.


def _wrap(func: Any, spec: tuple[Any, ...], hook: Any = hook) -> Any:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if hook.gate is None:
            return func(*args, **kwargs)
        running = hook.begin(spec, args, kwargs)
        if running is None:
            return func(*args, **kwargs)
        try:
            result = func(*args, **kwargs)
        except BaseException as error:
            hook.end(running, error)
            raise
        hook.end(running)
        return result

    return wrapper


def _wrap_async(func: Any, spec: tuple[Any, ...], hook: Any = hook) -> Any:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        if hook.gate is None:
            return await func(*args, **kwargs)
        return await hook.run_async(func, spec, args, kwargs)

    return wrapper


def _wrap_generator(func: Any, spec: tuple[Any, ...], hook: Any = hook) -> Any:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if hook.gate is None:
            return (yield from func(*args, **kwargs))
        return (yield from hook.run_generator(func, spec, args, kwargs))

    return wrapper


def _wrap_async_generator(func: Any, spec: tuple[Any, ...], hook: Any = hook) -> Any:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        if hook.gate is None:
            inner = func(*args, **kwargs)
        else:
            inner = hook.run_async_generator(func, spec, args, kwargs)
        # `async for` would lose asend, athrow and aclose.
        try:
            item = await inner.__anext__()
            while True:
                try:
                    sent = yield item
                except GeneratorExit:
                    raise
                except BaseException as error:
                    item = await inner.athrow(error)
                else:
                    item = await (inner.__anext__() if sent is None else inner.asend(sent))
        except StopAsyncIteration:
            return
        finally:
            await inner.aclose()

    return wrapper


# -- what the hook runs --------------------------------------------------------------------------


def _session() -> Any:
    """Give the active session; a child process joins its parent's trace here."""
    session = hook.active
    if session is None and hook.gate is not None:
        from rotameter.profiler.live.process import join

        session = join()
    return session


def _features(session: Any, given: Any, args: Any, kwargs: Any) -> dict[str, float] | None:
    try:
        numbers = given(*args, **kwargs) if callable(given) else given
        pairs = ((clip(name), float(value)) for name, value in dict(numbers).items())
        return {name: value for name, value in pairs if math.isfinite(value)}
    except Exception as error:
        session.faults.note("features", error)
        return None


def _begin(session: Any, spec: tuple[Any, ...], args: Any, kwargs: Any) -> Any:
    group, requested, features = spec
    if features is not None:
        features = _features(session, features, args, kwargs)
    return session.begin_call(group, requested, features, True)


def _begin_plain(spec: tuple[Any, ...], args: Any, kwargs: Any) -> Any:
    session: Any = None
    above = None
    try:
        above = current.get()
        session = hook.active or _session()
        if session is None:
            return None
        group, requested, features = spec
        if features is not None:
            features = _features(session, features, args, kwargs)
        else:
            state = session.guard.groups.get(group)
            if state is not None and not session._probes:
                task_id = f"{group}-{session.tag}-{next(session._counter)}"
                begin = begin_alone if state.level else begin_timed
                running = begin(session, state, group, task_id, above)
                if running is not None:
                    running.requested_memory_bytes = requested
                    return running
        running = session.begin_call(group, requested, features, False)
        running.session = session
        return running
    except Exception:  # near the limit of recursion, where nothing can be called
        if session is not None:
            session.faults.count += 1
        try:
            lost = current.get()
            if lost is None or lost is above:
                return None
            lost.live = lost.entered = False
            current.set(above)
            session._active.discard(lost)
        except RecursionError:  # then nothing was begun either, which takes more room
            pass
        return None


async def _run_async(func: Any, spec: tuple[Any, ...], args: Any, kwargs: Any) -> Any:
    coroutine: Coroutine[Any, Any, Any] = func(*args, **kwargs)
    session = _session()
    if session is None:
        return await coroutine
    running = _begin(session, spec, args, kwargs)
    return await drive.Driven(session, running, coroutine)


def _run_generator(
    func: Any, spec: tuple[Any, ...], args: Any, kwargs: Any
) -> Generator[Any, Any, Any]:
    generator: Generator[Any, Any, Any] = func(*args, **kwargs)
    session = _session()
    if session is None:
        return generator
    return drive.generator(session, lambda: _begin(session, spec, args, kwargs), generator)


def _run_async_generator(
    func: Any, spec: tuple[Any, ...], args: Any, kwargs: Any
) -> AsyncGenerator[Any, Any]:
    generator: AsyncGenerator[Any, Any] = func(*args, **kwargs)
    session = _session()
    if session is None:
        return generator
    begin = functools.partial(_begin, session, spec, args, kwargs)
    return drive.async_generator(session, begin, generator)


def install() -> None:
    """Let the hook run decorated functions through this module."""
    hook.begin = _begin_plain
    hook.end = end_call
    hook.run_async = _run_async
    hook.run_generator = _run_generator
    hook.run_async_generator = _run_async_generator


if not hasattr(hook, "begin"):
    # Else another copy of this package is at work (one shipped by value), and stays so.
    install()


class span:
    """Name a stretch of time inside a task, or outside any.

    Parameters
    ----------
    name : str

    Examples
    --------
    >>> with span("parse"):
    ...     pass
    """

    __slots__ = ("_parent", "_session", "_start_ns", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._session: Any = None

    def __enter__(self) -> span:
        if hook.gate is not None:
            session = self._session = _session()
            if session is not None:
                self._parent = current_span.get()
                current_span.set(str(self.name))
                self._start_ns = session.clock.wall()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        try:
            end_ns = session.clock.wall()
            current_span.set(self._parent)
            lane = threading.current_thread().name
            name, above = str(self.name), self._parent
            parent = None if above is None else clean_name(above)
            session.span(name, lane, self._start_ns, end_ns, parent)
        except Exception as fault:
            session.faults.note("span", fault)
