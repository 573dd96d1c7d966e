"""Nextflow's local times over a change of the clocks."""

from __future__ import annotations

from pathlib import Path

import pytest

import rotameter
from rotameter.adapters.importers._nextflow_rows import make
from rotameter.adapters.importers.nextflow import Importer
from rotameter.profiler.stats import stats
from rotameter.testing import import_bytes

HEAD = "hash\tname\tstatus\texit\tsubmit\tstart\tcomplete\tduration\trealtime\n"
HOUR = 3600.0


def row(key: int, day: str, submit: str, start: str, complete: str, took: str, ran: str) -> str:
    times = "\t".join(f"2025-{day} {at}" for at in (submit, start, complete))
    return f"aa/{key:06}\tT{key}\tCOMPLETED\t0\t{times}\t{took}\t{ran}\n"


AHEAD = (
    row(1, "03-30", "01:50:00.000", "01:50:05.000", "03:20:00.000", "30m", "29m 55s"),
    row(2, "03-30", "03:20:05.000", "03:20:10.000", "03:30:00.000", "9m 55s", "9m 50s"),
)
BACK = (
    row(1, "10-26", "02:30:00.000", "02:40:00.000", "02:20:00.000", "50m", "40m"),
    row(2, "10-26", "02:20:05.000", "02:20:10.000", "02:30:00.000", "9m 55s", "9m 50s"),
    row(3, "10-26", "03:10:00.000", "03:10:10.000", "03:20:00.000", "10m", "9m 50s"),
)


def seconds(*lines: str) -> list[tuple[float, float, float]]:
    made = import_bytes(Importer, {"t.txt": (HEAD + "".join(lines)).encode()})
    tasks = sorted(made.table("tasks").to_pylist(), key=lambda task: task["task_id"])
    return [tuple(t[f"{c}_ns"] / 1e9 for c in ("submitted", "started", "ended")) for t in tasks]


@pytest.mark.parametrize("folder", [False, True])
@pytest.mark.parametrize("offset", [None, "+01:00"])
def test_clocks_set_ahead(tmp_path: Path, offset, folder):
    (tmp_path / "trace.txt").write_text(HEAD + "".join(AHEAD))
    if folder:
        (tmp_path / ".nextflow.log").write_text("x\n")
    where = tmp_path if folder else tmp_path / "trace.txt"
    trace = rotameter.open(where, **({"utc_offset": offset} if offset else {}))
    assert stats(trace)["makespan_s"] == 40 * 60
    (said,) = [word for word in trace.warnings if "clocks changed" in word]
    assert "1 attempt, such as T1" in said
    ends = {t["task_id"]: t["ended_ns"] / 1e9 for t in trace.table("tasks").to_pylist()}
    first = 1743295800.0 if offset else 0.0  # 00:50 UTC
    assert ends == {"T1": first + 1800, "T2": first + 2400}


def test_clocks_set_back():
    (one, two, three) = seconds(*BACK)
    assert one == (0, 600, 3000) and two == (3005, 3010, 3600) and three[0] == 6000


def test_the_change_holds_for_other_traces_of_the_run_too():
    later = row(9, "03-30", "05:00:00.000", "05:00:10.000", "05:01:00.000", "1m", "50s")
    files = {"a.txt": HEAD + AHEAD[0], "b.txt": HEAD + later}
    made = import_bytes(Importer, {name: text.encode() for name, text in files.items()})
    ends = {t["task_id"]: t["ended_ns"] / 1e9 for t in made.table("tasks").to_pylist()}
    assert ends == {"T1": 1800, "T9": 2 * HOUR + 600 + 60}


def test_both_changes_of_a_year():
    rows = seconds(AHEAD[0], BACK[0].replace("T1", "T4"), *BACK[1:])
    assert rows[0][2] == 1800
    two, three, four = rows[1:]
    assert four[2] - four[0] == 3000 and two[0] - four[0] == 3005 and three[0] - four[0] == 6000
    assert four[0] == 210 * 24 * HOUR - HOUR + 40 * 60


def test_a_long_task_tells_the_hour_that_most_clocks_change_at():
    long = row(1, "03-29", "20:00:00.000", "20:00:10.000", "23:00:00.000", "26h", "26h")
    long = long.replace("2025-03-29 23:00", "2025-03-30 23:00")
    inside = row(2, "03-30", "01:10:00.000", "01:10:00.000", "01:20:00.000", "10m", "10m")
    behind = row(3, "03-30", "03:10:00.000", "03:10:00.000", "03:20:00.000", "10m", "10m")
    (one, two, three) = seconds(long, inside, behind)
    assert one[2] == 26 * HOUR and two[2] == 5 * HOUR + 1200 and three[2] == 6 * HOUR + 1200


@pytest.mark.parametrize("took", ["29m", "1h 29m", "2h 30m 5s", "-"])
def test_other_differences_are_no_change(took):
    line = row(1, "03-30", "01:50:00.000", "01:50:05.000", "03:20:00.000", took, "29m 55s")
    assert seconds(line)[0][2] == 1.5 * HOUR


def test_raw_times_have_a_zone():
    fields = {"name": "A", "status": "COMPLETED", "submit": "1743295800000",
              "complete": "1743301200000", "duration": "1800000"}  # fmt: skip
    made = make(fields, print)
    assert made.crossing is None and made.row["ended_ns"] == 1743301200000 * 10**6


@pytest.mark.parametrize("zone", ["+09:30", "+02:00"])
def test_times_with_a_zone_beside_them_stay(tmp_path: Path, zone):
    (tmp_path / "a.txt").write_text(HEAD + "".join(AHEAD))
    raw = "bb/000001\tR\tCOMPLETED\t0\t1743400000000\t1743400001000\t1743400002000\t2000\t1000\n"
    (tmp_path / "b.txt").write_text(HEAD + raw)
    trace = rotameter.open(tmp_path, utc_offset=zone)
    rows = {t["task_id"]: t for t in trace.table("tasks").to_pylist()}
    assert rows["R"]["submitted_ns"] == 1743400000 * 10**9
    assert rows["T2"]["ended_ns"] - rows["T1"]["submitted_ns"] == 2400 * 10**9


def test_times_that_were_left_out_show_no_change():
    raw = "bb/000001\tR\tCOMPLETED\t0\t1743400000000\t1743400001000\t1743400002000\t2000\t1000\n"
    files = {"a.txt": HEAD + raw, "b.txt": HEAD + AHEAD[0]}
    made = import_bytes(Importer, {name: text.encode() for name, text in files.items()})
    assert any("left out" in word for word in made.warnings)
    assert not any("clocks changed" in word for word in made.warnings)
