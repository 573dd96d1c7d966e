"""Tables whose numbers, shares, sizes, days or last line may be taken for something else."""

from __future__ import annotations

from typing import Any

import pytest

from rotameter.adapters.importers import _table_rows
from rotameter.adapters.importers._table_ends import OPEN_END
from rotameter.adapters.importers.table import Importer
from rotameter.errors import BadInput
from rotameter.testing.importers import import_bytes

MIB = 1 << 20
MAPS = ["wall=wall:s", "peak=mem:MiB"]


def read(text: str, *maps: str, **options: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """Import a table; give its tasks and what was said."""
    if maps:
        options["map"] = list(maps)
    trace = import_bytes(Importer, {"t.csv": text.encode()}, **options)
    return trace.table("tasks").to_pylist(), trace.warnings


def has(said: list[str], *words: str) -> bool:
    return any(all(word in line for word in words) for line in said)


# -- decimal signs ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "id;wall;mem\n1;1.024,5;1.024,5\n2;2.048;2.048\n",
        "id;wall;mem\n1;1,024.5;1,024.5\n2;2,048;2,048\n",
        "id\twall\tmem\n1\t1,024.5\t1,024.5 MiB\n2\t2,048\t2,048 MiB\n",
        "id;wall;mem\n1;1.024,5 s;1.024,5 MiB\n2;2.048 s;2 048 MiB\n",
        "id;wall;mem\n1;1.024,5;1024,5\n2;2.048;2.048\n",
    ],
)
def test_one_number_that_shows_the_sign_tells_it_for_its_column(text: str) -> None:
    made, _ = read(text, *MAPS)
    assert [row["wall_s"] for row in made] == [1024.5, 2048.0]
    assert [row["peak_memory_bytes"] for row in made] == [round(1024.5 * MIB), 2048 * MIB]


@pytest.mark.parametrize(
    ("proof", "unclear", "value"),
    [("0,5", "2.048", 2048), ("1.024,5", "2.048", 2048), ("0.5", "2,048", 2048),
     ("12.25", "2,048", 2048), ("0,5", "2,048", 2.048), ("0.5", "2.048", 2.048)],
)  # fmt: skip
def test_the_sign_of_a_file_is_told_by_any_column(proof: str, unclear: str, value: float) -> None:
    made, said = read(f"id;wall;mem\n1;{proof};{unclear}\n2;7;{unclear}\n", *MAPS)
    assert [row["peak_memory_bytes"] for row in made] == [round(value * MIB)] * 2
    assert has(said, "numbers in mem", proof, "--opt decimal=") == (value == 2048)
    other = "point" if "," in proof else "comma"
    made, said = read(f"id;wall;mem\n1;1;{unclear}\n", *MAPS, decimal=other)
    assert not has(said, "numbers in mem")


def test_columns_that_prove_opposite_signs_are_each_read_by_their_own() -> None:
    made, said = read("id;wall;mem\n1;0,5;0.5\n2;1.500;2,048\n", *MAPS)
    assert [row["wall_s"] for row in made] == [0.5, 1500.0]
    assert [row["peak_memory_bytes"] for row in made] == [MIB // 2, 2048 * MIB]
    assert has(said, "numbers in wall have a decimal comma ('0,5'), in mem a decimal point")


def test_a_sign_that_can_group_nothing_is_decimal() -> None:
    made, said = read("id;wall\n1;0,5\n2;2.5\n3;0,25\n4;1,024.5\n5;1.024.512\n", "wall=wall:s")
    assert [row["wall_s"] for row in made] == [0.5, 2.5, 0.25, 1024.5, 1_024_512.0]
    assert has(said, "a decimal comma and a decimal point", "'0,5'", "'2.5'")
    for decimal in ("comma", "point"):
        made, _ = read("id;wall\n1;0,5\n2;2.5\n", "wall=wall:s", decimal=decimal)
        assert [row["wall_s"] for row in made] == [0.5, 2.5]


def test_what_only_a_later_part_shows_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_table_rows, "CHUNK_ROWS", 2)
    made, said = read("id;wall\n1;2.048\n2;2.048\n3;1.024,5\n", "wall=wall:s")
    assert [row["wall_s"] for row in made] == [2.048, 2.048, 1024.5]
    assert has(said, "only a later part", "--opt decimal=comma")


def test_times_with_grouped_thousands() -> None:
    text = (
        "id;start;end\n1;1.709.287.200.123;1.709.287.260.123\n2;1709287200123,5;1709287260123,5\n"
    )
    made, _ = read(text)
    assert [row["wall_s"] for row in made] == [60.0, 60.0]


# -- shares, sizes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("cell", "used"), [("95%", 9.5), ("95 %", 9.5), ("95,5%", 9.55)])
@pytest.mark.parametrize("target", ["cpu", "gpu"])
def test_a_share_may_carry_its_sign(cell: str, used: float, target: str) -> None:
    made, said = read(
        f"id;wall;x\n1;10;{cell}\n2;10;350\n3;10;lots\n", f"{target}=x:%", "wall=wall:s"
    )
    assert [row[f"{target}_s"] for row in made] == [pytest.approx(used), 35.0, None]
    assert has(said, "values of x that are no duration are left out (such as 'lots')")


def test_shares_of_several_columns_are_added_and_need_a_duration() -> None:
    made, _ = read("id,wall,u,s\n1,10,50%,25\n", "cpu=u+s:%", "wall=wall:s")
    assert made[0]["cpu_s"] == 7.5
    made, _ = read("id,wall,u\n1,10,50%\n2,10,2\n", "cpu=u:cores", "wall=wall:s")
    assert [row["cpu_s"] for row in made] == [5.0, 20.0]
    made, said = read("id,submit_time,u\n1,2024-03-01 10:00:00,50%\n", "cpu=u:%")
    assert made[0]["cpu_s"] is None and has(said, "u is left out", "duration")


def test_bits_are_no_size() -> None:
    text = "id,wall,mem\n" + "".join(
        f"{i},1,{cell}\n" for i, cell in enumerate(["4 GB", "4gb", "4 kB", "4 Gb", "4Gib", "4 Mb"])
    )
    made, said = read(text, "wall=wall:s", "peak=mem:B")
    found = [row["peak_memory_bytes"] for row in made]
    assert found == [4_000_000_000, 4_000_000_000, 4000, None, None, None]
    assert has(said, "values of mem that are no size are left out (such as '4 Gb')")


# -- days ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("maps", [(), ("start=start:d", "end=end:days")])
def test_days_as_spreadsheets_count_them(maps: tuple[str, ...]) -> None:
    text = "id;start;end\n1;45352,41667;45352,42361\n2;45352;45352,5\n3;0;\n"
    for sign in (";", ","):
        made, said = read(text.replace(",", ".").replace(";", sign) if sign == "," else text, *maps)
        assert made[0]["wall_s"] == pytest.approx(600, abs=1)
        assert made[1]["wall_s"] == 43_200.0 and made[2]["started_ns"] is None
        assert has(said, "days since 1899-12-30", "--map end=end:s") == (not maps)
        at = made[1]["started_ns"] - made[0]["started_ns"]
        assert at == pytest.approx(-36_000e9, abs=1e9)


def test_seconds_of_a_day_stay_seconds() -> None:
    made, said = read("id,start,end\n1,30000.5,30100.5\n2,31000.5,33000.5\n")
    assert [row["wall_s"] for row in made] == [100.0, 2000.0]
    assert has(said, "seconds from some start") and not has(said, "1899")
    made, _ = read("id,start,end\n1,45352.25,45352.5\n", "start=start:s", "end=end:s")
    assert made[0]["wall_s"] == 0.25


def test_durations_in_days_are_told_by_start_and_end() -> None:
    made, _ = read("id,start,end,wall\n1,45352.25,45352.5,0.25\n2,45352.25,45353.25,1\n")
    assert [row["wall_s"] for row in made] == [21_600.0, 86_400.0]


# -- a cut last line -------------------------------------------------------------------------------

SIZES = "job_id,elapsed (s),max_rss_kib\n1,600,2048000\n"


@pytest.mark.parametrize("last", ["2,600,20", "2,600", "2,600,", "2,60"])
def test_a_last_line_without_an_end_is_said_once(last: str) -> None:
    made, said = read(SIZES + last)
    assert said.count(OPEN_END) == 1
    assert [row["task_id"] for row in made] == (["1", "2"] if last.count(",") == 2 else ["1"])
    assert OPEN_END not in read(SIZES + last + "\n")[1]


@pytest.mark.parametrize(
    "last", ["2,600,1024000", "2,600,2048000", '2,600,"20"', "2,600,2048000\r\n", "2,600,7\n\n"]
)
def test_a_whole_last_line_without_an_end_is_usual(last: str) -> None:
    made, said = read(SIZES + last)
    assert OPEN_END not in said and made[1]["peak_memory_bytes"] is not None


@pytest.mark.parametrize(
    ("column", "cells", "last", "target", "value"),
    [
        ("mem", ["12 MiB", "1 GiB"], "9", "peak_memory_bytes", None),
        ("mem", ["12 MiB", "1 GiB"], "9 M", "peak_memory_bytes", None),
        ("mem", ["12 MiB", "1 GiB"], "9 MiB", "peak_memory_bytes", 9 * MIB),
        ("wall", ["90.45", "12.30", "11.25"], "9", "wall_s", None),
        ("wall", ["90.45", "12"], "9", "wall_s", 9.0),
        ("wall", ["00:01:30"], "00:01:3", "wall_s", None),
        ("state", ["COMPLETED", "FAILED"], "COMPL", "outcome", "unknown"),
        ("state", ["COMPLETED", "FAILED"], "FAILED", "outcome", "failed"),
    ],
)
def test_what_is_cut_for_certain_is_unknown(
    column: str, cells: list[str], last: str, target: str, value: object
) -> None:
    text = f"id,start_time,{column}\n" + "".join(
        f"{i},2024-03-01 10:00:00,{cell}\n" for i, cell in enumerate(cells)
    )
    maps = {"mem": ["peak=mem:MiB"], "wall": ["wall=wall:s"], "state": []}[column]
    made, said = read(f"{text}9,2024-03-01 10:00:00,{last}", *maps)
    assert made[-1][target] == value
    assert (OPEN_END in said) == (last not in ("FAILED", "9 MiB"))


def test_the_last_row_is_compared_with_the_part_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_table_rows, "CHUNK_ROWS", 2)
    text = "id,wall\n" + "".join(f"{i},{1000 + i}\n" for i in range(4))
    made, said = read(text + "4,1004", "wall=wall:s")
    assert [row["wall_s"] for row in made] == [1000.0, 1001.0, 1002.0, 1003.0, 1004.0]
    assert OPEN_END not in said
    assert OPEN_END in read(text + "4,10", "wall=wall:s")[1]


def test_a_header_alone_and_an_empty_table_are_no_cut() -> None:
    with pytest.raises(BadInput):
        read("nothing")
    made, said = read("job_id,start_time,end_time,state")
    assert not made and OPEN_END not in said


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "job_id,start_time,end_time,state\n7,2024-05-01 10:00:00,,RUNNING\n"),
        (
            "b.csv",
            "job_id,submit_time,start_time,end_time,state\n7,2024-05-01 10:00:00,,,PENDING\n",
        ),
        (
            "c.json",
            '[{"job_id": 7, "start_time": "2024-05-01 10:00:00", "end_time": null, '
            '"state": "RUNNING"}]',
        ),
    ],
)
def test_a_time_column_that_is_empty_says_nothing_of_zones(name: str, text: str) -> None:
    trace = import_bytes(Importer, {name: text.encode()})
    assert trace.meta["time_base"] == "relative_ns"
    assert not [word for word in trace.warnings if "zone" in word]
