"""From paths to one trace."""

from __future__ import annotations

import gzip
import json
import os
import tarfile
import zipfile

import pytest

import rotameter
from rotameter import plugins
from rotameter.adapters.importers import inputs, locating, reading
from rotameter.errors import BadInput, TraceNotFound, UnknownFormat, UsageError

JOB = "{} 0 10 5 4 -1 -1 4 3600 -1 1 3 1 -1 1 -1 -1 -1\n"


def log(*ids: int) -> str:
    return "; Version: 2.2\n" + "".join(JOB.format(number) for number in ids)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.swf").write_text(log(1, 2))
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.swf.gz").write_bytes(gzip.compress(log(3).encode()))
    (tmp_path / "README").write_text("words\n")
    (tmp_path / ".hidden").write_text(log(9))
    return tmp_path


def ids(trace):
    return sorted(trace.table("tasks")["task_id"].to_pylist())


def test_a_folder_is_one_import(folder):
    calls = []
    trace = rotameter.open(folder, progress=lambda done, files: calls.append((done, files)))
    assert ids(trace) == ["1", "2", "3"] and trace.meta["importer"]["files"] == 2
    assert calls[-1] == (2, 2) and trace.meta["origin"] == "imported"


def test_patterns_and_lists(folder):
    assert ids(rotameter.open(str(folder / "**" / "*.swf*"))) == ["1", "2", "3"]
    both = [folder / "a.swf", folder / "deep" / "b.swf.gz"]
    assert ids(rotameter.open(both)) == ["1", "2", "3"]


def test_an_archive_is_one_import(folder):
    with zipfile.ZipFile(folder / "x.zip", "w") as archive:
        archive.writestr("one.swf", log(7))
        archive.writestr("two.swf", log(8))
        archive.writestr("notes.txt", "words")
    assert ids(rotameter.open(folder / "x.zip")) == ["7", "8"]


def test_a_broken_file_costs_one_line(folder):
    (folder / "cut.swf.gz").write_bytes(gzip.compress(log(*range(2000)).encode())[:200])
    trace = rotameter.open(folder)
    assert ids(trace) == ["1", "2", "3"]
    assert len([word for word in trace.warnings if "damaged" in word]) == 1


def test_files_that_nobody_knows(folder, tmp_path):
    with pytest.raises(UnknownFormat, match="README: no importer knows"):
        rotameter.open(folder / "README")
    assert any(
        "README" in w for w in rotameter.open([folder / "a.swf", folder / "README"]).warnings
    )
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(BadInput, match="is empty"):
        rotameter.open(tmp_path / "empty")
    with pytest.raises(TraceNotFound, match="no such file"):
        rotameter.open(tmp_path / "none")


def test_words_of_the_user(folder):
    with pytest.raises(UsageError, match="no option 'x'"):
        rotameter.open(folder / "a.swf", x="1")
    with pytest.raises(UsageError, match="not an offset"):
        rotameter.open(folder / "a.swf", utc_offset="Mars")
    with pytest.raises(UsageError, match="no path"):
        rotameter.open([])
    assert rotameter.open(folder / "a.swf", utc_offset="+01:00").meta["time_base"] == "epoch_ns"
    assert ids(rotameter.open(folder / "a.swf", format="swf")) == ["1", "2"]


def test_a_sniffer_that_raises_knows_nothing(folder, monkeypatch):
    class Broken:
        name, engine, options = "broken", "x", frozenset()

        def sniff(self, head):
            raise RuntimeError("planted")

        def read(self, file, build):
            raise AssertionError

        def finish(self, build):
            raise AssertionError

    monkeypatch.setitem(plugins._registered, ("importers", "broken"), Broken)
    assert "broken" in reading.formats()
    assert ids(rotameter.open(folder / "a.swf")) == ["1", "2"]


def test_several_formats_at_once_are_not_guessed(folder, monkeypatch):
    class Words:
        name, engine, options = "words", "x", frozenset()

        def sniff(self, head):
            return 0.9 if head.data == b"words\n" else 0.0

        def read(self, file, build):
            raise AssertionError

        def finish(self, build):
            raise AssertionError

    monkeypatch.setitem(plugins._registered, ("importers", "words"), Words)
    with pytest.raises(UsageError, match=r"swf \(1\), words \(1\)"):
        rotameter.open([folder / "a.swf", folder / "README"])


@pytest.mark.parametrize("text", ["+25:00", "abc", "1", 99])
def test_zones_that_are_none(text):
    with pytest.raises(UsageError):
        locating.utc_offset_seconds(text)


def test_a_file_that_is_named_twice_is_read_once(folder):
    trace = rotameter.open([folder / "a.swf", folder / "a.swf", folder])
    assert ids(trace) == ["1", "2", "3"]
    assert any("named twice, read once: 2 files" in word for word in trace.warnings)


def test_what_is_no_ordinary_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match="no ordinary file"):
        rotameter.open(tmp_path / "pipe")
    with pytest.raises(BadInput, match="no ordinary file"):
        rotameter.open("/dev/zero")


def test_a_pipe_is_read(folder):
    with open(folder / "a.swf", "rb") as source:
        reading_end, writing_end = os.pipe()
        with os.fdopen(writing_end, "wb") as out:
            out.write(source.read())
    try:
        assert ids(rotameter.open(f"/dev/fd/{reading_end}")) == ["1", "2"]
    finally:
        os.close(reading_end)


def test_a_tar_archive_is_what_is_in_it(folder):
    with tarfile.open(folder / "x.tar.gz", "w:gz") as archive:
        archive.add(folder / "a.swf", "a.swf")
    packed = rotameter.open(folder / "x.tar.gz")
    assert packed.table("tasks").equals(rotameter.open(folder / "a.swf").table("tasks"))


def test_an_empty_name_is_no_path():
    with pytest.raises(UsageError, match="no path"):
        rotameter.open("")


CAFE = "caf\xe9", "caf\xe8"
NOT_UTF8 = {
    "trace.txt": "name\tstatus\trealtime\t%cpu\n{}\tCOMPLETED\t1s\t1%\n{}\tCOMPLETED\t1s\t1%\n",
    "jobs.psv": "JobID|JobName|State|Elapsed\n1|{}|COMPLETED|00:01:00\n2|{}|COMPLETED|00:01:00\n",
    "b.jsonl": '{{"s": "1", "h:m:s": "0:00:01", "rule_name": "{}"}}\n'
    '{{"s": "2", "h:m:s": "0:00:02", "rule_name": "{}"}}\n',
    "w.json": '{{"schemaVersion": "1.4", "workflow": {{"tasks": ['
    '{{"name": "{}", "id": "1", "runtimeInSeconds": 1}},'
    '{{"name": "{}", "id": "2", "runtimeInSeconds": 1}}]}}}}',
    "a.pfw": '{{"name":"open","cat":"POSIX","pid":1,"ts":1,"ph":"X","args":{{"hostname":"{}"}}}}\n'
    '{{"name":"open","cat":"POSIX","pid":2,"ts":1,"ph":"X","args":{{"hostname":"{}"}}}}\n',
    "a.json": '[{{"name":"{}","cat":"c","pid":1,"tid":1,"ts":1,"dur":1,"ph":"X"}},'
    '{{"name":"{}","cat":"c","pid":1,"tid":1,"ts":5,"dur":1,"ph":"X"}}]',
    "s.csv": "operation,aggregateFilesizeMB,taskName,taskPID,fileName\n"
    "read,1,{},1-n1,x\nread,1,{},2-n1,x\n",
}


@pytest.mark.parametrize("name", NOT_UTF8)
def test_names_that_are_not_utf8_stay_apart_and_it_is_said(tmp_path, name):
    path = tmp_path / name
    text = NOT_UTF8[name].format(*CAFE)
    found = {}
    for coding in ("utf-8", "latin-1"):
        path.write_bytes(text.encode(coding))
        found[coding] = rotameter.open(path)
    plain, other = found.values()
    for table in ("tasks", "intervals"):
        assert other.table(table).equals(plain.table(table))
    shown = str(other.table("tasks").to_pylist() + other.table("intervals").to_pylist())
    assert all(word in shown for word in CAFE)
    assert [w for w in other.warnings if w not in plain.warnings] == [inputs.FOREIGN]


def test_a_trace_of_ours_is_read_as_one_beside_files_of_others(folder, tmp_path):
    from rotameter.adapters.importers.locating import open_any

    path = tmp_path / "kept.rmt"
    open_any([folder]).save(path)
    alone = len(open_any([path]).table("tasks"))
    jobs = tmp_path / "jobs.csv"
    jobs.write_text("task_id,wall_s\na,1\nb,2\n")
    both = open_any([path, jobs])
    assert len(both.table("tasks")) == alone + 2
    assert not any("meta.json" in word or "not read" in word for word in both.warnings)
    garbage = tmp_path / "B"
    garbage.write_text("garbage\n")
    with pytest.raises(UnknownFormat, match="B"):
        open_any([path, garbage])


def test_what_a_trace_of_ours_has_no_use_for_is_said(folder, tmp_path):
    from rotameter.adapters.importers.locating import open_any

    path = tmp_path / "kept.rmt"
    open_any([folder]).save(path)
    plain = open_any([path])
    assert not any("not used" in word for word in plain.warnings)
    made = open_any([path], options={"map": ["start=x"], "table": "tasks"}, utc_offset="+02:00")
    said = [word for word in made.warnings if "not used" in word]
    assert len(said) == 1
    assert all(word in said[0] for word in ("--map", "--opt table", "--utc-offset"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("jobs.csv", "id,start,wall_s\n" + "a,2024-01-01T00:00:00Z\n" * 2),
        ("jobs.csv", "task_id,wall_s\n" + "a,1,2\n" * 2),
        ("jobs.json", "[1, 2]"),
    ],
)
def test_a_file_of_which_every_record_is_refused_is_no_trace(name, text, tmp_path):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(BadInput) as caught:
        reading.read([path], format="table")
    assert caught.value.exit_code == 4
    assert "nothing usable: all 2 records were refused" in str(caught.value)


def test_damaged_archives_keep_their_hint(tmp_path):
    good = gzip.compress(log(*range(1000)).encode())
    (tmp_path / "a.swf.gz").write_bytes(good[:12])
    with zipfile.ZipFile(tmp_path / "whole.zip", "w") as archive:
        archive.writestr("a.swf", log(1))
    (tmp_path / "b.zip").write_bytes((tmp_path / "whole.zip").read_bytes()[:-30])
    for name in ("a.swf.gz", "b.zip"):
        for format in (None, "swf"):
            with pytest.raises(BadInput, match="damaged") as caught:
                reading.read([tmp_path / name], format=format)
            assert "copy" in str(caught.value.hint)


def test_a_named_file_that_is_empty_is_called_so(tmp_path):
    (tmp_path / "a.swf").write_text(log(1))
    (tmp_path / "b.swf").write_text("\n")
    trace = rotameter.open([tmp_path / "a.swf", tmp_path / "b.swf"])
    assert [w for w in trace.warnings if "b.swf" in w] == [f"{tmp_path / 'b.swf'} is empty"]


def test_copies_of_logs_count_once(tmp_path):
    text = "JobID|State|Elapsed\n1|COMPLETED|00:01:00\n"
    for name in ("a.psv", "b.psv", "c.psv"):
        (tmp_path / name).write_text(text)
    (tmp_path / "c.psv").write_text(text.replace("\n1|", "\n2|"))
    trace = rotameter.open(tmp_path)
    assert ids(trace) == ["1", "2"] and any("left out: 1 file" in w for w in trace.warnings)
    for name in ("a.swf", "b.swf"):
        (tmp_path / "swf").mkdir(exist_ok=True)
        (tmp_path / "swf" / name).write_text(log(1))
    assert len(rotameter.open(tmp_path / "swf").tasks) == 1


def test_copies_that_may_be_of_two_runs_count_and_it_is_said(tmp_path):
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("task_id,start,end,state\n1,5,9,ok\n")
    trace = rotameter.open(tmp_path)
    assert len(trace.tasks) == 2
    assert any("once), though perhaps copies: 1 file" in word for word in trace.warnings)


def test_files_of_a_folder_that_nobody_knows_are_named_where_they_look_like_the_others(folder):
    assert not rotameter.open(folder).warnings
    (folder / "c.swf").write_text("all words\n")
    (folder / "d.tgz").write_bytes(b"no archive")
    (word,) = rotameter.open(folder).warnings
    assert word.startswith("2 files beside them that no importer knows left out")
    assert "c.swf" in word and "d.tgz" in word


@pytest.mark.parametrize("mark", [b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf\x27\x1c"])
def test_what_is_packed_otherwise_is_called_so(tmp_path, mark):
    (tmp_path / "jobs.txt.zst").write_bytes(mark + bytes(range(200)))
    with pytest.raises(UnknownFormat, match="packed") as caught:
        rotameter.open(tmp_path / "jobs.txt.zst")
    assert "unpack" in str(caught.value.hint)


def _twice(tmp_path, files, others=None):
    for folder, texts in (("a", files), ("b", others or files)):
        (tmp_path / folder).mkdir()
        for name, text in texts.items():
            (tmp_path / folder / name).write_text(text)
    return rotameter.open(tmp_path)


_LIST = '{"t-7": {"order": 0, "io_cnt": 1, "input": [], "output": ["/x.h5"]}}'


def _vfd(at: int) -> str:
    kinds = {"read_bytes": 9, "read_cnt": 1, "read_ranges": {"1": [0, 0]}, "write_bytes": 0}
    record = {
        "file_name": "/x.h5", "task_name": "t-7", "open_time": at, "close_time": at + 9,
        "file_read_cnt": 1, "file_write_cnt": 0, "io_bytes": 9, "file_size": 99,
        "data": [{"d": {"H5FD_MEM_DRAW": {**kinds, "write_cnt": 0, "write_ranges": {}}}}],
        "metadata": [{}],
    }  # fmt: skip
    return json.dumps([{"file-1": record, "Task": {"task_name": "t-7", "task_id": 7}}])


def test_copies_of_dayu_in_two_folders_count_once(tmp_path):
    one = {"7-vfd_data_stat.json": _vfd(1707802760941067), "x-task_to_file.json": _LIST}
    trace = _twice(tmp_path, one)
    assert sum(flow["bytes"] or 0 for flow in trace.table("flows").to_pylist()) == 9
    assert any("left out: 2 files" in word for word in trace.warnings)


def test_equal_lists_of_two_runs_of_dayu_are_no_copies(tmp_path):
    one = {"7-vfd_data_stat.json": _vfd(1707802760941067), "x-task_to_file.json": _LIST}
    trace = _twice(tmp_path, one, {**one, "7-vfd_data_stat.json": _vfd(1707802770941067)})
    assert not any("left out" in word for word in trace.warnings)


def test_copies_of_datalife_count_once_where_a_name_says_its_process(tmp_path):
    calls = {"in_open": [0.1, 1, 0], "read": [1.0, 2, 4096], "write": [0.0, 0, 0]}
    text = json.dumps({"python": {"monitor": calls, "system": calls, "local": calls}})
    trace = _twice(tmp_path, {"monitor_timer.7-n1.datalife.json": text})
    assert len(trace.tasks) == 1 and any("left out: 1 file" in w for w in trace.warnings)


def test_equal_files_of_datalife_whose_folder_is_the_task_are_several(tmp_path):
    head = "x.txt Block no. Frequency Access size in byte\n0 1 4096\n"
    other = {"x.txt_r_stat": head, "y.txt_r_stat": head.replace("x", "y")}
    trace = _twice(tmp_path, {"x.txt_r_stat": head}, other)
    assert len(trace.tasks) == 2 and not any("contents" in word for word in trace.warnings)


def test_copies_of_taskvine_count_once(tmp_path):
    log = (
        "# time manager_pid MANAGER manager_pid START|END time_from_origin\n"
        "1714557600000000 99 MANAGER 99 START 0\n"
        "1714557601000000 99 TASK 1 READY default FIRST_RESOURCES 1 {}\n"
        "1714557602000000 99 TASK 1 RUNNING worker-1 FIRST_RESOURCES {}\n"
        "1714557606000000 99 MANAGER 99 END 6000000\n"
    )
    graph = 'digraph "taskvine" {\n"task-1" [label="x"];\n}\n'
    trace = _twice(tmp_path, {"transactions": log, "taskgraph": graph})
    assert len(trace.tasks) == 1 and any("left out: 2 files" in w for w in trace.warnings)
    assert not any("counts again" in word for word in trace.warnings)


@pytest.mark.parametrize(
    ("name", "data", "hint"),
    [
        ("a.csv.zst", b"\x28\xb5\x2f\xfd" + b"x" * 50, "zstd -d"),
        ("r.html", b"<!DOCTYPE html>\n<html><body>\n<p>a, b</p></body></html>\n", "the trace"),
        ("a.xlsx", None, "as CSV"),
    ],
)
def test_what_is_no_log_is_refused_with_what_to_do(tmp_path, name, data, hint):
    if data is None:
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("[Content_Types].xml", "<x/>")
            archive.writestr("xl/workbook.xml", "<x/>")
    else:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(UnknownFormat) as caught:
        rotameter.open(tmp_path / name)
    assert hint in (caught.value.hint or "") and "[Content" not in str(caught.value)


def test_traces_in_a_folder_are_no_files_of_others(folder, tmp_path):
    from rotameter.adapters.importers.locating import open_any

    place = tmp_path / "runs"
    place.mkdir()
    for name in ("a", "b"):
        open_any([folder]).save(place / f"{name}.rmt")
    with pytest.raises(BadInput, match=r"runs is no trace; it holds 2 traces .*a\.rmt") as error:
        open_any([place])
    assert "*.rmt" in error.value.hint
    (place / "jobs.csv").write_text("task_id,wall_s\na,1\nb,2\n")
    beside = open_any([place])
    assert len(beside.table("tasks")) == 2
    assert any("2 traces of rotameter are left out" in word for word in beside.warnings)
