from __future__ import annotations

import dataclasses
import html
import json
import math
import re
from html.parser import HTMLParser
from importlib import resources
from typing import Any

import jsonschema
import numpy as np
import pyarrow as pa
import pytest
from tests.support.browser import everything
from tests.support.synthetic import (
    EPOCH_NS,
    HOSTILE,
    synthetic_meta,
    synthetic_trace,
    synthetic_verdict,
)

from rotameter.profiler.trace import Trace
from rotameter.values import Evidence, Figure, Finding, Together, Verdict
from rotameter.viz.formats import ratio, seconds, size
from rotameter.viz.page import MODULES, content_policy, docs_link, script, style
from rotameter.viz.plotly import packed
from rotameter.viz.report import findings_document, render
from rotameter.viz.sections.gather import SECTIONS

SCHEMA = json.loads((resources.files("rotameter.viz") / "findings.schema.json").read_text())
CASES: dict[str, dict[str, Any]] = {
    "usual": {"tasks": 500, "deaths": 1, "failed": 0.05},
    "nothing": {"tasks": 0},
    "one task": {"tasks": 1},
    "no times": {"tasks": 50, "times": "none"},
    "relative times": {"tasks": 50, "times": "relative"},
    "hostile": {"tasks": 60, "groups": 10, "hostile": True, "failed": 0.2, "deaths": 1},
    "many": {"tasks": 900, "groups": 300, "workers": 150, "threads": 1},
}


class _Page(HTMLParser):
    """What a page holds: tags, attributes, and the text outside scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._raw = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._raw += tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._raw -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self._raw:
            self.text.append(data)


def _parse(page: str) -> tuple[_Page, str]:
    parsed = _Page(page)
    return parsed, re.sub(r"\s+", " ", " ".join(parsed.text))


@pytest.mark.parametrize("case", CASES)
def test_the_document_fits_its_schema_and_is_valid_json(case: str) -> None:
    trace = synthetic_trace(**CASES[case])
    document = findings_document(trace, synthetic_verdict("ok", hostile=case == "hostile"))
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_a_document_with_every_section_fits_the_schema_and_the_page_shows_it() -> None:
    trace = everything()
    document = findings_document(trace, synthetic_verdict())
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert document["left_out"] == []
    page = render(trace, synthetic_verdict())
    _, text = _parse(page)
    (packed_facts,) = re.findall(r'id="charts-data">(.*?)</script>', page, re.S)
    assert json.loads(packed_facts) == {name: document[name] for name in SECTIONS}
    part = document["critical_path"]["parts"][0]
    account = next(a for a in document["waste"]["accounts"] if a["held"])
    for number in (
        seconds(part["seconds"]),
        size(document["flow"]["links"][0]["bytes"]),
        size(document["memory_requests"]["groups"][0]["peak_bytes"]["max"]),
        size(document["io"]["rows"][0]["total_read_bytes"]),
        ratio(account["parts"][0]["ratio"]),
    ):
        assert number in text, number


def test_what_is_left_out_is_named_with_its_reason() -> None:
    _, text = _parse(render(synthetic_trace(20, times="none"), synthetic_verdict()))
    assert "Sections that are left out" in text
    assert "Critical path: no task has times: no critical path of the run." in text
    _, text = _parse(render(everything(), synthetic_verdict()))
    assert "Sections that are left out" not in text


def test_what_like_findings_save_together_is_in_the_document() -> None:
    shared = Together(
        "RM102", "tiny_tasks", ("a", "b"), (1, 2), 3.5, (3.0, 4.0), "2 findings of RM102 at once"
    )
    verdict = dataclasses.replace(synthetic_verdict(), together=(shared,))
    document = findings_document(synthetic_trace(20), verdict)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert document["together"] == [
        {
            "code": "RM102", "kind": "tiny_tasks", "groups": ["a", "b"], "ranks": [1, 2],
            "saving_s": 3.5, "saving_s_interval80": [3.0, 4.0],
            "saving_how": "2 findings of RM102 at once",
        }
    ]  # fmt: skip
    assert "what_if" not in document["findings"][0]


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("case", CASES)
def test_every_case_makes_a_page_that_names_no_other_file(case: str) -> None:
    page = render(synthetic_trace(**CASES[case]), synthetic_verdict("ok"))
    parsed, _ = _parse(page)
    for tag, attributes in parsed.tags:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form")
        assert "src" not in attributes
        assert "style" not in attributes
        assert not [name for name in attributes if name.startswith("on")]
        if tag == "a":
            assert str(attributes["href"]).startswith("#")
    assert "url(" not in style()
    assert "@import" not in style()
    ids = [attributes["id"] for _, attributes in parsed.tags if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_same_input_same_page() -> None:
    pages = [render(synthetic_trace(300, deaths=1), synthetic_verdict()) for _ in range(2)]
    assert pages[0] == pages[1]


def test_the_verdict_comes_first_and_says_why_a_run_failed() -> None:
    _, text = _parse(render(synthetic_trace(10), synthetic_verdict("failed")))
    assert text.index("Run failed") < text.index("The run failed after 1 min 35 s: KilledWorker")
    assert text.index("KilledWorker") < text.index("Makespan") < text.index("What we saw")


def test_findings_show_cost_evidence_and_cure() -> None:
    page = render(synthetic_trace(10), synthetic_verdict(), docs_url="https://d.example.org/f/")
    parsed, text = _parse(page)
    for piece in (
        "Critical",
        "41.2 s",
        "80 %: 30.1 s to 52.7 s",
        "0.31 GB·h",
        "replayed without the deaths; replay error 4 %",
        "2.1 GB",
        "upper bound, 167 observations",
        "Confidence: high",
        "Run at most one reduce at a time",
        'LocalCluster(n_workers=4, threads_per_worker=1, memory_limit="4GB")',
        "disk time was not recorded, so its share of the run cannot be told",
        "Evidence (4)",
        "Cannot tell how much time the garbage collector took",
        "12 records were dropped",
        "torn tail",
    ):
        assert piece in text, piece
    assert "buffer was full" not in text  # a full disk drops records too
    links = [a.get("href") for tag, a in parsed.tags if tag == "a"]
    assert "https://d.example.org/f/RM101.html" in links
    assert "#F01" in links
    assert [a["id"] for tag, a in parsed.tags if tag == "tr" and "id" in a] == [
        "F01",
        "F02",
        "F03",
        "F04",
    ]


def test_hostile_text_stays_text() -> None:
    trace = synthetic_trace(
        80,
        groups=10,
        hostile=True,
        deaths=1,
        failed=0.3,
        meta=synthetic_meta(command=list(HOSTILE), warnings=list(HOSTILE), levels={HOSTILE[0]: 1}),
    )
    verdict = synthetic_verdict("failed", hostile=True)
    odd = [
        dataclasses.replace(
            finding,
            title=HOSTILE[i],
            advice=HOSTILE[i + 1],
            change=HOSTILE[2] + HOSTILE[3] + HOSTILE[6],
            cost_how=HOSTILE[1],
            evidence=(Evidence(HOSTILE[0], HOSTILE[2], HOSTILE[1], HOSTILE[1], 3),),
        )
        for i, finding in enumerate(verdict.findings)
    ]
    verdict = dataclasses.replace(verdict, findings=tuple(odd), notes=HOSTILE)
    page = render(trace, verdict, title=HOSTILE[2], docs_url="javascript:alert(1)//")
    parsed, text = _parse(page)
    scripts = [a for tag, a in parsed.tags if tag == "script"]
    assert len(scripts) == 5
    assert not [tag for tag, _ in parsed.tags if tag == "img"]
    assert "javascript:" not in page
    assert "<script>window.pwned=1</script>" in text  # as text
    assert "49" not in re.findall(r"\{\{ 7\*7 \}\}|49 \{%", text)
    for hidden in ("\u202e", "\u2066", "\u2028", "\x1b", "\x00"):
        assert hidden not in page
    library = packed()
    assert library is not None
    assert len(page) - len(library.data) < 400_000
    assert "x" * 2_001 not in page
    longest = max((len(v or "") for _, a in parsed.tags for k, v in a.items() if k == "title"))
    assert longest <= 400


def test_text_that_cannot_be_encoded_is_replaced() -> None:
    verdict = Verdict("bad \ud800 text", "ok", notes=("\udfff",))
    page = render(Trace.from_tables({}), verdict)
    assert b"bad " in page.encode()  # a lone surrogate would raise
    document = findings_document(Trace.from_tables({}), verdict)
    assert "bad " in json.dumps(document, ensure_ascii=False).encode().decode()


def test_numbers_that_are_not_finite_become_unknown() -> None:
    finding = Finding("RM1", "x", "info", "t", cost_s=math.nan, cost_gbh=math.inf)
    verdict = Verdict("s", "ok", (Figure("f", math.nan, "s", "?"),), (finding,))
    document = findings_document(Trace.from_tables({}), verdict)
    assert document["findings"][0]["cost_s"] is None
    assert document["figures"][0]["value"] is None
    render(Trace.from_tables({}), verdict)


def test_what_is_missing_is_said() -> None:
    _, text = _parse(render(synthetic_trace(20, times="none", transfers=False), Verdict("v", "ok")))
    assert "No attempt has a start time" in text
    assert "No transfer between workers was recorded." in text
    assert "No rule found a loss worth a change." in text
    bare = Trace.from_tables({"tasks": [{"task_id": "a"}]})
    document = findings_document(bare, Verdict("v", "unknown"))
    assert document["groups"][0]["total_wall_s"] is None
    assert document["overview"] is None
    _, text = _parse(render(Trace.from_tables({}), Verdict("Nothing.", "unknown")))
    assert "The trace holds no task" in text
    assert "not recorded" in text


def test_only_hashed_scripts_and_styles_may_act() -> None:
    page = render(synthetic_trace(10), synthetic_verdict())
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)
    policy = html.unescape(policy)
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    library = packed()
    assert library is not None
    allowed = content_policy([script("theme.js"), script(*MODULES), library.text], [style(), ""])
    assert str(allowed["script"]) in policy
    assert str(allowed["style"]) in policy


def test_the_script_is_one_scope_without_imports() -> None:
    text = script(*MODULES)
    assert not re.search(r"^(import|export) ", text, flags=re.M)
    assert text.startswith("(() => {")


@pytest.mark.parametrize("base", [None, "", "javascript:x", "data:text/html,x", "ht tp://x"])
def test_unsafe_addresses_make_no_link(base: str | None) -> None:
    assert docs_link(base, "RM101") is None


@pytest.mark.parametrize("base", ["https://d.example.org", "docs", "../docs/", "/d", "file:///d"])
def test_safe_addresses_make_a_link(base: str) -> None:
    assert docs_link(base, "RM101") == f"{base.rstrip('/')}/RM101.html"
    assert docs_link(base, "RM/101") is None


def test_a_large_trace_stays_within_its_size() -> None:
    trace = synthetic_trace(100_000, workers=8, threads=4, groups=40, failed=0.01, deaths=3)
    assert len(render(trace, synthetic_verdict()).encode()) <= 3_000_000


def test_a_large_trace_of_odd_names_and_very_different_times_stays_within_its_size() -> None:
    usual = synthetic_trace(100_000, workers=8, threads=4, groups=40, failed=0.01, deaths=3)
    tasks = usual.table("tasks")
    rng = np.random.default_rng(3)
    length = (1e8 * rng.lognormal(0.0, 2.5, tasks.num_rows)).astype(np.int64)
    start = np.sort(rng.integers(0, 10**13, tasks.num_rows)) + EPOCH_NS
    changed = {
        "task_id": [rng.bytes(16).hex() for _ in range(tasks.num_rows)],
        "started_ns": start,
        "ended_ns": start + length,
        "ready_ns": start,
        "wall_s": length / 1e9,
    }
    for name, values in changed.items():
        at = tasks.column_names.index(name)
        tasks = tasks.set_column(at, tasks.field(at), pa.array(values, tasks.field(at).type))
    trace = Trace.from_tables({"tasks": tasks, "workers": usual.table("workers")})
    page = render(trace, synthetic_verdict())
    assert len(page.encode()) <= 3_000_000
    assert "Task names are left out of the chart" in page


def test_gpus_held_and_idle_are_in_the_table_and_in_the_document() -> None:
    trace = Trace.from_tables(
        {
            "tasks": [
                {"task_id": "7", "outcome": "ok", "wall_s": 10.0, "granted_gpus": 4.0,
                 "gpu_s": 9.0},
                {"task_id": "8", "outcome": "failed", "wall_s": 10.0, "granted_gpus": 1.0},
            ],
            "samples": [{"subject": "7", "metric": "gpus_idle", "value": 3.0}],
        },
        {"origin": "imported", "engine": "slurm"},
    )  # fmt: skip
    verdict = Verdict("s", "ok")
    document = findings_document(trace, verdict)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert document["usage"]["gpu"]["idle"][0]["task_id"] == "7"
    assert document["failures"][0]["workers"] is None
    page = render(trace, verdict)
    assert "GPUs held, used" in page and "22.5% of GPU·h" in page
    assert "1 of 2 attempts; 3 of 4 GPUs idle the whole job (7)" in page
