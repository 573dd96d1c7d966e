"""Run the rules on a trace, rank what they find, and give the verdict as text and as JSON."""

from __future__ import annotations

import dataclasses
import re
import shlex
import textwrap
import unicodedata
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.figures import other_saving, recorded_makespan
from rotameter.profiler.findings import built_in
from rotameter.profiler.findings._again import NEVER_ENDED_WELL
from rotameter.profiler.findings._together import together
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.ledger import ledger
from rotameter.profiler.odd_deps import odd_dependencies
from rotameter.profiler.open_ends import unknown_outcome
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.verdict import build, status_of
from rotameter.profiler.view import short, view
from rotameter.units import format_seconds, many
from rotameter.values import Finding, Verdict, to_dict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rotameter.profiler.findings.base import Advisor
    from rotameter.profiler.trace import Trace

__all__ = ["diagnose", "to_json", "to_text"]

_SEVERITY = {"critical": 0, "warning": 1, "info": 2}
MAX_LINES = 15
UNTOLD = 0.02
"""From this part of the tasks on, how they ended not being recorded is said."""
_STOP = re.compile(r"[.!?;](?=\s|$)")
_DASK_HELPS = (None, "dask", "python")
_DASK_CODE = re.compile(r"\b(?:dask|distributed|LocalCluster|repartition|persist|client)\b")


def diagnose(
    trace: Trace, advisors: Sequence[Advisor] | None = None, tools: Tools | None = None
) -> Verdict:
    """Say what a run lost and why.

    Parameters
    ----------
    trace : Trace
    advisors : sequence of Advisor, optional
        The rules to run; our own where not given. One that raises becomes a note.
    tools : Tools, optional
        What higher parts lend to the rules; by default the replay of the run itself.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> diagnose(Trace.from_tables({})).sentence
    'No tasks were recorded.'
    """
    lent = dataclasses.replace(tools or Tools(replay=Replayer(trace)), notes=[])
    found: list[Finding] = []
    broken: list[str] = []
    for advisor in built_in() if advisors is None else advisors:
        name = str(getattr(advisor, "name", type(advisor).__name__))
        try:
            found.extend(_checked(advisor.check(trace, lent)))
        except Exception as error:
            broken.append(f"cannot tell about {name} because the rule failed: {_brief(error)}")
    found = [_bounded(finding, view(trace).makespan or 0.0) for finding in found]
    if trace.meta.get("engine") not in _DASK_HELPS:
        found = [_without_dask(finding) for finding in found]
    status = status_of(trace)
    ranked = sorted(found, key=lambda finding: _rank(finding, failed=status == "failed"))
    book = ledger(trace)
    try:
        shared = together(view(trace), lent.replay, ranked)
    except Exception as error:
        shared = ()
        broken.append(f"cannot tell what like findings save together because of {_brief(error)}")
    # What was replayed holds the run's arrays: a verdict that is kept need not.
    ranked = [dataclasses.replace(finding, what_if=None) for finding in ranked]
    notes = [*lent.notes, *book.notes, *broken, *_missing(trace)]
    return build(trace, book, ranked, notes, shared)


def _without_dask(finding: Finding) -> Finding:
    """Leave out a change that is a line of Dask, where something else ran the tasks."""
    if finding.change and _DASK_CODE.search(finding.change):
        return dataclasses.replace(finding, change=None)
    return finding


def _checked(findings: Iterable[Any]) -> list[Finding]:
    """Take only findings, so that a foreign rule's mistake shows as its own."""
    made = list(findings)
    for finding in made:
        if not isinstance(finding, Finding):
            raise TypeError(f"check() gave a {type(finding).__name__}, not a Finding")
    return made


def _bounded(finding: Finding, makespan_s: float) -> Finding:
    """Keep a cost and its interval within the run: no saving exceeds it (law 7)."""
    cost, interval = finding.cost_s, finding.cost_s_interval80
    if cost is not None and not 0.0 <= cost <= makespan_s:
        cost = min(max(cost, 0.0), makespan_s) if cost == cost else None
    if cost is None:
        interval = None
    elif interval is not None:
        low, high = (min(max(end, 0.0), makespan_s) for end in interval)
        interval = (min(low, cost), max(high, cost))
    return dataclasses.replace(finding, cost_s=cost, cost_s_interval80=interval)


def _brief(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"


def _rank(finding: Finding, *, failed: bool) -> tuple[Any, ...]:
    """Order by cost, then severity; what made a run fail comes first.

    That is what killed its workers, and tasks that never ended well. So does what a run hangs on
    where its trace ends: it loses more than any finding saves.
    """
    never = any(fact.name == NEVER_ENDED_WELL and fact.value for fact in finding.evidence)
    fatal = failed and (finding.kind == "workers_died" or never)
    return (
        not fatal,
        not _hangs(finding),
        finding.cost_s is None,
        -(finding.cost_s or 0.0),
        _SEVERITY.get(finding.severity, 3),
        finding.code,
        finding.kind,
        finding.groups,
    )


def _hangs(finding: Finding) -> bool:
    """Say whether a run hangs on it where its trace ends (in a log of jobs it is one of many)."""
    stuck = finding.kind in ("unrunnable", "unmanaged_memory") and finding.severity == "critical"
    return finding.cost_s is None and (finding.kind == "no_progress" or stuck)


def _missing(trace: Trace) -> list[str]:
    """Say what the trace itself lacks, one line a lack."""
    seen = view(trace)
    notes = []
    if seen.n and seen.makespan is None and recorded_makespan(trace.meta) is None:
        known = not np.isnan(seen.submitted).all()
        lack = "no task has a start or an end" if known else "no task has times"
        if not np.isnan(seen.started).all():
            lack = "no task has an end"
        elif not np.isnan(seen.ended).all():
            lack = "no task has a start"
        notes.append(f"cannot tell how long the run took because {lack}")
    blank, total = unknown_outcome(seen)
    if blank > UNTOLD * total:
        which = "the tasks" if blank == total else f"{blank:,} of {many(total, 'task')}"
        notes.append(
            f"cannot tell what was of use because how {which} ended is not recorded (a column "
            '"state" or "exit" of a table); what took time is looked for all the same'
        )
    notes.extend(odd_dependencies(seen))
    if trace.dropped > 0:
        said = many(trace.dropped, "record was", "records were")
        notes.append(f"{said} dropped: counts and sums are too low")
    faults = trace.meta.get("faults")
    if isinstance(faults, int) and faults > 0:
        cause = short(str(trace.meta.get("first_fault") or "cause not recorded"), 120)
        said = many(faults, "step of the tracer failed", "steps of the tracer failed")
        notes.append(f"{said} ({cause}): what they would have recorded is missing")
    # The importer says how many of how many; once is enough.
    refused = trace.table("rejects").num_rows
    if refused and not any("records were refused" in str(text) for text in trace.warnings):
        notes.append(f"{many(refused, 'input record was', 'input records were')} refused")
    notes.extend(str(text) for text in trace.warnings)
    return notes


# -- JSON ---------------------------------------------------------------------------------------


def to_json(
    trace: Trace, verdict: Verdict, knobs: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, Any]:
    """Give the verdict as the JSON that scripts rely on.

    Parameters
    ----------
    trace : Trace
    verdict : Verdict
    knobs : mapping, optional
        ``{name: {"value", "kind", "min", "max"}}``: what the user can turn. ``task_granularity``
        counts work per task (larger = fewer, longer tasks), ``partitioning`` the pieces.

    Returns
    -------
    dict
        ``findings[].apply`` is ``{knob: new value}``, or None where no knob of a kind that would
        help was given, or it stands at its limit already.
    """
    took = view(trace).makespan
    if took is None:  # As the figure "Run time" has it.
        took = recorded_makespan(trace.meta)
    return {
        "schema": 1,
        "makespan_s": None if took is None else round(took, 9),
        "makespan_at_least": view(trace).makespan_at_least,
        "status": verdict.status,
        "sentence": verdict.sentence,
        "figures": to_dict(verdict.figures),
        "findings": [
            {
                "code": finding.code,
                "kind": finding.kind,
                "rank": rank,
                "groups": list(finding.groups),
                "saving_s": finding.cost_s,
                "saving_s_interval80": (
                    list(finding.cost_s_interval80) if finding.cost_s_interval80 else None
                ),
                "apply": turn(finding, knobs or {}),
                "severity": finding.severity,
                "confidence": finding.confidence,
                "title": finding.title,
                "saving_gbh": finding.cost_gbh,
                "saving_core_h": finding.cost_core_h,
                "saving_how": finding.cost_how,
                "advice": finding.advice,
                "change": finding.change,
                "evidence": to_dict(finding.evidence),
            }
            for rank, finding in enumerate(verdict.findings, start=1)
        ],
        "together": to_dict(verdict.together),
        "ledger": ledger(trace).to_dict(),
        "notes": list(verdict.notes),
    }


def turn(
    finding: Finding, knobs: Mapping[str, Mapping[str, Any]]
) -> dict[str, float | int | str | bool] | None:
    """Give the knobs' new values for a finding, or None where none helps.

    Examples
    --------
    >>> wish = {"task_granularity": {"factor": 8.0}}
    >>> rule = Finding("RM102", "tiny_tasks", "warning", "t", apply=wish)
    >>> turn(rule, {"chunk": {"value": 10, "kind": "task_granularity", "min": 1, "max": 50}})
    {'chunk': 50}
    """
    wanted = finding.apply or {}
    made: dict[str, float | int | str | bool] = {}
    # The first kind that a rule names is the one that it believes in most.
    for kind in wanted:
        for name in sorted(knobs):
            if knobs[name].get("kind") == kind:
                value = _turned(wanted[kind], knobs[name])
                if value is not None and value != knobs[name].get("value"):
                    made[name] = value
        if made:
            return made
    return None


def _turned(wish: Mapping[str, Any], knob: Mapping[str, Any]) -> float | int | None:
    now, low, high = knob.get("value"), knob.get("min"), knob.get("max")
    if isinstance(now, bool) or not isinstance(now, (int, float)):
        return None
    if wish.get("value") is not None:
        new = float(wish["value"])
    elif wish.get("factor") is not None:
        new = float(now) * float(wish["factor"])
    else:  # No amount is known: go to the far end of the range.
        ends = [float(end) for end in (low, high) if isinstance(end, (int, float))]
        if not ends:
            return None
        new = max(ends, key=lambda end: abs(end - float(now)))
    if isinstance(low, (int, float)):
        new = max(new, float(low))
    if isinstance(high, (int, float)):
        new = min(new, float(high))
    return round(new) if isinstance(now, int) else new


# -- text ---------------------------------------------------------------------------------------


def _columns(text: str) -> int:
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def _clip(text: str, width: int) -> str:
    """Cut a line to a number of columns."""
    text = "".join(c if c.isprintable() else " " for c in text)
    if _columns(text) <= width:
        return text
    kept = ""
    for char in text:
        if _columns(kept + char) > width - 1:
            break
        kept += char
    # Not inside a word, unless that would leave little.
    whole = kept.rstrip().rpartition(" ")[0] if not text[len(kept)].isspace() else kept
    kept = whole if _columns(whole) >= 0.6 * width else kept
    return kept.rstrip(" ,;:·(") + "…"


def _wrap(text: str, width: int, most: int, indent: str = "") -> tuple[list[str], bool]:
    """Wrap a text to at most ``most`` lines, and say whether it had to be cut.

    It is cut behind a sentence where that leaves a third of the room, else where the room ends.
    """
    clean = "".join(c if c.isprintable() else " " for c in text)
    room = width if _columns(clean) == len(clean) else max(20, width // 2)
    lines = textwrap.wrap(clean, room, subsequent_indent=indent, break_on_hyphens=False) or [""]
    cut = len(lines) > most
    if cut:
        kept = lines[:most]
        last = next((n for n in range(most - 1, -1, -1) if _STOP.search(kept[n])), None)
        ends = None if last is None else max(m.end() for m in _STOP.finditer(kept[last]))
        if last is not None and ends is not None and 3 * (last * room + ends) > most * room:
            lines = [*kept[:last], f"{kept[last][:ends]} …"]
        else:
            lines = [*lines[: most - 1], _clip(f"{lines[most - 1]} {lines[most].strip()}", room)]
            if not lines[-1].endswith("…"):
                lines[-1] = _clip(lines[-1], room - 1) + "…"
    return [_clip(line, width) for line in lines], cut


def to_text(verdict: Verdict, width: int = 80, path: str = "TRACE") -> str:
    """Give the verdict in at most 15 lines; the last says where the rest is, if there is more.

    Parameters
    ----------
    verdict : Verdict
    width : int
        Columns; no line is longer.
    path : str
        What the user calls the trace, for the command that shows the rest.

    Examples
    --------
    >>> print(to_text(Verdict("Nothing worth changing: 3 tasks in 2 s.", "ok")))
    Nothing worth changing: 3 tasks in 2 s.
    """
    lines, hidden, cut = _laid_out(verdict, width, MAX_LINES)
    if not (hidden or cut):
        return "\n".join(lines)
    lines, hidden, _ = _laid_out(verdict, width, MAX_LINES - 1)
    return "\n".join([*lines, _rest(hidden, width, path)])


def _laid_out(verdict: Verdict, width: int, most: int) -> tuple[list[str], int, bool]:
    """Give at most ``most`` lines, how many findings are not in them, and if texts were cut."""
    lines, cut = _wrap(verdict.sentence, width, 5)
    lines += [_clip(line, width) for line in _figure_lines(verdict, width)]
    note, short_note = _note_line(verdict, width)
    cut |= short_note
    room = most - len(lines) - len(note)
    shown = 0
    for rank, finding in enumerate(verdict.findings, start=1):
        block, short = _finding_lines(rank, finding, width)
        if len(block) > room and shown:
            break
        cut |= short or len(block) > room
        block = block[: max(1, room)]
        lines += block
        room -= len(block)
        shown += 1
        if room < 2:
            break
    return [*lines, *note][:most], len(verdict.findings) - shown, cut


def _rest(hidden: int, width: int, path: str) -> str:
    """Say how many findings are not shown, and which command shows everything."""
    more = f"{hidden} more in the report. " if hidden else ""
    name = shlex.quote(path) if path.isprintable() and path != "TRACE" else "TRACE"
    for named in (name, "TRACE"):
        said = f"{more}All of it: rotameter diagnose {named} --format md"
        if _columns(said) <= width:
            return said
    return _clip(f"{more}All of it: --format md", width)


def _figure_lines(verdict: Verdict, width: int) -> list[str]:
    parts = [f"{figure.label}: {figure.text}" for figure in verdict.figures]
    lines: list[str] = []
    for part in parts:
        if lines and _columns(lines[-1]) + 3 + _columns(part) <= width:
            lines[-1] += f" · {part}"
        else:
            lines.append(part)
    return lines


def _finding_lines(rank: int, finding: Finding, width: int) -> tuple[list[str], bool]:
    cost = f" ({format_seconds(finding.cost_s)})" if finding.cost_s is not None else ""
    if finding.cost_s == 0.0 and (other := other_saving(finding)):
        cost = f" ({other})"
    head = f"{rank}. {finding.code} {finding.kind}{cost}: {finding.title}"
    change = f"   do: {finding.change}" if finding.change else ""
    do = change if change and _columns(change) <= width else f"   do: {finding.advice}"
    first, second = _wrap(head, width, 2, "   "), _wrap(do, width, 2, "       ")
    return [*first[0], *second[0]], first[1] or second[1]


def _note_line(verdict: Verdict, width: int) -> tuple[list[str], bool]:
    if not verdict.notes:
        return [], False
    more = len(verdict.notes) - 1
    said = f"Note: {verdict.notes[0]}" + (f" (+{more} more)" if more else "")
    line = _clip(said, width)
    return [line], bool(more) or line.endswith("…")
