"""The sizing section: the numbers of `rotameter size`, why, and what is missing."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner
from tests.support.synthetic import HOSTILE

from rotameter.cli.size import size
from rotameter.profiler.trace import Trace
from rotameter.values import Verdict
from rotameter.viz.report import findings_document, render
from rotameter.viz.sections import gather
from rotameter.viz.sections.sizing import sizing

SCHEMA = json.loads((resources.files("rotameter.viz") / "findings.schema.json").read_text())
GB = 10**9
RUN = Verdict("A run.", "ok")
SAME = (
    "group", "runs", "asked_bytes", "request_bytes", "retry_bytes", "kill_ratio",
    "enough_ratios", "asked_gbh", "advised_gbh", "used_gbh", "reason",
)  # fmt: skip


def runs(group: str, needs: list[float], asked: float | None = 16, **more: Any) -> list[Any]:
    """Make completed tasks of a group; GB."""
    row = {"group": group, "outcome": "ok", "wall_s": 3600.0, "peak_memory_kind": "exact"}
    if asked is not None:
        row["requested_memory_bytes"] = round(asked * GB)
    return [
        {**row, "task_id": f"{group}-{k}", "peak_memory_bytes": round(need * GB), **more}
        for k, need in enumerate(needs)
    ]


def made(tasks: list[Any]) -> dict[str, Any]:
    found = sizing(Trace.from_tables({"tasks": tasks}))
    assert isinstance(found, dict), found
    return found


def section(page: str) -> str:
    (found,) = re.findall(r'<section id="sizing".*?</section>', page, re.S)
    return str(found)


def text(page: str) -> str:
    """Give what a page shows with scripts off."""

    class Reader(HTMLParser):
        words = ""
        raw = 0

        def handle_starttag(self, tag: str, attrs: Any) -> None:
            self.raw += tag in ("script", "style")

        def handle_endtag(self, tag: str) -> None:
            self.raw -= tag in ("script", "style")

        def handle_data(self, data: str) -> None:
            self.words += "" if self.raw else data + " "

    reader = Reader()
    reader.feed(page)
    return re.sub(r"\s+", " ", reader.words)


def test_the_numbers_are_those_of_the_command(tmp_path: Path) -> None:
    head = "task_id\tname\tstatus\tmemory\tpeak_rss\trealtime\n"
    lines = [
        f"{k}\t{'load' if k % 3 else 'train'} ({k})\tCOMPLETED\t8 GB\t"
        f"{1 + k % 5 / 10} GB\t{60 + k}s\n"
        for k in range(60)
    ]
    path = tmp_path / "trace.txt"
    path.write_text(head + "".join(lines))
    out = CliRunner().invoke(size, [str(path), "--json"], standalone_mode=False)
    told = json.loads(out.stdout)["advice"][0]["groups"]
    import rotameter

    shown = sizing(rotameter.open(path))
    assert isinstance(shown, dict)
    assert len(shown["groups"]) == len(told) == 2
    for row, one in zip(shown["groups"], told, strict=True):
        for name in SAME:
            assert row[name] == one[name], name
        assert row["kill_interval95"] == one["kill_interval"]


def test_the_page_says_what_to_ask_for_the_chances_what_is_held_and_why() -> None:
    tasks = runs("bwa", [2.0] * 995 + [9.0] * 5) + runs("sort", [1.0] * 3)
    tasks.append({**runs("bwa", [1.0])[0], "task_id": "dead", "outcome": "oom",
                  "requested_memory_bytes": GB, "peak_memory_kind": "lower_bound"})  # fmt: skip
    trace = Trace.from_tables({"tasks": tasks})
    document = findings_document(trace, RUN)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    shown = text(section(render(trace, RUN)))
    for piece in (
        "A request is advised for 1 of 2 groups. With it",
        "1,000 +1 killed",
        "2.2 GB for all but at most 0.6 %",
        "4.4 GB for all but at most 0.6 %",
        "9.9 GB for all but < 0.1 %",
        "0.5 % to 0.6 % 0.2 % to 1.3 %",
        "16,000 GB·h 87 % unused",
        "All but 5 of 1,000 runs used 2 GB or less; 10 % is added; the others run again with more;"
        " 1 attempt ran out of memory with 1 GB; whether it is enough for 1 run that ran out of"
        " memory is not known.",
        "keep",
        "Keep, because fewer than 5 runs (3 runs).",
        "rotameter size TRACE",
    ):
        assert piece in shown, piece
    row = document["sizing"]["groups"][0]
    assert (row["runs"], row["killed_for_memory"], row["killed_bytes"]) == (1000, 1, GB)
    assert document["sizing"]["asked_gbh"] == pytest.approx(16_000)
    by_name = {one["group"]: one for one in document["memory_requests"]["groups"]}
    assert by_name["bwa"]["advised_bytes"] == row["request_bytes"]
    assert by_name["sort"]["advised_bytes"] is None


def test_without_memory_one_line_says_what_is_missing() -> None:
    bare = [{"task_id": str(k), "group": "g", "outcome": "ok", "wall_s": 1.0} for k in range(9)]
    page = render(Trace.from_tables({"tasks": bare}), RUN)
    assert 'id="sizing"' not in page and 'href="#sizing"' not in page
    assert "Sizing: what to ask for, and why: no peak of memory was recorded" in text(page)
    dead = runs("g", [1.0] * 9, outcome="oom", peak_memory_kind="lower_bound")
    (row,) = made(dead)["groups"]
    assert (row["runs"], row["at_least_bytes"], row["guess_bytes"]) == (0, 16 * GB, 32 * GB)
    for one in dead:
        one["outcome"] = "ok"
    assert "no completed task" in str(sizing(Trace.from_tables({"tasks": dead})))
    assert "no peak" in str(sizing(Trace.from_tables({})))


def test_the_section_and_the_finding_ask_for_the_same() -> None:
    from rotameter.api import diagnose

    second = 10**9
    tasks = []
    for k in range(3):  # 8 GB is not enough for what needs 14 GB; the retry has 16 GB.
        row = {"task_id": f"c{k}", "group": "CALL", "worker": "w", "peak_memory_kind": "exact"}
        for attempt, outcome, had, peak in ((1, "oom", 8, None), (2, "ok", 16, 14 * GB)):
            at = (2 * k + attempt) * 600 * second
            tasks.append(
                {**row, "attempt": attempt, "outcome": outcome, "started_ns": at,
                 "ended_ns": at + 600 * second, "wall_s": 600.0, "peak_memory_bytes": peak,
                 "requested_memory_bytes": had * GB}
            )  # fmt: skip
    trace = Trace.from_tables({"tasks": tasks}, {"engine": "nextflow"})
    shown = text(section(render(trace, diagnose(trace))))
    (advice,) = [f.advice for f in diagnose(trace).findings if f.code == "RM123"]
    assert advice.startswith("Ask for 15.4 GB")  # 14 GB and a tenth
    (row,) = made(tasks)["groups"]
    assert (row["at_least_bytes"], row["guess_bytes"]) == (8 * GB, pytest.approx(15.4 * GB))
    assert "> 8 GB a guess: 15.4 GB" in shown and "keep" not in shown
    assert "where they were tried again, by the last try" in shown


@pytest.mark.parametrize(
    ("more", "asked", "kind", "why"),
    [
        ({"peak_memory_kind": "upper_bound"}, 16, "upper_bound", "page cache"),
        ({}, 1.0, "upper_bound", "as large as the request"),
        ({"features": {"input_bytes": 5.0}}, 16, "exact", "the same input size"),
        ({"peak_memory_kind": "sampled"}, None, "sampled", ""),
    ],
)
def test_what_only_bounds_are_known_of_is_kept(more: Any, asked: Any, kind: str, why: str) -> None:
    found = made(runs("g", [1.0] * 9, asked, **more))
    (row,) = found["groups"]
    assert row["peak_kind"] == kind and why in row["reason"]
    assert (row["request_bytes"] is None) == bool(why)
    assert (found["asked_gbh"], found["compared_groups"]) == (None, 0)
    if why:
        assert row["reason"].startswith("keep, because")
        shown = section(
            render(Trace.from_tables({"tasks": runs("g", [1.0] * 9, asked, **more)}), RUN)
        )
        assert "No group’s request should be changed" in shown
        assert ("≤ " in shown.split("tbody>")[1]) == (kind == "upper_bound")


def test_a_group_that_asks_for_too_little_is_counted() -> None:
    found = made(runs("g", [3.0] * 9, asked=3.2))
    assert found["larger_groups"] == 1 and found["advised_gbh"] > found["asked_gbh"]
    page = render(Trace.from_tables({"tasks": runs("g", [3.0] * 9, asked=3.2)}), RUN)
    assert "1 should ask for more than it does." in text(section(page))


def test_hostile_names_stay_text() -> None:
    tasks = [one for k, odd in enumerate(HOSTILE) for one in runs(f"{odd}{k}", [1.0] * 6)]
    shown = section(render(Trace.from_tables({"tasks": tasks}), RUN))
    assert (
        "<script" not in shown
        and "<img" not in shown
        and "onerror=" not in re.sub(r'title="[^"]*"|>[^<]*<', "", shown)
    )
    for hidden in ("\u202e", "\u2066", "\u2028", "\x1b", "\x00"):
        assert hidden not in shown


def test_a_task_without_a_group_has_no_name_made_up() -> None:
    tasks = runs("g", [1.0] * 6)
    for one in tasks:
        del one["group"]
    assert made(tasks)["groups"][0]["group"] is None
    assert "not recorded" in section(render(Trace.from_tables({"tasks": tasks}), RUN))


def test_two_thousand_groups_keep_the_page_small() -> None:
    tasks = [one for k in range(2000) for one in runs(f"group-{k:04}", [1.0] * 6, asked=8)]
    trace = Trace.from_tables({"tasks": tasks})
    shown = section(render(trace, RUN))
    assert "The first 100 of 2,000 groups" in shown
    assert shown.count('class="why"') == 100 and len(shown) < 150_000
    assert len(findings_document(trace, RUN)["sizing"]["groups"]) == 2000


def test_a_broken_section_leaves_the_memory_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(trace: Trace) -> dict[str, Any]:
        raise KeyError("x")

    monkeypatch.setitem(gather.TABLES, "sizing", broken)
    found = gather.sections(Trace.from_tables({"tasks": runs("g", [1.0] * 6)}))
    assert found["sizing"] is None
    assert found["memory_requests"]["groups"][0]["advised_bytes"] is None


def test_names_that_read_alike_when_clipped_get_no_line() -> None:
    names = [f"a{'x' * 300}{k}{'y' * 200}" for k in (1, 2)]
    tasks = [one for name in names for one in runs(name, [1.0] * 6)]
    found = gather.sections(Trace.from_tables({"tasks": tasks}))
    assert [row["advised_bytes"] for row in found["memory_requests"]["groups"]] == [None, None]


def test_of_killed_tasks_alone_the_bound_is_shown() -> None:
    dead = runs("g", [1.0] * 3, 4, outcome="oom", peak_memory_kind="lower_bound")
    trace = Trace.from_tables({"tasks": dead})
    document = findings_document(trace, RUN)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    shown = text(section(render(trace, RUN)))
    assert "> 4 GB a guess: 8 GB" in shown and "More than 4 GB is needed" in shown
    assert "1 should ask for more than it does" in shown


def test_the_floor_is_no_reason_to_ask_for_more() -> None:
    found = made(runs("g", [0.015] * 9, asked=0.1))
    assert found["floor_bytes"] == found["groups"][0]["request_bytes"] == 256_000_000
    assert found["larger_groups"] == 0


def others(**more: Any) -> list[Any]:
    """Make runs that ask for a day, eight cores and 100 GB of disk, and use little of each."""
    asked = {"requested_wall_s": 86400.0, "requested_cores": 8.0}
    disk = {"peak_disk_bytes": 5 * GB, "requested_disk_bytes": 100 * GB}
    return runs("bwa", [2.0] * 9, cpu_s=4000.0, **asked, **disk, **more)


def test_other_resources_with_advice_are_shown() -> None:
    trace = Trace.from_tables({"tasks": others()}, {"engine": "slurm"})
    document = findings_document(trace, RUN)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    found = {one["resource"]: one for one in document["sizing"]["others"]}
    assert {name: one["groups"][0]["request"] for name, one in found.items()} == {
        "time": 4500.0, "cores": 2.0, "disk": pytest.approx(5.5 * GB)}  # fmt: skip
    shown = text(section(render(trace, RUN)))
    for piece in (
        "Time 1 of 1 group. Group Runs Median Most Asked Ask for If not enough Not enough for Why",
        "bwa 9 1 h 1 h 24 h 1 h 15 min 2 h 30 min, 5 h at most 34 %",
        "Cores 1 of 1 group. Group Runs Median busy Most Asked Ask for Why",
        "bwa 9 1.11 1.11 8 2 Busy were 1.11 at most on average over 9 runs",
        "Disk 1 of 1 group.",
        "The largest of 9 runs used 5 GB; 10 % is added.",
    ):
        assert piece in shown, piece


def test_their_numbers_are_those_of_the_command() -> None:
    from rotameter.allocator.by_resource import advise_on, needs_of

    trace = Trace.from_tables({"tasks": others()}, {"engine": "slurm"})
    found = sizing(trace)
    assert isinstance(found, dict)
    for one in found["others"]:
        (told,) = advise_on(needs_of(trace, one["resource"]))
        (row,) = one["groups"]
        assert (row["request"], row["retry"], row["reason"]) == (
            told.request, list(told.retries), told.reason)  # fmt: skip


def test_without_memory_the_others_are_shown_and_what_is_missing() -> None:
    tasks = others()
    for one in tasks:
        del one["peak_memory_bytes"], one["peak_memory_kind"]
    trace = Trace.from_tables({"tasks": tasks}, {"engine": "slurm"})
    document = findings_document(trace, RUN)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert document["sizing"]["groups"] == [] and len(document["sizing"]["others"]) == 3
    page = render(trace, RUN)
    assert "Nothing is advised on memory: no peak of memory was recorded" in text(section(page))
    assert 'href="#sizing"' in page


def test_what_is_kept_needs_no_table() -> None:
    """No limit was on record, cores are busy, no disk is known: there is nothing to say."""
    found = sizing(Trace.from_tables({"tasks": runs("g", [2.0] * 9, cpu_s=3600.0)}))
    assert isinstance(found, dict) and found["others"] == []
    gpus = runs("g", [2.0] * 9, requested_gpus=1.0, gpu_s=0.0, started_ns=1, ended_ns=10**12)
    found = sizing(Trace.from_tables({"tasks": gpus}))
    assert isinstance(found, dict)
    assert [one["resource"] for one in found["others"]] == ["gpus"]
    page = render(Trace.from_tables({"tasks": gpus}), RUN)
    assert "None of 9 runs used the GPUs that it held." in text(section(page))


def test_many_groups_of_many_resources_keep_the_page_small() -> None:
    tasks = [
        {**one, "group": f"group-{k:04}", "task_id": f"{k}-{one['task_id']}"}
        for k in range(500)
        for one in others()[:6]
    ]
    trace = Trace.from_tables({"tasks": tasks}, {"engine": "slurm"})
    shown = section(render(trace, RUN))
    assert "The first 20; all are in the findings file" in shown and len(shown) < 200_000
    document = findings_document(trace, RUN)
    assert [len(one["groups"]) for one in document["sizing"]["others"]] == [500] * 3


def test_hostile_names_stay_text_in_every_table() -> None:
    tasks = [
        {**one, "group": f"{odd}{k}", "task_id": f"{k}-{one['task_id']}"}
        for k, odd in enumerate(HOSTILE)
        for one in others()[:6]
    ]
    shown = section(render(Trace.from_tables({"tasks": tasks}, {"engine": "slurm"}), RUN))
    assert shown.count("<table") == 4 and "<script" not in shown and "<img" not in shown
