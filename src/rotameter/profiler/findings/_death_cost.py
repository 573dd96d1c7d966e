"""What workers' deaths cost: by replay as if they had lived on, else by what was lost with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.findings._survived import Survived
from rotameter.profiler.findings._together import Priced
from rotameter.profiler.findings.base import Tools, price
from rotameter.units import format_number, format_seconds

if TYPE_CHECKING:
    from rotameter.profiler.findings.deaths import Death
    from rotameter.profiler.view import View

__all__ = ["loss_of", "never_done", "priced", "replayed"]

LONGEST_RESTART_S = 60.0


def never_done(seen: View, deaths: list[Death]) -> bool:
    """Say whether deaths took work along that was never done."""
    names = {death.worker for death in deaths}
    rows = np.flatnonzero(seen.never_ok & (seen.worker >= 0))
    return any(seen.workers[code] in names for code in np.unique(seen.worker[rows]))


def replayed(seen: View, tools: Tools, deaths: list[Death], loss: dict[str, Any]) -> dict[str, Any]:
    """Price deaths by a replay in which these workers live on, where all work was done at last."""
    if tools.replay is None or never_done(seen, deaths):
        return loss
    codes = {name: code for code, name in enumerate(seen.workers)}
    dead = np.zeros(len(seen.workers) + 1, dtype=bool)
    dead[[codes[death.worker] for death in deaths if death.worker in codes]] = True
    change = Survived(seen, dead)
    saving = tools.replay.saving(change)
    if saving.mid_s is None:
        return loss
    mid = max(0.0, saving.mid_s)
    low, high = saving.low_s or 0.0, saving.high_s or mid
    interval = (round(max(0.0, min(low, mid)), 6), round(max(mid, high), 6))
    how = f"as if these workers had lived on; {saving.how}"
    made = {"total_s": mid, "interval": interval, "how": how, "what_if": Priced((change,))}
    return {**loss, **made}


def priced(seen: View, loss: dict[str, Any]) -> dict[str, Any]:
    """Give the fields of a finding that say what deaths cost."""
    return {
        **price(seen, loss["total_s"]),
        "cost_s_interval80": loss.get("interval"),
        "cost_how": loss.get("how") or _how(seen, loss),
        "what_if": loss.get("what_if"),
    }


def loss_of(seen: View, deaths: list[Death]) -> dict[str, Any]:
    """Add up what deaths cost: work lost, work done again, cores missing until replaced."""
    codes = {name: code for code, name in enumerate(seen.workers)}
    dead = np.zeros(len(seen.workers) + 1, dtype=bool)
    missed = np.zeros(len(seen.workers) + 1, dtype=bool)
    for death in deaths:
        if death.worker in codes:
            dead[codes[death.worker]] = True
            # One that went as asked or without a word, and idle, may not have been wanted.
            missed[codes[death.worker]] = bool(death.executing or death.queued) or (
                death.cause not in ("silent", "walltime")
            )
    on_dead = dead[seen.worker] & (seen.worker >= 0)
    taken = on_dead & seen.outcome_in("oom", "worker_lost") & seen.ran
    lost = float(np.nansum(np.where(taken, seen.ended - seen.started, 0.0)))
    redone = float(np.nansum(np.where(seen.superseded & on_dead, seen.wall, 0.0)))
    gap = _gaps(seen, missed)
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


def _how(seen: View, loss: dict[str, Any]) -> str:
    return (
        f"({format_number(loss['lost_s'])} lost + {format_number(loss['redone_s'])} redone + "
        f"{format_number(loss['gap_s'])} core·s missing) over {format_number(seen.slots)} cores, "
        f"at most the run ({format_seconds(seen.makespan)})"
    )
