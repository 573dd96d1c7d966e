"""The composition root: traces, names, URLs, and what happens when things go wrong."""

from __future__ import annotations

import asyncio
import warnings
from pathlib import Path

import pytest

import rotameter as rm
from rotameter.errors import TracerWarning, UsageError, WouldOverwrite


@rm.task(group="double")
def double(x: int) -> int:
    return 2 * x


def test_context_manager_records_and_reports(tmp_path: Path) -> None:
    with rm.trace(tmp_path / "run.rmt") as run:
        assert double(4) == 8
        with pytest.raises(UsageError, match="not ended"):
            run.trace  # noqa: B018
    assert len(run.trace.tasks) == 1
    assert run.trace.meta["run"]["status"] == "ok"
    assert run.report(tmp_path / "r.html") == tmp_path / "r.html"
    assert len(rm.open(tmp_path / "run.rmt").tasks) == 1


def test_decorator_makes_a_trace_a_call(tmp_path: Path) -> None:
    @rm.trace(tmp_path / "run.rmt")
    def main(x: int) -> int:
        return double(x)

    assert main(1) == 2
    with pytest.warns(TracerWarning, match=r"writing .*run-2\.rmt"):
        assert main(2) == 4
    for name in ("run.rmt", "run-2.rmt"):
        assert len(rm.open(tmp_path / name).tasks) == 1


def test_decorator_of_a_coroutine_function(tmp_path: Path) -> None:
    @rm.trace(tmp_path / "run.rmt")
    async def main(x: int) -> int:
        await asyncio.sleep(0)
        return double(x)

    assert asyncio.run(main(3)) == 6
    assert len(rm.open(tmp_path / "run.rmt").tasks) == 1


def test_async_context_manager(tmp_path: Path) -> None:
    async def main() -> int:
        async with rm.trace(tmp_path / "run.rmt"):
            return double(3)

    assert asyncio.run(main()) == 6
    assert len(rm.open(tmp_path / "run.rmt").tasks) == 1


def test_the_users_error_passes_and_is_recorded(tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match="mine") as caught,
        rm.trace(tmp_path / "run.rmt"),
    ):
        raise ValueError("mine")
    assert caught.value.__cause__ is None
    run = rm.open(tmp_path / "run.rmt").meta["run"]
    assert (run["status"], run["error"]) == ("failed", "ValueError: mine")
    assert rm.diagnose(rm.open(tmp_path / "run.rmt")).sentence.startswith("Run failed")


def test_interruption_is_no_failure(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), rm.trace(tmp_path / "run.rmt"):
        raise KeyboardInterrupt
    assert rm.open(tmp_path / "run.rmt").meta["run"]["status"] == "interrupted"


def test_url_is_written_through_fsspec(tmp_path: Path) -> None:
    target = tmp_path / "bucket" / "run.rmt"
    with rm.trace(f"file://{target}") as run:
        double(1)
    assert run.path is None
    assert len(rm.open(target).tasks) == 1
    assert len(run.trace.tasks) == 1
    with rm.trace(f"file://{target}") as again:
        double(1)
    assert str(again.url).endswith("run-2.rmt")
    assert len(rm.open(tmp_path / "bucket" / "run-2.rmt").tasks) == 1


def test_unusable_url_costs_only_the_trace() -> None:
    with (
        pytest.warns(TracerWarning, match="nosuchprotocol"),
        rm.trace("nosuchprotocol://x/run.rmt"),
    ):
        assert double(1) == 2


def test_unwritable_place_costs_only_the_trace(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with rm.trace(tmp_path / "file" / "run.rmt") as run:
            assert double(1) == 2
        assert run.report(tmp_path / "r.html") is None
    messages = [str(w.message) for w in caught]
    assert len(messages) == 2 and "nothing is recorded" in messages[0], messages


def test_reports_are_not_overwritten_by_the_function_and_not_lost_by_the_method(
    tmp_path: Path,
) -> None:
    with rm.trace(tmp_path / "run.rmt") as run:
        double(1)
    target = tmp_path / "r.html"
    rm.report(run.trace, target, findings_json=tmp_path / "f.json")
    with pytest.raises(WouldOverwrite):
        rm.report(run.trace, target)
    with pytest.warns(TracerWarning, match=r"r-2\.html"):
        assert run.report(target) == tmp_path / "r-2.html"
    rm.report(run.trace, target, force=True)


def test_a_report_that_cannot_be_written_does_not_end_the_script(tmp_path: Path) -> None:
    with rm.trace(tmp_path / "run.rmt") as run:
        double(1)
    (tmp_path / "file").write_text("x")
    with pytest.warns(TracerWarning, match="no report"):
        assert run.report(tmp_path / "file" / "r.html") is None


def test_an_empty_name_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    with pytest.warns(TracerWarning, match="the name of the trace is empty"), rm.trace("") as run:
        assert double(1) == 2
    assert run.path is None and [p.name for p in tmp_path.iterdir()] == ["here"]


def test_a_client_that_is_none_of_ours_costs_only_its_trace(tmp_path: Path) -> None:
    with pytest.warns(TracerWarning, match="the run goes on"):
        manager = rm.trace(tmp_path / "run.rmt", client=object())
        with manager as run:
            assert double(1) == 2
    assert len(run.trace.tasks) == 1
    assert any("the cluster is not in this trace" in word for word in run.trace.warnings)


def test_changing_the_folder_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    with rm.trace("run.rmt") as run:
        monkeypatch.chdir(tmp_path / "sub")
        double(1)
    assert run.report("r.html") == Path("r.html")
    assert len(rm.open(tmp_path / "run.rmt").tasks) == 1
    assert (tmp_path / "sub" / "r.html").exists()


def test_warnings_as_errors_change_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with rm.trace(tmp_path / "run.rmt") as run:
                double(1)
            run.report(tmp_path / "r.html")
        with rm.trace(tmp_path / "file" / "run.rmt") as run:
            assert double(1) == 2
        assert run.report(tmp_path / "none.html") is None


def test_a_trace_inside_a_trace_gets_its_own_part(tmp_path: Path) -> None:
    with rm.trace(tmp_path / "outer.rmt") as outer:
        double(1)
        with (
            pytest.warns(TracerWarning, match="open already"),
            rm.trace(tmp_path / "inner.rmt") as inner,
        ):
            double(2)
            double(3)
        assert len(inner.trace.tasks) == 2
        assert inner.path == tmp_path / "inner.rmt"
    assert len(outer.trace.tasks) == 3
    assert len(rm.open(tmp_path / "inner.rmt").tasks) == 2


def test_paths_are_as_good_as_traces(tmp_path: Path) -> None:
    with rm.trace(tmp_path / "run.rmt"):
        double(1)
    assert rm.diagnose(tmp_path / "run.rmt").status == "ok"
    assert rm.report(str(tmp_path / "run.rmt"), tmp_path / "r.html").exists()
    with pytest.raises(UsageError, match="one file"):
        rm.report(tmp_path / "run.rmt", tmp_path / "x", findings_json=tmp_path / "x")
    with pytest.raises(UsageError, match="is a folder"):
        rm.report(tmp_path / "run.rmt", tmp_path, force=True)
