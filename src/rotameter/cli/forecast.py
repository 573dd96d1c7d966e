"""``rotameter forecast``: quantiles of what comes in the next bins of a series of counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rotameter.cli._common import echo_json
from rotameter.errors import UsageError

if TYPE_CHECKING:
    from rotameter.forecasting.arrivals.forecasts import Forecasts

__all__ = ["forecast"]


@click.command()
@click.argument("series", type=click.Path())
@click.option(
    "--season",
    default=0,
    show_default=True,
    type=click.IntRange(0, 1_000_000),
    help="Rows in a season, mostly a day; 0: none.",
)
@click.option(
    "--horizon", default=6, show_default=True, type=click.IntRange(1, 1000), help="Rows ahead."
)
@click.option(
    "--from-index",
    type=click.IntRange(0),
    help="Forecast at every row from this one on (0 is the first), each from the rows before it "
    "alone. Without it: what comes after the last row.",
)
@click.option("--quantiles-out", type=click.Path(dir_okay=False), help="Write them there, as CSV.")
@click.option("--quantiles", help="Such as 0.1,0.5,0.9.  [default: 0.05, 0.1, 0.2 … 0.9, 0.95]")
@click.option("--forecaster", default="default", show_default=True, help="Which plug-in.")
@click.option("--column", help="Name or number of the column of counts.")
@click.option("--time", help="Name or number of the column that says when a bin began.")
@click.option("--force", is_flag=True, help="Replace an existing output.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema 1).")
def forecast(
    series: str,
    season: int,
    horizon: int,
    from_index: int | None,
    quantiles_out: str | None,
    quantiles: str | None,
    forecaster: str,
    column: str | None,
    time: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Forecast the next rows of SERIES, a CSV file with one count a row.

    The output has one row for each origin and step: step 1 is the row at the origin itself, of
    which nothing was known yet. Where these rows are in the file, stderr says how good it was.

    \b
    Examples:
      rotameter forecast jobs_per_hour.csv --season 24
      rotameter forecast jobs_per_hour.csv --season 24 --horizon 6 --from-index 2000 \\
        --quantiles-out q.csv
    """  # noqa: D301
    from rotameter import api
    from rotameter.adapters.series_csv import quantile_lines
    from rotameter.cli.convert import refuse_existing
    from rotameter.profiler.whole_file import write_whole

    levels = None if quantiles is None else _levels(quantiles)
    refuse_existing(quantiles_out, force=force, file=True)
    read = api.read_series(series, column=column, time=time)
    for word in read.warnings:
        click.echo(f"warning: {word}", err=True)
    found = api.forecast(
        read,
        season=season,
        horizon=horizon,
        from_index=from_index,
        quantiles=levels,
        forecaster=forecaster,
    )
    if quantiles_out is not None:
        write_whole(quantiles_out, "".join(f"{line}\n" for line in quantile_lines(found)))
        click.echo(f"Wrote {quantiles_out}", err=True)
    if as_json:
        document = _document(series, found, len(read.values))
        if quantiles_out is None:
            document["rows"] = list(_rows(found))
        echo_json(document)
    elif quantiles_out is None:
        for line in quantile_lines(found):
            click.echo(line)
    _say(found)


def _levels(text: str) -> tuple[float, ...]:
    try:
        made = tuple(float(one) for one in text.split(","))
    except ValueError:
        made = ()
    if not made or not all(0.0 < level < 1.0 for level in made) or len(set(made)) < len(made):
        raise UsageError(f"--quantiles {text}: no levels", hint="such as 0.1,0.5,0.9")
    return made


def _document(series: str, found: Forecasts, bins: int) -> dict[str, Any]:
    return {
        "schema": 1,
        "file": series,
        "forecaster": found.forecaster,
        "season": found.season,
        "horizon": found.horizon,
        "bins": bins,
        "quantiles": list(found.levels),
        "origins": len(found.origins),
        "first_origin": int(found.origins[0]),
        "last_origin": int(found.origins[-1]),
        "weighted_quantile_loss": found.weighted_loss,
        "coverage80": found.coverage(),
    }


def _rows(found: Forecasts) -> Any:
    names = [f"q{level:g}" for level in found.levels]
    for origin, steps in zip(found.origins.tolist(), found.values.tolist(), strict=True):
        for step, row in enumerate(steps, 1):
            yield {"origin": origin, "step": step, **dict(zip(names, row, strict=True))}


def _say(found: Forecasts) -> None:
    """Say how good the forecasts were of what is known."""
    loss, cover = found.weighted_loss, found.coverage()
    if loss is None:
        return
    held = "" if cover is None else f", the 80 % interval held {cover:.0%}"
    many = len(found.origins)
    click.echo(
        f"{many:,} origin{'s' if many > 1 else ''}: weighted quantile loss {loss:.4g}{held}",
        err=True,
    )
