"""A trace that is copied to a URL replaces a trace at most."""

from __future__ import annotations

import uuid
from pathlib import Path

import fsspec
import pytest

from rotameter.errors import TracerWarning
from rotameter.profiler.trace import Trace
from rotameter.profiler.upload import upload


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Trace.from_tables({"tasks": [{"task_id": "a"}]}).save(tmp_path / "run.rmt")


@pytest.fixture(params=["memory", "file"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        return f"memory://{uuid.uuid4().hex}/run.rmt"
    return (tmp_path / "remote" / "run.rmt").as_uri()


def _files(url: str) -> list[str]:
    fs, target = fsspec.core.url_to_fs(url)
    return sorted(path[len(target) + 1 :] for path in fs.find(target))


def test_a_free_name_is_taken_or_the_trace_replaced(folder: Path, place: str) -> None:
    first = upload(folder, place)
    assert _files(first) == ["meta.json", "tables/tasks.parquet"]
    assert upload(folder, place).endswith("run-2.rmt")
    (folder / "tables" / "tasks.parquet").unlink()
    assert upload(folder, place, force=True) == first
    assert _files(first) == ["meta.json"]


@pytest.mark.parametrize("precious", ["photo.jpg", "tables/x.csv", "segments/a.txt", "deep/a/b"])
@pytest.mark.parametrize("beside_a_trace", [True, False])
def test_force_keeps_what_is_no_trace(
    folder: Path, place: str, precious: str, beside_a_trace: bool
) -> None:
    if beside_a_trace:
        upload(folder, place)
    fs, target = fsspec.core.url_to_fs(place)
    fs.makedirs(f"{target}/{precious}".rpartition("/")[0], exist_ok=True)
    fs.pipe_file(f"{target}/{precious}", b"precious")
    with pytest.warns(TracerWarning, match="is kept"):
        written = upload(folder, place, force=True)
    assert written.endswith("run-2.rmt")
    assert fs.cat_file(f"{target}/{precious}") == b"precious"
    assert _files(written) == ["meta.json", "tables/tasks.parquet"]


def test_force_keeps_a_file(folder: Path, place: str) -> None:
    fs, target = fsspec.core.url_to_fs(place)
    fs.makedirs(target.rpartition("/")[0], exist_ok=True)
    fs.pipe_file(target, b"precious")
    with pytest.warns(TracerWarning, match="is kept"):
        assert upload(folder, place, force=True).endswith("run-2.rmt")
    assert fs.cat_file(target) == b"precious"
