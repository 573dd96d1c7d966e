"""Where groups of tasks come from: file, line, text of the call, and the span around it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import Any

from rotameter.adapters.dask import _compat
from rotameter.adapters.dask.names import emit, group_of
from rotameter.profiler.live.code_line import code_line
from rotameter.profiler.live.recorder import Recorder
from rotameter.profiler.live.redact import clean_name

__all__ = ["Origins", "call_site"]

_LIMIT = 2_000


def call_site(frames: Iterable[Any]) -> tuple[str, int, str] | None:
    r"""Give (file, line, text of the line) of the innermost frame of user code.

    What stands in the strings of the line is left out.

    Parameters
    ----------
    frames : iterable
        distributed's ``SourceCode`` values: ``code``, ``lineno_frame``, ``lineno_relative``,
        ``filename``; the innermost first.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> frame = SimpleNamespace(code="def f():\n    x.compute()\n", lineno_frame=8,
    ...                         lineno_relative=1, filename="run.py")
    >>> call_site([frame])
    ('run.py', 8, 'x.compute()')
    """
    for frame in frames:
        lines = str(frame.code).splitlines()
        at = int(frame.lineno_relative)
        # A module's frame counts from line 1, a function's from its own first line.
        if str(frame.code) and at >= len(lines):
            at = int(frame.lineno_frame) - 1
        return str(frame.filename), int(frame.lineno_frame), code_line(lines, at)
    return None


class Origins:
    """Records each origin of a group once.

    Parameters
    ----------
    recorder : Recorder
        Where events go.
    clean : callable
        Removes secrets from a line of code.
    """

    def __init__(self, recorder: Recorder, clean: Callable[[str], str]) -> None:
        self._recorder = recorder
        self._clean = clean
        self._said: set[tuple[Any, ...]] = set()
        self._codes_seen: dict[int, set[Any]] = {}
        self._last_code: Any = None
        self._sure = True
        self._known: set[str] = set()

    def _code(self, scheduler: Any) -> Any:
        """Give the code frames of the graph that has just come, as well as can be told."""
        codes = _compat.computation_codes(scheduler)
        if not codes:
            return None
        number = len(scheduler.computations)
        seen = self._codes_seen.get(number)
        if seen is None:
            self._codes_seen = {number: set()}  # only the newest computation grows
            seen = self._codes_seen[number]
        fresh = [code for code in codes if code not in seen]
        seen.update(fresh)
        if fresh:
            self._last_code = fresh[-1]
        elif len(codes) == 1:
            self._last_code = codes[0]
        self._sure = bool(fresh) or len(codes) == 1
        return self._last_code

    def observe(self, scheduler: Any, groups: dict[str, tuple[Any, int]]) -> None:
        """Record where these groups come from.

        Parameters
        ----------
        scheduler : distributed.Scheduler
            The scheduler.
        groups : dict
            Group → (state of one of its tasks, number of its tasks in this graph).
        """
        code = self._code(scheduler)
        site = call_site(code) if code else None
        file, line, text = site if site is not None else (None, None, None)
        for group, (state, count) in groups.items():
            span = _compat.span_of(scheduler, state)
            name = getattr(span, "name", None) or ()
            label = "/".join(str(part) for part in name)
            label = "" if label == "default" else label
            label = clean_name(label) if label else ""
            layer = group_of(str(getattr(state.group, "name", "") or ""))
            mark = (group, file, line, label)
            # Of a computation with several call sites the newest is taken, but only for a group
            # of which nothing is known yet.
            doubtful = not self._sure and group in self._known
            if mark in self._said or doubtful or len(self._said) >= _LIMIT:
                continue
            self._said.add(mark)
            self._known.add(group)
            emit(
                self._recorder,
                "group_origin",
                time.time_ns(),
                group=group,
                file=os.path.basename(file) if file and file.startswith("<") else file,
                line=line,
                text=self._clean(text) if text else None,
                span=label or None,
                layer=layer if layer and layer != group else None,
                count=count,
            )
