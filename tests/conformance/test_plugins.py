"""Every registered plug-in passes the kit of its kind, ours like anyone's."""

from __future__ import annotations

from typing import Any

import pytest

from rotameter import plugins
from rotameter.errors import BadPlugin, UnknownPlugin
from rotameter.testing import (
    check_advisor,
    check_allocator,
    check_batch_policy,
    check_detector,
    check_forecaster,
    check_probe,
)


@pytest.mark.parametrize("name", plugins.names("advisors"))
def test_advisor(name: str) -> None:
    check_advisor(plugins.get("advisors", name)())


@pytest.mark.parametrize("name", plugins.names("probes"))
def test_probe(name: str) -> None:
    check_probe(plugins.get("probes", name)())


@pytest.mark.parametrize("name", plugins.names("allocators"))
def test_allocator(name: str) -> None:
    check_allocator(plugins.get("allocators", name))


@pytest.mark.parametrize("name", plugins.names("detectors"))
def test_detector(name: str) -> None:
    check_detector(plugins.get("detectors", name))


@pytest.mark.parametrize("name", ["conservative", "easy", "fair_share", "fcfs", "priority"])
def test_batch_policy(name: str) -> None:
    check_batch_policy(plugins.get("policies", name))


def test_a_policy_that_leaves_jobs_waiting_fails_the_kit() -> None:
    class Idle:
        needs: frozenset[Any] = frozenset()

        def decide(self, state: Any) -> list[Any]:
            return []

    with pytest.raises(AssertionError, match="waiting"):
        check_batch_policy(Idle)


@pytest.mark.parametrize("name", plugins.names("forecasters"))
@pytest.mark.parametrize("season", [0, 8])
def test_forecaster(name: str, season: int) -> None:
    made = plugins.get("forecasters", name)
    few = {"trees": 5} if name == "boosted" else {}
    check_forecaster(lambda: made(season=season, horizon=3, step_ns=60_000_000_000, **few))


def test_there_are_some() -> None:
    assert "default" in plugins.names("allocators")
    assert {"cusum", "e_detector", "adwin", "bayesian", "confirmed"} <= set(
        plugins.names("detectors")
    )
    assert len(plugins.names("advisors")) >= 7
    assert len(plugins.names("probes")) >= 5
    assert {"default", "last", "seasonal"} <= set(plugins.names("forecasters"))


class _Raises:
    name = "raises"

    def check(self, trace: Any, tools: Any) -> list[Any]:
        raise RuntimeError("planted")


class _Saves:
    name = "saves_more_than_the_run"

    def check(self, trace: Any, tools: Any) -> list[Any]:
        from rotameter.values import Finding

        return [Finding("RM999", "x", "info", "t", advice="a", cost_s=1e9, cost_how="guess")]


class _Forgets:
    name = "cost_without_reason"

    def check(self, trace: Any, tools: Any) -> list[Any]:
        from rotameter.values import Finding

        return [Finding("RM999", "x", "info", "t", advice="a")]


class _Wanders:
    name = "wanders"
    calls = 0

    def check(self, trace: Any, tools: Any) -> list[Any]:
        from rotameter.values import Finding

        self.calls += 1
        how = f"call {self.calls}"
        return [Finding("RM999", "x", "info", "t", advice="a", cost_how=how)]


@pytest.mark.parametrize("broken", [_Saves, _Forgets, _Wanders])
def test_the_kit_can_fail(broken: type) -> None:
    with pytest.raises(AssertionError):
        check_advisor(broken())


def test_a_raising_advisor_is_a_note_not_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from rotameter import api
    from rotameter.profiler.trace import Trace

    monkeypatch.setattr(plugins, "_registered", {})
    plugins.register("advisors", "raises", _Raises)
    verdict = api.diagnose(Trace.from_tables({"tasks": [{"task_id": "a"}]}))
    assert any("raises" in note for note in verdict.notes)


def test_unknown_and_bad_names_say_what_is_known() -> None:
    with pytest.raises(UnknownPlugin) as caught:
        plugins.get("advisors", "tiny_task")
    assert "did you mean 'tiny_tasks'" in str(caught.value.hint)
    with pytest.raises(BadPlugin, match="no check"):
        plugins.register("advisors", "empty", object)
    with pytest.raises(UnknownPlugin, match="no plug-in kind"):
        plugins.register("advisers", "x", _Raises)


def test_one_broken_package_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import EntryPoint

    from rotameter import api
    from rotameter.profiler.trace import Trace

    entries = {**plugins._entries("advisors")}
    entries["broken"] = EntryPoint("broken", "no_such_module_at_all:X", "rotameter.advisors")
    monkeypatch.setattr(plugins, "_entries", lambda _: entries)
    with pytest.raises(BadPlugin, match="broken"):
        plugins.get("advisors", "broken")
    verdict = api.diagnose(Trace.from_tables({"tasks": [{"task_id": "a"}]}))
    assert any("broken" in note for note in verdict.notes)
