"""``rotameter compare``: what changed between runs, and whether predictions came true."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rotameter.cli._common import Given, echo_json, input_options, load, short_name
from rotameter.errors import EmptyTrace, UsageError, WouldOverwrite, no_folder
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.profiler.scaling import Scaling
    from rotameter.profiler.trace import Trace

__all__ = ["compare"]

_SIDES = ("--before", "--after")
_LAWS_FROM = 3
_LAW_LINES = 36


class _Sides(click.Command):
    """Let ``--before`` and ``--after`` take all the names that follow them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        spread: list[str] = []
        side: str | None = None
        for place, word in enumerate(args):
            if word == "--":
                spread += args[place:]
                break
            if word in _SIDES:
                side = word
            elif word.startswith("-"):
                side = None
                spread.append(word)
            elif side is not None:
                spread += [side, word]
            else:
                spread.append(word)
        return super().parse_args(ctx, spread)


@click.command(cls=_Sides)
@click.argument("traces", nargs=-1)
@click.option("--before", multiple=True, metavar="TRACE…", help="Runs of the earlier side.")
@click.option("--after", multiple=True, metavar="TRACE…", help="Runs of the later side.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema 1).")
@click.option(
    "--scales",
    multiple=True,
    metavar="NAME=V1,V2,…",
    help="How large each run was, in order, where the traces do not say it.",
)
@click.option("--at", metavar="NAME=VALUE", help="Print what is expected at this scale.")
@click.option("-o", "--output", type=click.Path(), help="Also write an HTML page.")
@click.option("--force", is_flag=True, help="Replace a page that exists.")
@input_options
def compare(
    traces: tuple[str, ...],
    before: tuple[str, ...],
    after: tuple[str, ...],
    as_json: bool,
    scales: tuple[str, ...],
    at: str | None,
    output: str | None,
    force: bool,
    given: Given,
) -> None:
    """Say what changed between runs: A and B, or several a side.

    With three runs or more of different scale, it prints the laws by which they grow.

    \b
    Example:
      rotameter compare before.rmt after.rmt
      rotameter compare --before a1.rmt a2.rmt --after b1.rmt b2.rmt
      rotameter compare k1.rmt k2.rmt k4.rmt --at data=8
    """  # noqa: D301
    old, new = _sides(traces, before, after)
    where = _number(at) if at is not None else None
    page = None if output is None else _page(output, force)
    each = _each_scale(scales, len(old) + len(new))
    loaded = [load(path, given) for path in (*old, *new)]
    for trace, scale in zip(loaded, each, strict=True):
        if scale:
            trace.meta["scale"] = {**(trace.meta.get("scale") or {}), **scale}
    together = not (before or after)
    if where is not None or (together and len(loaded) > 2) or _differ(loaded):
        found = _laws(loaded, where)
        if found is not None:
            if page is not None:
                raise UsageError("laws of growth have no page", hint="leave out --output")
            _print_laws(found, None if where is None else where[1], as_json)
            return
    if together and len(loaded) > 2:
        raise UsageError(
            f"{len(loaded)} runs, and which are the earlier ones is not said",
            hint="rotameter compare --before A1 A2 --after B1 B2; "
            "or say their scale with --scales NAME=V1,V2,…",
        )
    _print_comparison(loaded[: len(old)], loaded[len(old) :], (old, new), as_json, page)


def _sides(
    traces: Sequence[str], before: Sequence[str], after: Sequence[str]
) -> tuple[list[str], list[str]]:
    if before or after:
        if traces or not (before and after):
            raise UsageError(
                "name both sides, and nothing besides them",
                hint="rotameter compare --before A1 A2 --after B1 B2",
            )
        return list(before), list(after)
    if len(traces) < 2:
        raise UsageError("a comparison needs two runs or more", hint="rotameter compare A B")
    return [traces[0]], list(traces[1:])


def _page(output: str, force: bool) -> Path:
    """Check where the page goes, before anything is computed.

    Raises
    ------
    WouldOverwrite, UsageError
        If there is a file already, or no folder for it.
    """
    page = Path(output).expanduser()
    if page.is_dir():
        raise UsageError(f"{page} is a folder", hint="name a file in it")
    if not page.parent.is_dir():
        raise no_folder(page.parent)
    if page.exists() and not force:
        raise WouldOverwrite(f"{page} exists", hint="pass --force to replace it")
    return page


def _number(text: str) -> tuple[str, float]:
    from rotameter.adapters.importers.locating import scale_of

    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--at {text!r}: not NAME=VALUE", hint="such as --at data=8")
    ((name, number),) = scale_of({name: value}).items()
    if not number > 0:
        raise UsageError("--at: a scale must be above 0", hint="such as --at data=8")
    return name, number


def _each_scale(scales: Sequence[str], runs: int) -> list[dict[str, float]]:
    """Read ``NAME=V1,V2,…``: one value a run.

    Raises
    ------
    UsageError
        If there are more or fewer.
    """
    from rotameter.adapters.importers.locating import scale_of

    made: list[dict[str, float]] = [{} for _ in range(runs)]
    for text in scales:
        name, equals, values = text.partition("=")
        each = values.split(",")
        if not equals or len(each) != runs:
            raise UsageError(
                f"--scales {text!r}: not one value for each of {runs} runs",
                hint="such as --scales data=1,2,4, in the order of the runs",
            )
        for scale, value in zip(made, each, strict=True):
            scale |= scale_of({name: value})
    return made


def _differ(loaded: Sequence[Trace]) -> bool:
    """Say whether three or more of the runs are of different scale."""
    found = {tuple(sorted((trace.meta.get("scale") or {}).items())) for trace in loaded}
    return len(found - {()}) >= _LAWS_FROM


def _laws(loaded: Sequence[Trace], where: tuple[str, float] | None) -> Scaling | None:
    """Find the laws; None where the runs do not say their scale and nobody asked."""
    from rotameter.profiler.scaling import scaling

    if where is None and not _differ(loaded):
        return None
    return scaling(loaded, by=where[0] if where is not None else None)


def _print_laws(found: Scaling, at: float | None, as_json: bool) -> None:
    if as_json:
        echo_json({"schema": 1, "kind": "scaling", "scaling": found.to_dict(at)})
        return
    from rotameter.viz.comparison import laws_text

    click.echo(laws_text(found, at, _LAW_LINES))


def _refuse_empty(label: str, side: Sequence[Trace]) -> None:
    """Nothing is said of what changed against runs that tell of no task."""
    if any(trace.table(name).num_rows for trace in side for name in ("tasks", "flows")):
        return
    lost = sum(trace.dropped for trace in side)
    raise EmptyTrace(
        f"the {label} side holds no task: there is nothing to compare",
        hint=f"{many(lost, 'record')} could not be kept" if lost else "check its name",
    )


def _print_comparison(
    old: Sequence[Trace],
    new: Sequence[Trace],
    paths: tuple[Sequence[str], Sequence[str]],
    as_json: bool,
    page: Path | None,
) -> None:
    from rotameter import api
    from rotameter.profiler.comparing.stored import read_predictions
    from rotameter.profiler.comparing.verdict import compare as compare_runs

    for label, side in (("earlier", old), ("later", new)):
        _refuse_empty(label, side)
    kept = read_predictions(paths[0][0]) if len(old) == 1 else None
    found = compare_runs(old, new, diagnose=api.diagnose, predictions=kept)
    if page is not None:
        from rotameter.profiler.whole_file import write_whole
        from rotameter.viz.comparison_page import comparison_html

        write_whole(page, comparison_html(found, _labels(paths)))
        click.echo(f"Wrote {page}", err=True)
    if as_json:
        document: dict[str, Any] = found.to_dict()
        echo_json({**document, "kind": "comparison", "inputs": [list(side) for side in paths]})
        return
    from rotameter.viz.comparison import comparison_text

    click.echo(comparison_text(found, _labels(paths)))


def _labels(paths: tuple[Sequence[str], Sequence[str]]) -> tuple[str, str]:
    names = [short_name(side[0]) if len(side) == 1 else "" for side in paths]
    if not all(names) or names[0] == names[1]:
        return "A", "B"
    return names[0], names[1]
