"""The event loop: a model in, a schedule out. The only task-graph engine of the product.

Source of the method: list scheduling (Graham 1969; more slots need not make a run shorter). A free
slot goes to the ready node that comes first. Placement is as recorded where a node is pinned to its
worker, else wherever a slot is free, or decided when a node becomes ready, as distributed does
(where it would begin soonest, counting what must be fetched). Links and storage are shared equally.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.replaying.plain import GATE, plain, shape
from rotameter.profiler.replaying.schedule import Schedule, last_end, made
from rotameter.profiler.replaying.shared import Shared

if TYPE_CHECKING:
    from rotameter.profiler.replaying.model import Model, Policy
    from rotameter.profiler.replaying.plain import Shape

__all__ = ["Loop", "Schedule", "simulate"]

_END, _JOIN, _LEAVE, _FLOW, _PHASE, _CLAIM = range(6)
_LOOKED_AT = 32  # waiting nodes, where the first does not fit
_PATIENCE_S, _PATIENCE_RATIO = 0.02, 0.1
"""A node stays at home if its slot comes free this soon (or within this part of its time)."""


def simulate(model: Model, *, policy: Policy | None = None) -> Schedule:
    """Replay a model.

    Parameters
    ----------
    model : Model
    policy : Policy, optional
        The model's own if not given.

    Returns
    -------
    Schedule

    Raises
    ------
    ValueError
        If a priority is missing for a node.

    Examples
    --------
    >>> from rotameter.profiler.replaying.model import Worker, make_model
    >>> made = simulate(make_model([2.0, 1.0, 1.0], [(2, 0)], [Worker("w", cores=2)]))
    >>> made.makespan_s, made.start_s.tolist()
    (3.0, [0.0, 0.0, 2.0])
    """
    policy = policy or model.policy
    if policy.order is not None and len(policy.order) != model.n:
        raise ValueError(f"{len(policy.order)} priorities for {model.n} nodes")
    loop = Loop(model, policy)
    loop.run()
    return loop.schedule()


class Loop:
    """The state of one replay; public to placement policies.

    Attributes
    ----------
    now_s : float
    free_cores, free_memory_bytes, booked_s : list of float
        By worker; ``booked_s`` is work placed there and not ended, in slot-seconds.
    at : list of int
        Worker of each node, -1 not placed.
    form : Shape
        What models with other durations share.
    """

    __slots__ = (
        "_anywhere", "_begin", "_by_rank", "_cores", "_end", "_ends", "_events", "_held", "_idle",
        "_least", "_left", "_links", "_lists", "_phase", "_pinned", "_rank", "_ready", "_room",
        "_spot", "_stale", "_start", "_store", "_tight", "_touched", "_waiting", "_waits", "at",
        "booked_s", "form", "free_cores", "free_memory_bytes", "model", "now_s", "policy", "up",
    )  # fmt: skip

    def __init__(self, model: Model, policy: Policy, like: Shape | None = None) -> None:
        self.model, self.policy = model, policy
        n, workers = model.n, model.workers
        self.now_s = 0.0
        self.free_cores = [0.0] * len(workers)
        self.free_memory_bytes = [w.memory_bytes for w in workers]
        self.booked_s = [0.0] * len(workers)
        self.up = [False] * len(workers)
        self.at = [-1] * n
        self._ready, self._start = [float("nan")] * n, [float("nan")] * n
        self._begin, self._end = [float("nan")] * n, [float("nan")] * n
        self._lists = lists = plain(model)
        self.form = form = shape(model, policy, like)
        self._rank, self._held, self._cores = form.rank, lists.held, form.cores
        self._spot, self._tight, self._by_rank = form.spot, form.tight, form.by_rank
        self._waits = list(form.waits)
        self._events: list[tuple[float, int, float, int]] = []
        self._pinned: list[list[int]] = [[] for _ in workers]  # ranks
        self._anywhere: list[int] = []  # ranks
        self._idle: list[tuple[float, int]] = []
        self._stale: set[int] = set()  # workers whose place in _idle is out of date
        self._ends: list[list[float]] = [[] for _ in workers]
        self._waiting = [0.0] * len(workers)
        self._least: list[tuple[float, int]] | None = None
        self._touched: set[int] = set()
        self._left, self._room = n, 0.0
        self._links = [Shared(model.link_bps) for _ in workers] if model.link_bps else []
        self._store = Shared(model.storage_bps) if model.storage_bps else None
        self._phase: dict[int, int] = {}

    # ------------------------------------------------------------------ the loop

    def run(self) -> None:
        """Run to the end."""
        for code, worker in enumerate(self.model.workers):
            self._push(worker.from_s, _JOIN, 0, code)
            if worker.until_s < float("inf"):
                self._push(worker.until_s, _LEAVE, 0, code)
        for node in self.form.roots:
            self._on_ready(node)
        events, touched, anywhere = self._events, self._touched, self._anywhere
        on_claim, on_end, dispatch = self._on_claim, self._on_end, self._dispatch
        while self._left:
            if not events:
                if not self._rescue():
                    break
                continue
            now = self.now_s = events[0][0]
            while events and events[0][0] <= now:
                _, kind, mark, which = heappop(events)
                if kind == _CLAIM:
                    on_claim(which)
                elif kind == _END:
                    on_end(which)
                else:
                    self._on_other(kind, int(mark), which)
            if touched or (anywhere and self._room >= 1e-9):
                dispatch()

    def _on_other(self, kind: int, mark: int, which: int) -> None:
        if kind == _JOIN:
            self._on_join(which)
        elif kind == _LEAVE:
            self.up[which] = False
        elif kind == _PHASE:
            self._on_phase(which, mark)
        else:
            self._on_flow(which, mark)

    def _push(self, at_s: float, kind: int, mark: float, which: int) -> None:
        heappush(self._events, (at_s, kind, mark, which))

    def _on_ready(self, node: int) -> None:
        now = self.now_s
        self._ready[node] = now
        claim = max(now, self.form.release[node]) + self._lists.delay[node]
        heappush(self._events, (claim, _CLAIM, self._rank[node], node))

    def _on_claim(self, node: int) -> None:
        spot = self._spot[node]
        if spot >= 0 and not self._links:
            held = self._held[node]
            self.at[node] = spot
            self.booked_s[spot] += held
            if self._least is not None:
                self._rebook(spot)
            heappush(self._pinned[spot], self._rank[node])
            self._waiting[spot] += held
            self._touched.add(spot)
        elif spot == GATE:
            now, held = self.now_s, self._held[node]
            self._start[node] = self._begin[node] = now
            if held > 0:
                self._push(now + held, _END, self._rank[node], node)
            else:
                self._on_end(node)
        else:
            self._place(node)
            worker = self.at[node]
            if self._links and worker >= 0 and self.model.received_bytes[node] > 0:
                self._flow(worker, float(self.model.received_bytes[node]), node)
            else:
                self._queue(node)

    def _place(self, node: int) -> None:
        place = self.policy.place
        if self.form.fixed[node]:
            self.at[node] = self.form.home[node]
        elif callable(place):
            self.at[node] = place(node, self)
        elif place in ("bytes", "even"):
            self.at[node] = self.soonest(node, count_bytes=place == "bytes")
        elif self._links and self.model.received_bytes[node] > 0:
            self.at[node] = self.soonest(node, count_bytes=False)
        if self.at[node] >= 0 and not self.can(node, self.at[node]):
            self.at[node] = -1
        if self.at[node] >= 0:
            self._book(node, self.at[node])

    def _book(self, node: int, worker: int) -> None:
        self.booked_s[worker] += self._held[node]
        if self._least is not None:
            self._rebook(worker)

    def soonest(self, node: int, *, count_bytes: bool = True) -> int:
        """Give the worker where a node would begin soonest; the first of equals, -1 if none is up.

        All workers but the one that has the node's inputs cost the same move, so that only the
        least occupied of them comes into question.
        """
        workers, origin = self.model.workers, self.form.origin[node]
        if self._least is None:
            self._least = []
            for code, up in enumerate(self.up):
                if up:
                    self._rebook(code)
        least, found, kept = self._least, -1, []
        while least:
            wait, code = least[0]
            if wait != self.booked_s[code] / workers[code].cores or not self.up[code]:
                heappop(least)  # out of date
                continue
            if self.can(node, code):
                found = code
                break
            kept.append(heappop(least))
        for item in kept:
            heappush(least, item)
        if found >= 0 and 0 <= origin < len(workers) and self.up[origin] and origin != found:
            there = self.booked_s[origin] / workers[origin].cores
            move = self.move_s(node, found) if count_bytes and there > wait else 0.0
            if there <= wait + move and self.can(node, origin):
                found = origin
        return found

    def _queue(self, node: int) -> None:
        worker = self.at[node]
        if worker >= 0:
            self._wait_at(worker, node)
            self._touched.add(worker)
        else:
            heappush(self._anywhere, self._rank[node])

    def _wait_at(self, worker: int, node: int) -> None:
        heappush(self._pinned[worker], self._rank[node])
        self._waiting[worker] += self._held[node]

    def _on_join(self, worker: int) -> None:
        self.up[worker] = True
        self.free_cores[worker] = self.model.workers[worker].cores
        self._room += self.free_cores[worker]
        self._offer(worker)

    def _offer(self, worker: int) -> None:
        self._touched.add(worker)
        self._stale.add(worker)
        if self._least is not None:
            self._rebook(worker)

    def _rebook(self, worker: int) -> None:
        assert self._least is not None
        wait = self.booked_s[worker] / self.model.workers[worker].cores
        heappush(self._least, (wait, worker))

    def _on_end(self, node: int) -> None:
        now = self.now_s
        self._end[node] = now
        self._left -= 1
        worker, form = self.at[node], self.form
        if worker >= 0:
            cores = self._cores[node]
            self.free_cores[worker] += cores
            self._room += cores
            if self._tight:
                self.free_memory_bytes[worker] += form.memory[node]
            self.booked_s[worker] -= self._held[node]
            self._touched.add(worker)
            self._stale.add(worker)
            if self._least is not None:
                self._rebook(worker)
        first, stop = form.first_after[node], form.first_after[node + 1]
        if first == stop:
            return
        waits, release, delay = self._waits, form.release, self._lists.delay
        for other in form.after[first:stop]:
            left = waits[other] = waits[other] - 1
            if not left:  # as _on_ready
                self._ready[other] = now
                since = release[other]
                claim = (since if since > now else now) + delay[other]
                heappush(self._events, (claim, _CLAIM, self._rank[other], other))

    # ------------------------------------------------------------------ who gets a slot

    def can(self, node: int, worker: int) -> bool:
        """Say whether a worker, when empty, has what a node asks for."""
        have = self.model.workers[worker]
        return (
            have.cores >= self._cores[node] - 1e-9
            and have.memory_bytes >= self.form.memory[node] - 0.5
        )

    def _fits(self, node: int, worker: int) -> bool:
        return self.free_cores[worker] >= self._cores[node] - 1e-9 and (
            not self._tight or self.free_memory_bytes[worker] >= self.form.memory[node] - 0.5
        )

    def _dispatch(self) -> None:
        anywhere, touched = self._anywhere, self._touched
        workers = list(touched) if len(touched) < 2 else sorted(touched)
        touched.clear()
        pinned, serve, last = self._pinned, self._serve, len(self.at)
        while anywhere:
            first = anywhere[0]
            for worker in workers:
                if pinned[worker]:
                    serve(worker, first)
            if self._room < 1e-9 or not self._assign():
                break
        for worker in workers:
            if pinned[worker]:
                serve(worker, last)

    def _serve(self, worker: int, before: int) -> None:
        """Start what waits for a worker, as long as it ranks before what may go anywhere."""
        waiting, free = self._pinned[worker], self.free_cores
        passed: list[int] = []
        while waiting and waiting[0] < before and len(passed) < _LOOKED_AT:
            if free[worker] <= 1e-9:
                break
            rank = heappop(waiting)
            node = self._by_rank[rank]
            if self._fits(node, worker):
                self._waiting[worker] -= self._held[node]
                self._begin_node(node, worker)
            else:
                passed.append(rank)
        for rank in passed:
            heappush(waiting, rank)

    def _assign(self) -> bool:
        """Give one of the first nodes that may run anywhere a slot."""
        passed: list[int] = []
        anywhere, done = self._anywhere, False
        while anywhere and len(passed) < _LOOKED_AT:
            rank = heappop(anywhere)
            node = self._by_rank[rank]
            worker = self._free_worker(node)
            if worker >= 0:
                self.at[node] = worker
                self._book(node, worker)
                if self._fits(node, worker):
                    self._begin_node(node, worker)
                else:
                    self._wait_at(worker, node)
                done = True
                break
            passed.append(rank)
            if not self._idle:
                break
        for rank in passed:
            heappush(anywhere, rank)
        return done

    def _free_worker(self, node: int) -> int:
        home, up, free_cores = self.form.home[node], self.up, self.free_cores
        if home >= 0 and up[home] and self._fits(node, home):
            return home
        idle, found, kept = self._idle, -1, []
        for worker in self._stale:
            if free_cores[worker] > 1e-9:
                heappush(idle, (-free_cores[worker], worker))
        self._stale.clear()
        while idle:
            free, worker = idle[0]
            if free != -free_cores[worker] or not up[worker] or free >= -1e-9:
                heappop(idle)  # out of date
                continue
            if self._fits(node, worker):
                found = worker
                break
            kept.append(heappop(idle))
            if -free < self._cores[node]:
                break  # all others have less
        for item in kept:
            heappush(idle, item)
        if found >= 0 and home >= 0 and up[home] and self._home_soon(node, home, found):
            return home
        return found

    def move_s(self, node: int, worker: int) -> float:
        """Give the seconds that fetching a node's inputs to a worker adds to what it took."""
        rate = self.model.move_bps
        if not rate or self.form.origin[node] < 0:
            return 0.0
        size = 0.0
        for index in range(self.form.first_input[node], self.form.first_input[node + 1]):
            source = self.form.inputs[index]
            if self.at[source] != worker:
                size += self.form.output[source]
        return max(0.0, size / rate - self._lists.transfer[node])

    def _home_soon(self, node: int, home: int, other: int) -> bool:
        """Say whether a slot at home comes free too soon for going elsewhere to gain anything."""
        ends = self._ends[home]
        while ends and ends[0] <= self.now_s:
            heappop(ends)
        if not ends or not self.can(node, home):
            return False
        wait, queue = ends[0] - self.now_s, self._pinned[home]
        if queue and queue[0] < self._rank[node]:
            wait += self._waiting[home] / self.model.workers[home].cores
        wait -= min(_PATIENCE_S, _PATIENCE_RATIO * self._held[node])
        return wait <= 0.0 or wait <= self.move_s(node, other)

    def _begin_node(self, node: int, worker: int) -> None:
        now, lists, cores = self.now_s, self._lists, self._cores[node]
        self.free_cores[worker] -= cores
        self._room -= cores
        if self._tight:
            self.free_memory_bytes[worker] -= self.form.memory[node]
        self._stale.add(worker)
        self._start[node] = now
        before = lists.before[node]
        if worker != self.form.origin[node]:
            before += self.move_s(node, worker)
        begin = self._begin[node] = now + before
        if self._store is not None:
            self._push(begin, _PHASE, 0, node)
            return
        end = begin + lists.compute[node] / lists.speed[worker] + lists.io[node]
        heappush(self._events, (end, _END, self._rank[node], node))
        heappush(self._ends[worker], end)

    # ------------------------------------------------------------------ shared bandwidth

    def _on_phase(self, node: int, phase: int) -> None:
        """Go through read (0), compute (1), write (2) of a node on shared storage."""
        model, worker = self.model, self.at[node]
        if phase == 1:
            compute = self._lists.compute[node] / self._lists.speed[worker]
            self._push(self.now_s + compute, _PHASE, 2, node)
            return
        size = float((model.read_bytes if phase == 0 else model.write_bytes)[node])
        if size > 0:
            self._phase[node] = phase
            self._flow(-1, size, node)
            return
        seconds = float(model.parts_s[node, 1 + phase // 2])
        after = (_PHASE, 1) if phase == 0 else (_END, self._rank[node])
        self._push(self.now_s + seconds, *after, node)

    def _flow(self, link: int, size_bytes: float, node: int) -> None:
        shared = self._links[link] if link >= 0 else self._store
        assert shared is not None
        shared.add(self.now_s, size_bytes, node)
        self._push(shared.next_s(), _FLOW, shared.version, link)

    def _on_flow(self, link: int, version: int) -> None:
        shared = self._links[link] if link >= 0 else self._store
        if shared is None or shared.version != version:
            return
        for node in shared.pop(self.now_s):
            if link >= 0:
                self._queue(node)
            elif self._phase.pop(node) == 2:
                self._push(self.now_s, _END, self._rank[node], node)
            else:
                self._push(self.now_s, _PHASE, 1, node)
        following = shared.next_s()
        if following < float("inf"):
            self._push(following, _FLOW, shared.version, link)

    # ------------------------------------------------------------------ ends

    def _rescue(self) -> bool:
        """Bring workers back where all that could run something have gone."""
        if not (self._anywhere or any(self._pinned)):
            return False
        gone = [w for w, up in enumerate(self.up) if not up]
        for worker in gone:
            self.up[worker] = True
            self._offer(worker)
        before = self._left
        self._dispatch()
        return bool(self._events) or self._left < before

    def makespan_s(self) -> float:
        """Give the last end of a node that holds a slot; infinite where some never ended."""
        return float("inf") if self._left else last_end(self.model, np.array(self._end, float))

    def schedule(self) -> Schedule:
        """Give what happened."""
        times = (self._ready, self._start, self._begin, self._end)
        return made(self.model, times, self.at, self._cores)
