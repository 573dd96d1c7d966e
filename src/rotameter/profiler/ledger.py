"""The ledger: what was held, what of it was useful, and where the rest went.

Two accounts each, in core-seconds and GB·hours: *worker-held* (what workers held during the run,
whether or not anything ran) and *request-held* (what attempts asked for, or were granted, while
they ran). Useful plus all wasted components is what was held, to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.occupancy import (
    ATTEMPT_USES,
    BUSY_DISK,
    BUSY_TRANSFER,
    WAITING,
    Occupancy,
    attempt_use,
    occupancy,
    sweep,
)
from rotameter.profiler.view import View, plain_python, view
from rotameter.units import many
from rotameter.values import to_dict

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Codes, Floats

__all__ = ["Account", "Ledger", "ledger"]

_GBH = 1e9 * 3600.0
_UNTOLD = 0.02
"""What attempts of an unknown end held leaves the use open from this part on."""


@dataclass(frozen=True, slots=True)
class Account:
    """One held quantity and its split; ``held`` is None where nothing recorded tells it.

    Attributes
    ----------
    name, unit : str
    held, useful : float or None
    wasted : tuple of (str, float)
        Component → amount, all components of the account, each ≥ 0; ``unmeasured`` is what no
        reading tells the use of: no waste, but part of what was held.
    how : str
        How the split was obtained, or why it could not be.
    measured : float or None
        What attempts with a reading held, where that is less than all: the whole of
        ``useful_ratio``. 0 where no attempt that ended well has one.
    known, of : int
        Attempts with a reading, of those that the account is of.
    busy : float or None
        What was held while an attempt ran, however it ended; of cores that workers held only.
    """

    name: str
    unit: str
    held: float | None = None
    useful: float | None = None
    wasted: tuple[tuple[str, float], ...] = ()
    how: str = ""
    measured: float | None = None
    known: int = 0
    of: int = 0
    busy: float | None = None

    @property
    def unmeasured(self) -> float:
        """What was held and no reading tells the use of."""
        return float(dict(self.wasted).get("unmeasured", 0.0))

    @property
    def wasted_total(self) -> float | None:
        """Sum of the components that are not useful, the unmeasured one with them."""
        return None if self.held is None else float(sum(amount for _, amount in self.wasted))

    @property
    def useful_ratio(self) -> float | None:
        """Useful part of what was held (and measured), 0 to 1; None where nothing was measured."""
        whole = self.held if self.measured is None else self.measured
        return min(1.0, self.useful / whole) if whole and self.useful is not None else None

    @property
    def busy_ratio(self) -> float | None:
        """Part of what was held in which an attempt ran, however it ended; None if not known."""
        return min(1.0, self.busy / self.held) if self.held and self.busy is not None else None

    def largest(self) -> tuple[str, float] | None:
        """Give the largest wasted component; what was not measured is none."""
        parts = [part for part in self.wasted if part[0] != "unmeasured"]
        return max(parts, key=lambda item: item[1]) if parts else None


@dataclass(frozen=True, slots=True)
class Ledger:
    """All accounts of a run."""

    worker_core_s: Account
    worker_gbh: Account
    request_core_s: Account
    request_gbh: Account
    notes: tuple[str, ...] = field(default=())

    @property
    def accounts(self) -> tuple[Account, ...]:
        """The four accounts."""
        return self.worker_core_s, self.worker_gbh, self.request_core_s, self.request_gbh

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "accounts": [
                {
                    **{name: x for name, x in to_dict(account).items() if name != "busy"},
                    "useful": None if account.measured == 0 else account.useful,
                    "wasted": dict(account.wasted),
                }
                for account in self.accounts
            ],
            "notes": list(self.notes),
        }


def ledger(trace: Trace) -> Ledger:
    """Split what a run held into useful and wasted.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> second = 10**9
    >>> book = ledger(Trace.from_tables({
    ...     "workers": [{"worker": "w", "started_ns": 0, "ended_ns": 4 * second, "cores": 2.0}],
    ...     "tasks": [{"task_id": "a", "group": "g", "worker": "w", "outcome": "ok",
    ...                "started_ns": 0, "ended_ns": 3 * second}]}))
    >>> book.worker_core_s.held, book.worker_core_s.useful, book.worker_core_s.wasted_total
    (8.0, 3.0, 5.0)
    """
    seen = view(trace)
    if "ledger" not in seen.memo:
        seen.memo["ledger"] = _ledger(seen)
    made: Ledger = seen.memo["ledger"]
    return made


def _ledger(seen: View) -> Ledger:
    swept = occupancy(seen)
    notes: list[str] = []
    homeless = seen.ran & ~np.isin(seen.seat[seen.worker], seen.held["worker"])
    if swept is not None and homeless.any():
        notes.append(
            f"{many(int(homeless.sum()), 'attempt')} ran on workers whose life was not recorded: "
            "outside the worker-held account"
        )
    return Ledger(
        worker_core_s=_worker_cores(seen, swept),
        worker_gbh=_worker_memory(seen, swept),
        request_core_s=_requested(seen, "cores"),
        request_gbh=_requested(seen, "memory"),
        notes=tuple(notes),
    )


def _worker_cores(seen: View, swept: Occupancy | None) -> Account:
    name = "worker-held core-seconds"
    if swept is None:
        return Account(name, "core·s", how="no worker's life and cores were recorded")
    amounts = dict(zip(ATTEMPT_USES, (swept.busy.T @ swept.dt).tolist(), strict=False))
    useful = amounts.pop("useful")
    amounts = {f"{use}_attempts" if use != "recomputed" else use: x for use, x in amounts.items()}
    for column, cause in enumerate(WAITING):
        amounts[cause] = float(swept.waiting[:, column] @ swept.dt)
    amounts["transfer"] += float(swept.busy[:, BUSY_TRANSFER] @ swept.dt)
    amounts["disk"] += float(swept.busy[:, BUSY_DISK] @ swept.dt)
    idle = swept.idle * swept.dt
    busy = float(swept.busy.sum(axis=1) @ swept.dt)
    how = "workers' recorded lives × cores; busy = a task ran that ended ok and was not redone"
    if unknown := amounts.pop("unknown_attempts"):
        amounts["unmeasured"] = unknown
        how = f"how {unknown / busy:.0%} of the busy time ended is not recorded; {how}"
    middle = swept.start + swept.dt / 2
    first, last = _work_span(seen, swept)
    before = middle < first
    after = ~before & (middle > last)
    amounts["idle_before_work"] = float(idle[before].sum())
    amounts["idle_after_work"] = float(idle[after].sum())
    amounts["idle"] = float(idle[~before & ~after].sum())
    return Account(
        name,
        "core·s",
        held=float(swept.cores @ swept.dt),
        useful=useful,
        wasted=tuple(amounts.items()),
        how=how,
        measured=0.0 if unknown > _UNTOLD * busy else None,
        busy=busy,
    )


def _work_span(seen: View, swept: Occupancy) -> tuple[float, float]:
    """Give the first submission (or start) and the last end of any attempt."""
    firsts = [t for t in (seen.submitted, seen.ready, seen.started) if not np.isnan(t).all()]
    first = min((float(np.nanmin(t)) for t in firsts), default=np.inf)
    last = float(np.nanmax(seen.ended)) if not np.isnan(seen.ended).all() else np.inf
    return first, last


def _worker_memory(seen: View, swept: Occupancy | None) -> Account:
    name = "worker-held GB·hours"
    lives = seen.held[np.nan_to_num(seen.held["memory"]) > 0]
    if swept is None or not len(lives):
        none = "no memory was requested" if plain_python(seen.meta) else None
        return Account(name, "GB·h", how=none or "no worker's memory limit was recorded")
    home = seen.seat[seen.worker]
    rows = np.flatnonzero(seen.ran & np.isin(home, lives["worker"]))
    need = seen.task_memory[rows]
    known = ~np.isnan(need)
    use = attempt_use(seen)[rows]
    n_uses = len(ATTEMPT_USES)
    # Columns: memory held, use by measured attempts, running attempts without a measured peak.
    spans = [
        (lives["worker"], lives["started"], lives["ended"], np.zeros(len(lives)), lives["memory"]),
        (home[rows], seen.started[rows], seen.ended[rows], 1.0 + use, np.nan_to_num(need)),
        (
            home[rows][~known],
            seen.started[rows][~known],
            seen.ended[rows][~known],
            np.full(int((~known).sum()), 1.0 + n_uses),
            np.ones(int((~known).sum())),
        ),
        _stored(seen, lives, 2.0 + n_uses),
    ]
    worker, starts, ends, column, weight = (np.concatenate(x) for x in zip(*spans, strict=True))
    edges, levels = sweep(
        swept.place(worker, np.clip(starts, *_hull(seen))),
        swept.place(worker, np.clip(ends, *_hull(seen))),
        column.astype(np.int64),
        weight,
        n_uses + 3,
    )
    return _memory_split(name, np.diff(edges), levels[:-1], known)


def _hull(seen: View) -> tuple[float, float]:
    window = seen.window
    return window if window is not None else (0.0, 0.0)


def _stored(seen: View, lives: Any, column: float) -> tuple[Codes, Floats, Floats, Floats, Floats]:
    """Give what workers kept in memory as results, from samples of ``managed_bytes``."""
    code, at, value = seen.samples("managed_bytes")
    good = np.isin(code, lives["worker"]) & ~np.isnan(at) & ~np.isnan(value)
    code, at, value = code[good], at[good], value[good]
    order = np.lexsort((at, code))
    code, at, value = code[order], at[order], value[order]
    # A reading holds until the worker's next one.
    same = np.flatnonzero(code[1:] == code[:-1])
    return (
        code[same],
        at[same],
        at[same + 1],
        np.full(len(same), column),
        np.maximum(value[same], 0.0),
    )


def _memory_split(name: str, dt: Floats, level: Floats, known: Any) -> Account:
    n_uses = len(ATTEMPT_USES)
    held = level[:, 0]
    keep = held > 0.5
    dt, level, held = dt[keep], level[keep], held[keep]
    used = level[:, 1 : 1 + n_uses]
    total = used.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        used = used * np.where(total > held, held / total, 1.0)[:, None]
    rest = np.maximum(held - used.sum(axis=1), 0.0)
    stored = np.minimum(rest, level[:, 2 + n_uses])
    rest = rest - stored
    blind = np.where(level[:, 1 + n_uses] > 0.5, rest, 0.0)
    amounts = dict(zip(ATTEMPT_USES, (used.T @ dt / _GBH).tolist(), strict=True))
    useful = amounts.pop("useful") + float(stored @ dt) / _GBH
    amounts = {f"{use}_attempts" if use != "recomputed" else use: x for use, x in amounts.items()}
    # What an attempt used of which no one knows how it ended was of use or not.
    amounts["unmeasured"] = float(blind @ dt) / _GBH + amounts.pop("unknown_attempts")
    amounts["unused"] = float((rest - blind) @ dt) / _GBH
    n_known = int(known.sum())
    return Account(
        name,
        "GB·h",
        held=float(held @ dt) / _GBH,
        useful=useful,
        wasted=tuple(amounts.items()),
        how=(
            f"workers' recorded lives × memory limit; useful = peaks of {n_known:,} ok attempts "
            "and results kept; unmeasured = free while attempts without a measured peak ran"
        ),
        # Tasks ran, and none of them has a reading: what they used is not 0.
        measured=0.0 if known.size and not n_known and not useful else None,
        known=n_known,
        of=int(known.size),
    )


def _requested(seen: View, what: str) -> Account:
    cores = what == "cores"
    name = "request-held core-seconds" if cores else "request-held GB·hours"
    unit = "core·s" if cores else "GB·h"
    column = "cores" if cores else "memory_bytes"
    held = seen.number(f"granted_{column}").copy()
    blank = np.isnan(held)
    held[blank] = seen.number(f"requested_{column}")[blank]
    rows = np.flatnonzero(
        (held > 0) & (np.nan_to_num(seen.wall) > 0) & ~seen.nested & ~seen.outcome_in("cached")
    )
    if not rows.size:
        return Account(name, unit, how=f"no attempt has both requested {what} and a duration")
    scale = 1.0 if cores else _GBH
    share = held[rows] * seen.wall[rows] / scale
    use = attempt_use(seen)[rows]
    used = seen.number("cpu_s")[rows] if cores else seen.task_memory[rows] * seen.wall[rows] / scale
    good = use == ATTEMPT_USES.index("useful")
    # Of what use a reading was of an attempt that ended no one knows how is not known.
    read = ~np.isnan(used) & (use != ATTEMPT_USES.index("unknown"))
    known = good & read
    # How an attempt ended that is not known to have, and has no reading, nothing tells.
    blind = ~read & (good | seen.outcome_in("unknown", "running", None)[rows])
    taken = np.where(known, np.clip(np.nan_to_num(used), 0.0, share), 0.0)
    amounts = {
        (f"{label}_attempts" if label != "recomputed" else label): float(
            share[(use == code) & ~blind].sum()
        )
        for code, label in enumerate(ATTEMPT_USES)
        if label not in ("useful", "unknown")
    }
    amounts["over_requested"] = float((share[known] - taken[known]).sum())
    amounts["unmeasured"] = float(share[blind].sum())
    # Readings of lost attempts alone do not tell how much was put to use.
    measured = float(share[read].sum()) if known.any() or not blind.any() else 0.0
    return Account(
        name,
        unit,
        held=float(share.sum()),
        useful=float(taken.sum()),
        wasted=tuple(amounts.items()),
        how=(
            f"granted (else requested) {what} × duration of {many(rows.size, 'attempt')}; useful = "
            + ("CPU time" if cores else "peak memory × duration")
            + f" of {many(int(known.sum()), 'ok attempt')} where measured, at most the request"
        ),
        measured=measured,
        known=int(read.sum()),
        of=int(rows.size),
    )
