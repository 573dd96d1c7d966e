"""How much is measured, and stepping down when measuring would cost too much.

Two levels: 0 ``time`` (wall and thread CPU) and 1 ``default`` (everything). A group of tasks
whose duration (exponentially weighted mean) is under 5 ms is measured at level 0; if the probes
of level 1 take more than 2 % of their tasks' time over a second, the whole process steps down.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

__all__ = ["LEVELS", "GroupLevel", "LevelGuard"]

LEVELS = {"time": 0, "default": 1}
TINY_NS = 5_000_000
GROWN_NS = 10_000_000
WEIGHT = 0.2
BUDGET_RATIO = 0.02
WINDOW_NS = 1_000_000_000
# A window with few tasks in it says nothing: 0.1 % of the wall time is always allowed.
ALLOWED_RATIO = 0.001
GROUPS_LIMIT = 20_000
# Of tasks shorter than this, the first are measured in full, then every n-th: readings cost
# several times more after a task that left cold caches than in a loop of empty ones.
SHORT_NS = 50_000_000
FULL_FIRST = 16
THIN_RATIO = 0.0005
REST_LIMIT = 31
_REMEMBERED = 64


class Ended(Protocol):
    """What of an attempt matters here."""

    group: str
    level: int
    wall_ns: int


class GroupLevel:
    """The level of one group and the mean duration (ns) behind it."""

    __slots__ = ("full", "known", "level", "mean_ns", "rest", "thinned", "told")

    def __init__(self, level: int) -> None:
        self.level = level
        self.mean_ns = 0.0
        self.known = False
        self.told = False
        self.full = 0
        self.rest = 0
        self.thinned = False


class LevelGuard:
    """The levels of all groups of a process.

    Parameters
    ----------
    level : {"time", "default"}
        Where it starts.
    adapt : bool
        Whether it ever steps down.
    note : callable
        Called as ``note(group or None, reason, value)`` at each step down.

    Examples
    --------
    >>> steps = []
    >>> guard = LevelGuard("default", adapt=True, note=lambda *step: steps.append(step[0]))
    >>> group = guard.group("tiny")
    >>> from types import SimpleNamespace
    >>> attempt = SimpleNamespace(group="tiny", level=1, wall_ns=1_000_000)
    >>> guard.ended(group, attempt, 20_000, 0)
    >>> group.level, steps
    (0, ['tiny'])
    """

    def __init__(
        self, level: str, *, adapt: bool, note: Callable[[str | None, str, float], None]
    ) -> None:
        self.level = LEVELS[level]
        self.steps = 0
        self._adapt = adapt
        self._note = note
        self.groups: dict[str, GroupLevel] = {}
        self._window_ns = 0
        # The median of the last costs stands for all: a few of them are long because the thread
        # waited for the interpreter lock, and that is no cost of measuring.
        self._costs_ns = [0] * _REMEMBERED
        self._count = 0
        self._task_ns = 0

    def group(self, name: str) -> GroupLevel:
        """Give the state of a group, made on first use."""
        state = self.groups.get(name)
        if state is None:
            if len(self.groups) >= GROUPS_LIMIT:
                return GroupLevel(self.level)
            state = self.groups[name] = GroupLevel(self.level)
        return state

    def ended(self, group: GroupLevel, r: Ended, probe_ns: int, now_ns: int) -> None:
        """Learn from an attempt: its duration, and what its probes took (ns)."""
        wall_ns = r.wall_ns
        if group.known:
            group.mean_ns += WEIGHT * (wall_ns - group.mean_ns)
        else:
            group.mean_ns = wall_ns
            group.known = True
        if group.level:
            if group.mean_ns < TINY_NS and self._adapt:
                self._step_down(group, r.group)
            elif group.mean_ns < SHORT_NS and self._adapt:
                self._thin(group, r.group, probe_ns)
        elif group.rest:
            group.rest -= 1
            if not group.rest and group.mean_ns >= TINY_NS:
                group.level = self.level
        elif group.mean_ns > GROWN_NS:
            group.level = self.level
        if r.level:
            self._costs_ns[self._count % _REMEMBERED] = probe_ns
            self._count += 1
            self._task_ns += wall_ns
            if now_ns - self._window_ns > WINDOW_NS:
                self._judge(now_ns)

    def _thin(self, group: GroupLevel, name: str, probe_ns: int) -> None:
        """Of many short tasks measure every n-th in full, so that it stays a small share."""
        group.full += 1
        if group.full <= FULL_FIRST:
            return
        group.rest = min(REST_LIMIT, int(probe_ns / (THIN_RATIO * group.mean_ns)))
        if group.rest:
            group.level = 0
            if not group.thinned:
                group.thinned = True
                self.steps += 1
                length = f"{group.mean_ns / 1e6:.0f} ms"
                reason = f"tasks of {name} take about {length}: not all are measured in full"
                self._note(name, reason, group.mean_ns / 1e9)

    def _step_down(self, group: GroupLevel, name: str) -> None:
        group.level = group.rest = 0
        if not group.told:
            group.told = True
            self.steps += 1
            reason = f"tasks of {name} take less than 5 ms: time and CPU only"
            self._note(name, reason, group.mean_ns / 1e9)

    def _judge(self, now_ns: int) -> None:
        known = sorted(self._costs_ns[: self._count])
        probe_ns, task_ns = known[len(known) // 2] * self._count, self._task_ns
        allowed_ns = ALLOWED_RATIO * (now_ns - self._window_ns)
        self._window_ns, self._count, self._task_ns = now_ns, 0, 0
        if not self._adapt or probe_ns <= allowed_ns or probe_ns <= BUDGET_RATIO * task_ns:
            return
        self.level = 0
        for state in self.groups.values():
            state.level = 0
        self.steps += 1
        ratio = probe_ns / max(1, task_ns)
        self._note(
            None, "measuring took more than 2 % of the tasks' time: time and CPU only", ratio
        )
