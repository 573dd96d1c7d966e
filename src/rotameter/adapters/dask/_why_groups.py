"""Why each unfinished group does not run: from a snapshot to reasons, by its tasks' states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rotameter.adapters.dask._why_processing import Cluster, add_reason, worker_reasons
from rotameter.adapters.dask._why_restricted import no_workers, unrunnable_reason
from rotameter.adapters.dask._why_values import GroupWhy, Reason
from rotameter.profiler.live.redact import redact
from rotameter.units import many
from rotameter.values import Evidence

__all__ = ["group_reasons"]

_OPEN = ("waiting", "processing", "queued", "no-worker")
_ORDER = (
    "worker_stopped",
    "nested_deadlock",
    "disagreement",
    "unmet_resource",
    "unmet_restriction",
    "no_workers",
    "paused_worker",
    "retiring_worker",
    "transfer_stuck",
    "worker_silent",
    "worker_stalled",
    "lock_wait",
    "failed_dependency",
    "resource_busy",
    "gil_held",
    "failed",
    "long_task",
    "running",
    "transferring",
    "ready",
    "queued",
    "waiting",
)


def _queued(cluster: Cluster, blocked: list[Reason]) -> Reason:
    """Say why tasks wait in the scheduler's queue: normally because all slots are taken."""
    if cluster.n_workers == 0:
        return no_workers()
    counted = sum(f["states"].get("queued", 0) for f in cluster.shot["prefixes"].values())
    if counted > cluster.shot["queued"]:
        return _books("queued", counted - int(cluster.shot["queued"]))
    down = {**cluster.odd, **cluster.bad, **cluster.out}
    usable = [
        r for r in cluster.workers if r["status"] == "running" and str(r["address"]) not in down
    ]
    if not usable and down:
        first = min(down.values(), key=_rank)
        every = tuple(address for address, r in down.items() if r.code == first.code)
        text = f"is queued, and no worker is left that runs: {first.text}"
        return replace(first, text=text, workers=every)
    last = cluster.shot.get("last_finish_s")
    still = not cluster.progressing and (last is None or last > 2)
    if still and blocked:
        first = min(blocked, key=_rank)
        return replace(first, text=f"is queued behind tasks that do not move: {first.text}")
    processing = sum(int(g["n"]) for r in usable for g in r["groups"].values())
    if still and processing == 0 and cluster.free_threads():
        return Reason(
            "disagreement",
            "is queued although threads are free and nothing runs: "
            "the scheduler's state contradicts itself",
            evidence=(Evidence("last task finished", last, "s ago", "scheduler's log"),),
            advice="submit anything (that makes the scheduler look again), or restart the cluster",
            blocking=True,
        )
    slots = int(cluster.shot["slots"])
    if cluster.out:
        return _queued_beside(cluster.out, slots)
    return Reason("queued", f"is queued: {_all_threads(slots)} taken, which is normal")


def _all_threads(slots: int, whose: str = "") -> str:
    return f"the only thread{whose} is" if slots == 1 else f"all {slots:,} threads{whose} are"


def _queued_beside(out: Mapping[str, Reason], slots: int) -> Reason:
    """Say that tasks wait for the workers that run, because others start none."""
    first = min(out.values(), key=_rank)
    same = tuple(address for address, r in out.items() if r.code == first.code)
    more = f" (likewise {many(len(out) - 1, 'more worker')})" if len(out) > 1 else ""
    taken = _all_threads(slots, " of the running workers")
    return replace(
        first,
        text=f"is queued: {taken} taken, and {first.text}{more}",
        workers=same,
        blocking=False,
    )


def _rank(reason: Reason) -> tuple[bool, int, int]:
    at = _ORDER.index(reason.code) if reason.code in _ORDER else len(_ORDER)
    return (not reason.blocking, at, -reason.n_tasks)


def _unlisted(cluster: Cluster, group: str, states: Mapping[str, int]) -> list[tuple[str, int]]:
    """Give (state, n) of tasks that count in a state, but are in none of its lists."""
    shot, out = cluster.shot, []
    if cluster.n_workers == len(cluster.workers) and group not in shot["odd"]:
        listed = sum(int(w["groups"][group]["n"]) for w in cluster.workers if group in w["groups"])
        out.append(("processing", states.get("processing", 0) - listed))
    if shot["n_unrunnable"] == sum(int(r["n"]) for r in shot["unrunnable"]):
        listed = sum(int(r["n"]) for r in shot["unrunnable"] if r["group"] == group)
        out.append(("no-worker", states.get("no-worker", 0) - listed))
    return [(state, n) for state, n in out if n > 0]


def _books(state: str, n: int) -> Reason:
    where = "no worker has them" if state == "processing" else "they are on no list"
    return Reason(
        "disagreement",
        f"the scheduler's state contradicts itself: {many(n, 'task')} count as {state!r}, but "
        f"{where}",
        evidence=(Evidence(f"{state} on no list", n, "tasks", "scheduler"),),
        advice="cancel these futures and submit them again",
        blocking=True,
    )


def _odd(row: Mapping[str, Any]) -> Reason:
    return Reason(
        "failed_dependency" if "erred" in str(row["what"]) else "disagreement",
        f"the scheduler's state contradicts itself: a task {row['what']}",
        evidence=(Evidence("for example", row["key"], "", "scheduler"),),
        advice="cancel these futures and submit them again",
        blocking=True,
    )


def _own(cluster: Cluster, group: str, facts: Mapping[str, Any]) -> list[Reason]:
    """Give a group's reasons that do not depend on other groups."""
    shot, into = cluster.shot, list[Reason]()
    mean_s = facts.get("mean_s")
    for row in cluster.workers:
        if group in row["groups"]:
            worker_reasons(cluster, into, row, group, mean_s)
    for row in shot["unrunnable"]:
        if row["group"] == group:
            add_reason(
                into, unrunnable_reason(cluster.workers, cluster.n_workers, row), int(row["n"])
            )
    for state, unlisted in _unlisted(cluster, group, facts["states"]):
        add_reason(into, _books(state, unlisted), unlisted)
    if group in shot["odd"]:
        add_reason(into, _odd(shot["odd"][group]), int(shot["odd"][group]["n"]))
    if group in shot["failed"]:
        failed = shot["failed"][group]
        text = " ".join(redact(failed["text"]).split())[:160]
        reason = Reason("failed", f"failed: {text}", advice="see `future.exception()`")
        add_reason(into, reason, int(failed["n"]))
    if (fallen := shot.get("fallen", {}).get(group)) is not None:
        of = f"`{fallen['of']}`" if fallen["of"] else "what they need"
        text = f"is not run, as {of} failed before it"
        advice = "submit again what failed; these follow it"
        add_reason(into, Reason("failed_dependency", text, advice=advice), int(fallen["n"]))
    return into


def group_reasons(cluster: Cluster) -> tuple[GroupWhy, ...]:
    """Give the unfinished groups, those that do not move first.

    A group that waits for another takes over the reason of that one, through any number of groups.
    """
    prefixes = cluster.shot["prefixes"]
    open_groups = {
        name: facts
        for name, facts in prefixes.items()
        if any(facts["states"].get(s, 0) for s in _OPEN)
        or name in cluster.shot["failed"]
        or name in cluster.shot.get("fallen", {})
    }
    own = {name: _own(cluster, name, facts) for name, facts in open_groups.items()}
    blocked = [r for reasons in own.values() for r in reasons if r.blocking]
    for name, facts in open_groups.items():
        add_reason(own[name], _queued(cluster, blocked), facts["states"].get("queued", 0))
    final = {name: list(reasons) for name, reasons in own.items()}
    for name, facts in open_groups.items():
        count = facts["states"].get("waiting", 0) - int(
            cluster.shot["odd"].get(name, {}).get("n", 0)
        )
        if count > 0:
            add_reason(final[name], _waiting(cluster, own, name), count)
    out = []
    for name, reasons in final.items():
        found = sorted(reasons, key=_rank) or [Reason("waiting", "is about to start")]
        out.append(GroupWhy(name, dict(prefixes[name]["states"]), tuple(found)))
    out.sort(key=lambda g: (_rank(g.reasons[0])[:2], -g.n_unfinished, g.group))
    return tuple(out)


def _deps(cluster: Cluster, name: str) -> set[str]:
    """Give the groups that a group waits for: as seen, else (the look was cut) by the graph."""
    seen = cluster.shot["waits"].get(name)
    if seen is not None:
        return {dep for dep, _, _ in seen}
    facts = cluster.shot["prefixes"].get(name, {"deps": (), "states": {}})
    return set(facts["deps"]) if facts["states"].get("waiting") else set()


def _waiting(cluster: Cluster, own: Mapping[str, list[Reason]], name: str) -> Reason:
    """Follow what a group waits for to a reason that blocks, or say that it simply waits."""
    direct = sorted(_deps(cluster, name) - {name})
    seen, queue = {name}, list(direct)
    while queue:
        at = queue.pop(0)
        if at in seen:
            continue
        seen.add(at)
        blocking = [r for r in own.get(at, ()) if r.blocking]
        if blocking:
            first = min(blocking, key=_rank)
            return replace(first, text=f"waits for `{at}`: {first.text}")
        queue += sorted(_deps(cluster, at) - seen)
    if not direct:
        mine = [r for r in own.get(name, ()) if r.blocking]
        if mine:
            return min(mine, key=_rank)
        return Reason("waiting", "waits for other tasks of its own group")
    names = ", ".join(f"`{dep}`" for dep in direct[:3]) + (" …" if len(direct) > 3 else "")
    return Reason("waiting", f"waits for {names}, which is under way")
