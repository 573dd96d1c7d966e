"""Tasks that no worker may run: resources, places, or no worker at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rotameter.adapters.dask._why_values import Reason
from rotameter.adapters.dask._why_workers import Row, at_odds, label, paused
from rotameter.units import format_seconds, many
from rotameter.values import Evidence

__all__ = ["no_workers", "unfit", "unrunnable_reason"]


def no_workers() -> Reason:
    """Say that there is no worker at all."""
    return Reason(
        "no_workers",
        "the cluster has no worker",
        evidence=(Evidence("workers", 0, "", "scheduler"),),
        advice="start workers (`cluster.scale(n)`); see the log of the batch system if they end",
        blocking=True,
    )


def _offered(workers: Sequence[Row], need: Mapping[str, float]) -> list[str]:
    """Say for each resource that no worker has enough of: how much is asked, and the most had."""
    out = []
    for name, asked in sorted(need.items()):
        amounts = [float(w["resources"][name]) for w in workers if name in w["resources"]]
        if not amounts:
            out.append(f"{name}={asked:g}, which no worker offers")
        elif max(amounts) < asked:
            of = many(len(amounts), "worker")
            out.append(f"{name}={asked:g}; the most that one offers is {max(amounts):g} ({of})")
    return out


def _asks(need: Mapping[str, float]) -> str:
    return ", ".join(f"{name}={amount:g}" for name, amount in sorted(need.items()))


def _resource(workers: Sequence[Row], need: Mapping[str, float], places: str = "") -> Reason:
    lacking = _offered(workers, need)
    if lacking:
        text = f"asks {places}for {'; and for '.join(lacking)}"
    else:
        text = f"asks {places}for {_asks(need)} together, which no single worker offers"
    evidence = [Evidence("asked", _asks(need), "", "the tasks' annotations")]
    for name in sorted(need):
        most = max((float(w["resources"].get(name, 0)) for w in workers), default=0.0)
        evidence.append(Evidence(f"most {name} of one worker", most, "", "scheduler"))
    short = [
        (name, asked)
        for name, asked in sorted(need.items())
        if all(w["resources"].get(name, 0) < asked for w in workers)
    ]
    first = (short or sorted(need.items()))[0]
    return Reason(
        "unmet_resource",
        text,
        evidence=tuple(evidence),
        advice=f'start a worker with `--resources "{first[0]}={first[1]:g}"`, or ask for less',
        blocking=True,
    )


def unfit(workers: Sequence[Row], row: Row, need: Mapping[str, float]) -> Reason:
    """Say that tasks were sent to a worker that can never run them."""
    reason = _resource(workers, need)
    if _offered(workers, need):
        return replace(reason, workers=(str(row["address"]),))
    return replace(
        reason,
        text=f"was sent to {label(row)}, which does not offer {_asks(need)}: it waits there for "
        "ever",
        workers=(str(row["address"]),),
        advice="cancel and submit again: the queue does not look at restrictions",
    )


def _capable(workers: Sequence[Row], row: Mapping[str, Any]) -> list[Row]:
    """Give the workers in any status that satisfy a row's places and resources."""
    named = set(row["workers"])
    hosts = set(row["hosts"])
    out = []
    for worker in workers:
        there = worker["address"] in named or worker["host"] in hosts or worker["name"] in named
        if (named or hosts) and not there:
            continue
        if all(worker["resources"].get(k, 0) >= v for k, v in row["resources"].items()):
            out.append(worker)
    return out


def _not_running(capable: Sequence[Row]) -> Reason:
    """Say why none of the workers that could take a task does."""
    for worker in capable:
        found = at_odds(worker) or paused(worker)
        if found is not None:
            every = "" if len(capable) == 1 else f" (all {len(capable)} that could take it)"
            return replace(
                found,
                text=f"no worker that may run it is running{every}: {found.text}",
                workers=tuple(str(w["address"]) for w in capable[:20]),
            )
    status = ", ".join(sorted({str(w["status"]) for w in capable}))
    return Reason(
        "no_workers",
        f"no worker that may run it is running; their status: {status}",
        workers=tuple(str(w["address"]) for w in capable[:20]),
        advice="wait for new workers, or start some",
        blocking=True,
    )


def unrunnable_reason(workers: Sequence[Row], n_workers: int, row: Mapping[str, Any]) -> Reason:
    """Say why tasks are in state ``no-worker``."""
    if n_workers == 0:
        return no_workers()
    if row["fits"]:
        return Reason(
            "disagreement",
            f"the scheduler keeps it as 'no-worker' for {format_seconds(row['s'])}, although "
            f"{row['fits'][0]} may run it: nobody told the scheduler to look again (resources "
            "added later)",
            workers=tuple(row["fits"]),
            evidence=(Evidence("asked", _asks(row["resources"]) or "nothing", "", "scheduler"),),
            advice="add a worker, or cancel and submit again: that makes the scheduler look again",
            blocking=True,
        )
    capable = _capable(workers, row)
    if capable:
        return _not_running(capable)
    places = [*row["workers"], *row["hosts"]]
    alone = _capable(workers, {**row, "workers": [], "hosts": []})
    if row["resources"] and (not places or not alone):
        return _resource(workers, row["resources"])
    if not places:
        return _not_running(list(workers))
    known = _capable(workers, {**row, "resources": {}})
    if known and row["resources"]:
        return _resource(known, row["resources"], "of the workers that it names ")
    return Reason(
        "unmet_restriction",
        f"may run on {', '.join(places[:3])}{' …' if len(places) > 3 else ''} only, which is not "
        "in the cluster",
        evidence=(
            Evidence("restricted to", ", ".join(places[:5]), "", "the tasks' annotations"),
            Evidence("workers", n_workers, "", "scheduler"),
        ),
        advice="submit again without `workers=`, or with `allow_other_workers=True`",
        blocking=True,
    )
