"""What is running, where: the current task, and the hook that decorated functions look at.

The hook is one object a process, kept in :data:`sys.modules` under a private name, so that every
copy of this package (the installed one, one that was shipped by value to a worker) and every
pickled ``@task`` function share it. It pickles to an expression, hence a decorated function runs,
untraced, in a process that has no rotameter.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

__all__ = ["ENV", "TASK_COLUMNS", "Measured", "Running", "current", "current_span", "hook"]

_TASKS = """task_id run_id attempt parent group worker host started_ns ended_ns outcome outcome_kind
    error wall_s cpu_s process_cpu_s io_s concurrency peak_memory_bytes peak_memory_kind
    start_memory_bytes read_bytes write_bytes io_kind requested_memory_bytes features
    source"""
TASK_COLUMNS = tuple(_TASKS.split())
"""What a ``tasks`` row written here fills, in order."""

ENV = "ROTAMETER_LIVE"
"""Set while a trace is open, to what a child process needs to join it (JSON)."""

_HOOK_NAME = "_rotameter_hook"
# E is the expression itself: the object made by it must be able to pickle to it again.
_HOOK_EXPRESSION = (
    f"__import__('sys').modules.setdefault({_HOOK_NAME!r}, type('Hook', (), dict("
    "gate=None, active=None, __reduce__=lambda self: (eval, (E, dict(E=E)))))())"
)

hook: Any = eval(_HOOK_EXPRESSION, {"E": _HOOK_EXPRESSION})
"""``gate`` is None when nothing is traced, else not None; ``active`` is the session.

``begin``, ``end``, ``run_async``, ``run_generator`` and ``run_async_generator`` exist whenever
``gate`` is not None.
"""


class Running:
    """One attempt of one task while it runs, and what was measured when it has ended.

    Parameters
    ----------
    task_id, group : str
    state : GroupLevel
        The level of the group.
    """

    __slots__ = (
        *("task_id", "group", "state", "run_id", "attempt", "parent", "features", "level"),
        "requested_memory_bytes",
        # Place in the tree of what runs now. live: between begin and end; entered: and not
        # suspended; shared: something else than an ancestor or descendant ran at the same time.
        *("live", "entered", "previous", "up", "children", "shared", "crowd"),
        # stretched: a generator or coroutine, its thread is not its alone; untimed: a stretch was
        # not probed in full.
        *("stretched", "untimed", "stretches"),
        *("wall0_ns", "cpu0_ns", "cpu1_ns", "area0_ns", "area_from_ns"),
        *("started_ns", "ended_ns", "wall_ns", "cpu_ns", "area_ns", "area_wall_ns"),
        *("files", "tokens", "extra", "outcome", "error", "row"),
        # Whose it is, whether it may end the short way, and (set late) that its beginning is told.
        *("session", "quick", "told"),
    )
    started_ns: int
    ended_ns: int
    wall0_ns: int
    cpu0_ns: int
    area0_ns: int
    area_from_ns: int
    crowd: int
    session: Any
    told: bool

    def __init__(self, task_id: str, group: str, state: Any) -> None:
        self.task_id = task_id
        self.group = group
        self.state = state
        self.level: int = state.level
        self.parent: str | None = None
        self.live = False
        self.quick = False
        self.entered = False
        self.previous: Running | None = None
        self.up: Running | None = None
        self.children = 0
        self.shared = False
        self.untimed = False
        self.stretches = 0
        self.wall_ns = 0
        self.area_ns = 0
        self.area_wall_ns = 0
        self.cpu_ns: int | None = 0
        self.cpu1_ns: int | None = None
        self.files: dict[tuple[str, str], list[int]] | None = None
        self.tokens: list[Any] | None = None
        self.extra: dict[str, Any] | None = None
        # None until it has ended.
        self.outcome: str | None = None
        self.error: str | None = None
        self.run_id: Any = None
        self.attempt: int | None = None
        self.features: dict[str, float] | None = None
        self.requested_memory_bytes: int | None = None
        self.stretched = False
        self.row: Mapping[str, Any] | None = None

    @property
    def run_name(self) -> str | None:
        """The ``run_id`` as text: an engine may leave a number and name it when a row is made."""
        run_id = self.run_id
        name: str | None = run_id
        if run_id.__class__ is int:
            name = self.session.name_run(run_id)
        return name

    @property
    def readings(self) -> dict[str, Any]:
        """The measured columns of the ``tasks`` table; empty until the task has ended."""
        if self.row is None and self.outcome is not None:
            return dict(zip(TASK_COLUMNS, self.session.task_row(self), strict=True))
        return dict(self.row or {})


class Measured(Running):
    """An attempt measured in full: also process CPU, I/O and memory.

    Apart from :class:`Running`, which stays small enough for the fast allocator.
    """

    __slots__ = (
        # Start readings of the stretch.
        *("process_cpu0_s", "thread_io0", "process_io0", "own_read0", "own_write0"),
        *("own_thread0", "io_busy", "thread_state"),
        *("rss0_bytes", "max0_bytes", "peak_bytes", "ticks"),
        # Sums over stretches.
        *("process_cpu_s", "process_read_bytes", "process_write_bytes"),
        *("thread_read_bytes", "thread_write_bytes"),
        *("start_memory_bytes", "held_bytes", "added_bytes", "added_kind"),
    )
    own_read0: int
    own_write0: int
    own_thread0: tuple[int, int]

    def __init__(self, task_id: str, group: str, state: Any) -> None:
        super().__init__(task_id, group, state)
        self.process_cpu0_s = 0.0
        self.thread_io0: bytes | None = None
        self.process_io0: bytes | None = None
        self.io_busy = False
        self.thread_state: Any = None
        self.rss0_bytes: int | None = None
        self.max0_bytes = self.peak_bytes = self.ticks = 0
        self.process_cpu_s: float | None = None
        self.process_read_bytes: int | None = None
        self.process_write_bytes = 0
        self.thread_read_bytes: int | None = None
        self.thread_write_bytes = 0
        self.start_memory_bytes: int | None = None
        self.held_bytes = 0
        self.added_bytes: int | None = None
        self.added_kind = "exact"


current: ContextVar[Running | None] = ContextVar("rotameter_current", default=None)
current_span: ContextVar[str | None] = ContextVar("rotameter_span", default=None)


def joinable() -> bool:
    """Tell whether a trace of a parent process waits to be joined."""
    return bool(os.environ.get(ENV))


if hook.gate is None and joinable():
    # Joining happens at the first traced call, so that a child that runs none leaves no file.
    hook.gate = "join"
