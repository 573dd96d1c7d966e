"""What is known of one resource of one group, and what its next task should get.

Ways of choosing a ladder run side by side: all that was seen, weighted by time and recency; the
latest only; the few latest, for the time after a shift; the largest seen. What each would have cost
is known for every completed task, so the one with the least loss so far, discounted, serves next
(follow the leader with full information; Cesa-Bianchi and Lugosi 2006). An attempt holds a slot
besides the resource, which is counted as :data:`SLOT` times the group's mean need: failing costs
that too. Two more ways count the slot for less; they serve once they have proved to cost less. The
last follows a size known before the run; without one it is no candidate.

Constants were chosen on ``TUNED_ON`` and on the synthetic sets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from rotameter.allocator.ceilings import Ceilings
from rotameter.allocator.follows import Follows
from rotameter.allocator.ladder import Ladder, grouped, priced, with_tail
from rotameter.allocator.sketch import Sketch

__all__ = ["COLD", "HEADROOM", "SLOT", "TUNED_ON", "Learner"]

TUNED_ON = ("kseg_eager", "sizey_mag", "wf_nextflow", "wf_pegasus_montage")
"""The real sets (of twelve) that the constants were chosen on."""

COLD = 2
"""Completions after which a group is known."""

HEADROOM = 0.01
"""Like tasks differ by so much; a rung lies this far above a need that was seen."""

SLOT, BOLD = 1.0, 0.1
"""Prices of the slot that an attempt holds, in mean needs of its group: until there is evidence,
and what the evidence is counted by."""

LATEST, FEW = 50, 12
DISCOUNT = 0.995

BEYOND = 1.25
"""After a failure that no success has exceeded, the next first try is so much above it."""

EXPERTS = ("all", "latest", "few", "largest", "all boldly", "latest boldly", "size")
_BOLDLY = (4, 5)
_LATEST, _FEW = (1, 2, 5), 2
_SIZE = 6

EVIDENCE = 20
"""Completions before a way that counts the slot for less may serve."""


class Learner:
    """Sizes one resource of one group.

    Attributes
    ----------
    n : int
        Completed tasks whose need is known.
    largest : float
        Largest need seen, 0 before the first.
    failed : dict of str to float
        Task → the largest allocation that it exceeded, while it has not completed; also what
        running tasks use already: their needs are at least that.
    live : set of str
        Those of ``failed`` that are readings of running tasks.
    kinds : dict of str to int
        How the needs of completed tasks were obtained → how many.
    ceilings : Ceilings
        Upper bounds of what other completed tasks needed; none of them counts as a need.
    """

    __slots__ = (
        "_best",
        "_follows",
        "_forgotten",
        "_ladders",
        "_latest",
        "_losses",
        "_seconds",
        "_seen",
        "_used",
        "ceilings",
        "failed",
        "kinds",
        "largest",
        "live",
        "n",
    )  # fmt: skip

    def __init__(self) -> None:
        self.n, self.largest = 0, 0.0
        self.failed: dict[str, float] = {}
        self.live: set[str] = set()
        self.kinds: dict[str, int] = {}
        self.ceilings = Ceilings()
        self._seen = Sketch()
        self._latest: deque[tuple[float, float]] = deque(maxlen=LATEST)
        self._losses = [0.0] * len(EXPERTS)
        self._best = 0
        self._ladders: list[Ladder] | None = None
        self._used, self._seconds = 0.0, 0.0
        self._follows = Follows(HEADROOM, SLOT)
        # Completed before the last change: they tell nothing of what was not seen since.
        self._forgotten = 0

    # -- learning ---------------------------------------------------------------------------

    def learn(self, task_id: str, need: float, seconds: float, size: float | None = None) -> None:
        """Take what a completed task needed and how long it ran; both positive, finite."""
        self.forget(task_id)
        if self.n >= COLD:
            costs = [self._cost(at, need, size) for at in range(len(EXPERTS))]
            # A way that had no answer did as well as the one that served.
            served = costs[self._leader(size)]
            for at, cost in enumerate(costs):
                loss = (served if cost is None else cost) or 0.0
                self._losses[at] = DISCOUNT * self._losses[at] + loss * seconds
            self._best = min(range(len(EXPERTS)), key=lambda at: self._losses[at])
        if size is not None:
            self._follows.learn(need, seconds, size)
        self.n += 1
        self.largest = max(self.largest, need)
        # Time counts since cost does; recency, since needs drift.
        weight = seconds * self.n
        self._seen.add(need * (1 + HEADROOM), weight)
        self._latest.append((need * (1 + HEADROOM), weight))
        self._used += need * seconds
        self._seconds += seconds
        self._ladders = None

    def bound(self, task_id: str, at_least: float, *, live: bool = False) -> None:
        """Take that a task that has not completed needs at least so much; ``live``: it runs."""
        if not live:
            self.live.discard(task_id)
        elif task_id not in self.failed:
            self.live.add(task_id)
        self.failed[task_id] = max(self.failed.get(task_id, 0.0), at_least)

    def forget(self, task_id: str) -> None:
        """Drop what is known of a task that will not complete."""
        self.failed.pop(task_id, None)
        self.live.discard(task_id)

    def renew(self, since: int | None = None) -> None:
        """Keep only the latest: the regime has changed.

        Parameters
        ----------
        since : int, optional
            How many have completed since the change; of these at most as many as are remembered
            one by one are kept. Without it a few are.
        """
        self._seen = Sketch()
        kept = list(self._latest)[-(FEW if since is None else max(1, since)) :]
        self._forgotten = self.n - len(kept)
        self._latest.clear()
        self._latest.extend(kept)
        for value, weight in kept:
            self._seen.add(value, weight)
        self.largest = max(value for value, _ in kept) / (1 + HEADROOM) if kept else 0.0
        self._losses = [0.0] * len(EXPERTS)
        self._best = 0
        self._ladders = None

    # -- choosing ---------------------------------------------------------------------------

    def first(self, size: float | None = None) -> float:
        """Size a first attempt; the group has at least one completion."""
        leader = self._leader(size)
        made = self._ladder(leader, size).rungs[0]
        if not self.failed:
            return made
        above = sum(1 for bound in self.failed.values() if bound >= made)
        if above >= max(2.0, 0.25 * min(self.n, 20)):
            made = self._after(leader, made, 1, size)
        highest = max(self.failed.values())
        if highest >= self.largest and made <= highest:
            made = BEYOND * highest
        return made

    def after(self, previous: float, failures: int, size: float | None = None) -> float:
        """Size the attempt after ``failures`` that exceeded theirs, the last of them this."""
        return self._after(self._leader(size), previous, failures, size)

    def _after(self, expert: int, previous: float, failures: int, size: float | None) -> float:
        """Try the largest seen next; then double: many small steps take many whole attempts.

        Only a way that has proved to cost less climbs its own rungs.
        """
        following = self._ladder(expert, size).above(previous)
        if expert in _BOLDLY and following is not None:
            return following
        if failures == 1:
            largest = self.largest * (1 + HEADROOM)
            if largest > previous:
                return largest
        return max(2.0 * previous, following or 0.0)

    def ladder(self, size: float | None = None) -> Ladder:
        """Give the ladder that serves now."""
        return self._ladder(self._leader(size), size)

    def expert(self, size: float | None = None) -> str:
        """Give the name of the way that serves now."""
        return EXPERTS[self._leader(size)]

    def standing(self, size: float | None = None) -> list[tuple[str, float]]:
        """Give the ways that may serve and what each would have cost so far, the least first."""
        fit = [at for at in range(len(EXPERTS)) if self._may(at, size)]
        leader = self._leader(size)
        fit.sort(key=lambda at: (self._losses[at], at != leader))
        return [(EXPERTS[at], self._losses[at]) for at in fit]

    def seen(self, size: float | None = None) -> tuple[list[float], list[float]]:
        """Give the needs that the way which serves goes by, ascending, and the weight of each.

        What was not seen yet is among them.
        """
        leader, latest = self._leader(size), list(self._latest)
        if leader == _SIZE and size is not None:
            values, weights, n = self._follows.seen(size)
        elif leader in _LATEST:
            latest = latest[-FEW:] if leader == _FEW else latest
            (values, weights), n = grouped(latest), len(latest)
        else:
            values, weights, n = self._seen.values, self._seen.weights, self._counted
        return with_tail(values, weights, n, values[-1])

    @property
    def mean_s(self) -> float:
        """Mean duration of the completed tasks; 0 before the first."""
        return self._seconds / self.n if self.n else 0.0

    @property
    def _counted(self) -> int:
        """Completed tasks since the last change of regime."""
        return self.n - self._forgotten

    def _leader(self, size: float | None) -> int:
        """Give the way with the least loss of those that may serve and have an answer."""
        if self._may(self._best, size):
            return self._best
        fit = [at for at in range(len(EXPERTS)) if self._may(at, size)]
        return min(fit, key=lambda at: self._losses[at])

    def _may(self, expert: int, size: float | None) -> bool:
        if expert in _BOLDLY:
            return self._counted >= EVIDENCE
        return expert != _SIZE or self._sized(size) is not None

    def _sized(self, size: float | None) -> Ladder | None:
        return None if size is None else self._follows.ladder(size)

    def _ladder(self, expert: int, size: float | None) -> Ladder:
        if expert == _SIZE:
            made = self._sized(size)
            if made is not None:
                return made
        return self._all()[min(expert, _SIZE - 1)]

    def _cost(self, expert: int, need: float, size: float | None) -> float | None:
        if expert == _SIZE and self._sized(size) is None:
            return None
        slot = BOLD * self._used / self._seconds
        tried = self._ladder(expert, size).rungs[0]
        cost, failures = tried + slot, 0
        while tried < need:
            failures += 1
            tried = self._after(expert, tried, failures, size)
            cost += tried + slot
        return cost

    def _all(self) -> list[Ladder]:
        if self._ladders is None:
            seen = (self._seen.values, self._seen.weights, self._counted)
            latest, n = list(self._latest), len(self._latest)
            recent = grouped(latest)
            self._ladders = [
                priced(*seen, SLOT),
                priced(*recent, n, SLOT),
                priced(*grouped(latest[-FEW:]), min(FEW, n), SLOT),
                Ladder((self.largest * (1 + HEADROOM),), 0.0),
                priced(*seen, BOLD),
                priced(*recent, n, BOLD),
            ]
        return self._ladders

    # -- keeping ----------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Give all of it as plain data."""
        return {
            "n": self.n,
            "largest": self.largest,
            "failed": dict(self.failed),
            "live": sorted(self.live),
            "kinds": dict(self.kinds),
            "ceilings": self.ceilings.state(),
            "seen": self._seen.state(),
            "latest": [list(pair) for pair in self._latest],
            "losses": list(self._losses),
            "best": self._best,
            "used": self._used,
            "seconds": self._seconds,
            "follows": self._follows.state(),
            "forgotten": self._forgotten,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Learner:
        """Make one from :meth:`state`; it goes on as the first would have."""
        made = cls()
        made.n, made.largest = int(state["n"]), float(state["largest"])
        made.failed = {str(k): float(v) for k, v in state["failed"].items()}
        # Kept states of earlier versions lack some of these.
        made.live = {str(k) for k in state.get("live", ())}
        made.kinds = {str(k): int(v) for k, v in state.get("kinds", {}).items()}
        made.ceilings = Ceilings.from_state(state.get("ceilings", {}))
        made._seen = Sketch.from_state(state["seen"])
        made._latest.extend((float(v), float(w)) for v, w in state["latest"])
        made._losses = [float(v) for v in state["losses"]]
        made._best = int(state["best"])
        made._used, made._seconds = float(state["used"]), float(state["seconds"])
        made._follows.restore(state["follows"])
        made._forgotten = int(state.get("forgotten", 0))
        return made
