"""The event loop of a batch system, for any policy, any machine and several resources."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from rotameter.errors import PolicyError
from rotameter.forecasting.cosim.state import BatchState, held_of
from rotameter.forecasting.cosim.usage import Usage
from rotameter.units import many
from rotameter.values import Hold, Place

if TYPE_CHECKING:
    from rotameter.forecasting.cosim.jobs import Jobs
    from rotameter.forecasting.cosim.machine import Taken
    from rotameter.forecasting.cosim.room import Held
    from rotameter.protocols import Policy

__all__ = ["Ran", "run_policy"]

_NEVER = 1 << 62
_HALF_LIFE_S = 7 * 86400.0
_CAN = frozenset({Place, Hold})


@dataclass(frozen=True, slots=True)
class Ran:
    """When each job started, and where."""

    starts_s: list[int]
    held: list[Held]


def run_policy(jobs: Jobs, taken: Taken, policy: Policy) -> Ran:
    """Let a policy decide at every arrival and every end.

    At one moment ends come first, then arrivals, then the policy decides once; jobs that end in
    the second in which they start are a further round at the same moment. A policy with a
    ``wake_s`` is asked then, too.

    Parameters
    ----------
    jobs : Jobs
        All of which the empty machine could hold.
    taken : Taken
    policy : Policy
        A fresh one: what it learnt of another run would mislead it.

    Raises
    ------
    PolicyError
        If it wants what an engine of jobs cannot do, starts what does not fit or does not wait, or
        leaves jobs waiting on an empty machine.
    """
    refuse_foreign(policy)
    loop = _Loop(jobs, taken, policy)
    loop.run()
    return Ran(loop.starts, loop.held)


def refuse_foreign(policy: Policy) -> None:
    """Raise for a policy that wants actions which a batch system does not have."""
    foreign = sorted(action.__name__ for action in policy.needs if action not in _CAN)
    if foreign:
        raise PolicyError(
            f"the policy {type(policy).__name__} wants {', '.join(foreign)}, which a batch system "
            "does not do",
            hint="take a policy that only places jobs",
        )


class _Loop:
    def __init__(self, jobs: Jobs, taken: Taken, policy: Any) -> None:
        n = len(jobs)
        user = jobs.user.tolist()
        self.policy = policy
        self.held_s = jobs.held_s.tolist()
        self.cores = jobs.cores.tolist()
        self.state = BatchState(
            now_s=0,
            ids=jobs.ids,
            arrive_s=jobs.arrive_s.tolist(),
            limit_s=jobs.limit_s.tolist(),
            need=taken.need,
            share=[taken.share(at) for at in range(n)],
            user=user,
            users=len(set(user)),
            room=taken.room(),
            usage=Usage(getattr(policy, "half_life_s", _HALF_LIFE_S)),
        )
        self.number = {name: at for at, name in enumerate(jobs.ids)}
        self.starts = [-1] * n
        self.held: list[Held] = [()] * n
        self.ends: list[tuple[int, int]] = []

    def run(self) -> None:
        """Go from moment to moment until every job has started."""
        state, ends = self.state, self.ends
        arrive, n, i = state.arrive_s, len(state.ids), 0
        wake = _NEVER
        while i < n or state.waiting:
            now = min(arrive[i] if i < n else _NEVER, ends[0][0] if ends else _NEVER, wake)
            if now == _NEVER:
                left = many(len(state.waiting), "job")
                raise PolicyError(
                    f"the policy {type(self.policy).__name__} leaves {left} waiting though "
                    "nothing runs",
                    hint="start at least the first job of an empty machine",
                )
            state.now_s = now
            while ends and ends[0][0] == now:
                self._end(heappop(ends)[1])
            while i < n and arrive[i] == now:
                state.waiting.append(i)
                i += 1
            wake = _NEVER
            if state.waiting:
                for action in self.policy.decide(state):
                    self._do(action)
                later = getattr(self.policy, "wake_s", None)
                wake = _NEVER if later is None or later <= now else later

    def _end(self, job: int) -> None:
        state = self.state
        state.room.give(state.need[job], state.held.pop(job))
        del state.running[bisect_left(state.running, (self.starts[job] + state.limit_s[job], job))]
        state.usage.change(state.user[job], -self.cores[job], state.now_s)

    def _do(self, action: Any) -> None:
        if isinstance(action, Hold):
            return
        state = self.state
        job = self.number.get(action.task_id, -1) if isinstance(action, Place) else -1
        if job < 0 or self.starts[job] >= 0 or state.arrive_s[job] > state.now_s:
            raise PolicyError(
                f"the policy {type(self.policy).__name__} asks for {str(action)[:200]}, and no "
                "such job waits",
                hint="start jobs that wait, each once",
            )
        held = held_of(action)
        if not state.room.holds(state.need[job], held):
            raise PolicyError(
                f"the policy {type(self.policy).__name__} starts job {action.task_id} where it "
                "does not fit",
                hint="ask state.room.place(need) where a job fits",
            )
        state.room.take(state.need[job], held)
        state.held[job] = held
        state.waiting.remove(job)
        self.starts[job] = state.now_s
        self.held[job] = held
        insort(state.running, (state.now_s + state.limit_s[job], job))
        heappush(self.ends, (state.now_s + self.held_s[job], job))
        state.usage.change(state.user[job], self.cores[job], state.now_s)
