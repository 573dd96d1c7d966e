"""Options of commands that price storage configurations: ``--storage TABLE`` and its limits."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rotameter.errors import UsageError

if TYPE_CHECKING:
    from rotameter.profiler.storing.advice import Advice
    from rotameter.profiler.trace import Trace

__all__ = ["advice_of", "storage_options"]

F = TypeVar("F", bound=Callable[..., Any])


def storage_options(function: F) -> F:
    """Add ``--storage`` and what narrows it; the command gets ``storage``, for `advice_of`."""

    @functools.wraps(function)
    def command(
        *args: Any,
        storage: str | None,
        home: str | None,
        nodes: tuple[int, ...],
        tasks_per_node: tuple[int, ...],
        **kwargs: Any,
    ) -> Any:
        narrowed = {
            "home": home,
            "nodes": list(nodes) or None,
            "tasks_per_node": list(tasks_per_node) or None,
        }
        given = {name: value for name, value in narrowed.items() if value is not None}
        if given and storage is None:
            option = "--" + next(iter(given)).replace("_", "-")
            raise UsageError(f"{option} goes with --storage", hint="name a table of bandwidths")
        chosen = None if storage is None else (storage, given)
        return function(*args, storage=chosen, **kwargs)

    many = click.IntRange(min=1)
    for option in (
        click.option(
            "--storage",
            type=click.Path(),
            metavar="TABLE",
            help="CSV of measured bandwidths (IOR): also say which store each stage should use.",
        ),
        click.option("--home", metavar="STORE", help="The shared store of inputs and results."),
        click.option("--nodes", type=many, multiple=True, help="How many nodes may be used."),
        click.option("--tasks-per-node", type=many, multiple=True, help="Tasks at once on each."),
    ):
        command = option(command)
    return command  # type: ignore[return-value]


def advice_of(trace: Trace, storage: tuple[str, dict[str, Any]] | None) -> Advice | None:
    """Price the configurations that were asked for; None where none were."""
    from rotameter import api

    return None if storage is None else api.storage_advice(trace, storage[0], **storage[1])
