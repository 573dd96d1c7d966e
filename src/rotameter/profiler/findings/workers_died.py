"""RM101 workers_died: workers ended unexpectedly; which tasks ran there, and what would fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.findings.base import Tools, price
from rotameter.profiler.findings.culprit import (
    SAFE_RATIO,
    Culprit,
    blame,
    footprint_of,
    safe_threads,
)
from rotameter.profiler.findings.deaths import Death, collect
from rotameter.profiler.view import View, short, view
from rotameter.units import format_bytes, format_number, format_seconds
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = ["Advisor"]

LONGEST_RESTART_S = 60.0

_LIFETIME = "dask worker … --lifetime 55m --lifetime-stagger 4m --lifetime-restart  # < walltime"

_RULE = (
    f"largest t with t × need ≤ {SAFE_RATIO} × limit and ≤ 0.95 × limit less the worker's own size"
)

_CAUSES = {
    "memory": "killed by the nanny near the memory limit",
    "memory_probably": "probably out of memory: killed near the memory limit",
    "walltime": "asked to stop from outside (walltime, pre-emption or a stop request)",
    "killed": "killed by a signal from outside",
    "exit": "the process ended by itself",
    "silent": "vanished without a word",
}


class Advisor:
    """Find out why workers died."""

    name = "workers_died"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for workers that ended unexpectedly, those of memory and the others apart."""
        seen = view(trace)
        deaths = collect(seen)
        if not deaths:
            return []
        found = []
        for of_memory in (True, False):
            some = [death for death in deaths if death.of_memory == of_memory]
            if some:
                make = self._memory if of_memory else self._plain
                found.append(make(seen, some, tools))
        return found

    def _memory(self, seen: View, deaths: list[Death], tools: Tools) -> Finding:
        culprit = blame(seen, deaths)
        limits = [death.limit_bytes for death in deaths if death.limit_bytes]
        limit = min(limits) if limits else None
        threads = _threads(seen, deaths)
        surely = all(death.cause == "memory" for death in deaths)
        if culprit is None:
            tools.cannot_tell(
                "which tasks filled the memory", "no record says what ran on the workers that died"
            )
        if culprit is None or culprit.need.peak_bytes is None:
            fit, factor = None, None
        else:
            fit, factor = safe_threads(
                culprit.need, limit, threads or 1, culprit.together, footprint_of(seen) or 0.0
            )
        loss = _loss(seen, deaths)
        return Finding(
            code="RM101",
            kind="workers_died",
            severity="critical",
            title=_title(seen, culprit, limit, threads, fit, len(deaths), surely),
            groups=(culprit.group,) if culprit else (),
            evidence=(
                *_evidence(deaths, loss),
                *(_memory_evidence(culprit, limit, threads, fit) if culprit else ()),
            ),
            **price(seen, loss["total_s"]),
            cost_how=_how(seen, loss),
            confidence=_confidence(culprit, deaths, threads, fit),
            **_advice(culprit, limit, threads, fit, factor),
        )

    def _plain(self, seen: View, deaths: list[Death], tools: Tools) -> Finding:
        causes = sorted({death.cause for death in deaths})
        words = "; ".join(_CAUSES[cause] for cause in causes)
        codes = sorted({d.exit_code for d in deaths if d.exit_code is not None and not d.signal})
        signals = sorted({d.signal for d in deaths if d.signal is not None})
        loss = _loss(seen, deaths)
        ran = sorted({v.group for d in deaths for v in d.executing if v.group is not None})
        detail = [f"exit code {code}" for code in codes] + [f"signal {s}" for s in signals]
        advice = {
            "walltime": (
                "Stop workers before their walltime so that they hand over their results, and "
                "let the cluster replace them."
            ),
            "exit": "Read the worker's own log around that time: the process ended by itself.",
            "killed": "Ask who sent the signal: the batch system, an operator, or the kernel.",
            "silent": (
                "Look at the machine and the batch system's log at that time: worker and nanny "
                "went together, as when a pod or a job step is killed for memory."
            ),
        }
        return Finding(
            code="RM101",
            kind="workers_died",
            severity="critical" if loss["total_s"] > 0.05 * (seen.makespan or 0.0) else "warning",
            title=(
                f"{_times(len(deaths))} died: {words}"
                + (f" ({', '.join(detail)})" if detail else "")
            ),
            groups=tuple(ran),
            evidence=tuple(_evidence(deaths, loss)),
            **price(seen, loss["total_s"]),
            cost_how=_how(seen, loss),
            confidence="medium" if causes != ["silent"] else "low",
            advice=" ".join(advice[cause] for cause in causes),
            change=_LIFETIME if "walltime" in causes else None,
        )


def _times(n: int) -> str:
    return "One worker" if n == 1 else f"{n:,} workers"


def _threads(seen: View, deaths: list[Death]) -> int | None:
    names = {death.worker for death in deaths}
    cores = [
        float(life["cores"])
        for life in seen.lives
        if seen.workers[life["worker"]] in names and life["cores"] > 0
    ] or [float(life["cores"]) for life in seen.lives if life["cores"] > 0]
    return int(max(cores)) if cores else None


def _title(
    seen: View,
    culprit: Culprit | None,
    limit: float | None,
    threads: int | None,
    fit: int | None,
    n: int,
    surely: bool,
) -> str:
    """Word the finding as the first screen shows it."""
    if culprit is None:
        return f"{_times(n)} died {'of' if surely else 'probably of'} memory"
    code = seen.groups.index(culprit.group) if culprit.group in seen.groups else None
    label = seen.label(code) if code is not None else f"`{short(culprit.group, 32)}`"
    need = culprit.need
    if need.peak_bytes is None:
        return f"{label} ran when {_times(n).lower()} died of memory; its need was not measured"
    amount = format_bytes(need.peak_bytes)
    if need.kind == "lower_bound":
        text = f"{label} needs at least {amount} a task"
    elif need.least_bytes is not None:
        text = f"{label} needs {format_bytes(need.least_bytes)} to {amount} a task"
    else:
        most = "at most " if need.kind == "upper_bound" else ""
        text = f"{label} needs {most}{amount} a task ({need.how})"
    if limit is None or threads is None or fit is None:
        return text
    word = "thread shares" if threads == 1 else "threads share"
    room = f"{threads} {word} {format_bytes(limit)}"
    if threads == 1:
        room = f"a worker has {format_bytes(limit)}"
    if fit >= threads:
        return f"{text}; {room}, which they alone do not fill: results kept or leaks did"
    return f"{text}; {room}, {fit if fit else 'none'} fit{'s' if fit == 1 else ''}"


def _evidence(deaths: list[Death], loss: dict[str, float]) -> list[Evidence]:
    n = len(deaths)
    found = [Evidence("workers that died", n, "", "nanny, scheduler and exit records", n)]
    for cause in sorted({death.cause for death in deaths}):
        count = sum(death.cause == cause for death in deaths)
        found.append(Evidence(f"died: {_CAUSES[cause]}", count, "", "recorded events", n))
    peaks = [death.rss_bytes for death in deaths if death.rss_bytes]
    if peaks:
        found.append(
            Evidence(
                "worker memory when it died, most", max(peaks), "B", "last reading", len(peaks)
            )
        )
    found += [
        Evidence("work lost with them", round(loss["lost_s"], 3), "core·s", "attempts' durations"),
        Evidence("work done again", round(loss["redone_s"], 3), "core·s", "attempts' durations"),
        Evidence(
            "cores missing until replaced", round(loss["gap_s"], 3), "core·s", "workers' lives"
        ),
    ]
    return found


def _memory_evidence(
    culprit: Culprit, limit: float | None, threads: int | None, fit: int | None
) -> list[Evidence]:
    need = culprit.need
    found = [
        Evidence(
            "culprit's part of what ran at death",
            round(culprit.share, 3),
            "ratio",
            "slots read after death, weighed by what each task needs",
        ),
        *(
            [Evidence("need of one task, at least", need.least_bytes, "B", "from killed tasks")]
            if need.least_bytes is not None
            else []
        ),
        Evidence("need of one task", need.peak_bytes, "B", f"{need.how} ({need.kind})", need.n),
        Evidence("worker's memory limit", limit, "B", "recorded"),
        Evidence("ran together at death, most", culprit.together, "", "slots read after death"),
    ]
    if fit is not None:
        found.append(Evidence("that fit", fit, "threads", _RULE))
    if culprit.beside:
        names = ", ".join(short(name) for name in culprit.beside[:5])
        found.append(Evidence("ran beside it", names, "", "slots read after death"))
    if culprit.bystanders:
        names = ", ".join(short(name) for name in culprit.bystanders[:5])
        found.append(Evidence("only queued there (not to blame)", names, "", "scheduler's record"))
    return found


def _confidence(
    culprit: Culprit | None, deaths: list[Death], threads: int | None, fit: int | None
) -> Any:
    if culprit is None or not all(death.seen_running for death in deaths if death.executing):
        return "low"
    if fit is not None and threads is not None and fit >= threads:
        return "low"
    strong = culprit.need.kind == "exact" and culprit.share >= 0.5
    return "high" if strong and all(d.cause == "memory" for d in deaths) else "medium"


def _advice(
    culprit: Culprit | None,
    limit: float | None,
    threads: int | None,
    fit: int | None,
    factor: float | None,
) -> dict[str, Any]:
    if culprit is None or culprit.need.peak_bytes is None or fit is None:
        return {
            "advice": "Give each worker more memory or fewer threads, or make chunks smaller.",
            "change": None,
        }
    need = culprit.need.peak_bytes
    wanted = need / SAFE_RATIO
    if threads is not None and fit >= threads:
        return {
            "advice": (
                "Its tasks alone fit. Keep fewer results in memory (smaller persist, write out "
                "early), and look for memory that is not given back."
            ),
            "change": "MALLOC_TRIM_THRESHOLD_=65536  # in the workers' environment",
            "apply": {"caching": {"factor": 0.0}, "memory_request": {"factor": 1.5}},
        }
    at_least = "at least " if culprit.need.kind == "lower_bound" else ""
    if fit >= 1 and threads is not None and fit < threads:
        shrink = max(2, int(np.ceil(need * threads / (SAFE_RATIO * (limit or need)))))
        return {
            "advice": (
                f"Set threads_per_worker={fit} or make chunks {shrink}× smaller; or give a worker "
                f"{at_least}{format_bytes(wanted * threads)}."
            ),
            "change": f"LocalCluster(threads_per_worker={fit})  # or: dask worker --nthreads {fit}",
            "apply": {
                "memory_request": {"value": float(np.ceil(wanted * threads))},
                "task_granularity": {"factor": 1.0 / shrink},
            },
        }
    pieces = int(factor or 2)
    return {
        "advice": (
            f"Make chunks {at_least}{max(2, pieces)}× smaller, or give a worker {at_least}"
            f"{format_bytes(wanted)} a thread."
        ),
        "change": (
            f"LocalCluster(threads_per_worker=1, memory_limit={int(np.ceil(wanted))})"
            f"  # or chunks {max(2, pieces)}x smaller"
        ),
        "apply": {
            "memory_request": {"value": float(np.ceil(wanted))},
            "task_granularity": {"factor": 1.0 / max(2, pieces)},
        },
    }


def _loss(seen: View, deaths: list[Death]) -> dict[str, float]:
    """Add up what deaths cost: work lost, work done again, cores missing until replaced."""
    codes = {name: code for code, name in enumerate(seen.workers)}
    dead = np.zeros(len(seen.workers) + 1, dtype=bool)
    when = np.full(len(seen.workers) + 1, np.nan)
    for death in deaths:
        if death.worker in codes:
            dead[codes[death.worker]] = True
            when[codes[death.worker]] = death.at_s if death.at_s is not None else np.nan
    on_dead = dead[seen.worker] & (seen.worker >= 0)
    taken = on_dead & seen.outcome_in("oom", "worker_lost") & seen.ran
    lost = float(np.nansum(np.where(taken, seen.ended - seen.started, 0.0)))
    redone = float(np.nansum(np.where(seen.superseded & on_dead, seen.wall, 0.0)))
    gap = _gaps(seen, dead)
    slots = seen.slots or 1.0
    return {
        "lost_s": lost,
        "redone_s": redone,
        "gap_s": gap,
        "total_s": min((lost + redone + gap) / slots, seen.makespan or 0.0),
    }


def _gaps(seen: View, dead: Any) -> float:
    """Integrate cores missing from each death to the next worker's start (or the run's end)."""
    end = float(np.nanmax(seen.ended)) if not np.isnan(seen.ended).all() else 0.0
    births = np.sort(seen.lives["started"])
    used = np.zeros(len(births), dtype=bool)
    total = 0.0
    for life in np.sort(seen.lives[dead[seen.lives["worker"]]], order="ended"):
        at = float(life["ended"])
        later = np.flatnonzero((births >= at) & ~used)
        back = min(at + LONGEST_RESTART_S, end)
        if later.size:
            used[later[0]] = True
            back = min(back, float(births[later[0]]))
        total += max(0.0, back - at) * float(np.nan_to_num(life["cores"], nan=1.0))
    return total


def _how(seen: View, loss: dict[str, float]) -> str:
    return (
        f"({format_number(loss['lost_s'])} lost + {format_number(loss['redone_s'])} redone + "
        f"{format_number(loss['gap_s'])} core·s missing) over {format_number(seen.slots)} cores, "
        f"at most the run ({format_seconds(seen.makespan)})"
    )
