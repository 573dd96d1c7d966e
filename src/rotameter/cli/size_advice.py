"""What ``rotameter size`` advises: as text, as JSON, or as a file of a tool."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import click

from rotameter.values import to_dict

if TYPE_CHECKING:
    from rotameter.allocator.advice import Advice
    from rotameter.allocator.joined import Joined
    from rotameter.allocator.workload import Workload
    from rotameter.cli.size_limits import Limits

__all__ = ["Asked", "advice_dict", "advice_words"]

_AMOUNTS = {
    **{name: name for name in ("least", "most", "asked", "request", "median", "p95")},
    **{"retries": "retry", "killed_with": "killed", "at_least": "at_least", "guess": "guess"},
}
"""Amounts in the unit of the resource, and their names in JSON before the unit."""

_OF_KILLS = (
    "retries", "kill_ratio", "kill_interval", "at_most", "killed", "killed_with", "enough_ratios",
    "lacking", "unsure", "at_least", "guess", "kill_range",
)  # fmt: skip
"""What means nothing of cores and GPUs: no task is killed for what it keeps busy."""

_WHERE_SOME = ("rests_on", "inputs")
"""What is left out where there is none."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user accepts and has.

    Attributes
    ----------
    max_kill, headroom : float or None
        None: that of the resource.
    limits : Limits
    """

    max_kill: float | None
    headroom: float | None
    limits: Limits


def advice_words(
    works: Sequence[Sequence[Workload]],
    asked: Asked,
    target: str | None,
    *,
    named: bool,
    together: bool = False,
) -> str:
    """Advise on each workload of each input, and write it down.

    Parameters
    ----------
    works : sequence of sequence of Workload
        Those of each input, one a resource.
    asked : Asked
    target : str or None
        A tool, ``json``, or None for text.
    named : bool
        Whether JSON names the resource of each entry: where the user named any.
    together : bool
        Whether all inputs are taken as one.
    """
    from rotameter.adapters.advising import left_out, write
    from rotameter.allocator.joined import join
    from rotameter.cli.size_text import advice_text

    joined: list[Joined] = []
    if together and len(works) > 1:
        joined = [join(one) for one in _by_resource(works)]
        made = [[(one.work, _of_joined(one, asked)) for one in joined]]
    else:
        made = [[(work, _advise(work, asked)) for work in one] for one in works]
    if target == "json":
        files = [_entry(work, found, named) for one in made for work, found in one]
        for entry, all_ in zip(files, joined, strict=False):
            entry["inputs"] = [{"file": name, "tasks": count} for name, count in all_.parts]
        return json.dumps({"schema": 1, "advice": files}, indent=2)
    if target is not None:
        advice = [one for _, found in made[0] for one in found]
        most = asked.limits.most
        for word in left_out(target, advice, most["memory"]):
            click.echo(f"warning: {word}", err=True)
        disk, notes = most["disk"], _weights(joined)
        return write(target, advice, most["memory"], most["time"], disk_bytes=disk, notes=notes)
    # The last line of a file's blocks names --for, once, where there is something to write.
    head = ["\n".join(_weights(joined))] if joined else []
    blocks = [
        advice_text(work, found, last=at == len(one) - 1 and _any_request(one))
        for one in made
        for at, (work, found) in enumerate(one)
    ]
    return "\n\n".join([*head, *blocks])


def _any_request(blocks: Sequence[tuple[Workload, Sequence[Advice]]]) -> bool:
    return any(advice.request is not None for _, found in blocks for advice in found)


def _advise(work: Workload, asked: Asked) -> list[Advice]:
    from rotameter.allocator.by_resource import advise_on

    name = work.resource.name
    return advise_on(
        work,
        max_kill=asked.max_kill,
        headroom=asked.headroom,
        most=asked.limits.most.get(name),
        floor=asked.limits.floors.get(name),
    )


def _by_resource(works: Sequence[Sequence[Workload]]) -> list[list[Workload]]:
    """Put the workloads of one resource together, in the order in which resources come."""
    made: dict[str, list[Workload]] = {}
    for work in (work for one in works for work in one):
        made.setdefault(work.resource.name, []).append(work)
    return list(made.values())


def _of_joined(joined: Joined, asked: Asked) -> list[Advice]:
    """Advise on inputs that are taken together; each group says of which its runs are."""
    found = _advise(joined.work, asked)
    return [replace(one, inputs=joined.by_group.get(one.group, ())) for one in found]


def _weights(joined: Sequence[Joined]) -> list[str]:
    """Say how much each input weighs; by resource, where they do not weigh the same."""
    if len({one.parts for one in joined}) < 2:
        return [line for one in joined[:1] for line in one.words()]
    return [
        f"{one.work.resource.word}: {line}" if not at else line
        for one in joined
        for at, line in enumerate(one.words())
    ]


def _entry(work: Workload, found: Sequence[Advice], named: bool) -> dict[str, Any]:
    told = {"resource": work.resource.name, "unit": work.resource.unit} if named else {}
    return {"file": work.name, **told, "groups": [advice_dict(one) for one in found]}


def advice_dict(one: Advice) -> dict[str, Any]:
    """Give advice as JSON has it: each amount with its unit in its name.

    Examples
    --------
    >>> from rotameter.allocator.advice import Advice
    >>> from rotameter.allocator.resources import TIME
    >>> blank = (9, 60.0, 70.0, None, 600.0, (1200.0,), 0.0, (0.0, 0.3), None)
    >>> [name for name in advice_dict(Advice("g", *blank, resource=TIME)) if name.endswith("_s")]
    ['least_s', 'most_s', 'asked_s', 'request_s', 'retry_s', 'median_s', 'p95_s', 'killed_s', 'at_least_s', 'guess_s']
    """  # noqa: E501
    resource, made = one.resource, {}
    for name in (field.name for field in fields(one) if field.name != "resource"):
        if not resource.kills and name in _OF_KILLS:
            continue
        value = to_dict(getattr(one, name))
        if name in _WHERE_SOME and not value:
            continue
        if name in _AMOUNTS:
            made[f"{_AMOUNTS[name]}_{resource.unit}"] = value
        elif not name.endswith("_held"):
            made[name] = value
        elif resource.held:
            made[f"{name.removesuffix('_held')}_{resource.held}"] = value
    return made
