"""``rotameter forecast``: the contract, inputs of all sorts, refusals."""

from __future__ import annotations

import csv
import gzip
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tests.support.arrivals import daily

from rotameter import api
from rotameter.adapters.series_csv import read_series
from rotameter.cli.forecast import forecast
from rotameter.errors import (
    BadInput,
    PolicyError,
    TraceNotFound,
    UnknownPlugin,
    UsageError,
    WouldOverwrite,
)

COLUMNS = ["origin", "step", "q0.05", "q0.1", "q0.2", "q0.3", "q0.4", "q0.5", "q0.6", "q0.7",
           "q0.8", "q0.9", "q0.95"]  # fmt: skip


def call(*words: str) -> Any:
    result = CliRunner().invoke(forecast, list(words), standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def written(folder: Path, values: Any, name: str = "s.csv", head: str = "count\n") -> str:
    path = folder / name
    path.write_text(head + "".join(f"{x:g}\n" for x in values))
    return str(path)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_contract(tmp_path: Path) -> None:
    path, out = written(tmp_path, daily(200)), tmp_path / "q.csv"
    words = (path, "--season", "24", "--horizon", "4", "--from-index", "180")
    result = call(*words, "--quantiles-out", str(out))
    assert result.stdout == "" and "weighted quantile loss" in result.stderr
    rows = rows_of(out)
    assert list(rows[0]) == COLUMNS
    assert [(r["origin"], r["step"]) for r in rows[:5]] == [
        ("180", "1"), ("180", "2"), ("180", "3"), ("180", "4"), ("181", "1")]  # fmt: skip
    assert rows[-1]["origin"] == "196" and rows[-1]["step"] == "4"
    for row in rows:
        made = [float(row[name]) for name in COLUMNS[2:]]
        assert made == sorted(made) and made[0] >= 0 and math.isfinite(made[-1])
    with pytest.raises(WouldOverwrite):
        call(*words, "--quantiles-out", str(out))
    before = out.read_bytes()
    call(*words, "--quantiles-out", str(out), "--force")
    assert out.read_bytes() == before


def test_only_values_before_the_origin_are_used(tmp_path: Path) -> None:
    values = daily(160)
    other = values.copy()
    other[150:] = 9999
    words = ("--season", "24", "--from-index", "140", "--quantiles-out")
    call(written(tmp_path, values), *words, str(tmp_path / "a.csv"))
    call(written(tmp_path, other, "o.csv"), *words, str(tmp_path / "b.csv"))
    one, two = rows_of(tmp_path / "a.csv"), rows_of(tmp_path / "b.csv")
    same = [a == b for a, b in zip(one, two, strict=True)]
    assert all(s for s, row in zip(same, one, strict=True) if int(row["origin"]) <= 150)
    assert not all(same)


def test_without_an_index_it_is_what_comes_next(tmp_path: Path) -> None:
    path = written(tmp_path, daily(100))
    result = call(path, "--season", "24", "--horizon", "2")
    lines = result.stdout.splitlines()
    assert lines[0] == ",".join(COLUMNS) and len(lines) == 3
    assert lines[1].startswith("100,1,") and lines[2].startswith("100,2,")
    assert result.stderr == ""


def test_json(tmp_path: Path) -> None:
    path = written(tmp_path, daily(100))
    words = (path, "--season", "24", "--from-index", "90", "--quantiles", "0.1,0.5,0.9", "--json")
    found = json.loads(call(*words).stdout)
    assert found["schema"] == 1 and found["bins"] == 100 and found["quantiles"] == [0.1, 0.5, 0.9]
    assert (found["origins"], found["first_origin"], found["last_origin"]) == (5, 90, 94)
    assert 0 < found["weighted_quantile_loss"] < 2 and 0 <= found["coverage80"] <= 1
    assert len(found["rows"]) == 30 and set(found["rows"][0]) == {
        "origin", "step", "q0.1", "q0.5", "q0.9"}  # fmt: skip
    assert json.loads(call(*words).stdout) == found
    out = tmp_path / "q.csv"
    short = json.loads(call(*words, "--quantiles-out", str(out)).stdout)
    assert "rows" not in short and out.exists()
    after = json.loads(call(path, "--json").stdout)
    assert after["weighted_quantile_loss"] is None and after["coverage80"] is None


def test_columns_and_headers(tmp_path: Path) -> None:
    plain = tmp_path / "plain.txt"
    plain.write_text("3\n4\n5\n")
    assert read_series(plain).values == [3.0, 4.0, 5.0]
    two = tmp_path / "two.csv"
    two.write_text("time;count;load\n2024-01-01 00:00;3;0.5\n2024-01-01 01:00;4;0.25\n")
    assert read_series(two).values == [3.0, 4.0]
    assert read_series(two, "load").values == read_series(two, "3").values == [0.5, 0.25]
    timed = read_series(two, time="time")
    assert timed.times_ns is not None and timed.times_ns[1] - timed.times_ns[0] == 3600 * 10**9
    with pytest.raises(UsageError, match="no such column"):
        read_series(two, "nothing")
    packed = tmp_path / "s.csv.gz"
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbf# of a test\nn\n1\n2\n\n"))
    assert read_series(packed).values == [1.0, 2.0]


def test_what_is_no_number_is_a_missing_bin(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text("n\n1\n\nn/a\n-4\n1_000\ninf\n3\n")
    read = read_series(path)
    assert read.values[0] == 1.0 and read.values[-1] == 3.0 and read.values[2] == -4.0
    assert sum(math.isnan(x) for x in read.values) == 3
    assert any("missing" in word for word in read.warnings)
    assert any("below 0" in word for word in read.warnings)
    assert "warning: " in call(str(path)).stderr


def test_gaps_in_times_are_missing_bins(tmp_path: Path) -> None:
    values = daily(300, level=200.0, phi=1.5)
    hours = np.arange(300) + np.where(np.arange(300) >= 200, 6, 0)
    path = tmp_path / "s.csv"
    path.write_text(
        "at,n\n" + "".join(f"{h * 3600},{x:g}\n" for h, x in zip(hours, values, strict=True))
    )
    plain = api.forecast(str(path), season=24, from_index=290)
    timed = api.forecast(api.read_series(path, time="at"), season=24, from_index=290)
    assert not np.array_equal(plain.values, timed.values)


@pytest.mark.parametrize(
    ("text", "error"),
    [("", BadInput), ("a,b\n", BadInput), ("x\ny\n", BadInput), ("\0\1\2", BadInput)],
)
def test_nothing_usable(tmp_path: Path, text: str, error: type[Exception]) -> None:
    path = tmp_path / "s.csv"
    path.write_text(text)
    with pytest.raises(error):
        call(str(path))


def test_refusals(tmp_path: Path) -> None:
    path = written(tmp_path, daily(50))
    with pytest.raises(TraceNotFound):
        call(str(tmp_path / "none.csv"))
    with pytest.raises(BadInput):
        call(str(tmp_path))
    with pytest.raises(PolicyError, match="no origin 51"):
        call(path, "--from-index", "51")
    with pytest.raises(UnknownPlugin, match="no forecaster named"):
        call(path, "--forecaster", "lastt")
    for asked in ("0", "1.5", "x", "0.5,0.5", ""):
        with pytest.raises(UsageError):
            call(path, "--quantiles", asked)


def test_all_forecasters_and_the_edges_of_a_series(tmp_path: Path) -> None:
    path = written(tmp_path, daily(60))
    for name in ("last", "seasonal", "ewma", "ridge", "least_squares", "mix"):
        lines = call(path, "--season", "24", "--forecaster", name).stdout.splitlines()
        assert len(lines) == 7
    assert len(call(path, "--from-index", "0").stdout.splitlines()) == 1 + 55 * 6
    assert len(call(path, "--from-index", "58").stdout.splitlines()) == 7
