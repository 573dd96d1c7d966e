"""What several commands share: opening inputs and writing JSON."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rotameter.errors import RotameterError

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = ["RecoveredInput", "echo_json", "load", "strict_option"]

F = TypeVar("F", bound=Callable[..., Any])


class RecoveredInput(RotameterError):
    """The input was read with a loss and ``--strict`` was given."""

    exit_code = 4


def strict_option(function: F) -> F:
    """Add ``--strict``."""
    option = click.option(
        "--strict", is_flag=True, help="Fail (exit code 4) when the input was read with a loss."
    )
    return option(function)


def load(path: str, *, strict: bool = False) -> Trace:
    """Open a trace and say on stderr what was lost in it."""
    from rotameter import api

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = api.open(path)
    for word in trace.warnings:
        if strict:
            raise RecoveredInput(
                f"{path}: {word}", hint="without --strict the rest of the trace is used"
            )
        click.echo(f"warning: {word}", err=True)
    return trace


def echo_json(document: Any) -> None:
    """Print one JSON document to stdout; NaN and infinity never appear in it."""
    click.echo(json.dumps(_finite(document), indent=1, allow_nan=False, ensure_ascii=False))


def _finite(value: Any) -> Any:
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return value
