"""Text of ``rotameter size``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

import numpy as np

from rotameter.adapters.advising import TARGETS, plain, share
from rotameter.allocator.reasons import named
from rotameter.profiler.view import view
from rotameter.units import format_bytes, format_number, format_seconds, many

if TYPE_CHECKING:
    from rotameter.allocator.advice import Advice
    from rotameter.allocator.resources import Resource
    from rotameter.allocator.trials import Trial
    from rotameter.allocator.workload import Workload
    from rotameter.profiler.trace import Trace

__all__ = ["advice_text", "nothing_known", "trials_text"]

_NAME = 34
_GROUPS = 40
_BOUNDS = 3


@dataclass(frozen=True, slots=True)
class _Layout:
    """How the block of a resource is laid out: widths, words at its head and foot."""

    of: str | None
    used: str
    told: str
    foot: str
    name: int = _NAME
    wide: int = 9


_LAYOUT = {
    "memory": _Layout(
        None,
        "used up to",
        "killed",
        "ask for: what was used and a tenth (or --headroom), more where needs grew, --floor at\n"
        "least. killed: of later runs like these, 95 % sure; after a kill, twice as much, last\n"
        "what holds all that was seen.",
    ),
    "time": _Layout(
        "wall time",
        "took up to",
        "killed",
        "ask for: what it took and a quarter (or --headroom), more where runs grew longer,\n"
        "--floor-time at least. killed at that limit: of later runs like these, 95 % sure;\n"
        "after that twice as long, last what holds all that was seen.",
        name=28,
        wide=13,
    ),
    "cores": _Layout(
        "cores",
        "busy up to",
        "",
        "busy: CPU time over duration, an average. What at times keeps more busy than it asks for\n"
        "lasts longer; a request is cut only where in every run half of it or more was idle.",
    ),
    "disk": _Layout(
        "disk",
        "used up to",
        "killed",
        "killed: of later runs like these, 95 % sure; none of those seen, unless --max-kill says\n"
        "so: most tools do not try again by themselves what ran out of disk.",
    ),
    "gpu_memory": _Layout(
        "GPU memory",
        "used up to",
        "killed",
        "killed: of later runs like these, 95 % sure. No tool has a request for it: it says which\n"
        "GPU, or which part of one, is enough.",
    ),
    "gpus": _Layout(
        "GPUs",
        "busy up to",
        "",
        "busy: time on GPUs over duration, an average. None is asked for where no run used what\n"
        "it held; else they are kept.",
    ),
}


def _short(name: str, width: int = _NAME) -> str:
    line = plain(name)
    return line if len(line) <= width else "…" + line[-(width - 1) :]


def shorts(names: Sequence[str], width: int) -> list[str]:
    """Shorten names to a width, from their beginning; what would be the same keeps what differs.

    Examples
    --------
    >>> shorts(["A:ALIGN_STAR:SORT_SAM:STATS", "A:MARK_DUPLICATES:SORT_SAM:STATS"], 15)
    ['…_STAR…AM:STATS', '…CATES…AM:STATS']
    """
    lines = [plain(name) for name in names]
    made = [_short(line, width) for line in lines]
    for text in {one for one in made if made.count(one) > 1}:
        same = [at for at, one in enumerate(made) if one == text]
        ends = zip(*(reversed(lines[at]) for at in same), strict=False)
        # So many last characters are common to all of these.
        common = sum(1 for _ in takewhile(lambda last: len(set(last)) == 1, ends))
        head, tail = (width - 2) // 3 + 1, (width - 2) - (width - 2) // 3 - 1
        for at in same:
            end = len(lines[at]) - common
            if end > 0 and len(lines[at]) > width:
                made[at] = f"…{lines[at][max(0, end - head) : end]}…{lines[at][-tail:]}"
    return made


def nothing_known(trace: Trace) -> tuple[str, str]:
    """Say why a trace gives no advice, and what is known of its needs all the same.

    Returns
    -------
    tuple of str
        What happened, and what to do.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> nothing_known(Trace.from_tables({"tasks": [{"task_id": "a", "outcome": "ok"}]}))[0]
    'no completed task has a known peak of memory and duration'
    """
    seen = view(trace)
    peak, killed = seen.number("peak_memory_bytes"), seen.outcome_in("oom") & ~seen.nested
    bounds = seen.ok & ~seen.nested & (peak > 0) & (seen.peak_kinds == "lower_bound")
    had = np.fmax(seen.number("granted_memory_bytes"), seen.number("requested_memory_bytes"))
    least = np.where(killed, np.fmax(peak, had), np.where(bounds, peak, np.nan))
    said = []
    for group in np.unique(seen.group[~np.isnan(least)])[:_BOUNDS].tolist():
        rows = (seen.group == group) & ~np.isnan(least)
        name = _short(seen.groups[group]) if group >= 0 else "(unnamed)"
        dead = int((rows & killed).sum())
        why = f" ({dead:,} killed for memory)" if dead else ""
        said.append(f"{name} needs at least {format_bytes(float(least[rows].max()), 3)}{why}")
    if bounds.any():
        n = many(int(bounds.sum()), "completed task")
        what = f"the peaks that are known, of {n}, are lower bounds"
    else:
        what = "no completed task has a known peak of memory and duration"
    if not said:
        return what, "record memory (`rotameter run`), or import a log that has it"
    return (
        f"{what}, so nothing is advised; {', '.join(said)}",
        "keep what is asked for, and more where tasks were killed, until some complete whose peak "
        "is measured whole",
    )


_MODES = {"sequential": "one by one", "concurrent": "many at once", "packed": "packed"}


def trials_text(found: Sequence[Trial]) -> str:
    """Lay out trials: what was used of what was held, wasted, retried, and how long it took."""
    blocks: dict[tuple[str, str], list[Trial]] = {}
    for one in found:
        blocks.setdefault((one.file, one.resource.name), []).append(one)
    lines = []
    for (file, name), trials in blocks.items():
        of = "" if name == "memory" else f", {trials[0].resource.word}"
        packed = any(one.mode == "packed" for one in trials)
        head = f"  {'allocator':28}{'':13}{'used':>7}{'wasted':>14}{'retries':>9}{'run time':>14}"
        lines += [file + of, head + (f"{'of nodes':>10}" if packed else "")]
        lines += [_trial_line(one) + (_of_nodes(one) if packed else "") for one in trials]
    names = {one.resource.name for one in found}
    needed = "memory that" if names == {"memory"} else "what"
    what = f"{needed} tasks needed, of what was held for them"
    if names == {"time"}:
        what = "time that tasks took, of what was asked for"
    foot = f"used: {what}; retries: per task"
    if any(one.mode == "packed" for one in found):
        foot += "\npacked: many at once that share what machines have; of nodes: used of that"
    return "\n".join([*lines, foot])


def _trial_line(one: Trial) -> str:
    unit = {"gbh": "GB·h"}.get(one.unit, one.unit)
    return (
        f"  {_short(one.allocator, 27):28}{_MODES[one.mode]:13}{one.awe:7.1%}"
        f" {format_number(one.waste, 3) + ' ' + unit:>13}"
        f"{one.retries_per_task:>9.3f}{format_seconds(one.makespan_s):>14}"
    )


def _of_nodes(one: Trial) -> str:
    return "" if one.nodes_used_ratio is None else f"{one.nodes_used_ratio:>10.1%}"


def advice_text(work: Workload, advice: Sequence[Advice], *, last: bool = True) -> str:
    """Lay out what each group should ask for, those that hold most first.

    Parameters
    ----------
    work : Workload
    advice : sequence of Advice
    last : bool
        Whether no other block of the same input follows, and there is a file to write.
    """
    what = _LAYOUT[work.resource.name]
    name, wide = what.name, what.wide
    head = f"  {'group':{name}}{'runs':>6}{what.used:>12}{'asked':>{wide}}{'ask for':>{wide}}"
    of = "" if what.of is None else f", {what.of}"
    tasks = many(len(work), "task") if len(work) else "no completed task"
    lines = [f"{work.name}: {tasks}{of}", f"{head}  {what.told}".rstrip()]
    shown = advice[:_GROUPS]
    for one, short in zip(shown, shorts([one.group for one in shown], name - 1), strict=True):
        text = one.resource.text
        row = f"  {short:{name}}{one.runs:>6}"
        row += f"{text(one.most):>12}{text(one.asked):>{wide}}"
        request, words = _request(one)
        lines.append(f"{row}{request:>{wide}}  {words}".rstrip())
    if len(advice) > _GROUPS:
        lines.append(f"  … and {len(advice) - _GROUPS} more (--json has all)")
    lines.append(what.foot)
    return "\n".join([*lines, f"A file to include: --for {'|'.join(TARGETS)}"] if last else lines)


def _request(one: Advice) -> tuple[str, str]:
    """Say what a group should ask for, and the chance of a kill; or why it is kept."""
    resource = one.resource
    rests = f"rests on {named(one.rests_on)} (a lower bound)" if one.rests_on else ""
    died = f"{one.killed:,} ran out of {resource.ran_out}" if one.killed else ""
    if died and one.killed_with is None:
        died += ", with how much is not known"
    if one.at_least is not None:
        guess = "" if one.guess is None else f"guess: {resource.text(one.guess)}"
        words = [died, one.keep, guess, rests]
        return f"> {resource.text(one.at_least)}", "; ".join(word for word in words if word)
    if one.request is None:
        return "keep", "; ".join(word for word in (one.keep, died) if word)
    if one.kill_interval is None:
        return _at_least(resource, one.request), ""
    words = [f"at most {share(one.kill_interval[1])}", died if one.lacking else "", rests]
    over = round((one.kill_range or (0.0,))[0] * (one.runs + one.lacking))
    if over and not one.lacking:
        words.insert(1, f"{many(over, 'run')} used more")
    return _at_least(resource, one.request), "; ".join(word for word in words if word)


def _at_least(resource: Resource, amount: float) -> str:
    """Write what to ask for: three digits, rounded up, so that what is read holds it.

    Examples
    --------
    >>> from rotameter.allocator.resources import MEMORY
    >>> _at_least(MEMORY, 15.42e9), _at_least(MEMORY, 3.3e9), _at_least(MEMORY, 0.0)
    ('15.5 GB', '3.3 GB', '0 B')
    """
    if resource.unit != "bytes" or amount < 1000:
        return resource.text(amount)
    unit = 10 ** (len(str(int(amount))) - 3)
    return format_bytes(-(-math.ceil(amount) // unit) * unit, 3)
