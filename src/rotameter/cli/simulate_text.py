"""Text of ``rotameter simulate``, at most 80 columns wide."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from rotameter.units import format_count, format_number, format_seconds, many

if TYPE_CHECKING:
    from rotameter.forecasting.cosim.simulation import Simulation

__all__ = ["simulation_text"]

_ROWS = (
    ("wait, median", "wait_p50_s"),
    ("wait, 95 %", "wait_p95_s"),
    ("wait, mean", "wait_mean_s"),
    ("makespan", "makespan_s"),
)
_CLASSES = 12


def simulation_text(done: Simulation) -> str:
    """Lay out a simulation.

    Parameters
    ----------
    done : Simulation
    """
    made, fidelity = done.measures.to_dict(), done.fidelity
    machine = done.schedule.machine
    where = f"{format_count(machine.all_cores)} processors"
    if machine.nodes > 1:
        kind = "whole nodes" if machine.exclusive else "shared nodes"
        where += f" on {format_count(machine.nodes)} {kind}"
    lines = [f"{many(len(done.schedule.jobs), 'job')}, policy {done.policy}, {where}", ""]
    compared = fidelity.jobs > 0
    head = f"  {'':<16}{'simulated':>14}"
    if done.what_if:
        head += f"{'if as wrong as the replay':>32}"
    lines.append(head)
    for label, name in _ROWS:
        line = f"  {label:<16}{format_seconds(made[name]):>14}"
        pair = done.intervals[name]
        if done.what_if and pair is not None:
            line += f"{f'{format_seconds(pair[0])} to {format_seconds(pair[1])}':>32}"
        lines.append(line)
    lines += [
        _row("slowdown, mean", format_number(made["slowdown_mean"])),
        _row("used", _percent(made["utilisation_ratio"])),
        _row("core-hours used", format_number(made["used_core_h"])),
    ]
    if made["cost"] is not None:
        lines.append(_row("cost", format_number(made["cost"], 5)))
    if made["late_ratio"] is not None:
        lines.append(_row("late", _percent(made["late_ratio"])))
    if made["killed"]:
        lines.append(_row("killed", format_count(made["killed"])))
    lines += ["", *_score(done)]
    if compared:
        lines += ["", *_fidelity(done)]
    notes = [
        line
        for note in done.notes
        for line in textwrap.wrap(note, 78, initial_indent="- ", subsequent_indent="  ")
    ]
    return "\n".join([*lines, *([""] if notes else []), *notes])


def _row(label: str, value: str) -> str:
    return f"  {label:<16}{value:>14}"


def _percent(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.1%}"


def _score(done: Simulation) -> list[str]:
    score, terms = done.score, done.score.terms
    lines = [
        f"Wait score {format_number(score.score)} (0: nobody waits, towards 1: all wait long)",
        f"  {terms.median_weight:g} × m / (m + {format_seconds(terms.median_s)}) + "
        f"{1 - terms.median_weight:g} × t / (t + {format_seconds(terms.tail_s)})",
        f"  {terms.median_q:.0%} of the jobs wait no longer than m, {terms.tail_q:.0%} than t",
    ]
    if len(score.classes) < 2:
        return lines
    largest = sorted(score.classes, key=lambda one: (-one["share"], one["name"]))
    lines += [
        f"  {one['name'][:24]:<24}{_percent(one['share']):>8}{format_number(one['score']):>8}"
        f"{format_seconds(one['wait_median_s']):>14}{format_seconds(one['wait_tail_s']):>14}"
        for one in largest[:_CLASSES]
    ]
    if len(largest) > _CLASSES:
        lines.append(f"  and {many(len(largest) - _CLASSES, 'class', 'classes')} more")
    return lines


def _fidelity(done: Simulation) -> list[str]:
    found = done.fidelity
    where = ""
    if done.recorded_cores is not None:
        where = f", on its {format_count(done.recorded_cores)} processors"
    lines = [
        f"Replay under {found.policy} against the record{where}",
        f"  {many(found.jobs, 'job')} compared, {_percent(found.covered_ratio)} of the rows used",
        f"  {'':<16}{'recorded':>14}{'replayed':>14}",
    ]
    for label, name in _ROWS:
        was, made = found.recorded[name], found.simulated[name]
        lines.append(f"  {label:<16}{format_seconds(was):>14}{format_seconds(made):>14}")
    distance = format_number(found.ks_distance)
    lines.append(f"  waits lie {distance} apart (KS distance, 0 to 1)")
    return lines
