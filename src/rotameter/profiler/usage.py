"""What attempts lost, waited for and asked for: the facts that logs of other tools do tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.profiler.open_ends import still_waiting
from rotameter.profiler.view import View, floats, lookup, short, view
from rotameter.units import format_count, format_number, format_seconds, many

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Floats, Mask

__all__ = [
    "JOB_LOGS",
    "all_inferred",
    "ends",
    "gpu_words",
    "hours",
    "is_job_log",
    "percent",
    "usage",
    "usage_words",
    "waiting",
]

JOB_LOGS = ("slurm", "swf", "pods")
"""Engines whose traces are logs of many people's jobs: a failed job is not a failed run."""

_BATCH = ("user", "account", "queue", "requested_nodes", "granted_nodes")
_GBH = 1e9 * 3600.0
IDLE_LISTED = 20
_WORDS = {
    "ok": "ended well",
    "oom": "out of memory",
    "timeout": "hit their time limit",
    "worker_lost": "lost with their worker",
    "unknown": "with an unknown end",
    "cached": "taken from a cache",
    "running": "still running",
    "waiting": "still waiting",
}


def is_job_log(seen: View) -> bool:
    """Say whether a trace is a log of jobs rather than one run.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> is_job_log(view(Trace.from_tables({}, {"engine": "slurm"})))
    True
    """
    engine = seen.meta.get("engine")
    if engine != "table":
        return engine in JOB_LOGS
    # A table of no known tool: columns that only batch systems have tell.
    return any(seen.tasks[name].null_count < seen.n for name in _BATCH)


def all_inferred(seen: View) -> bool:
    """Say whether no outcome was reported: each is only taken for what it is."""
    if not seen.n or seen.meta.get("origin") != "imported":
        return False
    kinds = seen.tasks["outcome_kind"]
    return kinds.null_count == 0 and set(kinds.unique().to_pylist()) == {"inferred"}


def usage(trace: Trace) -> dict[str, Any]:
    """Sum up what went into failed attempts, what waited, and requests against use.

    Returns
    -------
    dict
        ``failed``, ``waiting``, ``memory``, ``cpu``, ``gpu``, ``time_limit``: None where the
        trace does not tell. ``n`` is the number of attempts that a sum is from, ``of`` of those
        that ran (and, for ``gpu``, held one). Memory is GB·h (amount x duration); attempts that
        ended out of memory are left out of it, as their need is not known.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> made = usage(Trace.from_tables({"tasks": [
    ...     {"task_id": "a", "outcome": "failed", "wall_s": 1.0},
    ...     {"task_id": "a", "outcome": "ok", "wall_s": 3.0}]}))
    >>> made["failed"]["lost_s"], made["failed"]["of_s"], made["waiting"]
    (1.0, 4.0, None)
    """
    seen = view(trace)
    rows = seen.could_measure & ~seen.nested
    return {
        "failed": _failed(seen),
        "waiting": waiting(seen),
        "memory": _memory(seen, rows),
        "cpu": _cpu(seen, rows),
        "gpu": _gpu(seen, rows),
        "time_limit": _limit(seen, rows),
    }


def _failed(seen: View) -> dict[str, Any] | None:
    live = ~seen.outcome_in("cached") & ~seen.nested
    lost = live & seen.lost
    if not lost.any():
        return None
    timed = live & ~np.isnan(seen.wall)
    lost_s, of_s = float(seen.wall[timed & lost].sum()), float(seen.wall[timed].sum())
    kinds = seen.tasks.filter(lost)["outcome_kind"].to_pylist()
    return {
        "attempts": int(lost.sum()),
        "of": int(live.sum()),
        "timed": int((timed & lost).sum()),
        "lost_s": round(lost_s, 6) if (timed & lost).any() else None,
        "of_s": round(of_s, 6) if timed.any() else None,
        "share": round(lost_s / of_s, 6) if of_s > 0 else None,
        "out_of_memory": int((lost & seen.outcome_in("oom")).sum()),
        "inferred": kinds.count("inferred"),
        "tasks_never_ok": int(seen.never_ok.sum()),
    }


def waiting(seen: View) -> dict[str, Any] | None:
    """Sum up the time between ready (where that is not known: submitted) and started."""
    rows = seen.could_measure & ~seen.nested
    said = ~np.isnan(seen.seconds(seen.tasks["ready_ns"]))
    begin = np.where(said, seen.ready, np.fmax(seen.submitted, seen.ready))
    known = rows & ~np.isnan(seen.started) & (said | ~np.isnan(seen.submitted))
    if not known.any():
        return None
    waits = np.maximum(seen.started[known] - begin[known], 0.0)
    return {
        "since": "ready" if said[known].all() else "submitted",
        "n": int(known.sum()),
        "of": int(rows.sum()),
        "total_s": round(float(waits.sum()), 6),
        "median_s": round(float(np.median(waits)), 6),
        "p95_s": round(float(np.quantile(waits, 0.95)), 6),
        "max_s": round(float(waits.max()), 6),
    }


def _asked(seen: View, name: str) -> Floats:
    """Give what was asked for, else what was granted."""
    asked = seen.number(f"requested_{name}")
    return np.where(np.isnan(asked), seen.number(f"granted_{name}"), asked)


def _held(seen: View, name: str) -> Floats:
    """Give what was granted, else what was asked for."""
    held = seen.number(f"granted_{name}")
    return np.where(np.isnan(held), seen.number(f"requested_{name}"), held)


def _memory(seen: View, rows: Mask) -> dict[str, Any] | None:
    asked, peak, wall = _asked(seen, "memory_bytes"), seen.task_memory, seen.wall
    both = rows & (asked > 0) & (peak >= 0) & (wall > 0) & ~seen.outcome_in("oom")
    if not (rows & (asked > 0)).any():
        return None
    made: dict[str, Any] = {"n": int(both.sum()), "of": int(rows.sum())}
    amounts = dict.fromkeys(("asked_gbh", "used_gbh", "share", "median_ratio"))
    if both.any():
        held = float((asked[both] * wall[both]).sum()) / _GBH
        used = float((peak[both] * wall[both]).sum()) / _GBH
        ratios = peak[both] / asked[both]
        amounts = {
            "asked_gbh": round(held, 9),
            "used_gbh": round(used, 9),
            "share": round(used / held, 6),
            "median_ratio": round(float(np.median(ratios)), 6),
        }
    over = int((both & (peak > asked)).sum())
    least = bool((seen.peak_kinds[both] == "lower_bound").any())
    return {**made, **amounts, "above_request": over, "at_least": least}


def _cpu(seen: View, rows: Mask) -> dict[str, Any] | None:
    held, cpu, wall = _held(seen, "cores"), seen.number("cpu_s"), seen.wall
    asking = rows & (held > 0) & (wall > 0)
    if not asking.any():
        return None
    both = asking & ~np.isnan(cpu)
    asked_s = float((held[both] * wall[both]).sum())
    return {
        "n": int(both.sum()),
        "of": int(rows.sum()),
        "held_core_s": round(asked_s, 6) if both.any() else None,
        "cpu_s": round(float(cpu[both].sum()), 6) if both.any() else None,
        "share": round(float(cpu[both].sum()) / asked_s, 6) if asked_s > 0 else None,
    }


def _gpu(seen: View, rows: Mask) -> dict[str, Any] | None:
    held, used, wall = _held(seen, "gpus"), seen.number("gpu_s"), seen.wall
    asking = rows & (held > 0)
    if not asking.any():
        return None
    both = asking & (wall > 0) & (used >= 0)
    held_s, used_s = float((held[both] * wall[both]).sum()), float(used[both].sum())
    idle = np.where(asking, _idle_gpus(seen), np.nan)
    worst = np.flatnonzero(idle > 0)
    worst = worst[np.argsort(-idle[worst], kind="stable")]
    return {
        "n": int(both.sum()),
        "of": int(asking.sum()),
        "held_gpu_s": round(held_s, 6) if both.any() else None,
        "gpu_s": round(used_s, 6) if both.any() else None,
        "share": round(used_s / held_s, 6) if held_s > 0 else None,
        "idle_gpus": int(idle[worst].sum()) if (~np.isnan(idle)).any() else None,
        "idle_n": int((~np.isnan(idle)).sum()),
        "idle_attempts": int(worst.size),
        "idle": [
            {
                "task_id": seen.task_ids[seen.task[row]] if seen.task[row] >= 0 else None,
                "idle_gpus": int(idle[row]),
                "gpus": float(held[row]),
                "share": round(float(used[row] / (held[row] * wall[row])), 6)
                if both[row]
                else None,
            }
            for row in worst[:IDLE_LISTED]
        ],
    }


def _idle_gpus(seen: View) -> Floats:
    """Give how many GPUs of each attempt did nothing all the time, NaN = unknown."""
    table = seen.table("samples")
    table = table.filter(pc.equal(table["metric"], "gpus_idle"))
    idle = np.full(len(seen.task_ids) + 1, np.nan)
    task, value = lookup(table["subject"], seen.task_ids), floats(table["value"])
    known = (task >= 0) & (value >= 0) & np.isfinite(value)
    np.fmax.at(idle, task[known], value[known])
    # A reading names a task: of several attempts it is taken for the last one's.
    last = np.full(len(idle), -1)
    last[seen.task] = np.arange(seen.n)
    return np.where(last[seen.task] == np.arange(seen.n), idle[seen.task], np.nan)


def _limit(seen: View, rows: Mask) -> dict[str, Any] | None:
    asked = _asked(seen, "wall_s")
    both = rows & (asked > 0) & (seen.wall >= 0)
    if not both.any():
        return None
    ratios = seen.wall[both] / asked[both]
    return {
        "n": int(both.sum()),
        "of": int(rows.sum()),
        "asked_s": round(float(asked[both].sum()), 6),
        "used_s": round(float(seen.wall[both].sum()), 6),
        "median_ratio": round(float(np.median(ratios)), 6),
    }


# -- words ------------------------------------------------------------------------------------


def percent(share: float) -> str:
    """Write a share; a little is not nothing, and nearly all not all.

    Examples
    --------
    >>> percent(0.0), percent(0.002), percent(0.17), percent(0.9999), percent(1.0)
    ('0%', '<1%', '17%', '>99%', '100%')
    """
    if 0 < share < 0.005:
        return "<1%"
    return ">99%" if 0.995 <= share < 1.0 else f"{share:.0%}"


def hours(lost_s: float, of_s: float, noun: str = "task") -> str:
    """Write a part of the time that tasks took.

    Examples
    --------
    >>> hours(3600, 14400), hours(0.5, 2, "job")
    ('1 of 4 task-hours (25%)', '0.5 of 2 job-seconds (25%)')
    """
    scale, unit = (3600.0, "hours") if of_s >= 3600 else (1.0, "seconds")
    share = f" ({percent(lost_s / of_s)})" if of_s > 0 else ""
    part, whole = format_number(lost_s / scale, 3), format_number(of_s / scale, 3)
    return f"{part} of {whole} {noun}-{unit}{share}"


def ends(seen: View, most: int = 3) -> str:
    """Say how attempts ended, the commonest end first.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> tasks = [{"task_id": "a", "outcome": "ok"}, {"task_id": "b", "outcome": "oom"}]
    >>> ends(view(Trace.from_tables({"tasks": tasks})))
    '1 ended well, 1 out of memory'
    """
    outcomes = seen.tasks["outcome"].fill_null("unknown")
    outcomes = pc.if_else(pa.array(still_waiting(seen)), "waiting", outcomes)
    rows = sorted(
        outcomes.value_counts().to_pylist(), key=lambda row: (-row["counts"], row["values"])
    )
    if [row["values"] for row in rows] == ["unknown"]:
        return "how they ended is not recorded"
    if len(rows) == 1 and rows[0]["counts"] > 1 and rows[0]["values"] in _WORDS:
        return f"all {_WORDS[rows[0]['values']]}"
    said = [
        f"{format_count(row['counts'])} "
        f"{_WORDS.get(row['values'], str(row['values'])[:30].replace('_', ' '))}"
        for row in rows[:most]
    ]
    if len(rows) > most:
        said.append(f"{format_count(sum(row['counts'] for row in rows[most:]))} otherwise")
    return ", ".join(said)


def gpu_words(facts: dict[str, Any] | None, noun: str = "attempt") -> str | None:
    """Say how much of the GPU time held did work, and which GPUs did none; None if unknown.

    Examples
    --------
    >>> gpu_words({"n": 1, "of": 2, "share": 0.225, "idle_attempts": 1, "idle_gpus": 3,
    ...     "idle": [{"task_id": "7", "idle_gpus": 3, "gpus": 4.0, "share": 0.225}]}, "job")
    'GPUs worked 22.5% of the time held (1 of 2 jobs measured); 3 of 4 GPUs idle the whole job (7).'
    """
    if not facts or not (facts["n"] or facts["idle_attempts"]):
        return None
    said = []
    if facts["share"] is not None:
        measured = f"{facts['n']:,} of {many(facts['of'], noun)} measured"
        said.append(f"GPUs worked {_tenths(facts['share'])} of the time held ({measured})")
    if facts["idle_attempts"]:
        said.append(_idle_words(facts))
    return f"{'; '.join(said)}." if said else None


def _idle_words(facts: dict[str, Any]) -> str:
    first = facts["idle"][0]
    text = f"{first['idle_gpus']:,} of {first['gpus']:,.0f} GPUs idle the whole job"
    if first["task_id"] is not None:
        text += f" ({short(first['task_id'], 24)})"
    more = facts["idle_attempts"] - 1
    return f"{text}, some in {more:,} more" if more else text


def _tenths(share: float) -> str:
    return f"{share * 100:.1f}".removesuffix(".0") + "%" if share >= 0.0005 else percent(share)


def _of(row: dict[str, Any], noun: str) -> str:
    if row["n"] == row["of"]:
        return many(row["of"], noun)
    return f"{row['n']:,} of {many(row['of'], noun)}"


def usage_words(facts: dict[str, Any], noun: str = "attempt") -> list[tuple[str, str, str]]:
    """Put what :func:`usage` found in words: label, amount, what it is from.

    Examples
    --------
    >>> usage_words({"failed": None, "waiting": None, "memory": None, "cpu": None,
    ...     "time_limit": {"n": 1, "of": 2, "asked_s": 9, "used_s": 3, "median_ratio": 0.33}})
    [('time limit used', '33% (median)', '1 of 2 attempts')]
    """
    rows: list[tuple[str, str, str]] = []
    if (lost := facts["failed"]) and lost["lost_s"] is not None:
        unsaid = f", {lost['timed']:,} of them timed" if lost["timed"] < lost["attempts"] else ""
        rows.append(
            (
                "in failed attempts",
                f"{'≥ ' if unsaid else ''}{format_seconds(lost['lost_s'])}",
                f"{percent(lost['share'] or 0.0)} of task time; {lost['attempts']:,} of "
                f"{many(lost['of'], noun)}{unsaid}",
            )
        )
    if wait := facts["waiting"]:
        begin = "ready" if wait["since"] == "ready" else "submitted"
        rows.append(
            (
                f"{begin} to started",
                format_seconds(wait["total_s"]),
                f"in all, median {format_seconds(wait['median_s'])}; {_of(wait, noun)}",
            )
        )
    if memory := facts["memory"]:
        amount, note = "not measured", f"0 of {many(memory['of'], noun)}"
        if memory["n"]:
            least = "≥ " if memory["at_least"] else ""
            amount = f"{least}{percent(memory['share'])} of GB·h"
            note = f"median task {least}{percent(memory['median_ratio'])}; {_of(memory, noun)}"
        rows.append(("memory asked, used", amount, note))
    if cpu := facts["cpu"]:
        known = cpu["n"] and cpu["share"] is not None
        amount = f"{percent(cpu['share'])} of core·h" if known else "not measured"
        note = _of(cpu, noun) if cpu["n"] else f"0 of {many(cpu['of'], noun)}"
        rows.append(("cores held, used", amount, note))
    if gpu := facts.get("gpu"):
        known = gpu["n"] and gpu["share"] is not None
        amount = f"{_tenths(gpu['share'])} of GPU·h" if known else "not measured"
        note = _of(gpu, noun)
        note += f"; {_idle_words(gpu)}" if gpu["idle_attempts"] else ""
        rows.append(("GPUs held, used", amount, note))
    if limit := facts["time_limit"]:
        text = f"{percent(limit['median_ratio'])} (median)"
        rows.append(("time limit used", text, _of(limit, noun)))
    return rows
