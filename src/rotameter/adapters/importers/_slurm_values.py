"""Single values as ``sacct`` writes them: job ids, states, durations, amounts, TRES strings.

Source: the manual page of sacct (https://slurm.schedmd.com/sacct.html), sections "Job Accounting
Fields" and "Job State Codes". NaN (or None) is unknown; nothing here raises.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import NamedTuple

from rotameter.adapters.importers.times import binary_bytes, clock_seconds, epoch_ns, local_ns
from rotameter.profiler.live.redact import clean_name

__all__ = [
    "ENDED",
    "JOB_ID",
    "LAST_S",
    "MISSING_NS",
    "NEAR_NS",
    "PENDING",
    "PHASES",
    "RUNNING",
    "UNKNOWN",
    "State",
    "Tres",
    "amount",
    "clock",
    "count",
    "exit_code",
    "gres_gpus",
    "joules",
    "name",
    "request",
    "state",
    "tres",
    "tres_pairs",
    "when",
    "words",
]

MISSING_NS = -(2**63)
ENDED, RUNNING, PENDING = range(3)
"""Where a job stands; the numbers of its phase."""
PHASES = ("ended", "running", "pending")
NEAR_NS = 2 * 10**9
"""What happens at once is noted up to so much later: slurmd and slurmctld have their own clocks."""
LAST_S = 7_258_118_400
"""The year 2200: what lies behind is no time of a job."""
UNKNOWN = frozenset({"", "Unknown", "None", "N/A", "n/a", "INVALID", "(null)", "None assigned"})
JOB_ID = re.compile(
    r"(\d{1,19}(?:_(?:\d{1,19}|\*|\[[0-9,:%.\-]*\](?:%\d+)?))?(?:\+\d{1,9})?)"
    r"(?:\.([A-Za-z0-9_+\-]{1,64}))?"
)
"""(job, step): ``123``, ``123_4.batch``, ``123_[1-3%2]``, ``123+1.0``."""

_MINUTES_LIMIT = 1e10
_NAN = math.nan
_MOST_BYTES = 2.0**53
_GRES = re.compile(r"(?:gres[:/])?gpu(?::[\w.\-]*[A-Za-z_][\w.\-]*)?(?:[:=](\d{1,6}))?(?:\(.*\))?")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.+\-\[\],]{1,12}")


def words(text: str) -> tuple[str, ...]:
    """Split a list of names."""
    return tuple(text.split())


class State(NamedTuple):
    """What a state means: an outcome of the schema, words to keep, and where the job stands."""

    outcome: str
    error: str | None
    phase: str


_OUTCOMES = {
    "COMPLETED": "ok",
    "FAILED": "failed",
    "LAUNCH_FAILED": "failed",
    "BOOT_FAIL": "worker_lost",
    "NODE_FAIL": "worker_lost",
    "RECONFIG_FAIL": "worker_lost",
    "OUT_OF_MEMORY": "oom",
    "TIMEOUT": "timeout",
    "DEADLINE": "timeout",
    "PREEMPTED": "preempted",
    "CANCELLED": "cancelled",
    "REVOKED": "rescheduled",
    "REQUEUED": "rescheduled",
    "REQUEUE_FED": "rescheduled",
    "REQUEUE_HOLD": "rescheduled",
    "SPECIAL_EXIT": "rescheduled",
}
_RUNNING_WORDS = words(
    "RUNNING COMPLETING RESIZING SUSPENDED CONFIGURING STAGE_OUT SIGNALING STOPPED EXPEDITING"
)
_PENDING_WORDS = ("PENDING", "RESV_DEL_HOLD", "POWER_UP_NODE", "UPDATE_DB")
_SHORT = {
    "BF": "BOOT_FAIL", "CA": "CANCELLED", "CD": "COMPLETED", "CF": "CONFIGURING",
    "CG": "COMPLETING", "DL": "DEADLINE", "F": "FAILED", "LF": "LAUNCH_FAILED",
    "NF": "NODE_FAIL", "OOM": "OUT_OF_MEMORY", "PD": "PENDING", "PR": "PREEMPTED",
    "R": "RUNNING", "RD": "RESV_DEL_HOLD", "RF": "REQUEUE_FED", "RH": "REQUEUE_HOLD",
    "RQ": "REQUEUED", "RS": "RESIZING", "RV": "REVOKED", "S": "SUSPENDED",
    "SE": "SPECIAL_EXIT", "SI": "SIGNALING", "SO": "STAGE_OUT", "ST": "STOPPED",
    "TO": "TIMEOUT",
}  # fmt: skip
_WORDS = (*_OUTCOMES, *_RUNNING_WORDS, *_PENDING_WORDS)
_SAY_NOTHING = ("COMPLETED", "FAILED", "OUT_OF_MEMORY", "TIMEOUT", "PREEMPTED", "CANCELLED")


@lru_cache(maxsize=4096)
def state(text: str) -> State:
    """Read a state; one that nobody knows is kept as it is.

    Examples
    --------
    >>> state("CANCELLED by 1005").outcome, state("CANCELLED+").outcome, state("OOM").outcome
    ('cancelled', 'cancelled', 'oom')
    >>> state("STAGE_OUT_FAIL")
    State(outcome='unknown', error='STAGE_OUT_FAIL', phase='ended')
    """
    shown = text.strip()
    word = shown.upper().partition(" ")[0].partition(",")[0]
    if word.endswith("+"):
        near = [known for known in _WORDS if known.startswith(word[:-1])]
        word = near[0] if len(near) == 1 or (near and word[:-1] in near) else word
    word = _SHORT.get(word, word)
    said = None if word in _SAY_NOTHING and " " not in shown else clean_name(shown) or None
    if word in _OUTCOMES:
        return State(_OUTCOMES[word], None if word == "COMPLETED" else said, "ended")
    if word in _RUNNING_WORDS:
        return State("running", None if word == "RUNNING" else said, "running")
    return State("unknown", said, "pending" if word in _PENDING_WORDS else "ended")


def clock(text: str) -> float:
    """Read ``[DD-[HH:]]MM:SS[.mmm]`` as seconds; NaN for UNLIMITED, Partition_Limit and none.

    Examples
    --------
    >>> clock("1-02:03:04"), clock("00:37.250"), clock("UNLIMITED")
    (93784.0, 37.25, nan)
    """
    if len(text) == 8 and text[2] == text[5] == ":":
        try:
            return float(int(text[:2]) * 3600 + int(text[3:5]) * 60 + int(text[6:]))
        except ValueError:
            return _NAN
    if len(text) > 40:
        return _NAN
    try:
        seconds = clock_seconds(text)
    except (ValueError, OverflowError):
        return _NAN
    return seconds if seconds < 60 * _MINUTES_LIMIT else _NAN


def amount(text: str, unit: str = "") -> float:
    """Read an amount of memory or bytes; K is 1024; a bare number counts ``unit``.

    Examples
    --------
    >>> amount("1.5K"), amount("85399.46K"), amount("")
    (1536.0, 87449047.0, nan)
    """
    digits = text[:-1] if text[-1:] == "K" else text
    if digits.isascii() and digits.isdigit() and len(digits) < 16 and not (unit and digits == text):
        return float(int(digits) * 1024) if digits is not text else float(int(digits))
    if not text or len(text) > 40:
        return _NAN
    try:
        size = float(binary_bytes(text, unit))
    except (ValueError, OverflowError):
        return _NAN
    return size if size <= _MOST_BYTES else _NAN  # 16.00E stands for "no value"


def request(text: str) -> tuple[float, str]:
    """Read ReqMem: bytes and what they are for (``c`` a CPU, ``n`` a node, "" the job).

    A request of 0 stands for all of the node's memory, which is no number (NaN, ``0``).

    Examples
    --------
    >>> request("2500Mc"), request("1.50T"), request("0n")
    ((2621440000.0, 'c'), (1649267441664.0, ''), (nan, '0'))
    """
    text = text.strip().removesuffix("?")
    per = text[-1:] if text[-1:] in ("c", "n") else ""
    size = amount(text.removesuffix(per), "M")
    return (_NAN, "0") if size == 0 else (size, per)


def count(text: str) -> float:
    """Read a number of things (``4``, ``1.5K``); NaN where it is none or no number at all."""
    if text.isascii() and text.isdigit() and len(text) < 16:
        return float(int(text))
    return amount(text)


def joules(text: str) -> float:
    """Read ConsumedEnergy: K is 1000; 0 and the marks for "no value" are unknown.

    Examples
    --------
    >>> joules("54.16K"), joules("54156"), joules("0"), joules("18446744073709551614")
    (54160.0, 54156.0, nan, nan)
    """
    text = text.strip()
    power = "KMGTP".find(text[-1:].upper()) + 1 if text else 0
    try:
        value = float(text[:-1] if power else text) * 1000**power
    except ValueError:
        return _NAN
    return value if 0 < value < 1e15 else _NAN


@lru_cache(maxsize=65536)
def exit_code(text: str) -> tuple[float, float]:
    """Read ``code:signal``; no signal is NaN.

    Examples
    --------
    >>> exit_code("0:125"), exit_code("3:0")
    ((0.0, 125.0), (3.0, nan))
    """
    match = re.fullmatch(r"(\d{1,9}):(\d{1,9})", text.strip())
    if match is None:
        return _NAN, _NAN
    return float(match[1]), float(match[2]) or _NAN


@lru_cache(maxsize=65536)
def when(text: str) -> tuple[int, bool]:
    """Read a time: nanoseconds, and whether its zone is known (seconds since the epoch: yes)."""
    text = text.strip()
    if text in UNKNOWN or len(text) > 64:
        return MISSING_NS, True
    try:
        if re.fullmatch(r"\d{8,11}(?:\.\d{1,9})?", text, re.ASCII):
            at, zoned = epoch_ns(text), True
        else:
            at, zoned = local_ns(text)
    except (ValueError, OverflowError):
        return MISSING_NS, True
    return (at, zoned) if 0 < at < LAST_S * 10**9 else (MISSING_NS, True)


class Tres(NamedTuple):
    """What a TRES string holds; NaN is "not said"."""

    cpus: float
    memory_bytes: float
    nodes: float
    gpus: float
    energy_j: float


NO_TRES = Tres(_NAN, _NAN, _NAN, _NAN, _NAN)


def tres_pairs(text: str) -> list[tuple[str, str]]:
    """Split a TRES string into (key, value)."""
    pairs = (item.partition("=") for item in text.split(","))
    return [(key.strip(), value.strip()) for key, equals, value in pairs if equals]


@lru_cache(maxsize=65536)
def tres(text: str) -> Tres:
    """Read AllocTRES or ReqTRES: exact keys, any order.

    Where GPUs are named both ways (``gres/gpu=4,gres/gpu:a100=4``) the total counts; where they
    are named by kind only, the kinds add up. A string without GPUs says that there are none.

    Examples
    --------
    >>> tres("billing=6,cpu=6,gres/gpu:tesla=4,mem=1000M,node=2")
    Tres(cpus=6.0, memory_bytes=1048576000.0, nodes=2.0, gpus=4.0, energy_j=nan)
    """
    if text.strip() in UNKNOWN:
        return NO_TRES
    values: dict[str, float] = {}
    kinds = 0.0
    for key, value in tres_pairs(text):
        if key.startswith("gres/gpu:"):
            kinds += count(value)
        elif key == "mem":
            values[key] = amount(value, "M")
        elif key == "energy":
            values[key] = joules(value)
        else:
            values[key] = count(value)
    if not values and not kinds:
        return NO_TRES
    gpus = values.get("gres/gpu", kinds)
    memory = values.get("mem", _NAN)
    return Tres(
        values.get("cpu", _NAN) or _NAN,
        memory if memory > 0 else _NAN,
        values.get("node", _NAN) or _NAN,
        gpus if gpus < 1e9 else _NAN,
        values.get("energy", _NAN),
    )


def gres_gpus(text: str) -> float:
    """Read ReqGRES or AllocGRES of old Slurm (``gpu:2``, ``gpu:tesla:2``): GPUs a node.

    Examples
    --------
    >>> gres_gpus("gpu:tesla:2,shard:1"), gres_gpus("gpu"), gres_gpus("")
    (2.0, 1.0, nan)
    """
    total, seen = 0.0, False
    for item in text.split(","):
        match = _GRES.fullmatch(item.strip())
        if match:
            total, seen = total + float(match[1] or 1), True
    return total if seen else _NAN


@lru_cache(maxsize=65536)
def _long_name(text: str) -> str | None:
    return clean_name(text) or None


def name(text: str) -> str | None:
    """Give a name without secrets in it; None where it is none."""
    if _PLAIN_NAME.fullmatch(text):  # Shorter than any secret that redact() knows.
        return None if text in UNKNOWN else text
    text = text.strip()
    return None if text in UNKNOWN else _long_name(text)
