"""Text of ``rotameter size``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rotameter.adapters.advising import plain
from rotameter.profiler.view import view
from rotameter.units import format_bytes, format_number, format_seconds, many

if TYPE_CHECKING:
    from rotameter.allocator.advice import Advice
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
        "killed: 95 % sure; after a kill, twice as much, last what holds all that was seen.",
    ),
    "time": _Layout(
        "wall time",
        "took up to",
        "killed",
        "killed at that limit: 95 % sure; after that twice as long, last what holds all seen.",
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
        "killed: 95 % sure; of disk none of the runs seen, where --max-kill says nothing: most\n"
        "tools do not try again by themselves what ran out of it.",
    ),
    "gpu_memory": _Layout(
        "GPU memory",
        "used up to",
        "killed",
        "killed: 95 % sure. No tool has a request for it: it says which GPU, or which part of\n"
        "one, is enough.",
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
        f"{format_number(one.waste, 3) + ' ' + unit:>14}"
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
        Whether no other block of the same input follows.
    """
    what = _LAYOUT[work.resource.name]
    name, wide = what.name, what.wide
    head = f"  {'group':{name}}{'runs':>6}{what.used:>12}{'asked':>{wide}}{'ask for':>{wide}}"
    of = "" if what.of is None else f", {what.of}"
    lines = [f"{work.name}: {many(len(work), 'task')}{of}", f"{head}  {what.told}".rstrip()]
    for one in advice[:_GROUPS]:
        text = one.resource.text
        row = f"  {_short(one.group, name - 1):{name}}{one.runs:>6}"
        row += f"{text(one.most):>12}{text(one.asked):>{wide}}"
        request, words = _request(one)
        lines.append(f"{row}{request:>{wide}}  {words}".rstrip())
    if len(advice) > _GROUPS:
        lines.append(f"  … and {len(advice) - _GROUPS} more (--json has all)")
    lines.append(what.foot)
    return "\n".join([*lines, "A file to include: --for nextflow …"] if last else lines)


def _request(one: Advice) -> tuple[str, str]:
    """Say what a group should ask for, and the chance of a kill; or why it is kept."""
    resource = one.resource
    died = f"{one.killed:,} ran out of {resource.ran_out}" if one.killed else ""
    if died and one.killed_with is None:
        died += ", with how much is not known"
    if one.at_least is not None:
        guess = "" if one.guess is None else f"guess: {resource.text(one.guess)}"
        words = [died, one.keep, guess]
        return f"> {resource.text(one.at_least)}", "; ".join(word for word in words if word)
    if one.request is None:
        return "keep", "; ".join(word for word in (one.keep, died) if word)
    if one.kill_interval is None:
        return resource.text(one.request), ""
    words = [f"at most {one.kill_interval[1]:.1%}", died if one.lacking else ""]
    return resource.text(one.request), "; ".join(word for word in words if word)
