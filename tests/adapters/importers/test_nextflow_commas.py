"""Commas and points in the numbers of a Nextflow trace; durations that contradict each other."""

from __future__ import annotations

import pytest

from rotameter.adapters.importers.nextflow import Importer
from rotameter.adapters.importers.times import binary_bytes
from rotameter.cli import main
from rotameter.testing import import_bytes

HEAD = "hash\tname\tstatus\tduration\trealtime\t%cpu\tpeak_rss\trchar\tenergy_consumption\n"
MB = 1 << 20


def trace(*peaks: str, time: str = "2s", percent: str = "90%", energy: str = "-"):
    lines = [
        f"aa/{i:06}\tP ({i})\tCOMPLETED\t3s\t{time}\t{percent}\t{peak}\t1 KB\t{energy}\n"
        for i, peak in enumerate(peaks)
    ]
    return import_bytes(Importer, {"t.txt": (HEAD + "".join(lines)).encode()})


def peaks(made) -> list[float | None]:
    values = made.table("tasks")["peak_memory_bytes"].to_pylist()
    return [None if value is None else round(value / MB, 3) for value in values]


def said(made, *words: str) -> list[str]:
    return [text for text in made.warnings if any(word in text for word in words)]


@pytest.mark.parametrize(
    ("values", "read"),
    [
        (["1,234 MB", "315,6 MB"], [1.234, 315.6]),
        (["1,234 MB", "1,50 MB"], [1.234, 1.5]),
        (["1,234 MB", "1.234,5 MB"], [1.234, 1234.5]),
        (["1,234 MB", "1,234.5 MB"], [1234, 1234.5]),
        (["1,234 MB", "1,234,567 MB"], [1234, 1234567]),
        (["1,234 MB", "1,500 MB"], [None, None]),
        (["1,234 MB", "2.5 MB"], [None, 2.5]),
        (["1,234 MB", "2,5 MB", "1,234.5 MB"], [None, 2.5, 1234.5]),
        (["0,123 MB", "12,3456 MB"], [0.123, 12.346]),
        (["1.234 MB", "2.5 MB"], [1.234, 2.5]),
        (["1.234 MB"], [1.234]),
        (["1.234 MB", "2,5 MB"], [1234, 2.5]),
        (["1.234 MB", "2,5 MB", "2.5 MB"], [None, 2.5, 2.5]),
    ],
)
def test_a_sign_before_three_digits_is_what_the_other_values_say(values, read):
    for turn in (values, values[::-1]):
        made = trace(*turn)
        assert peaks(made) == (read if turn is values else read[::-1])
        assert bool(said(made, "left unknown")) == (None in read)


@pytest.mark.parametrize(("told", "wall"), [("2,5s", 1.234), ("1,234.5s", 1234)])
def test_durations_and_percentages_tell_too(told, wall):
    made = import_bytes(
        Importer,
        {
            "t.txt": (
                "name\tstatus\thash\tduration\trealtime\t%cpu\n"
                f"A\tCOMPLETED\taa/000001\t9h\t1,234s\t1,000%\nB\tCOMPLETED\taa/000002\t9h\t{told}\t5%\n"
            ).encode()
        },
    )
    first = made.table("tasks").to_pylist()[0]
    share = 0.01 if wall < 2 else 10
    assert (first["wall_s"], first["cpu_s"]) == (wall, pytest.approx(wall * share))


def test_a_comma_of_a_text_tells_nothing():
    head = "name\tstatus\thash\trealtime\tpeak_rss\ttag\n"
    data = head + "A\tCOMPLETED\taa/000001\t2s\t1,234 MB\t2,5\n"
    assert peaks(import_bytes(Importer, {"t.txt": data.encode()})) == [None]


def test_each_file_is_judged_by_itself_and_said_together():
    head = "name\tstatus\thash\trealtime\tpeak_rss\n"
    row = "{0}\tCOMPLETED\taa/{0}{0}{0}{0}{0}{0}\t2s\t{1}\n"
    made = import_bytes(
        Importer,
        {
            "a.txt": (head + row.format("a", "1,234 MB") + row.format("b", "2,5 MB")).encode(),
            "b.txt": (head + row.format("c", "1,234 MB")).encode(),
        },
    )
    assert peaks(made) == [1.234, 2.5, None]
    assert said(made, "comma", "unknown") == [
        "decimal comma: values such as 1,234 MB are read as 1.234 MB (2 times)",
        "values such as 1,234 MB may be 1.234 MB or 1234 MB, and no other value of the file "
        "tells which: left unknown",
    ]


def test_the_words_show_a_value_of_the_file_and_count_what_was_read():
    made = trace("7,5 MB", "x,y", percent="1,234.5%", time="2,5s")
    assert said(made, "decimal comma") == [
        "decimal comma: values such as 2,5s are read as 2.5s (3 times)"
    ]
    assert said(made, "thousands") == [
        "signs between thousands: values such as 1,234.5% are read as 1234.5% (2 times)"
    ]
    assert not said(trace("7.5 MB", "1,5 apples"), "decimal comma")


def test_energy_follows_the_same_rule():
    (task,) = trace("2,5 MB", energy="1,234 Wh").table("tasks").to_pylist()
    assert task["energy_j"] == pytest.approx(1.234 * 3600)
    (task,) = trace("2.5 MB", energy="1,234 Wh").table("tasks").to_pylist()
    assert task["energy_j"] is None


@pytest.mark.parametrize("text", ["1,234 MB", "1,234", "123,456K"])
def test_elsewhere_too_three_digits_are_no_decimals(text):
    with pytest.raises(ValueError, match="not an amount"):
        binary_bytes(text)
    assert binary_bytes("0,125 KB") == 128 and binary_bytes("1,5K") == 1536


def test_strict_lets_pass_what_lost_nothing(tmp_path, capsys):
    def ends(peak: str) -> int:
        row = f"aa/000001\tP\tCOMPLETED\t3s\t2s\t90%\t{peak}\t1 KB\t-\n"
        (tmp_path / "t.txt").write_text(HEAD + row)
        with pytest.raises(SystemExit) as ended:
            main(["stats", str(tmp_path / "t.txt"), "--strict"])
        return int(ended.value.code or 0)

    assert ends("315,6 MB") == 0 and "decimal comma" in capsys.readouterr().err
    assert ends("1,234 MB") == 4 and "may be" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("realtime", "duration", "times"),
    [("10s", "2s", 1), ("1h", "59m 58s", 0), ("2s", "10s", 0), ("1h 2m", "1h", 1), ("-", "2s", 0)],
)
def test_realtime_beyond_duration_is_said(realtime, duration, times):
    data = (
        f"name\tstatus\thash\tduration\trealtime\nA\tCOMPLETED\taa/000001\t{duration}\t{realtime}\n"
    )
    made = import_bytes(Importer, {"t.txt": data.encode()})
    assert len(said(made, "realtime is longer than duration in 1 attempt, such as A (")) == times
    wall = {"10s": 10, "1h": 3600, "2s": 2, "1h 2m": 3720, "-": None}[realtime]
    assert made.table("tasks")["wall_s"].to_pylist() == [wall]


def test_realtime_against_the_times_where_there_is_no_duration():
    data = (
        "name\tstatus\thash\tsubmit\tcomplete\trealtime\n"
        "A\tCOMPLETED\taa/000001\t2024-01-01 00:00:00.000\t2024-01-01 00:00:05.000\t1m\n"
    )
    assert said(import_bytes(Importer, {"t.txt": data.encode()}), "(1 min and 5 s)")
