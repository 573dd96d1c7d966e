"""RM101 workers_died: workers ended unexpectedly; which tasks ran there, and what would fit."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rotameter.profiler.findings._death_cost import loss_of, never_done, priced, replayed
from rotameter.profiler.findings._limits import at_their_limit
from rotameter.profiler.findings.base import Tools, severity_of, worth_saying
from rotameter.profiler.findings.culprit import (
    SAFE_RATIO,
    Culprit,
    blame,
    enough_memory,
    footprint_of,
    readable,
    safe_threads,
)
from rotameter.profiler.findings.deaths import CRASHES, Death, collect, nannies_gone, signal_name
from rotameter.profiler.view import View, short, view
from rotameter.units import format_bytes, format_number
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.values import Severity

__all__ = ["Advisor"]

_LIFETIME = "dask worker … --lifetime 55m --lifetime-stagger 4m --lifetime-restart  # < walltime"

_RULE = (
    f"largest t with t × need ≤ {SAFE_RATIO} × limit and ≤ 0.95 × limit less the worker's own size"
)

_CAUSES = {
    "memory": "killed by the nanny near the memory limit",
    "memory_probably": "probably out of memory: killed near the memory limit",
    "walltime": "asked to stop from outside (walltime, pre-emption or a stop request)",
    "crashed": "crashed by itself",
    "killed": "killed by a signal",
    "exit": "the process ended by itself",
    "silent": "vanished without a word",
}


class Advisor:
    """Find out why workers died."""

    name = "workers_died"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for workers that ended unexpectedly, each kind of death by itself."""
        seen = view(trace)
        deaths = collect(seen)
        stopped = at_their_limit(seen, deaths)  # walltime_loss tells of them.
        deaths = [death for death in deaths if death not in stopped]
        if not deaths:
            return []
        kinds: dict[tuple[Any, ...], list[Death]] = defaultdict(list)
        for death in deaths:
            kinds[_kind(death)].append(death)
        found = []
        for some in kinds.values():
            make = self._memory if some[0].of_memory else self._plain
            loss = replayed(seen, tools, some, loss_of(seen, some))
            if _matters(seen, some, loss["total_s"]):
                found.append(make(seen, some, loss, tools))
        return found

    def _memory(
        self, seen: View, deaths: list[Death], loss: dict[str, Any], tools: Tools
    ) -> Finding:
        culprit = blame(seen, deaths)
        limits = [death.limit_bytes for death in deaths if death.limit_bytes]
        limit = max(limits) if limits else None  # The next one must be above each that failed.
        rss = max((death.rss_bytes for death in deaths if death.rss_bytes), default=None)
        footprint = footprint_of(seen) or 0.0
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
                culprit.need, limit, threads or 1, culprit.together, footprint
            )
        held = _Held(limit, rss, footprint)
        return Finding(
            code="RM101",
            kind="workers_died",
            severity=_severity(seen, deaths, loss["total_s"]),
            title=_title(seen, culprit, limit, threads, fit, len(deaths), surely),
            groups=(culprit.group,) if culprit else (),
            evidence=(
                *_evidence(deaths, loss),
                *(_memory_evidence(culprit, limit, threads, fit) if culprit else ()),
            ),
            **priced(seen, loss),
            confidence=_confidence(culprit, deaths, threads, fit),
            **_advice(culprit, held, threads, fit, factor),
        )

    def _plain(
        self, seen: View, deaths: list[Death], loss: dict[str, Any], tools: Tools
    ) -> Finding:
        cause, ran = deaths[0].cause, _ran(deaths)
        if cause == "silent" and not ran:
            return self._left(seen, deaths, loss)
        labels = [_label(seen, group) for group in ran]
        first = labels[0] if labels else "the tasks that ran there"
        advice = {
            "walltime": (
                "Stop workers before their walltime so that they hand over their results, and "
                "let the cluster replace them."
            ),
            "exit": (
                f"Read the worker's own log around that time, and look for what ends the process "
                f"in {first} (os._exit, sys.exit in a thread, a library's abort)."
            ),
            "crashed": (
                f"Nobody sent this signal: native code that {first} calls (a C extension, ctypes, "
                "a library that is not thread-safe) broke. Run it by itself with faulthandler to "
                "see the line, with one thread a worker, and in a process of its own meanwhile."
            ),
            "killed": (
                "Ask who sent the signal: the batch system, an operator, the kernel, or "
                f"{first} (os.kill)."
            ),
            "silent": (
                "Look at the machine and the batch system's log at that time"
                + (
                    ": no worker came back there, so its nanny went too, as when a pod or a job "
                    "step is killed for memory."
                    if nannies_gone(seen, deaths)
                    else ", and at the worker's own log."
                )
            ),
        }
        changes = {
            "walltime": _LIFETIME,
            "crashed": "PYTHONFAULTHANDLER=1  # in the workers' environment: prints where it broke",
        }
        beside = f" while {' and '.join(labels[:2])} ran" if labels else ""
        return Finding(
            code="RM101",
            kind="workers_died",
            severity=_severity(seen, deaths, loss["total_s"]),
            title=f"{_times(len(deaths))} {_end(deaths[0])}{beside}",
            groups=ran,
            evidence=tuple(_evidence(deaths, loss)),
            **priced(seen, loss),
            confidence="medium" if cause != "silent" else "low",
            advice=advice[cause],
            change=changes.get(cause),
        )

    def _left(self, seen: View, deaths: list[Death], loss: dict[str, Any]) -> Finding:
        """Tell of workers that nothing ran on, whose results had to be computed again."""
        names = {death.worker for death in deaths}
        rows = np.flatnonzero(seen.superseded & (seen.worker >= 0) & (seen.group >= 0))
        mine = [r for r in rows if seen.workers[seen.worker[r]] in names]
        groups = tuple(dict.fromkeys(seen.groups[seen.group[r]] for r in mine))
        tasks = f"{len(mine):,} task{'s' if len(mine) != 1 else ''}"
        return Finding(
            code="RM101",
            kind="workers_died",
            severity="warning",
            title=(
                f"{_times(len(deaths))} left without a word while idle; {tasks} whose results "
                "went with them ran again"
            ),
            groups=groups[:5],
            evidence=(
                *_evidence(deaths, loss),
                Evidence("tasks computed again", len(mine), "", "counted", len(mine)),
            ),
            **priced(seen, loss),
            confidence="low",
            advice=(
                "If they were scaled down, let them hand over their results first (retire them, "
                "or give them a lifetime); if not, look at the machine's log at that time."
            ),
            change="client.retire_workers(n=k)  # before cluster.scale(...)",
        )


class _Held(NamedTuple):
    """What a worker could hold, held when it died, and holds at rest; bytes."""

    limit: float | None
    rss: float | None
    footprint: float


def _kind(death: Death) -> tuple[Any, ...]:
    """Give what deaths share that are told in one finding."""
    if death.of_memory:
        return ("memory",)
    return (death.cause, death.signal, None if death.signal else death.exit_code)


def _severity(seen: View, deaths: list[Death], cost: float) -> Severity:
    """Grade deaths: work that was never done is critical, else what they cost says it."""
    if never_done(seen, deaths) or severity_of(seen, cost) == "critical":
        return "critical"
    return "warning"


def _matters(seen: View, deaths: list[Death], cost: float) -> bool:
    """Say whether deaths cost something, or took work along that was never done."""
    if seen.makespan is None or worth_saying(seen, cost):
        return True
    return never_done(seen, deaths)


def _ran(deaths: list[Death]) -> tuple[str, ...]:
    """Name the groups that ran on workers that died, the most frequent first."""
    count: dict[str, int] = defaultdict(int)
    for death in deaths:
        for victim in death.executing:
            if victim.group is not None:
                count[victim.group] += 1
    return tuple(sorted(count, key=lambda group: (-count[group], group)))


def _label(seen: View, group: str) -> str:
    if group in seen.groups:
        return seen.label(seen.groups.index(group))
    return f"`{short(group, 32)}`"


def _end(death: Death) -> str:
    """Word how a worker ended, after its number."""
    if death.signal in CRASHES:
        return f"crashed with {CRASHES[death.signal]}"
    detail = f"signal {death.signal}" if death.signal else f"exit code {death.exit_code}"
    if death.cause == "killed" and death.signal is not None:
        # Whose signal it was cannot be seen: a task can send one to its own process too.
        return (
            f"died: killed by {signal_name(death.signal)} ({detail}: by the system, another "
            "process of the user, or the task itself)"
        )
    known = death.signal is not None or death.exit_code is not None
    return f"died: {_CAUSES[death.cause]}" + (f" ({detail})" if known else "")


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
    label, need = _label(seen, culprit.group), culprit.need
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
    if not fit and need.kind == "lower_bound" and need.peak_bytes < SAFE_RATIO * limit:
        room = f"a worker's {format_bytes(limit)}"
        if culprit.together == 1:
            return f"{text}; one was enough to fill {room}"
        return f"{text}; beside its own size not one fits in {room}"
    return f"{text}; {room}, {fit if fit else 'none'} fit{'s' if fit == 1 else ''}"


def _evidence(deaths: list[Death], loss: dict[str, Any]) -> list[Evidence]:
    n = len(deaths)
    found = [Evidence("workers that died", n, "", "nanny, scheduler and exit records", n)]
    for cause in sorted({death.cause for death in deaths}):
        count = sum(death.cause == cause for death in deaths)
        found.append(Evidence(f"died: {_CAUSES[cause]}", count, "", "recorded events", n))
    peaks = [death for death in deaths if death.rss_bytes]
    if peaks:
        most = max(peaks, key=lambda death: death.rss_bytes or 0)
        how = most.rss_from or "last reading"
        found.append(
            Evidence("worker memory when it died, most", most.rss_bytes, "B", how, len(peaks))
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


def _next_limit(culprit: Culprit | None, held: _Held, tasks: int) -> tuple[float, str, str]:
    """Give a limit for this many tasks at once: as a number, to be copied, and why."""
    need = culprit.need if culprit else None
    size, _ = enough_memory(need, tasks, held.limit, held.rss, held.footprint)
    failed = max(held.limit or 0.0, held.rss or 0.0)
    why = f"at least ({format_number(size / failed, 2)}x what failed)" if failed else "at least"
    return size, readable(size), "" if need is not None and need.kind == "exact" else why


def _advice(
    culprit: Culprit | None,
    held: _Held,
    threads: int | None,
    fit: int | None,
    factor: float | None,
) -> dict[str, Any]:
    if culprit is None or culprit.need.peak_bytes is None or fit is None:
        size, text, why = _next_limit(culprit, held, threads or 1)
        return {
            "advice": "Give each worker more memory or fewer threads, or make chunks smaller.",
            "change": f"LocalCluster(memory_limit={text!r})  # {why}" if held.limit else None,
            "apply": {"memory_request": {"value": size}} if held.limit else None,
        }
    if threads is not None and fit >= threads:
        return {
            "advice": (
                "Its tasks alone fit. Keep fewer results in memory (smaller persist, write out "
                "early), and look for memory that is not given back."
            ),
            "change": "MALLOC_TRIM_THRESHOLD_=65536  # in the workers' environment",
            "apply": {"caching": {"factor": 0.0}, "memory_request": {"factor": 1.5}},
        }
    need = culprit.need.peak_bytes
    at_least = "at least " if culprit.need.kind == "lower_bound" else ""
    if fit >= 1 and threads is not None and fit < threads:
        shrink = max(2, int(np.ceil(need * threads / (SAFE_RATIO * (held.limit or need)))))
        size, _, _ = _next_limit(culprit, held, threads)
        return {
            "advice": (
                f"Set threads_per_worker={fit} or make chunks {shrink}× smaller; or give a worker "
                f"{at_least}{format_bytes(size)}."
            ),
            "change": f"LocalCluster(threads_per_worker={fit})  # or: dask worker --nthreads {fit}",
            "apply": {
                "memory_request": {"value": size},
                "task_granularity": {"factor": 1.0 / shrink},
            },
        }
    pieces = max(2, int(factor or 2))
    size, text, why = _next_limit(culprit, held, 1)
    return {
        "advice": (
            f"Make chunks {at_least}{pieces}× smaller, or give a worker of one thread {at_least}"
            f"{format_bytes(size)}."
        ),
        "change": (
            f"LocalCluster(threads_per_worker=1, memory_limit={text!r})"
            f"  # {f'{why}; ' if why else ''}or chunks {pieces}x smaller"
        ),
        "apply": {
            "memory_request": {"value": size},
            "task_granularity": {"factor": 1.0 / pieces},
        },
    }
