"""Rows of a Nextflow trace to attempts of tasks."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from rotameter.adapters.importers._nextflow_clock import Crossing, crossed, start_of
from rotameter.adapters.importers._nextflow_commas import ENERGY, Commas
from rotameter.adapters.importers._nextflow_values import FIELDS, is_null, parse
from rotameter.profiler.live.redact import redact

__all__ = [
    "ENERGY",
    "KILLED",
    "Attempt",
    "Link",
    "chain",
    "chain_runs",
    "echoes",
    "link",
    "make",
    "settle",
]

_OUTCOMES = {
    "COMPLETED": "ok",
    "FAILED": "failed",
    "CACHED": "cached",
    "ABORTED": "cancelled",
    "RUNNING": "running",
}
_SIGNALS = 64
_KILL = 128 + 9
KILLED = "exit 137 (killed by signal 9) is taken as out of memory"
"""What is said of attempts whose exit code tells no more."""
_LIMIT_EXITS = frozenset((_KILL, 140, 143, None))
_SLACK_NS = 2 * 10**9
_NEAR_S, _NEAR_SHARE = 2.0, 0.01
_ENERGY = re.compile(r"([\d.]+)\s*([munkM]?)Wh")
_PREFIX = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6}

Warn = Callable[[str], None]


@dataclass(slots=True)
class Attempt:
    """One row of a trace: the columns of ``tasks``, what has none, and what joins it to others."""

    row: dict[str, Any]
    samples: dict[str, float] = field(default_factory=dict)
    native_id: str | None = None
    hash: str | None = None
    workdir: str | None = None
    tried: int | None = None
    zoned: bool | None = None
    """Whether its times carry a zone (raw form); None where it has none."""
    local: bool = False
    """Whether the trace has its times without a zone."""
    guessed_start: bool = False
    """Whether the start is not the trace's but its end less realtime."""
    beyond_s: tuple[float, float] | None = None
    """How long it ran and how long it took in all, where that is less."""
    crossing: Crossing | None = None
    """That the clocks changed while it ran; its times are on the clock of its submission."""
    counted: bool = False
    """Whether such a change would show: submission, end and duration are known."""
    file: str = ""
    line: int | None = None


def make(fields: Mapping[str, str], warn: Warn, commas: Commas | None = None) -> Attempt:
    """Read one row; ``commas`` is that of the row's file."""
    commas = commas or Commas()
    value = _values(fields, warn, commas)
    status = value.get("status") or ""
    outcome = _OUTCOMES.get(status, "unknown")
    process, name, tag = (value.get(c) for c in ("process", "name", "tag"))
    if name is None and process is not None:
        name = f"{process} ({tag})" if tag else process
    key = value.get("hash") or value.get("native_id") or value.get("task_id")
    name = name or (f"task {key}" if key else None)
    row: dict[str, Any] = {
        "task_id": None if name is None else redact(name),
        "run_id": key,
        "group": redact(process or _process(name or "")) or None,
        "host": value.get("hostname"),
        "queue": value.get("queue"),
        "outcome": outcome,
        "outcome_kind": "reported",
        "wall_s": value.get("realtime"),
        "exit_code": value.get("exit"),
        "requested_cores": value.get("cpus") or None,
        "requested_memory_bytes": value.get("memory") or None,
        "requested_disk_bytes": value.get("disk") or None,
        "requested_wall_s": value.get("time") or None,
        "source": "nextflow",
    }
    made = Attempt(row, {}, value.get("native_id"), value.get("hash"), value.get("workdir"))
    made.tried = value.get("attempt")
    _set_times(made, value)
    _set_use(made, value)
    _set_end(made, value, status)
    _set_energy(made, fields, commas)
    if outcome == "cached":
        _of_an_earlier_run(made)
    return made


def _values(fields: Mapping[str, str], warn: Warn, commas: Commas) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for column, text in fields.items():
        if column not in FIELDS:
            continue
        plain = commas.read(column, text)
        if plain is None:
            continue
        try:
            found[column] = parse(column, plain)
        except ValueError:
            warn(f"values of the column {column} that cannot be read are left out")
        else:
            commas.took(text, plain)
    return found


def _process(name: str) -> str:
    """Give the process of a task called "process (tag)".

    Examples
    --------
    >>> _process("A:B:FASTQC (S1 (rep 2))"), _process("MULTIQC")
    ('A:B:FASTQC', 'MULTIQC')
    """
    return name.partition(" (")[0] if name.endswith(")") else name


def _set_times(made: Attempt, value: Mapping[str, Any]) -> None:
    row = made.row
    at: dict[str, int] = {}
    for column in ("submit", "start", "complete"):
        if value.get(column) is not None:
            at[column], zoned = value[column]
            made.zoned = zoned if made.zoned is None else made.zoned
            if zoned != made.zoned:
                del at[column]
    submit, start, end = (at.get(c) for c in ("submit", "start", "complete"))
    made.local = made.zoned is False
    duration, wall = value.get("duration"), value.get("realtime")
    if made.local and submit is not None and end is not None and duration is not None:
        made.counted = True
        by_ns = crossed(submit, end, duration)
        if by_ns:
            made.crossing = Crossing(submit, end, by_ns)
            end -= by_ns
            if start is not None:
                start = start_of(start, submit, end, wall, by_ns)
    if end is None and submit is not None and duration is not None:
        end = submit + round(duration * 1e9)
    if submit is None and end is not None and duration is not None and duration > 0:
        submit = end - round(duration * 1e9)
    if start is None and end is not None and wall is not None:
        # Not written: what is between submission and this is waiting and staging.
        start, made.guessed_start = end - round(wall * 1e9), True
        start = start if submit is None else max(start, submit)
    elif start is not None and end is not None and wall is not None:
        staging = (end - start) / 1e9 - wall
        if staging > 0:
            made.samples["staging_s"] = staging
    whole = duration
    if whole is None and submit is not None and end is not None:
        whole = (end - submit) / 1e9
    if wall is not None and whole is not None and wall - whole > max(_NEAR_S, _NEAR_SHARE * wall):
        made.beyond_s = (wall, whole)
    row.update(submitted_ns=submit, started_ns=start, ended_ns=end)


def _set_use(made: Attempt, value: Mapping[str, Any]) -> None:
    row, wall = made.row, value.get("realtime")
    peak = value.get("peak_rss") or None
    if peak is not None:
        row.update(peak_memory_bytes=peak, peak_memory_kind="sampled")
    elif value.get("rss"):
        # Before 19.02 the last reading, not the highest.
        row.update(peak_memory_bytes=value["rss"], peak_memory_kind="lower_bound")
    known = "peak_rss" if "peak_rss" in value else "rss"
    if value.get(known) == 0 and not value.get("%cpu"):
        # All zero: over before the first reading. That is no measurement.
        value = {c: v for c, v in value.items() if c in ("peak_vmem", "vmem") and v}
    percent = value.get("%cpu")
    if percent is not None and wall is not None:
        row["cpu_s"] = percent / 100 * wall
    read, write = value.get("rchar"), value.get("wchar")
    if read is None and write is None:
        read, write = value.get("read_bytes"), value.get("write_bytes")
    else:
        _sample(made, "disk_read_bytes", value.get("read_bytes"))
        _sample(made, "disk_write_bytes", value.get("write_bytes"))
    row.update(read_bytes=read, write_bytes=write)
    if read is not None or write is not None:
        row["io_kind"] = "estimate"
    _sample(made, "peak_vmem_bytes", value.get("peak_vmem") or None)
    _sample(made, "vmem_bytes", value.get("vmem") or None)


def _sample(made: Attempt, name: str, value: float | None) -> None:
    if value is not None:
        made.samples[name] = float(value)


def _set_end(made: Attempt, value: Mapping[str, Any], status: str) -> None:
    """Say how it ended: a kill by signal 9 is taken for out of memory, which may be wrong."""
    row, code = made.row, value.get("exit")
    said = []
    if code is not None and 128 < code <= 128 + _SIGNALS:
        row["signal"] = code - 128
    if row["outcome"] == "unknown":
        said.append(redact(status) or "no status")
    elif row["outcome"] == "failed":
        said.append("no exit code" if code is None else f"exit {code}")
        if _at_limit(made, value) and code in _LIMIT_EXITS:
            row.update(outcome="timeout", outcome_kind="inferred")
        elif code == _KILL:
            row.update(outcome="oom", outcome_kind="inferred")
            _censor(row)
    action = value.get("error_action")
    if action and row["outcome"] not in ("ok", "cached"):
        said.append(f"error action {redact(action)}")
    row["error"] = ", ".join(said) or None


def settle(made: Attempt, code: int) -> None:
    """Say how a task ended of which only the exit code tells that it did, in place."""
    row, good = made.row, code == 0
    row.update(exit_code=code, outcome="ok" if good else "failed", outcome_kind="inferred")
    _set_end(made, {"exit": code}, "")


def _at_limit(made: Attempt, value: Mapping[str, Any]) -> bool:
    limit, start, end = (made.row[c] for c in ("requested_wall_s", "started_ns", "ended_ns"))
    held = value.get("realtime")
    if start is not None and end is not None and not made.guessed_start:
        held = max(held or 0.0, (end - start) / 1e9)
    return bool(limit and held and held >= 0.98 * limit)


def _censor(row: dict[str, Any]) -> None:
    """Killed for memory: it needed at least what it had."""
    known = [n for n in (row.get("peak_memory_bytes"), row["requested_memory_bytes"]) if n]
    if known:
        row.update(peak_memory_bytes=max(known), peak_memory_kind="lower_bound")


def _set_energy(made: Attempt, fields: Mapping[str, str], commas: Commas) -> None:
    """Take the energy that the co2footprint plug-in computed."""
    text = fields.get(ENERGY)
    plain = commas.read(ENERGY, text) if text and not is_null(text) else None
    match = _ENERGY.fullmatch(plain.strip()) if plain else None
    if text is None or plain is None or match is None or made.row["outcome"] == "cached":
        return
    try:
        joules = float(match[1]) * _PREFIX[match[2]] * 3600
    except ValueError:
        return
    if joules < 1e18:
        commas.took(text, plain)
        made.row.update(energy_j=joules, energy_meter="co2footprint", energy_quality="estimate")


def _of_an_earlier_run(made: Attempt) -> None:
    """Keep of a cached row what says what it needs, not what would count as used again."""
    gone = ("submitted_ns", "started_ns", "ended_ns", "cpu_s", "read_bytes", "write_bytes")
    made.row.update(dict.fromkeys((*gone, "io_kind")))
    made.samples = {k: v for k, v in made.samples.items() if k.endswith("vmem_bytes")}
    made.zoned = made.crossing = None
    made.local = made.counted = False


def echoes(runs: Sequence[tuple[Set[str], Set[str]]]) -> Iterator[set[str]]:
    """Give the hashes of each run whose rows from its cache are the same work as other rows.

    Parameters
    ----------
    runs : sequence of tuple
        Of each run the hashes of what ran in it, and of what it had from its cache: of those a row
        counts where no run here has the work, and only in the first run that has it.

    Examples
    --------
    >>> [sorted(gone) for gone in echoes([({"a"}, {"b"}), (set(), {"a", "b"})])]
    [[], ['a', 'b']]
    """
    known = {key for ran, _ in runs for key in ran}
    for _, cached in runs:
        yield known & cached
        known |= cached


# -- which rows are attempts of one task ------------------------------------------------------


@dataclass(slots=True)
class Link:
    """What decides of which task a row is an attempt; :func:`chain` sets the last two."""

    name: str
    key: str | None
    begin_ns: int | None
    end_ns: int | None
    tried: int | None
    lost: bool
    line: int
    task_id: str = ""
    attempt: int = 1
    done: bool = False
    """Whether it ended well, so that no later run does it again."""


def link(made: Attempt) -> Link:
    """Give what :func:`chain` needs of an attempt."""
    row = made.row
    begin = row["submitted_ns"] if row["submitted_ns"] is not None else row["started_ns"]
    lost = row["outcome"] not in ("ok", "cached", "running")
    done = row["outcome"] in ("ok", "cached")
    ended, line = row["ended_ns"], made.line or 0
    return Link(row["task_id"], row["run_id"], begin, ended, made.tried, lost, line, done=done)


def chain(links: Iterable[Link], taken: set[str]) -> None:
    """Count the attempts of each task, and give each task a name of its own, in place.

    A row follows on one of the same name that went wrong before it (by the attempt column, else
    by time); other rows of the same name are other tasks.
    """
    by_name: dict[str, list[Link]] = {}
    for one in links:
        by_name.setdefault(one.name, []).append(one)
    for name, rows in by_name.items():
        # With the attempt column that is the order; equal names without it go by time.
        rows.sort(key=lambda one: (one.tried or 0, one.begin_ns or 0, one.line))
        open_ends: list[Link] = []
        for one in rows:
            before = _before(one, open_ends)
            if before is None:
                one.task_id = _unique(name, one, taken)
                one.attempt = one.tried if one.tried and one.tried > 0 else 1
            else:
                open_ends.remove(before)
                one.task_id = before.task_id
                one.attempt = max(one.tried or 0, before.attempt + 1)
            if one.lost:
                open_ends.append(one)


def chain_runs(runs: Iterable[Sequence[Link]], taken: set[str]) -> None:
    """Do the same over runs of one workflow: what did not end well is done again by a later one.

    Parameters
    ----------
    runs : iterable of sequence of Link
        In any order, those without any time in theirs. Attempts count from 1 in each of them.
    taken : set of str
        Names that tasks have; those of these runs are added.
    """
    ends: dict[str, list[Link]] = {}
    for links in sorted(runs, key=_begin):
        chain(links, set())
        tasks: dict[str, list[Link]] = {}
        for one in sorted(links, key=lambda one: (one.attempt, one.begin_ns or 0, one.line)):
            tasks.setdefault(one.task_id, []).append(one)
        lasts = []
        for rows in sorted(tasks.values(), key=lambda rows: rows[0].begin_ns or 0):
            first, waiting = rows[0], ends.get(rows[0].name, [])
            before = next((last for last in waiting if _may_follow(first, last)), None)
            name, counted = first.name, 0
            if before is not None:
                waiting.remove(before)
                counted = before.attempt + 1 - first.attempt
            task = before.task_id if before is not None else _unique(name, first, taken)
            for one in rows:
                one.task_id, one.attempt = task, one.attempt + counted
            lasts.append(rows[-1])
        for last in lasts:
            if not last.done:
                ends.setdefault(last.name, []).append(last)


def _begin(links: Sequence[Link]) -> float:
    known = [one.begin_ns for one in links if one.begin_ns is not None]
    return min(known, default=math.inf)


def _before(one: Link, ends: list[Link]) -> Link | None:
    for last in ends:  # what failed first is tried again first
        if one.tried is not None and last.tried is not None and one.tried != last.tried + 1:
            continue
        if _may_follow(one, last):
            return last
    return None


def _may_follow(one: Link, last: Link) -> bool:
    end = last.end_ns
    return end is None or one.begin_ns is None or one.begin_ns >= end - _SLACK_NS


def _unique(name: str, one: Link, taken: set[str]) -> str:
    found = name
    if found in taken and one.key:
        found = f"{name} [{one.key}]"
    number = 2
    while found in taken:
        found = f"{name} [{number}]"
        number += 1
    taken.add(found)
    return found
