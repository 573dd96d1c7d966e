"""What several commands share: opening inputs and writing JSON."""

from __future__ import annotations

import contextlib
import functools
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rotameter.errors import RotameterError, UsageError

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = [
    "Given", "RecoveredInput", "echo_json", "input_options", "load", "short_name", "standard_input"
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])
_BAR_FROM = 20
_STDIN = "/dev/stdin"


class RecoveredInput(RotameterError):
    """The input was read with a loss and ``--strict`` was given."""

    exit_code = 4


def strict_option(function: F) -> F:
    """Add ``--strict``."""
    option = click.option(
        "--strict", is_flag=True, help="Fail (exit code 4) when the input was read with a loss."
    )
    return option(function)


def input_options(function: F) -> F:
    """Add what says how a foreign input is to be read, and ``--strict``.

    The command gets ``given``: hand it to :func:`load`.
    """

    @functools.wraps(function)
    def command(
        *args: Any,
        format: str | None,
        utc_offset: str | None,
        opt: tuple[str, ...],
        map_: tuple[str, ...],
        scale: tuple[str, ...],
        strict: bool,
        **kwargs: Any,
    ) -> Any:
        options: dict[str, Any] = dict(_pair(text, "--opt") for text in opt)
        if map_:
            options["map"] = list(map_)
        if "scale" in options:
            raise UsageError(
                "--opt scale: a run's scale is no importer's option", hint="use --scale NAME=VALUE"
            )
        given = Given(
            format=format,
            utc_offset=utc_offset,
            options=options,
            strict=strict,
            scale=_scale(scale),
        )
        return function(*args, given=given, **kwargs)

    for option in (
        click.option("--format", help="What the input is, where that is not found out."),
        click.option("--utc-offset", help="Zone of times that carry none, such as +02:00."),
        click.option("--opt", multiple=True, metavar="KEY=VALUE", help="An importer's own option."),
        click.option(
            "--map", "map_", multiple=True, metavar="COLUMN=NAME", help="Columns of a table."
        ),
        click.option(
            "--scale",
            multiple=True,
            metavar="NAME=VALUE",
            help="How large the run was, such as events=3000; for scaling laws.",
        ),
        strict_option,
    ):
        command = option(command)
    return command  # type: ignore[return-value]


def _pair(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"{option} {text!r}: not KEY=VALUE", hint=f"such as {option} name=value")
    return name.strip(), value


def _scale(texts: Sequence[str]) -> dict[str, float]:
    """Read ``NAME=VALUE …``.

    Raises
    ------
    UsageError
        If one is no such thing, or one name is given two values.
    """
    from rotameter.adapters.importers.locating import positive_scale_of

    scale: dict[str, float] = {}
    for text in texts:
        name, value = _pair(text, "--scale")
        number = positive_scale_of({name: value})
        if scale.get(name, number[name]) != number[name]:
            raise UsageError(f"--scale {name}: two values", hint="name each scale once")
        scale |= number
    return scale


def short_name(path: str) -> str:
    """Give a name for what is made from an input.

    Examples
    --------
    >>> short_name("runs/day.rmt/"), short_name("trace.txt.gz"), short_name("logs/*.json")
    ('day', 'trace', 'logs')
    """
    parts = [p for p in path.replace("\\", "/").split("/") if p and not set(p) & set("*?[")]
    name = parts[-1] if parts else "run"
    for suffix in (".gz", ".bz2", ".xz"):
        name = name.removesuffix(suffix)
    return name.rpartition(".")[0] or name


@dataclass(frozen=True, slots=True)
class Given:
    """How an input is to be read."""

    format: str | None = None
    utc_offset: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    strict: bool = False
    scale: dict[str, float] = field(default_factory=dict)


def load(path: str | Sequence[str], given: Given) -> Trace:
    """Open a trace or import what is there, and say on stderr what was lost in it."""
    from rotameter import api

    path = standard_input(path)
    with warnings.catch_warnings(), _bar() as progress:
        warnings.simplefilter("ignore")
        trace = api.open(
            path,
            format=given.format,
            utc_offset=given.utc_offset,
            progress=progress,
            **given.options,
            **({"scale": given.scale} if given.scale else {}),
        )
    lossless = trace.meta.get("lossless") or ()
    for word in trace.warnings:
        if given.strict and word not in lossless:
            shown = path if isinstance(path, str) else path[0]
            raise RecoveredInput(
                f"{shown}: {word}", hint="without --strict the rest of the trace is used"
            )
        click.echo(f"warning: {word}", err=True)
    return trace


def standard_input(path: str | Sequence[str]) -> str | Sequence[str]:
    """Take ``-`` for what is piped in."""
    if path != "-" and (isinstance(path, str) or "-" not in path):
        return path
    if sys.stdin is not None and sys.stdin.isatty():
        raise UsageError(
            "- is the standard input, and nothing is piped in",
            hint="COMMAND | rotameter stats -, or name a file",
        )
    return _STDIN if isinstance(path, str) else [_STDIN if one == "-" else one for one in path]


@contextlib.contextmanager
def _bar() -> Iterator[Callable[[int, int], None]]:
    """Draw progress over many files, on a terminal only."""
    shown = False

    def progress(done: int, files: int) -> None:
        nonlocal shown
        if files >= _BAR_FROM and sys.stderr.isatty() and (done % 16 == 0 or done == files):
            shown = True
            filled = 30 * done // files
            bar = "#" * filled + "-" * (30 - filled)
            click.echo(f"\rreading [{bar}] {done:,}/{files:,} files", nl=False, err=True)

    try:
        yield progress
    finally:  # An error begins on its own line.
        if shown:
            click.echo(err=True)


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
