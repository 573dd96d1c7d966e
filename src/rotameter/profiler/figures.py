"""The four figures of the first screen, with how each was obtained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.gpu import gpu_figures, number
from rotameter.profiler.hang_words import stood_still
from rotameter.profiler.open_ends import unknown_outcome
from rotameter.profiler.usage import is_job_log, percent, waiting
from rotameter.profiler.view import View, plain_python, view
from rotameter.units import format_number, format_seconds, many
from rotameter.values import Figure, Finding, Together

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rotameter.profiler.ledger import Account, Ledger
    from rotameter.profiler.trace import Trace

__all__ = [
    "cause",
    "computed",
    "doubtful",
    "figures",
    "largest",
    "no_time",
    "other_saving",
    "recorded_makespan",
    "task_hours",
]

FAILED_SHARE = 0.2
NO_TIME_SHARE = 0.005
"""A saving below this part of the run time is shown as 0 %: none of time."""
_IN_VAIN = 0.005
RESIDENT_RATIO = 0.2
"""From this part of the workers' memory on it is told that it was full, though not of use."""

_KINDS = {
    "workers_died": "workers died",
    "tiny_tasks": "tiny tasks",
    "latency_bound_roots": "roots held back in the scheduler",
    "transfer_bound": "transfers",
    "spill": "spilling to disk",
    "straggler": "stragglers",
    "skewed_partitions": "skewed partitions",
    "idle_parallelism": "idle cores",
    "gil_contention": "the interpreter lock",
    "thread_oversubscription": "too many threads",
    "scheduler_bound": "a busy scheduler",
    "root_overproduction": "overproduction",
    "over_requested_memory": "memory asked for in vain",
    "under_requested_memory": "too little memory asked for",
    "over_requested_cores": "cores asked for in vain",
    "network_import_or_spill": "imports over the network",
    "small_io": "small reads and writes",
    "random_io": "random reads and writes",
    "metadata_io": "opening files",
    "gpu_idle_host": "GPU waits for the host",
    "gpu_idle_input": "GPU waits for input",
    "gpu_idle_communication": "GPU waits for messages",
    "gpu_unused": "GPUs held in vain",
    "regime_change": "a slow-down in mid-run",
    "uneven_workers": "slow workers",
    "queue_wait": "waits before the start",
    "lost_attempts": "lost attempts",
}
"""Kinds of findings in plain words."""


def cause(finding: Finding | Together) -> str:
    """Name what a finding is of in plain words; of several at once with how many groups.

    Examples
    --------
    >>> cause(Together("RM102", "tiny_tasks", ("a", "b"), (1, 2), 3.0, (2.0, 4.0), ""))
    'tiny tasks in 2 groups'
    """
    kind = _KINDS.get(finding.kind, finding.kind.replace("_", " "))
    if isinstance(finding, Finding):
        return kind
    n = len(finding.groups)
    return f"{kind} in {n} groups" if n > 1 else f"{kind} ({len(finding.ranks)} findings)"


def largest(findings: Sequence[Finding], together: Sequence[Together]) -> Together | None:
    """Give the findings of one code that save more at once than any finding alone, if there are."""
    top = max((f.cost_s for f in findings if f.cost_s is not None and not doubtful(f)), default=0.0)
    best = max(together, key=lambda one: one.saving_s, default=None)
    return best if best is not None and best.saving_s > top else None


def doubtful(finding: Finding) -> bool:
    """Say whether a cost may as well be none: of low confidence, its interval from nothing on."""
    ends = finding.cost_s_interval80
    return finding.confidence == "low" and ends is not None and ends[0] <= 0.0


def no_time(finding: Finding, makespan_s: float | None) -> bool:
    """Say whether a finding's saving is no run time worth a word (though it may save others)."""
    return finding.cost_s is not None and finding.cost_s < NO_TIME_SHARE * (makespan_s or 0.0)


def other_saving(finding: Finding) -> str:
    """Give what a finding saves besides time; empty where that is nothing, or not known.

    Examples
    --------
    >>> other_saving(Finding("RM1", "k", "info", "t", cost_s=0.0, cost_core_h=19.1667))
    '19.2 core·h'
    """
    parts = [
        f"{format_number(amount)} {unit}"
        for amount, unit in ((finding.cost_core_h, "core·h"), (finding.cost_gbh, "GB·h"))
        if amount is not None and amount >= 0.001
    ]
    return " and ".join(parts)


def recorded_makespan(meta: dict[str, Any]) -> float | None:
    """Give the run time that an input states although its tasks carry no times."""
    return number(meta.get("makespan_s"))


def computed(seen: View, held_core_s: float | None) -> float | None:
    """Give the tasks' CPU time over held core time; None unless measured for nearly all."""
    rows = seen.ran & ~np.isnan(seen.wall)
    cpu = np.fmax(seen.number("cpu_s"), seen.number("process_cpu_s"))[rows]
    wall = seen.wall[rows]
    known = ~np.isnan(cpu)
    if not held_core_s or not wall.sum() or wall[known].sum() < 0.95 * wall.sum():
        return None
    return min(1.0, float(cpu[known].sum()) / held_core_s)


def task_hours(seen: View) -> tuple[float, float] | None:
    """Give (hours of lost attempts, hours of all)."""
    live = ~seen.outcome_in("cached") & ~seen.nested & ~np.isnan(seen.wall)
    total = float(seen.wall[live].sum())
    if total <= 0:
        return None
    return float(seen.wall[live & seen.lost].sum()) / 3600.0, total / 3600.0


def figures(
    trace: Trace,
    book: Ledger,
    findings: Sequence[Finding],
    together: Sequence[Together] = (),
) -> tuple[Figure, ...]:
    """Give the four figures of the first screen; an unknown one says why."""
    seen = view(trace)
    time = _run_time(seen)
    gpu = gpu_figures(trace.meta)
    if gpu:
        return (time, *gpu)
    return (
        time,
        _efficiency(seen, book),
        _wasted(seen, book),
        _fourth(seen, findings, together),
    )


def _run_time(seen: View) -> Figure:
    label = "Time covered" if is_job_log(seen) else "Run time"
    if seen.makespan is not None:
        known = ~np.isnan(seen.submitted)
        how = "first submission to last end" if known.any() else "first start to last end"
        least = ""
        if seen.makespan_at_least:
            least, how = "≥ ", f"{how}; attempts that ran have no start or no end"
        if (still := stood_still(seen)) is not None:
            length = format_seconds(still[1] - still[0])
            how = f"{how}; then nothing ran for {length}, though tasks were left"
        return Figure(label, seen.makespan, "s", f"{least}{format_seconds(seen.makespan)}", how)
    stated = recorded_makespan(seen.meta)
    if stated is not None:
        return Figure(label, stated, "s", format_seconds(stated), "as the input states it")
    nothing = np.isnan(seen.submitted).all()
    return Figure(label, None, "s", "–", "no task times" if nothing else "no start or end times")


def _core_time(core_s: float | None) -> str:
    """Write core time in the unit that people would use."""
    if core_s is not None and core_s >= 360_000:
        return f"{format_number(core_s / 3600)} core·h"
    return f"{format_number(core_s)} core·s"


def _split(account: Account, write: Callable[[float], str]) -> str:
    """Say where the larger parts of what was asked for went."""
    words = {
        "over_requested": "asked for, not used",
        "unmeasured": "not measured",
        "oom_attempts": "in attempts out of memory",
        "failed_attempts": "in failed attempts",
        "worker_lost_attempts": "in lost attempts",
        "unfinished_attempts": "in attempts that did not end well or at all",
    }
    held = account.held or 1.0
    parts = sorted(account.wasted, key=lambda part: -part[1])
    said = [f"{write(x)} {words[name]}" for name, x in parts if name in words and x > 0.01 * held]
    return "; ".join(said[:3])


def _efficiency(seen: View, book: Ledger) -> Figure:
    for account in (book.worker_core_s, book.request_core_s):
        ratio = account.useful_ratio
        if account is book.request_core_s and account.held:
            if ratio is None:
                blank, _ = unknown_outcome(seen)
                lack = "how attempts ended not known" if blank else "CPU time not known"
                how = f"{_core_time(account.held)} held, {lack}; {account.how}"
                return Figure("Efficiency", None, "ratio", "not measured", how)
            how = f"{_split(account, _core_time)}; {account.name}: {account.how}".lstrip("; ")
            text = f"{ratio:.0%} of {_core_time(account.measured)} used"
            if _lost(account):
                text += f" by {'jobs' if is_job_log(seen) else 'attempts'} that ended well"
            text += _part(seen, account)
            return Figure("Efficiency", ratio, "ratio", text, how)
        if ratio is None:
            continue
        text = f"{ratio:.0%} of {_core_time(account.held)} busy"
        how = "busy: a task ran, whether it computed or waited"
        busy = account.busy_ratio
        if busy is not None and busy - ratio > _IN_VAIN and _lost(account):
            text = f"{ratio:.0%} of {_core_time(account.held)} in attempts that ended well"
            how = f"{busy:.0%} had a task, whether it computed or waited, and however it ended"
        cpu = computed(seen, account.held)
        if cpu is not None:
            how += f"; {cpu:.0%} computed (CPU time)"
        return Figure("Efficiency", ratio, "ratio", text, f"{how}; {account.how}")
    return Figure("Efficiency", None, "ratio", "–", f"cannot tell: {book.worker_core_s.how}")


def _lost(account: Account) -> bool:
    """Say whether attempts that did not end well held a part of it, which counts as no use."""
    lost = sum(x for name, x in account.wasted if name.endswith("_attempts"))
    return lost > _IN_VAIN * (account.held or 0.0)


def _part(seen: View, account: Account) -> str:
    """Say how many attempts a share is of, where those are not all."""
    if account.known == account.of:
        return ""
    return f", {account.known:,} of {many(account.of, 'job' if is_job_log(seen) else 'attempt')}"


def _gbh(value: float | None) -> str:
    if value is None:
        return "–"
    if value < 0.01:  # Too small for hours: 1 GB·h is 3,600 GB·s.
        return f"{format_number(value * 3600, 2)} GB·s"
    return f"{format_number(value, 3)} GB·h"


def _wasted(seen: View, book: Ledger) -> Figure:
    label = "Memory held, not used"
    accounts: tuple[Account, ...] = (book.worker_gbh, book.request_gbh)
    for account in accounts:
        if account.held is None:
            continue
        if _lost(account):  # What those attempts used was for nothing too.
            label = "Memory held in vain"
        blind = account.unmeasured
        wasted = (account.wasted_total or 0.0) - blind
        # Of a worker's memory, what unmeasured tasks left free is not known: so much at least.
        whole, part = account.held if blind <= 0.9 * account.held else 0.0, ""
        least = "≥ " if blind > 0.005 * account.held else ""
        how = f"{account.name}: {account.how}"
        if account is book.request_gbh:
            if not ((seen.task_memory > 0) & ~seen.lost).any():
                what = f"{_gbh(account.held)} held; no attempt that ended well has a peak"
                return Figure(label, None, "GB·h", "not measured", f"{what}; {how}")
            how = f"{_split(account, _gbh)}; {how}".lstrip("; ")
            # What attempts without a peak used is not known, however they ended.
            whole, part = account.measured or 0.0, _part(seen, account)
            wasted, blind, least = whole - (account.useful or 0.0), account.held - whole, ""
        if blind > 0.005 * account.held:
            how = f"{blind / account.held:.0%} more could not be judged; {how}"
        if whole <= 1e-9 * account.held:
            return Figure(label, None, "GB·h", "not measured", how)
        text = f"{least}{percent(wasted / whole)} of {_gbh(whole)}{part}"
        if account is book.worker_gbh and (kept := _resident(seen)) is not None:
            beyond = kept - (account.useful or 0.0) / account.held
            if beyond >= RESIDENT_RATIO:
                how = f"{percent(beyond)} was full with what no task's peak or result tells; {how}"
        return Figure(label, max(0.0, wasted), "GB·h", text, how)
    if plain_python(seen.meta):
        return Figure(label, None, "GB·h", "–", "no memory was requested")
    return Figure(label, None, "GB·h", "–", f"cannot tell: {book.worker_gbh.how}")


def _resident(seen: View) -> float | None:
    """Give the part of their limits that the workers filled, on the mean; None where unknown."""
    code, at, rss = seen.samples("rss_bytes")
    good = (code >= 0) & ~np.isnan(at) & ~np.isnan(rss)
    lives = seen.held[np.nan_to_num(seen.held["memory"]) > 0]
    filled = whole = 0.0
    for worker in np.unique(lives["worker"]).tolist():
        mine = lives[lives["worker"] == worker]
        room = float((mine["memory"] * (mine["ended"] - mine["started"])).sum())
        read = rss[good & (code == worker)]
        if not read.size:
            return None
        filled += min(1.0, float(read.mean()) / float(mine["memory"].max())) * room
        whole += room
    return filled / whole if whole else None


def _waited(seen: View) -> Figure:
    label = "Waited before start"
    wait = waiting(seen)
    if wait is None:
        return Figure(label, None, "s", "–", "when jobs were submitted and started is not known")
    text = f"{format_seconds(wait['total_s'])}, median {format_seconds(wait['median_s'])}"
    how = f"from {wait['since']} to started, {wait['n']:,} of {wait['of']:,} jobs"
    return Figure(label, wait["total_s"], "s", text, how)


def _fourth(seen: View, findings: Sequence[Finding], together: Sequence[Together]) -> Figure:
    found = task_hours(seen)
    if found is not None and found[0] > 0 and found[0] / found[1] >= FAILED_SHARE:
        lost, total = found
        text = f"{format_seconds(lost * 3600)} of {format_seconds(total * 3600)}"
        blind = int((seen.lost & np.isnan(seen.wall) & ~np.isnan(seen.ended) & ~seen.nested).sum())
        how = "durations of attempts that were lost"
        if blind:
            text = f"≥ {format_seconds(lost * 3600)}"
            how += f"; how long {blind:,} of them ran is not on record"
        else:
            text += f" ({lost / total:.0%})"
        return Figure("In failed tasks", lost, "h", text, how)
    priced = [f for f in findings if f.cost_s is not None and not doubtful(f)]
    if is_job_log(seen) and not priced:
        return _waited(seen)
    if not priced or not seen.makespan:
        text = "nothing over the noise" if seen.makespan else "–"
        if seen.makespan and any(f.cost_s is not None for f in findings):
            text = "nothing for sure"
        value = 0.0 if seen.makespan and not findings else None
        return Figure("Avoidable", value, "s", text, "largest cost among the findings")
    top = max(priced, key=lambda f: f.cost_s or 0.0)
    if no_time(top, seen.makespan):
        return _no_time_figure(priced)
    cost, of, how = top.cost_s or 0.0, cause(top), top.cost_how
    if (more := largest(findings, together)) is not None:
        cost, of, how = more.saving_s, cause(more), more.saving_how
    text = f"{format_seconds(cost)} ({cost / seen.makespan:.0%}): {of}"
    return Figure("Avoidable", cost, "s", text, how)


def _no_time_figure(priced: Sequence[Finding]) -> Figure:
    """Say that no time is avoidable, and what is instead."""
    other = next((f for f in priced if other_saving(f)), None)
    top = max(priced, key=lambda f: f.cost_s or 0.0)
    if other is None:
        return Figure("Avoidable", top.cost_s, "s", "no run time", top.cost_how)
    text = f"no run time; {other_saving(other)}: {cause(other)}"
    return Figure("Avoidable", top.cost_s, "s", text, other.cost_how)
