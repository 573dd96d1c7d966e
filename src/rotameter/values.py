"""Value types that cross folder borders: frozen, plain, comparable.

Everything here is data. A finding says what was seen, what it cost and what to do; an action is
what a policy wants done; an allocation is what a task gets.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

__all__ = [
    "Action",
    "Allocation",
    "Change",
    "Drain",
    "Evidence",
    "Figure",
    "Finding",
    "Head",
    "Hold",
    "Keep",
    "Move",
    "Place",
    "Recompute",
    "Resize",
    "Scale",
    "SetPower",
    "SetShare",
    "Spill",
    "Together",
    "Verdict",
    "to_dict",
]

Severity = Literal["critical", "warning", "info"]
Confidence = Literal["high", "medium", "low"]
Status = Literal["ok", "failed", "interrupted", "unknown"]


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of a file that an importer is asked about.

    Parameters
    ----------
    name : str
        The path as the user knows it; ``archive.zip/member`` inside an archive.
    data : bytes
        The first 64 KiB, unpacked.
    path : path, optional
        Where the plain file lies; None inside archives.
    """

    name: str
    data: bytes
    path: Any = None

    @property
    def text(self) -> str:
        r"""The beginning as text with plain line ends, without a byte order mark.

        Examples
        --------
        >>> Head("a", b"\xef\xbb\xbfx\r\ny").text
        'x\ny'
        """
        utf16 = self.data[:2] in (b"\xff\xfe", b"\xfe\xff")
        text = self.data.decode("utf-16" if utf16 else "utf-8", errors="replace")
        return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def to_dict(value: Any) -> Any:
    """Turn a value (and the values in it) into plain JSON-ready data.

    Examples
    --------
    >>> to_dict(Evidence("share", 0.5, "ratio"))["value"]
    0.5
    """
    if is_dataclass(value) and not isinstance(value, type):
        kept = [f for f in fields(value) if not f.metadata.get("inside")]
        return {f.name: to_dict(getattr(value, f.name)) for f in kept}
    if isinstance(value, dict):
        return {str(k): to_dict(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_dict(v) for v in value]
    return value


@dataclass(frozen=True, slots=True)
class Evidence:
    """One number (or text) behind a finding, with how it was obtained and from how many."""

    name: str
    value: float | int | str | None
    unit: str = ""
    how: str = "measured"
    n: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause of loss: what was seen, what it cost, what to do.

    ``cost_s`` is seconds off the makespan if the cause were gone; None where it cannot be told,
    and then ``cost_how`` says why. ``what_if`` is what was replayed to price it, by which like
    findings are priced together; it is no part of the plain data.
    """

    code: str
    kind: str
    severity: Severity
    title: str
    groups: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    cost_s: float | None = None
    cost_s_interval80: tuple[float, float] | None = None
    cost_gbh: float | None = None
    cost_core_h: float | None = None
    cost_how: str = ""
    confidence: Confidence = "medium"
    advice: str = ""
    change: str | None = None
    apply: dict[str, Any] | None = field(default=None, hash=False)
    what_if: Any = field(default=None, compare=False, repr=False, metadata={"inside": True})

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        data: dict[str, Any] = to_dict(self)
        return data


@dataclass(frozen=True, slots=True)
class Figure:
    """One of the figures of the first screen; ``text`` is ready to print."""

    label: str
    value: float | None
    unit: str
    text: str
    how: str = "measured"


@dataclass(frozen=True, slots=True)
class Together:
    """What findings of one code would save if all their causes were gone at once.

    Savings do not add up: this is one replay without all of them, never more than the makespan.
    ``ranks`` are the findings' places in the verdict's list, from 1.
    """

    code: str
    kind: str
    groups: tuple[str, ...]
    ranks: tuple[int, ...]
    saving_s: float
    saving_s_interval80: tuple[float, float]
    saving_how: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a run lost and why, in one sentence, with the ranked findings behind it."""

    sentence: str
    status: Status
    figures: tuple[Figure, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    together: tuple[Together, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        data: dict[str, Any] = to_dict(self)
        return data


@dataclass(frozen=True, slots=True)
class Allocation:
    """What one attempt is given, and why."""

    cores: float | None = None
    memory_bytes: int | None = None
    disk_bytes: int | None = None
    gpus: float | None = None
    gpu_share: float | None = None
    gpu_memory_bytes: int | None = None
    wall_s: float | None = None
    policy: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """A change point: when, from which level to which, and how sure."""

    at_ns: int
    before: float | None
    after: float | None
    confidence: float | None = None


class Action:
    """Base of the closed set of things a policy may ask an engine to do."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Place(Action):
    """Run a task on a worker."""

    task_id: str
    worker: str


@dataclass(frozen=True, slots=True)
class Hold(Action):
    """Do not start a task yet."""

    task_id: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Resize(Action):
    """Change what a task asks for."""

    task_id: str
    allocation: Allocation


@dataclass(frozen=True, slots=True)
class Scale(Action):
    """Have this many workers."""

    workers: int


@dataclass(frozen=True, slots=True)
class Drain(Action):
    """Give a worker no new work and empty it."""

    worker: str


@dataclass(frozen=True, slots=True)
class Move(Action):
    """Move a task, a partition or a data object to a worker."""

    subject: str
    worker: str


@dataclass(frozen=True, slots=True)
class SetShare(Action):
    """Give a subject this share of a device or a worker."""

    subject: str
    share_ratio: float


@dataclass(frozen=True, slots=True)
class Keep(Action):
    """Keep a data object in memory."""

    object: str


@dataclass(frozen=True, slots=True)
class Spill(Action):
    """Move a data object to disk."""

    object: str


@dataclass(frozen=True, slots=True)
class Recompute(Action):
    """Compute a data object again rather than keep it."""

    object: str


@dataclass(frozen=True, slots=True)
class SetPower(Action):
    """Limit a device's power, in watts."""

    device: str
    power_w: float
