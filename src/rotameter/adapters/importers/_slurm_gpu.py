"""Job statistics that sites keep in AdminComment or Comment: GPU by GPU, node by node.

Princeton's jobstats (https://github.com/PrincetonUniversity/jobstats) writes ``JS1:`` and a
base64 gzip JSON; ``JS1:Short`` and ``JS1:None`` say that there is nothing. Others write the JSON
plainly. A GPU without a reading is unknown, never idle.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rotameter.adapters.importers._slurm_jobs import Joined
from rotameter.adapters.importers._slurm_values import words

__all__ = ["Stats", "decode", "read"]

_LIMIT_BYTES = 8 << 20
_GPUS_LIMIT = 4096


@dataclass(slots=True)
class Stats:
    """What such statistics tell of each job; NaN is unknown."""

    n: int
    readings: list[tuple[int, str, float]] = field(default_factory=list)
    over: int = 0
    busy_s: Any = None
    memory: Any = None
    total_memory: Any = None
    gpus: Any = None
    counted: Any = None
    idle: Any = None
    host_memory: Any = None
    cpu_s: Any = None
    nodes: Any = None

    def __post_init__(self) -> None:
        """Begin with nothing known."""
        for name in words("busy_s memory total_memory gpus counted idle host_memory cpu_s nodes"):
            setattr(self, name, np.full(self.n, np.nan))


def decode(text: str) -> dict[str, Any] | None:
    """Read one comment; None where it holds no statistics.

    Examples
    --------
    >>> decode("JS1:Short"), decode('{"gpu_util": 53.1}')
    (None, {'gpu_util': 53.1})
    """
    text = text.strip()
    if text.startswith("JS1:"):
        try:
            packed = base64.b64decode(text[4:], validate=True)
            unpack = zlib.decompressobj(wbits=31)
            plain = unpack.decompress(packed, _LIMIT_BYTES)
            text = plain.decode("utf-8")
        except (binascii.Error, zlib.error, ValueError):
            return None
    if not text.startswith("{") or len(text) > _LIMIT_BYTES:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def number(value: Any) -> float:
    """Give a finite number that is not negative, else NaN."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.nan
    try:
        out = float(value)
    except OverflowError:
        return math.nan
    return out if 0 <= out < 1e18 else math.nan


def read(joined: Joined, wall: Any) -> Stats:
    """Read the statistics of all jobs, and of the steps that carry them."""
    stats = Stats(joined.n)
    for table, rows in ((joined.steps, joined.job_of), (joined.jobs, None)):
        for name in ("comment", "admincomment", "gpu_json"):
            column = table.get(name)
            if column is None:
                continue
            for i, text in enumerate(column.to_pylist()):
                if text and (text[0] == "{" or text.startswith("JS1:")):
                    found = decode(text)
                    if found is not None:
                        row = i if rows is None else int(rows[i])
                        _take(stats, joined, row, found, wall)
    return stats


def _take(stats: Stats, joined: Joined, row: int, found: dict[str, Any], wall: Any) -> None:
    nodes = found.get("nodes")
    if not isinstance(nodes, dict):
        nodes = _by_metric(found)
    nodes = {str(k): v for k, v in nodes.items() if isinstance(v, dict)}
    if nodes:
        _take_nodes(stats, joined, row, found, nodes, wall)
    elif "gpu_util" in found:
        _take_short(stats, joined, row, found, wall)


def _by_metric(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Turn {metric: {node: {gpu: value}}} into {node: {metric: {gpu: value}}}."""
    nodes: dict[str, dict[str, Any]] = {}
    for metric in ("gpu_utilization", "gpu_used_memory", "gpu_total_memory", "used_memory",
                   "total_memory", "cpus", "total_time"):  # fmt: skip
        values = found.get(metric)
        if isinstance(values, dict):
            for node, value in values.items():
                nodes.setdefault(str(node), {})[metric] = value
    return nodes


def _take_nodes(
    stats: Stats, joined: Joined, row: int, found: dict[str, Any],
    nodes: dict[str, dict[str, Any]], wall: Any,
) -> None:  # fmt: skip
    shares: dict[Any, Any] = {}
    used: dict[Any, Any] = {}
    total: dict[Any, Any] = {}
    for node, values in list(nodes.items())[:_GPUS_LIMIT]:
        for into, metric in (
            (shares, "gpu_utilization"),
            (used, "gpu_used_memory"),
            (total, "gpu_total_memory"),
        ):
            cards = values.get(metric)
            if isinstance(cards, dict):
                into.update({f"{node}/{k}"[:200]: number(v) for k, v in cards.items()})
    held = number(found.get("gpus"))
    granted = joined.jobs.get("tres_gpus")
    if granted is not None and not np.isnan(granted[row]):
        held = float(granted[row])
    seen = {*shares, *used, *total}
    held = max(0.0 if math.isnan(held) else held, float(len(seen)))
    if held or "gpus" in found:
        stats.gpus[row] = held
    _take_shares(stats, row, shares, held, float(wall[row]))
    _take_amounts(stats, row, used, total, held)
    for into, metric in ((stats.host_memory, "used_memory"), (stats.cpu_s, "total_time")):
        values_ = [number(v.get(metric)) for v in nodes.values()]
        if values_ and not any(math.isnan(v) for v in values_) and sum(values_) > 0:
            into[row] = sum(values_)
    stats.nodes[row] = len(nodes)


def _take_shares(
    stats: Stats, row: int, shares: dict[str, float], held: float, wall_s: float
) -> None:
    """Add up what each GPU did; one that no reading is known of leaves the sum unknown."""
    known = {card: share for card, share in shares.items() if not math.isnan(share)}
    stats.over += sum(share > 100.5 for share in known.values())
    for card, share in known.items():
        stats.readings.append((row, f"gpu_utilization_percent/{card}", share))
    if known and len(known) >= held:
        stats.busy_s[row] = sum(known.values()) / 100 * wall_s
        stats.idle[row] = sum(share == 0 for share in known.values())


def _take_amounts(
    stats: Stats, row: int, used: dict[str, float], total: dict[str, float], held: float
) -> None:
    good = {card: size for card, size in used.items() if not math.isnan(size)}
    for card, size in good.items():
        stats.readings.append((row, f"gpu_used_memory_bytes/{card}", size))
    if good and len(good) >= held:
        stats.memory[row] = sum(good.values())
    stats.counted[row] = held
    sizes = [size for size in total.values() if not math.isnan(size)]
    if sizes and len(sizes) >= held:
        stats.total_memory[row] = sum(sizes)


def _take_short(stats: Stats, joined: Joined, row: int, found: dict[str, Any], wall: Any) -> None:
    """Read ``{"gpu_util": %, "gpu_mem_max": …, "ngpu": n}``: a mean over the job's GPUs."""
    share, cards = number(found.get("gpu_util")), number(found.get("ngpu"))
    granted = joined.jobs.get("tres_gpus")
    if math.isnan(cards) and granted is not None:
        cards = float(granted[row])
    if math.isnan(share):
        return
    stats.over += share > 100.5
    stats.readings.append((row, "gpu_utilization_percent", share))
    stats.gpus[row] = cards
    if cards == 1:  # For more, whether this is a mean or a sum is nowhere said.
        stats.busy_s[row] = share / 100 * float(wall[row])
        stats.counted[row] = 1
