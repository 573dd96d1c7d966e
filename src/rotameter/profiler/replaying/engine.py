"""The event loop: a model in, a schedule out. The only task-graph engine of the product.

Source of the method: list scheduling (Graham 1969): whenever a slot is free, the ready node that
comes first takes it. Placement is as recorded where a node is pinned to its worker, else wherever
a slot is free, or decided when a node becomes ready, as distributed does (the worker where it
would begin soonest, counting what must be fetched). Links and storage are shared equally where a
bandwidth is set. More slots need not make a run shorter (Graham's anomalies).
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.replaying.plain import plain
from rotameter.profiler.replaying.schedule import Schedule
from rotameter.profiler.replaying.shared import Shared

if TYPE_CHECKING:
    from rotameter.profiler.replaying.model import Model, Policy

__all__ = ["Loop", "Schedule", "simulate"]

_END, _JOIN, _LEAVE, _FLOW, _PHASE, _CLAIM = range(6)
_LOOKED_AT = 32
"""How many waiting nodes are looked at where the first does not fit."""
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
    """

    def __init__(self, model: Model, policy: Policy) -> None:
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
        lists = plain(model, policy)
        self._lists = lists
        self._rank, self._held, self._cores = lists.rank, lists.held, lists.cores
        self._waits = list(lists.waits)
        self._events: list[tuple[float, int, float, int]] = []
        self._pinned: list[list[tuple[float, int]]] = [[] for _ in workers]
        self._anywhere: list[tuple[float, int]] = []
        self._idle: list[tuple[float, int]] = []
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
        for node in np.flatnonzero(np.asarray(self._waits) == 0).tolist():
            self._on_ready(node)
        events, pop = self._events, heapq.heappop
        while self._left:
            if not events:
                if not self._rescue():
                    break
                continue
            now = self.now_s = events[0][0]
            while events and events[0][0] <= now:
                _, kind, mark, which = pop(events)
                if kind == _CLAIM:
                    self._on_claim(which)
                elif kind == _END:
                    self._on_end(which)
                elif kind == _JOIN:
                    self._on_join(which)
                elif kind == _LEAVE:
                    self.up[which] = False
                elif kind == _PHASE:
                    self._on_phase(which, int(mark))
                else:
                    self._on_flow(which, int(mark))
            if self._touched or self._anywhere:
                self._dispatch()

    def _push(self, at_s: float, kind: int, mark: float, which: int) -> None:
        heapq.heappush(self._events, (at_s, kind, mark, which))

    def _on_ready(self, node: int) -> None:
        now = self.now_s
        self._ready[node] = now
        claim = max(now, self._lists.release[node]) + self._lists.delay[node]
        heapq.heappush(self._events, (claim, _CLAIM, self._rank[node], node))

    def _on_claim(self, node: int) -> None:
        if self._cores[node] <= 0:
            self._start[node] = self._begin[node] = self.now_s
            held = self._held[node]
            if held > 0:
                self._push(self.now_s + held, _END, self._rank[node], node)
            else:
                self._on_end(node)
            return
        self._place(node)
        worker = self.at[node]
        if self._links and worker >= 0 and self.model.received_bytes[node] > 0:
            self._flow(worker, float(self.model.received_bytes[node]), node)
            return
        self._queue(node)

    def _place(self, node: int) -> None:
        place = self.policy.place
        if self._lists.fixed[node]:
            self.at[node] = self._lists.home[node]
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
        workers, origin = self.model.workers, self._lists.origin[node]
        if self._least is None:
            self._least = []
            for code, up in enumerate(self.up):
                if up:
                    self._rebook(code)
        least, found, kept = self._least, -1, []
        while least:
            wait, code = least[0]
            if wait != self.booked_s[code] / workers[code].cores or not self.up[code]:
                heapq.heappop(least)  # out of date
                continue
            if self.can(node, code):
                found = code
                break
            kept.append(heapq.heappop(least))
        for item in kept:
            heapq.heappush(least, item)
        if found >= 0 and 0 <= origin < len(workers) and self.up[origin] and origin != found:
            there = self.booked_s[origin] / workers[origin].cores
            move = self.move_s(node, found) if count_bytes and there > wait else 0.0
            if there <= wait + move and self.can(node, origin):
                found = origin
        return found

    def _queue(self, node: int) -> None:
        worker = self.at[node]
        if worker >= 0:
            self._wait_at(worker, (self._rank[node], node))
            self._touched.add(worker)
        else:
            heapq.heappush(self._anywhere, (self._rank[node], node))

    def _wait_at(self, worker: int, item: tuple[float, int]) -> None:
        heapq.heappush(self._pinned[worker], item)
        self._waiting[worker] += self._held[item[1]]

    def _on_join(self, worker: int) -> None:
        self.up[worker] = True
        self.free_cores[worker] = self.model.workers[worker].cores
        self._room += self.free_cores[worker]
        self._offer(worker)

    def _offer(self, worker: int) -> None:
        self._touched.add(worker)
        heapq.heappush(self._idle, (-self.free_cores[worker], worker))
        if self._least is not None:
            self._rebook(worker)

    def _rebook(self, worker: int) -> None:
        assert self._least is not None
        wait = self.booked_s[worker] / self.model.workers[worker].cores
        heapq.heappush(self._least, (wait, worker))

    def _on_end(self, node: int) -> None:
        self._end[node] = self.now_s
        self._left -= 1
        worker = self.at[node]
        if worker >= 0:
            self.free_cores[worker] += self._cores[node]
            self._room += self._cores[node]
            self.free_memory_bytes[worker] += self._lists.memory[node]
            self.booked_s[worker] -= self._held[node]
            self._offer(worker)
        waits = self._waits
        for index in range(self._lists.first_after[node], self._lists.first_after[node + 1]):
            other = self._lists.after[index]
            waits[other] -= 1
            if not waits[other]:
                self._on_ready(other)

    # ------------------------------------------------------------------ who gets a slot

    def can(self, node: int, worker: int) -> bool:
        """Say whether a worker, when empty, has what a node asks for."""
        have = self.model.workers[worker]
        return (
            have.cores >= self._cores[node] - 1e-9
            and have.memory_bytes >= self._lists.memory[node] - 0.5
        )

    def _fits(self, node: int, worker: int) -> bool:
        return (
            self.free_cores[worker] >= self._cores[node] - 1e-9
            and self.free_memory_bytes[worker] >= self._lists.memory[node] - 0.5
        )

    def _dispatch(self) -> None:
        anywhere, touched, pinned = self._anywhere, self._touched, self._pinned
        while True:
            first = anywhere[0] if anywhere else None
            for worker in sorted(touched):
                if pinned[worker]:
                    self._serve(worker, first)
            if first is None:
                touched.clear()
                return
            if self._room < 1e-9 or not self._assign():
                break
        for worker in sorted(touched):
            if pinned[worker]:
                self._serve(worker, None)
        touched.clear()

    def _serve(self, worker: int, before: tuple[float, int] | None) -> None:
        """Start what waits for a worker, as long as it comes before a node that may go anywhere."""
        passed: list[tuple[float, int]] = []
        waiting = self._pinned[worker]
        while waiting and len(passed) < _LOOKED_AT and (before is None or waiting[0] < before):
            if self.free_cores[worker] <= 1e-9:
                break
            item = heapq.heappop(waiting)
            if self._fits(item[1], worker):
                self._waiting[worker] -= self._held[item[1]]
                self._begin_node(item[1], worker)
            else:
                passed.append(item)
        for item in passed:
            heapq.heappush(waiting, item)

    def _assign(self) -> bool:
        """Give one of the first nodes that may run anywhere a slot."""
        passed: list[tuple[float, int]] = []
        anywhere, done = self._anywhere, False
        while anywhere and len(passed) < _LOOKED_AT:
            item = heapq.heappop(anywhere)
            worker = self._free_worker(item[1])
            if worker >= 0:
                self.at[item[1]] = worker
                self._book(item[1], worker)
                if self._fits(item[1], worker):
                    self._begin_node(item[1], worker)
                else:
                    self._wait_at(worker, item)
                done = True
                break
            passed.append(item)
            if not self._idle:
                break
        for item in passed:
            heapq.heappush(anywhere, item)
        return done

    def _free_worker(self, node: int) -> int:
        home = self._lists.home[node]
        if home >= 0 and self.up[home] and self._fits(node, home):
            return home
        idle, found, kept = self._idle, -1, []
        while idle:
            free, worker = idle[0]
            if free != -self.free_cores[worker] or not self.up[worker] or free >= -1e-9:
                heapq.heappop(idle)  # out of date
                continue
            if self._fits(node, worker):
                found = worker
                break
            kept.append(heapq.heappop(idle))
            if -free < self._cores[node]:
                break  # all others have less
        for item in kept:
            heapq.heappush(idle, item)
        if found >= 0 and home >= 0 and self.up[home] and self._home_soon(node, home, found):
            return home
        return found

    def move_s(self, node: int, worker: int) -> float:
        """Give the seconds that fetching a node's inputs to a worker adds to what it took."""
        rate = self.model.move_bps
        if not rate or self._lists.origin[node] < 0:
            return 0.0
        size = 0.0
        for index in range(self._lists.first_input[node], self._lists.first_input[node + 1]):
            source = self._lists.inputs[index]
            if self.at[source] != worker:
                size += self._lists.output[source]
        return max(0.0, size / rate - self._lists.transfer[node])

    def _home_soon(self, node: int, home: int, other: int) -> bool:
        """Say whether a slot at home comes free too soon for going elsewhere to gain anything."""
        ends = self._ends[home]
        while ends and ends[0] <= self.now_s:
            heapq.heappop(ends)
        if not ends or not self.can(node, home):
            return False
        wait = ends[0] - self.now_s + self._waiting[home] / self.model.workers[home].cores
        patience = min(_PATIENCE_S, _PATIENCE_RATIO * self._held[node])
        return wait <= patience or wait <= patience + self.move_s(node, other)

    def _begin_node(self, node: int, worker: int) -> None:
        now = self.now_s
        self.free_cores[worker] -= self._cores[node]
        self._room -= self._cores[node]
        self.free_memory_bytes[worker] -= self._lists.memory[node]
        if self.free_cores[worker] > 1e-9:
            heapq.heappush(self._idle, (-self.free_cores[worker], worker))
        self._start[node] = now
        before = self._lists.before[node]
        if worker != self._lists.origin[node]:
            before += self.move_s(node, worker)
        self._begin[node] = now + before
        if self._store is not None:
            self._push(now + before, _PHASE, 0, node)
            return
        compute = (
            self._lists.compute[node] * self._lists.own_speed[node] / self._lists.speed[worker]
        )
        end = now + before + compute + self._lists.io[node]
        heapq.heappush(self._events, (end, _END, self._rank[node], node))
        heapq.heappush(self._ends[worker], end)

    # ------------------------------------------------------------------ shared bandwidth

    def _on_phase(self, node: int, phase: int) -> None:
        """Go through read (0), compute (1), write (2) of a node on shared storage."""
        model, worker = self.model, self.at[node]
        if phase == 1:
            compute = (
                self._lists.compute[node] * self._lists.own_speed[node] / self._lists.speed[worker]
            )
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

    def schedule(self) -> Schedule:
        """Give what happened."""
        model = self.model
        end, start = np.array(self._end, float), np.array(self._start, float)
        worker = np.array(self.at, dtype=np.int64)
        ran = ~np.isnan(end)
        holds = ran & ~model.gate
        counted = end[holds] if holds.any() else end[ran]
        held = np.where(holds, (end - start) * np.asarray(self._cores, float), 0.0)
        place = np.where(worker >= 0, worker, len(model.workers))
        busy = np.bincount(place, held, minlength=len(model.workers) + 1)[:-1]
        return Schedule(
            ready_s=np.array(self._ready, float),
            start_s=start,
            begin_s=np.array(self._begin, float),
            end_s=end,
            worker=worker,
            makespan_s=float(counted.max()) if len(counted) else 0.0,
            busy_s=np.asarray(busy, dtype=np.float64),
            stuck=int((~ran).sum()),
        )
