"""What rotameter accepts from others: small interfaces, checked on load.

Stateful kinds also have ``state()`` and ``from_state()``, bit-equal. The conformance kit in
`rotameter.testing` checks each kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from rotameter.values import Action, Allocation, Change, Finding, Head, Hold

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = [
    "Advisor",
    "Allocator",
    "BlobStore",
    "Clock",
    "CommitLog",
    "Detector",
    "Exporter",
    "Forecaster",
    "Importer",
    "Policy",
    "Probe",
    "Tools",
]


@runtime_checkable
class Clock(Protocol):
    """Where time comes from, so that tests and simulations have their own."""

    def now_ns(self) -> int:
        """Nanoseconds since the epoch."""

    def monotonic_ns(self) -> int:
        """Nanoseconds from some fixed moment, never going back."""


@runtime_checkable
class Probe(Protocol):
    """Measures one thing around a task; must be cheap and must not raise."""

    def start(self, context: Any) -> Any:
        """Take the first reading; the result is handed to `stop`."""

    def stop(self, token: Any) -> Mapping[str, Any]:
        """Give the readings, named as columns of the ``tasks`` table."""


@runtime_checkable
class Detector(Protocol):
    """Finds change points in one series, online."""

    def update(self, at_ns: int, x: float) -> Change | None:
        """Take one observation; give the change it reveals, if any."""


@runtime_checkable
class Forecaster(Protocol):
    """Forecasts a series of counts; its predictions are non-negative."""

    def fit(self, series: Any) -> None:
        """Learn from a whole series."""

    def update(self, at_ns: int, x: float) -> None:
        """Learn from one more bin."""

    def predict(self, horizon: int, quantiles: Sequence[float]) -> Any:
        """Give quantiles, shape (horizon, n_quantiles)."""


@runtime_checkable
class Allocator(Protocol):
    """Decides how much each task gets."""

    def request(self, task: Any, view: Any) -> Allocation | Hold:
        """Size one task now."""

    def observe(self, record: Any) -> None:
        """Learn from an attempt, ended or still running."""

    def exceeded(self, task: Any, attempt: Any) -> Allocation:
        """Size the next attempt after one (a record) that exceeded a resource."""

    def explain(self, task: Any) -> str:
        """Say in plain words why a task gets what it gets."""


@runtime_checkable
class Policy(Protocol):
    """Decides what an engine should do; runs live and simulated alike."""

    needs: frozenset[type[Action]]

    def decide(self, state: Any) -> list[Action]:
        """Give the actions to take now."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What higher parts lend to advisors; a missing tool is None and costs become null."""

    replay: Any = None
    suggest: Any = None
    changes: Any = None
    price: Any = None


@runtime_checkable
class Advisor(Protocol):
    """Finds one cause of loss in a trace."""

    name: str

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Give the findings of this rule; an empty list when there are none."""


@runtime_checkable
class Importer(Protocol):
    """Reads files of one foreign format into a trace.

    One instance serves one import, which may have thousands of files: ``read`` is called for
    each, then ``finish`` once. A file that it cannot read raises an ``InputError``; a record that
    it cannot read goes to ``build.reject``.

    Attributes
    ----------
    name : str
        The plug-in's name.
    engine : str
        What ran the tasks; becomes the trace's ``engine``.
    options : frozenset of str
        Names of the keyword arguments that ``read`` takes.

    Notes
    -----
    One that counts a record of several files once, from the first of them, may have a method
    ``in_order(files)`` that gives the files as they are to be read: those that say most first.
    """

    name: str
    engine: str
    options: frozenset[str]

    def sniff(self, head: Head) -> float:
        """Give how sure it is, 0 to 1, that it can read the file; 0.5 and more means yes."""

    def read(self, file: Any, build: Any, **options: Any) -> None:
        """Read one file (an ``InputFile``) into the builder."""

    def finish(self, build: Any) -> None:
        """Do what needs all files: joining, totals."""


@runtime_checkable
class Exporter(Protocol):
    """Writes a trace in one foreign format."""

    name: str

    def write(self, trace: Trace, path: str, **options: Any) -> None:
        """Write the trace."""


@runtime_checkable
class BlobStore(Protocol):
    """Keeps named bytes; a put under an existing name fails."""

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Store; False when the name is taken."""

    def get(self, name: str) -> bytes:
        """Load."""

    def list(self, prefix: str) -> Iterable[str]:
        """Give the names under a prefix, in order."""

    def delete(self, name: str) -> None:
        """Remove."""


@runtime_checkable
class CommitLog(Protocol):
    """A numbered log of one partition, fenced by claims."""

    def head(self) -> int:
        """Give the last record's number."""

    def claim(self, owner: str) -> int:
        """Become the owner; give the claim's epoch."""

    def append(self, record: bytes, outputs: Sequence[str]) -> int:
        """Append under the current claim; fails for a stale owner."""

    def read(self, number: int) -> bytes:
        """Read one record."""
