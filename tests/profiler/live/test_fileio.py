"""Counted files behave as files do, and count exactly."""

from __future__ import annotations

import builtins
import gc
import io
import itertools
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import textwrap
import threading
import warnings

import pytest

import rotameter as rm
from rotameter.profiler.live import fileio
from rotameter.profiler.live import session as session_module
from rotameter.profiler.live.session import Session
from rotameter.profiler.store import open_trace


def _shape(file):
    """What a user can see of an open file."""
    shape = [file.__class__, file.mode, file.name, file.closed, repr(file), file.readable()]
    shape += [file.writable(), file.seekable(), file.isatty(), file.fileno() >= 0, file.tell()]
    for name in ("encoding", "errors", "newlines", "line_buffering", "write_through"):
        shape.append(getattr(file, name, "absent"))
    buffer = getattr(file, "buffer", file)
    shape += [buffer.__class__, repr(buffer), buffer.mode]
    raw = getattr(buffer, "raw", buffer)
    shape += [raw.__class__, repr(raw), raw.mode, raw.name, raw.closefd, isinstance(raw, io.FileIO)]
    shape += [isinstance(raw, io.RawIOBase)]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        try:
            pickle.dumps(file, protocol)
        except Exception as error:
            shape.append((type(error), str(error)))
    return shape


def _steps(file, text):
    """Use a file; give all that it answered."""
    data = "zwei\r\nline\n" if text else b"zwei\r\nline\n"
    answers = []
    calls = [
        lambda: file.read(3),
        lambda: file.readline(),
        lambda: file.write(data),
        lambda: file.seek(0),
        lambda: file.read(),
        lambda: file.seek(0, 2),
        lambda: file.writelines([data, data]),
        lambda: file.flush(),
        lambda: file.truncate(5),
        lambda: file.seek(0),
        lambda: list(file),
        lambda: file.readinto(bytearray(4)),
        lambda: file.peek(1),
        lambda: file.detach() is not None,
        lambda: file.read(),
        lambda: file.close(),
        lambda: file.read(),
    ]
    for call in calls:
        try:
            answers.append(call())
        except Exception as error:
            answers.append((type(error), str(error)))
    return answers


MODES = [
    "".join(mode)
    for kind in "rwax"
    for plus in ("", "+")
    for end in ("", "b", "t")
    for mode in [(kind, end, plus)]
]


@pytest.mark.parametrize("mode", [*MODES, "br", "rU", "rw", "", "z", "rbt", "r++", "w+b"])
def test_every_mode_behaves_as_the_original(session, tmp_path, mode):
    options = [
        {"buffering": buffering, **text}
        for buffering in (-1, 0, 1, 2, 4096, -2)
        for text in (
            {},
            {"encoding": "utf-8"},
            {"encoding": "latin-1", "errors": "replace", "newline": ""},
            {"encoding": "no-such-encoding"},
            {"newline": "x"},
        )
    ]
    for exists, option in itertools.product((True, False), options):
        seen = []
        for opener in (builtins.open, fileio._original):
            path = tmp_path / "data.txt"
            path.unlink(missing_ok=True)
            if exists:
                path.write_bytes(b"erste\r\nzeile\nende")
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    file = opener(path, mode, **option)
                except Exception as error:
                    seen.append((type(error), str(error), error.args, path.exists()))
                    continue
                shape = _shape(file)
                shape.append(_steps(file, "b" not in mode))
            content = path.read_bytes()
            shape.append([(w.category, str(w.message)) for w in caught])
            seen.append((shape, content))
        assert seen[0] == seen[1], (mode, option, exists)


@pytest.mark.parametrize(
    "file",
    ["missing/x", b"missing\0x", "a\0b", None, 1.5, 10**9, -1, [], "", tempfile.gettempdir()],
)
def test_bad_files_raise_what_they_always_did(session, file):
    errors = []
    for opener in (builtins.open, fileio._original):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(Exception) as caught:
                opener(file).close()
        error = caught.value
        errors.append((type(error), str(error), getattr(error, "filename", None)))
    assert errors[0] == errors[1]


def test_descriptors_openers_and_closefd(session, tmp_path):
    path = tmp_path / "x"
    path.write_text("hello")
    fd = os.open(path, os.O_RDONLY)
    with builtins.open(fd, closefd=False) as file:
        assert (file.read(), file.name) == ("hello", fd)
    assert os.fstat(fd)
    with os.fdopen(fd, "rb") as file:
        file.seek(0)
        assert file.read() == b"hello"
    with pytest.raises(OSError):
        os.fstat(fd)
    with builtins.open("x", opener=lambda name, flags: os.open(tmp_path / name, flags)) as file:
        assert file.read() == "hello"
    with pytest.raises(ValueError, match="closefd"):
        builtins.open(path, closefd=False)


def test_unclosed_files_warn_as_ever(session, tmp_path):
    def warned(opener, **options):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            opener(tmp_path / "x", **options)
            gc.collect()
        return [(w.category, str(w.message)) for w in caught]

    for options in ({"mode": "w"}, {"mode": "wb"}, {"mode": "wb", "buffering": 0}):
        assert warned(builtins.open, **options) == warned(fileio._original, **options)
        assert len(warned(builtins.open, **options)) == 1


def test_data_of_a_dropped_file_is_written(session, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        builtins.open(tmp_path / "x", "w").write("kept")
        gc.collect()
    assert (tmp_path / "x").read_text() == "kept"


@pytest.mark.parametrize("size", [64, 4096, 1 << 20])
@pytest.mark.parametrize("buffering", [0, -1])
def test_a_known_stream_is_counted_to_the_byte(session, tmp_path, size, buffering):
    path, calls = tmp_path / "stream", 50 if size < 1 << 20 else 5
    running = session.begin("t", "g")
    with builtins.open(path, "wb", buffering=buffering) as file:
        for _ in range(calls):
            file.write(b"x" * size)
    with builtins.open(path, "rb", buffering=buffering) as file:
        while file.read(size):
            pass
    files = running.files
    session.end(running)
    written, read = files[str(path), "write"], files[str(path), "read"]
    assert written[0] == read[0] == calls * size
    if buffering == 0 or size == 1 << 20:
        assert written[1] == read[1] == calls
    else:
        assert written[1] <= calls and read[1] <= calls
    assert written[2] <= written[3] and written[4] >= 0
    readings = running.readings
    assert (readings["read_bytes"], readings["write_bytes"]) == (calls * size, calls * size)
    assert readings["io_kind"] == "exact"
    assert readings["io_s"] > 0


def test_bytes_go_to_the_task_that_moves_them(session, tmp_path):
    first = session.begin("first", "g")
    file = builtins.open(tmp_path / "x", "wb", buffering=0)
    file.write(b"a" * 10)
    second = session.begin("second", "g")
    file.write(b"b" * 7)
    name = str(tmp_path / "x")
    assert second.files[name, "write"][0] == 7
    session.end(second)
    assert first.files[name, "write"][0] == 10
    session.end(first)
    file.write(b"c" * 5)
    file.close()
    assert session.orphans[name, "write"][:2] == [5, 1]


def test_every_route_is_counted(session, tmp_path):
    running = session.begin("t", "g")
    (tmp_path / "a").write_text("x" * 11)
    (tmp_path / "b").write_bytes(b"x" * 12)
    with io.open(tmp_path / "c", "w") as file:  # noqa: UP020 - this very name
        file.write("x" * 13)
    with os.fdopen(os.open(tmp_path / "d", os.O_WRONLY | os.O_CREAT), "wb") as file:
        file.write(b"x" * 14)
    with tempfile.NamedTemporaryFile(dir=tmp_path) as file:
        file.write(b"x" * 15)
        file.flush()
        name = file.name
    files = {pathlib.Path(n).name: e[0] for (n, _), e in running.files.items()}
    session.end(running)
    assert files == {"a": 11, "b": 12, "c": 13, "d": 14, pathlib.Path(name).name: 15}


def _others(fd, count, write):
    """Move bytes as C code does: through a duplicate, by no call of Python's files."""
    with io.FileIO(os.dup(fd), "wb" if write else "rb") as other:
        if write:
            other.write(b"x" * count)
        else:
            other.read(count)


def test_bytes_that_went_through_the_descriptor_are_added(session, tmp_path):
    path = tmp_path / "x"
    running = session.begin("t", "g")
    with builtins.open(path, "wb") as file:
        file.write(b"head")
        file.flush()
        _others(file.fileno(), 100_000, write=True)
        file.write(b"tail")
    with builtins.open(path, "rb") as file:
        file.read(1)
        _others(file.fileno(), 1 << 20, write=False)
    files = running.files
    session.end(running)
    assert files[str(path), "write"][0] == 100_008
    assert files[str(path), "read"][0] == 100_008
    assert running.readings["io_s"] is None  # how long those calls took is not known


def test_asking_for_the_descriptor_and_seeking_is_no_reading(session, tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"x" * 100_000)
    running = session.begin("t", "g")
    with builtins.open(path, "rb") as file:
        assert os.fstat(file.fileno()).st_size == 100_000
        file.seek(0, 2)
    with builtins.open(path, "r+b") as file:
        file.fileno()
        file.truncate(1 << 20)
    assert not running.files
    session.end(running)


def test_the_programs_own_files_are_no_traffic_of_nobody(session, tmp_path):
    for name in ("m.py", "x/site-packages/dask/dask.yaml", "x.dist-info/entry_points.txt", "data"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with fileio._original(path, "w") as file:
            file.write("text")
    running = session.begin("t", "g")
    (tmp_path / "m.py").read_text()
    if os.path.exists("/proc/self/stat"):
        pathlib.Path("/proc/self/stat").read_text()
    files = {pathlib.Path(name).name for name, _ in running.files}
    session.end(running)
    for path in tmp_path.rglob("*"):
        if path.is_file():
            path.read_text()
    assert files == {"m.py"}  # a task that reads code may well be about code
    assert {pathlib.Path(name).name for name, _ in session.orphans} == {"data"}


def test_pipes_are_not_files(session):
    running = session.begin("t", "g")
    read, write = os.pipe()
    with os.fdopen(read, "rb") as reader, os.fdopen(write, "wb") as writer:
        writer.write(b"abc")
        writer.flush()
        assert reader.read(3) == b"abc"
    assert not running.files
    session.end(running)


def test_stop_restores_and_open_files_go_on(session, tmp_path):
    file = builtins.open(tmp_path / "x", "w")
    ours = builtins.open
    fileio.uninstall()
    assert builtins.open is io.open is fileio._original
    session_module.deactivate()
    file.write("more")
    file.close()
    with ours(tmp_path / "x") as kept:
        assert (kept.read(), type(kept.buffer.raw)) == ("more", io.FileIO)


def test_another_wrapper_is_left_alone(session, monkeypatch):
    other = builtins.open

    def wrapper(*args, **kwargs):
        return other(*args, **kwargs)

    monkeypatch.setattr(builtins, "open", wrapper)
    fileio.uninstall()
    assert builtins.open is wrapper


def test_counting_that_fails_does_not_reach_the_user(session, tmp_path, monkeypatch):
    monkeypatch.setattr(Session, "only_running", lambda self: 1 / 0)
    with pytest.warns(match="could not measure"):
        (tmp_path / "x").write_text("fine")
    assert (tmp_path / "x").read_text() == "fine"


def test_secrets_and_lengths_of_names(session, tmp_path):
    assert fileio.object_name("/a/ghp_" + "a1B2" * 9) == "/a/[redacted]"
    long = "/" + "d" * 5000
    assert len(fileio.object_name(long)) == 300
    assert fileio.object_name(long) != fileio.object_name(long + "e")


SUM = """
    import os, pathlib, random, sys
    from rotameter.profiler.live import process, tracer
    from rotameter.profiler.live.proc import parse_io
    folder, work = sys.argv[1:]
    session = process.start(folder, adapt=False, host_samples=True)

    @tracer.task
    def churn(seed):
        rng = random.Random(seed)
        for step in range(60):
            path = f"{work}/{rng.randrange(5)}"
            size = rng.choice([1, 64, 4096, 100_000])
            with open(path, rng.choice(["ab", "wb", "r+b", "a"]) if os.path.exists(path)
                      else "wb", rng.choice([-1, 512]) ) as file:
                file.write(b"x" * size if "b" in file.mode else "y" * size)
            with open(path, "rb") as file:
                if rng.random() < .5:
                    file.read()
                else:
                    while file.read(rng.choice([64, 4096])):
                        pass

    before = parse_io(open("/proc/self/io", "rb", opener=os.open).read())
    for seed in range(8):
        churn(seed)
    after_own = session.own.read
    process.stop(session)
"""


def test_the_sums_of_files_are_the_process_total(tmp_path):
    from rotameter.profiler.live.segment import read_segment

    (tmp_path / "work").mkdir()
    code = textwrap.dedent(SUM)
    command = [sys.executable, "-c", code, str(tmp_path / "t.rmt"), str(tmp_path / "work")]
    subprocess.run(command, check=True, timeout=60)
    tables = {"tasks": [], "flows": []}
    for path in (tmp_path / "t.rmt/segments").glob("*.seg"):
        for frame in read_segment(path.read_bytes()).frames:
            if frame.table in tables:
                rows = zip(*frame.values, strict=True)
                tables[frame.table] += [dict(zip(frame.columns, row, strict=True)) for row in rows]
    assert len(tables["tasks"]) == 8
    for task in tables["tasks"]:
        if task["io_kind"] != "exact":
            continue  # the flush thread wrote at that very moment
        sums = {"read": 0, "write": 0}
        for flow in tables["flows"]:
            if flow["task_id"] == task["task_id"]:
                sums[flow["op"]] += flow["bytes"]
        assert sums == {"read": task["read_bytes"], "write": task["write_bytes"]}
    assert sum(task["io_kind"] == "exact" for task in tables["tasks"]) >= 6


def test_an_engines_own_files_are_no_tasks(tmp_path):
    """A shuffle's disk thread works for no task, nor does a task that runs the engine's code."""
    (tmp_path / "shuffle-1").mkdir()
    parts, data = tmp_path / "shuffle-1" / "7", tmp_path / "data"

    def beside():
        for path in (parts, data):
            with path.open("ab", buffering=0) as out:
                out.write(b"x" * 5000)
            path.read_bytes()

    @rm.task(group="busy")
    def busy():
        thread = threading.Thread(target=beside)
        thread.start()
        thread.join()
        beside()

    fileio.engine_files([str(tmp_path / "shuffle-")])
    try:
        with rm.trace(tmp_path / "run.rmt"):
            busy()
    finally:
        fileio.engine_files([])
    trace = open_trace(str(tmp_path / "run.rmt"))
    flows = {(f["object"], f["op"]): f["bytes"] for f in trace.table("flows").to_pylist()}
    assert flows == {(str(data), "write"): 10_000, (str(data), "read"): 15_000}
    (task,) = trace.table("tasks").to_pylist()
    assert task["write_bytes"] == 10_000


def test_what_an_engine_is_writing_at_a_tasks_end_is_not_the_tasks(tmp_path, monkeypatch):
    """The kernel counts a write before the thread that made it can say so."""
    (tmp_path / "shuffle-1").mkdir()
    begun, told = threading.Event(), threading.Event()
    write = fileio._write

    def late(file, data):
        count = write(file, data)
        begun.set()
        told.wait(10)
        return count

    def beside():
        with (tmp_path / "shuffle-1" / "7").open("ab", buffering=0) as out:
            out.write(b"x" * 5000)

    @rm.task(group="busy")
    def busy():
        thread.start()
        begun.wait(10)

    @rm.task(group="next")
    def following():
        told.set()
        thread.join()

    monkeypatch.setattr(fileio, "_write", late)
    thread = threading.Thread(target=beside)
    fileio.engine_files([str(tmp_path / "shuffle-")])
    try:
        with rm.trace(tmp_path / "run.rmt"):
            busy()
            following()
    finally:
        fileio.engine_files([])
    tasks = open_trace(str(tmp_path / "run.rmt")).table("tasks").to_pylist()
    assert [(t["write_bytes"], t["io_kind"]) for t in tasks] == [(0, "estimate"), (0, "estimate")]
