"""A trace folder opens whatever happened to its writers."""

from __future__ import annotations

import json
import os
import stat
import warnings
from pathlib import Path

import pyarrow as pa
import pytest

from rotameter.errors import (
    EmptyTrace,
    NotATrace,
    SchemaMismatch,
    TraceNotFound,
    TraceWarning,
    WouldOverwrite,
)
from rotameter.profiler import store
from rotameter.profiler.live.recorder import FileSink, Recorder
from rotameter.profiler.live.segment import MAGIC, encode_frame
from rotameter.profiler.schema import TABLES
from rotameter.profiler.trace import Trace


def _segment(folder: Path, name: str, *frames: bytes) -> Path:
    path = folder / "segments" / name
    path.write_bytes(MAGIC + b"".join(frames))
    return path


def _tasks(*rows: dict[str, object]) -> bytes:
    columns = tuple({key: None for row in rows for key in row})
    return encode_frame("tasks", columns, [tuple(row.get(c) for c in columns) for row in rows])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return store.create(tmp_path / "run.rmt")


def test_folder_is_private(folder: Path) -> None:
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "segments").stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "meta.json").stat().st_mode) == 0o600


def test_create_never_replaces_without_force(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(WouldOverwrite) as caught:
        store.create(folder)
    assert "--force" in str(caught.value.hint)
    store.create(folder, force=True)
    foreign = tmp_path / "home"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("years of work")
    with pytest.raises(WouldOverwrite):
        store.create(foreign, force=True)
    assert (foreign / "thesis.tex").exists()


@pytest.mark.parametrize(
    "precious",
    [
        "tables/x.csv",
        "segments/genome.seg",
        "segments/photo.jpg",
        "tables/tasks.parquet",
        "tables/deeper/x",
        "tmp",
        "my-tmp-notes.txt",
        "tables.tmp-notes/x",
        "meta.json",
        "meta.json.tmp-mine",
    ],
)
def test_force_keeps_a_folder_that_only_has_names_of_a_trace(tmp_path: Path, precious: str) -> None:
    mine = tmp_path / "mydata"
    file = mine / precious
    file.parent.mkdir(parents=True)
    file.write_text('{"schema": "mine"}')
    with pytest.raises(WouldOverwrite):
        store.create(mine, force=True)
    store.remove(mine)
    assert file.read_text() == '{"schema": "mine"}'


@pytest.mark.parametrize(
    "precious", ["report.html", "tables/mine.csv", "segments/a.txt", "tables.tmp-x/a"]
)
def test_force_keeps_a_trace_with_a_file_of_the_user(folder: Path, precious: str) -> None:
    file = folder / precious
    file.parent.mkdir(exist_ok=True)
    file.write_text("mine")
    with pytest.raises(WouldOverwrite, match=precious.partition("/")[0]):
        store.create(folder, force=True)
    assert file.read_text() == "mine"
    file.unlink()


def test_force_keeps_a_trace_that_holds_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (folder / "tables").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WouldOverwrite, match="tables"):
        store.create(folder, force=True)


def test_force_replaces_any_state_of_a_trace(folder: Path) -> None:
    _segment(folder, "client-h-1-0.seg", _tasks({"task_id": "a"}))
    (folder / "segments" / "worker-h-2-0.spool").write_text("{}")
    (folder / "segments" / "worker-h-3-0.seg.part").write_text("")
    (folder / "segments" / "worker-h-4-0.seg").write_bytes(b"")
    (folder / "meta.json.tmp-12").write_text("{")
    for name in ("tables.tmp-12", "tables.tmp-old-12"):
        (folder / name).mkdir()
        (folder / name / "tasks.parquet").write_text("")
    (folder / "meta.json").write_text("{")  # torn: the segments tell what it is
    store.create(folder, force=True)
    assert sorted(p.name for p in folder.iterdir()) == ["meta.json", "segments"]
    store.compact(folder)
    store.create(folder, force=True)
    folder.joinpath("meta.json").unlink()
    folder.joinpath("segments").rmdir()
    store.create(folder, force=True)  # an empty folder


def test_force_follows_no_link(tmp_path: Path) -> None:
    target = store.create(tmp_path / "real.rmt")
    link = tmp_path / "link.rmt"
    link.symlink_to(target)
    with pytest.raises(WouldOverwrite):
        store.create(link, force=True)
    assert target.exists()


@pytest.mark.parametrize("cut", [1, 7, 30])
def test_torn_tail_is_a_warning(folder: Path, cut: int) -> None:
    first, second = _tasks({"task_id": "a"}), _tasks({"task_id": "b"})
    path = _segment(folder, "client-h-1-0.seg", first, second)
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.warns(TraceWarning, match="torn"):
        trace = store.open_trace(folder)
    assert trace.table("tasks")["task_id"].to_pylist() == ["a"]
    assert "1 record kept" in trace.warnings[0]


def test_bad_frame_in_the_middle_loses_only_itself(folder: Path) -> None:
    frames = [_tasks({"task_id": name}) for name in "abc"]
    broken = bytearray(frames[1])
    broken[-1] ^= 0xFF
    _segment(folder, "client-h-1-0.seg", frames[0], bytes(broken), frames[2])
    trace = store.open_trace(folder, warn=False)
    assert sorted(trace.table("tasks")["task_id"].to_pylist()) == ["a", "c"]


def test_foreign_file_among_segments_is_left_out(folder: Path) -> None:
    (folder / "segments" / "x.seg").write_bytes(b"%PDF-1.7 hello")
    _segment(folder, "client-h-1-0.seg", _tasks({"task_id": "a"}))
    trace = store.open_trace(folder, warn=False)
    assert len(trace.tasks) == 1
    assert any("not a rotameter segment" in word for word in trace.warnings)


def test_missing_foreign_empty_and_newer(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(TraceNotFound):
        store.open_trace(tmp_path / "none.rmt")
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotATrace):
        store.open_trace(tmp_path / "file")
    (tmp_path / "dir").mkdir()
    with pytest.raises(NotATrace):
        store.open_trace(tmp_path / "dir")
    with pytest.raises(EmptyTrace):
        store.open_trace(folder)
    store.update_meta(folder, schema=999)
    with pytest.raises(SchemaMismatch):
        store.open_trace(folder)


def test_torn_meta_is_survived(folder: Path) -> None:
    _segment(folder, "client-h-1-0.seg", _tasks({"task_id": "a"}))
    (folder / "meta.json").write_text('{"schema": 1, "ru')
    trace = store.open_trace(folder, warn=False)
    assert len(trace.tasks) == 1
    assert any("meta.json" in word for word in trace.warnings)


def test_parts_of_an_attempt_meet_across_segments(folder: Path) -> None:
    scheduler = {"task_id": "a", "run_id": "7", "ready_ns": 5, "outcome": "worker_lost"}
    worker = {"task_id": "a", "run_id": "7", "started_ns": 10, "ended_ns": 30, "outcome": "ok"}
    _segment(folder, "scheduler-h-1-0.seg", _tasks({**scheduler, "source": "scheduler"}))
    _segment(folder, "worker-h-2-0.seg", _tasks({**worker, "source": "worker"}))
    row = store.open_trace(folder).table("tasks").to_pylist()[0]
    assert (row["outcome"], row["ready_ns"], row["attempt"]) == ("ok", 5, 1)
    assert row["wall_s"] == pytest.approx(20e-9)


def test_compaction_is_lossless_and_takes_late_segments(folder: Path) -> None:
    rows = [
        {
            "task_id": f"t{i}",
            "run_id": str(i),
            "cpu_s": i / 7,
            "wall_s": i / 1e9,
            "peak_memory_bytes": i,
        }
        for i in range(100)
    ]
    _segment(folder, "worker-h-2-0.seg", _tasks(*rows))
    before = store.open_trace(folder).table("tasks")
    compacted = store.compact(folder, run={"status": "ok"}).table("tasks")
    assert compacted.equals(before)
    assert not list((folder / "segments").glob("*.seg"))
    assert store.open_trace(folder).table("tasks").equals(before)
    _segment(folder, "worker-h-3-0.seg", _tasks({"task_id": "late", "run_id": "500"}))
    assert len(store.open_trace(folder).tasks) == 101
    store.compact(folder)
    again = store.open_trace(folder)
    assert len(again.tasks) == 101
    assert again.meta["run"]["status"] == "ok"


def test_killed_between_tables_and_meta_counts_nothing_twice(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _segment(folder, "worker-h-2-0.seg", _tasks({"task_id": "a"}))  # no run_id: no merging
    with monkeypatch.context() as patch:
        patch.setattr(store, "write_meta", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            store.compact(folder)
    assert len(store.open_trace(folder).tasks) == 1
    store.compact(folder)
    assert len(store.open_trace(folder).tasks) == 1


def test_run_that_did_not_close_says_so(folder: Path) -> None:
    store.update_meta(folder, run={"status": "running", "started_ns": 1})
    _segment(folder, "worker-h-2-0.seg", _tasks({"task_id": "a"}))
    trace = store.open_trace(folder, warn=False)
    assert trace.meta["run"]["status"] == "interrupted"
    assert any("did not close" in word for word in trace.warnings)


def test_spooled_segment_is_found_or_named(folder: Path, tmp_path: Path) -> None:
    spool = tmp_path / "worker-h-9-0.seg"
    spool.write_bytes(MAGIC + _tasks({"task_id": "a"}))
    note = folder / "segments" / "worker-h-9-0.spool"
    note.write_text(json.dumps({"path": str(spool), "host": "node7"}))
    assert len(store.open_trace(folder).tasks) == 1
    spool.unlink()
    with pytest.raises(EmptyTrace):
        store.open_trace(folder)
    _segment(folder, "client-h-1-0.seg", _tasks({"task_id": "b"}))
    assert "node7 and is not here" in store.open_trace(folder, warn=False).warnings[0]
    note.write_text("{torn")
    assert "unknown host" in store.open_trace(folder, warn=False).warnings[0]


def test_damaged_parquet_leaves_the_other_tables(tmp_path: Path) -> None:
    made = Trace.from_tables({"tasks": [{"task_id": "a"}], "deps": [{"task_id": "a"}]})
    folder = made.save(tmp_path / "x.rmt")
    (folder / "tables" / "deps.parquet").write_bytes(b"PAR1 not really")
    trace = store.open_trace(folder, warn=False)
    assert (len(trace.tasks), len(trace.deps)) == (1, 0)
    assert "deps" in trace.warnings[0]


def test_foreign_values_are_counted_not_raised(folder: Path) -> None:
    columns = ("task_id", "cpu_s", "no_such_column")
    _segment(
        folder,
        "a.seg",
        encode_frame("tasks", columns, [("a", "fast", 1), (7, 1.0, 2)]),
        encode_frame("no_such_table", ("x",), [(1,)]),
    )
    trace = store.open_trace(folder, warn=False)
    assert len(trace.tasks) == 2
    assert "did not fit the schema" in trace.warnings[0]


def test_dropped_records_are_in_the_metadata(folder: Path) -> None:
    sink = FileSink(str(folder / "segments" / "client-h-1-0.seg"))
    recorder = Recorder(sink, {"role": "client", "worker": "w"}, flush_s=60, rows_limit=10)
    channel = recorder.channel("deps", ("task_id", "depends_on"))
    with recorder._lock:  # the drain thread cannot run meanwhile
        for number in range(25):
            channel.add((str(number), "x"))
    recorder.close()
    trace = store.open_trace(folder)
    assert trace.meta["dropped"] == 15
    assert len(trace.deps) == 10


@pytest.mark.parametrize("version", [1])
def test_every_released_schema_opens(version: int, repo: Path) -> None:
    trace = store.open_trace(repo / "tests" / "data" / f"schema-{version}.rmt")
    assert len(trace.tasks) > 0
    for name in TABLES:
        assert isinstance(trace.table(name), pa.Table)


def test_save_is_deterministic_but_for_its_time(tmp_path: Path) -> None:
    made = Trace.from_tables({"tasks": [{"task_id": "a", "features": {"x": 1.0}}]})
    one, two = made.save(tmp_path / "1.rmt"), made.save(tmp_path / "2.rmt")
    for name in ("tables/tasks.parquet",):
        assert (one / name).read_bytes() == (two / name).read_bytes()
    meta = [json.loads((p / "meta.json").read_text()) for p in (one, two)]
    for each in meta:
        each.pop("saved_at_ns")
    assert meta[0] == meta[1]


def test_opening_does_not_warn_when_nothing_was_lost(folder: Path) -> None:
    _segment(folder, "client-h-1-0.seg", _tasks({"task_id": "a"}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store.open_trace(folder).warnings == []


def test_unreadable_segment_is_named(folder: Path) -> None:
    path = _segment(folder, "client-h-1-0.seg", _tasks({"task_id": "a"}))
    _segment(folder, "client-h-2-0.seg", _tasks({"task_id": "b"}))
    if os.geteuid() == 0:
        path.unlink()
        path.mkdir()
    else:
        path.chmod(0)
    trace = store.open_trace(folder, warn=False)
    assert len(trace.tasks) == 1
    assert "cannot be read" in trace.warnings[0]


def _saved(place: Path) -> Path:
    tables = {"tasks": [{"task_id": "a"}, {"task_id": "b"}], "deps": [{"task_id": "a"}]}
    return Trace.from_tables(tables).save(place / "x.rmt")


@pytest.mark.parametrize("text", [None, "{", "[1]", '"x"'])
def test_tables_are_read_without_their_metadata(tmp_path: Path, text: str | None) -> None:
    folder = _saved(tmp_path)
    (folder / "meta.json").unlink() if text is None else (folder / "meta.json").write_text(text)
    (folder / "segments").mkdir(exist_ok=True)
    trace = store.open_trace(folder, warn=False)
    assert len(trace.tasks) == 2
    assert "meta.json" in trace.warnings[0]


def test_tables_that_vanished_are_missed(tmp_path: Path) -> None:
    folder = _saved(tmp_path)
    (folder / "tables" / "deps.parquet").unlink()
    assert "deps is missing (it had 1 rows)" in store.open_trace(folder, warn=False).warnings[0]
    (folder / "tables" / "tasks.parquet").unlink()
    with pytest.raises(EmptyTrace, match="had 2 rows"):
        store.open_trace(folder)


def test_a_foreign_table_is_not_taken_for_one_of_ours(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    folder = _saved(tmp_path)
    pq.write_table(pa.table({"price": [1.0]}), folder / "tables" / "tasks.parquet")
    with pytest.raises(EmptyTrace, match="no column of the table tasks"):
        store.open_trace(folder)


def test_metadata_of_wrong_types_is_left_out(tmp_path: Path) -> None:
    folder = _saved(tmp_path)
    meta = json.loads((folder / "meta.json").read_text())
    wrong = dict.fromkeys(
        ["run", "machines", "overhead", "warnings", "versions", "processes", "segments"], "x"
    )
    for changed in (wrong, {"machines": [1], "overhead": {"probe_s": "x"}, "run": [], "rows": 3}):
        (folder / "meta.json").write_text(json.dumps({**meta, **changed}))
        trace = store.open_trace(folder, warn=False)
        assert len(trace.tasks) == 2
        repr(trace), trace._repr_html_()
