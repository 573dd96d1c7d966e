"""The values that `rm.dask.why` gives: frozen, plain, with text and HTML of themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from rotameter.values import Evidence, to_dict

__all__ = ["OUT", "Eta", "GroupWhy", "Reason", "Status", "Why"]

OUT = ("paused_worker", "retiring_worker")
"""Reasons why a worker that is well starts no task."""

Status = Literal["idle", "running", "blocked", "stuck", "unknown"]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why tasks do not run (or that they do), with what was seen and what to do.

    ``blocking`` tells that these tasks will not run unless somebody does something.
    """

    code: str
    text: str
    n_tasks: int = 0
    workers: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    advice: str = ""
    blocking: bool = False


@dataclass(frozen=True, slots=True)
class GroupWhy:
    """One group of tasks that is not finished: its states and its reasons, the leading one first.

    ``code``, ``text``, ``evidence`` and ``advice`` are those of the leading reason.
    """

    group: str
    n_by_state: dict[str, int]
    reasons: tuple[Reason, ...]

    @property
    def code(self) -> str:
        """Code of the leading reason."""
        return self.reasons[0].code

    @property
    def text(self) -> str:
        """Text of the leading reason."""
        return self.reasons[0].text

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """What the leading reason rests on."""
        return self.reasons[0].evidence

    @property
    def advice(self) -> str:
        """What to do, or "" where nothing needs doing."""
        return self.reasons[0].advice

    @property
    def blocking(self) -> bool:
        """Whether tasks of this group will not run by themselves."""
        return any(reason.blocking for reason in self.reasons)

    @property
    def n_unfinished(self) -> int:
        """Tasks that still have to run."""
        wanted = ("waiting", "processing", "queued", "no-worker")
        return sum(self.n_by_state.get(state, 0) for state in wanted)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "group": self.group,
            "n_by_state": dict(self.n_by_state),
            "code": self.code,
            "text": self.text,
            "evidence": [to_dict(item) for item in self.evidence],
            "advice": self.advice,
            "blocking": self.blocking,
            "reasons": [to_dict(reason) for reason in self.reasons],
        }


@dataclass(frozen=True, slots=True)
class Eta:
    """Seconds until the known tasks are done, with an 80 % interval, or why that is unknown."""

    eta_s: float | None = None
    interval80_s: tuple[float, float] | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Why:
    """What a running cluster does now, when it will be done, and what does not run and why.

    Attributes
    ----------
    sentence : str
        The verdict so far.
    status : str
        ``idle``, ``running`` (all is normal), ``blocked`` (some groups do not move), ``stuck``
        (nothing moves) or ``unknown``.
    eta_s : float or None
        Seconds; None with ``eta_reason``.
    eta_interval80_s : (float, float) or None
        Seconds.
    groups : tuple of GroupWhy
        The unfinished groups, those that do not move first; also those with failed tasks.
    notes : tuple of str
        What could not be told, and what else was seen.
    seconds : float
        What looking took.
    """

    sentence: str
    status: Status
    eta_s: float | None = None
    eta_interval80_s: tuple[float, float] | None = None
    eta_reason: str = ""
    n_done: int = 0
    n_tasks: int = 0
    groups: tuple[GroupWhy, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float | None = None

    @property
    def causes(self) -> tuple[Reason, ...]:
        """The blocking reasons of all groups, each once, the most tasks first.

        And the workers that start no task while tasks wait for the others.

        Examples
        --------
        >>> Why("Nothing to do.", "idle").causes
        ()
        """
        best: dict[tuple[str, tuple[str, ...]], Reason] = {}
        for group in self.groups:
            for reason in group.reasons:
                at = (reason.code, reason.workers)
                cause = reason.blocking or reason.code in OUT
                if cause and (at not in best or best[at].n_tasks < reason.n_tasks):
                    best[at] = reason
        return tuple(sorted(best.values(), key=lambda r: (-r.n_tasks, r.code, r.workers)))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON (schema 1)."""
        return {
            "schema": 1,
            "sentence": self.sentence,
            "status": self.status,
            "eta_s": self.eta_s,
            "eta_interval80_s": self.eta_interval80_s and list(self.eta_interval80_s),
            "eta_reason": self.eta_reason,
            "n_done": self.n_done,
            "n_tasks": self.n_tasks,
            "groups": [group.to_dict() for group in self.groups],
            "notes": list(self.notes),
            "seconds": self.seconds,
        }

    def to_text(self) -> str:
        """At most 25 lines of 80 columns."""
        from rotameter.adapters.dask.live_view import text

        return text(self)

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        from rotameter.adapters.dask.live_view import html

        return html(self)
