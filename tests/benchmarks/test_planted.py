"""The injector itself: drawing, its scheduler, truths, forms, scoring, one small real run."""

from __future__ import annotations

import ast
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from benchmarks.planted import __main__ as command
from benchmarks.planted import decoys, gen_gpu, healthy, real, runner, score
from benchmarks.planted.base import ALSO, GENERATED, REAL, Cluster, Truth, matters
from benchmarks.planted.lists import Job, Node, makespan, schedule

import rotameter as rm
from rotameter.profiler.stats import stats

HERE = Path(runner.__file__).parent


def test_it_imports_nothing_of_the_rules() -> None:
    for path in sorted(HERE.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
                names += [f"{node.module}.{alias.name}" for alias in node.names]
            for name in names:
                assert not name.startswith("rotameter.profiler.findings"), path.name
                assert not name.startswith("rotameter.profiler.diagnose"), path.name


def test_there_are_as_many_kinds_as_the_issue_asks_for() -> None:
    assert len(runner.KINDS) == len(set(runner.KINDS)) >= 24
    assert len(REAL) >= 16
    assert not set(REAL) & set(GENERATED)


def test_what_is_written_about_kinds_is_what_is_planted() -> None:
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|$", (HERE / "KINDS.md").read_text(), re.MULTILINE)
    said = {slug: [part.strip() for part in rest.split("|")] for slug, rest in rows}
    for kind in runner.KINDS:
        how, also = said[kind][1], said[kind][3]
        assert how == ("real" if kind in REAL else "generated"), kind
        assert set(re.findall(r"\w+", also)) == set(ALSO.get(kind, ())), kind
    assert set(said) - set(runner.KINDS) == {"random_io"}


@pytest.mark.parametrize("kind", sorted(REAL))
def test_a_seed_draws_the_same_workflow_again(kind: str) -> None:
    one, two = (runner.draw_plan(kind, 5, 0, second=True) for _ in range(2))
    assert one == two
    assert kind in [cause.kind for cause in one.causes]
    assert len({cause.family for cause in one.causes}) == len(one.causes) == 2
    assert len(one.decoys) == 3
    assert set(one.decoys) <= set(decoys.DECOYS)
    assert runner.draw_plan(kind, 6, 0, second=True).sizes != one.sizes


@pytest.mark.parametrize("kind", sorted(REAL))
def test_a_cluster_is_that_of_the_first_cause(kind: str) -> None:
    plan = runner.draw_plan(kind, 3, 0, second=True)
    (number,) = (n for n, cause in enumerate(plan.causes) if cause.kind == kind)
    for planted in (True, False):
        on = [True, True]
        on[number] = planted
        assert plan.shape(on) == REAL[kind].cluster(plan.sizes[number], planted)


def test_jobs_wait_for_room_and_for_each_other() -> None:
    jobs = [
        Job("a", "g", 4.0, cores=2),
        Job("b", "g", 2.0, cores=2),
        Job("c", "g", 1.0),
        Job("d", "g", 1.0, after=(("a", 1),), wait_s=2.0),
    ]
    placed = schedule(jobs, [Node("n", 3, 9e9)])
    starts = {task: made.start_s for (task, _), made in placed.items()}
    assert starts == {"a": 0.0, "b": 4.0, "c": 0.0, "d": 6.0}
    assert placed["d", 1].ready_s == 4.0
    assert makespan(jobs, [Node("n", 3, 9e9)]) == 7.0
    with pytest.raises(ValueError, match="fit nowhere"):
        schedule([Job("x", "g", 1.0, cores=4)], [Node("n", 3, 9e9)])


def test_the_first_job_of_each_node_takes_longer() -> None:
    jobs = [Job(str(n), "g", 1.0, node_first_s=3.0) for n in range(4)]
    placed = schedule(jobs, [Node("m", 1, 9e9), Node("n", 1, 9e9)])
    assert sorted(made.end_s for made in placed.values()) == [4.0, 4.0, 5.0, 5.0]
    assert sum(made.first for made in placed.values()) == 2


def test_no_job_overlaps_beyond_what_a_node_has() -> None:
    for seed in range(10):
        rng = random.Random(seed)
        jobs = [
            Job(f"j{n}", "g", rng.uniform(1, 9), cores=rng.randrange(1, 4),
                memory=rng.uniform(1, 5) * 1e9,
                after=((f"j{rng.randrange(n)}", 1),) if n > 3 and rng.random() < 0.5 else ())
            for n in range(40)
        ]  # fmt: skip
        nodes = [Node("m", 4, 8e9), Node("n", 3, 6e9)]
        placed = schedule(jobs, nodes)
        assert len(placed) == 40
        for node in nodes:
            mine = [(job, placed[job.key]) for job in jobs if placed[job.key].node == node.name]
            for _, at in mine:
                running = [j for j, p in mine if p.start_s <= at.start_s + 1e-9 < p.end_s]
                assert sum(j.cores for j in running) <= node.cores
                assert sum(j.memory for j in running) <= node.memory * (1 + 1e-9)
        for job in jobs:
            for key in job.after:
                assert placed[key].end_s <= placed[job.key].start_s + 1e-9


def test_a_cause_has_to_matter() -> None:
    assert matters(0.3, 5.9)
    assert not matters(0.29, 1.0)
    assert not matters(0.4, 9.0)


@pytest.mark.parametrize("kind", sorted(GENERATED))
def test_a_generated_case_can_be_opened_and_lasts_what_it_says(kind: str, tmp_path: Path) -> None:
    case = runner.run_case(kind, 4, tmp_path)
    assert case["status"] == "ok", case["trouble"]
    assert case["truths"][0]["kind"] == kind
    assert matters(case["truths"][0]["saving_s"], case["makespan_s"])
    assert json.loads((tmp_path / f"{kind}-4" / "case.json").read_text()) == case
    made = stats(_open(tmp_path / f"{kind}-4" / case["trace"]))
    assert made["rejected"] == 0
    if case["form"] != "kineto":
        # Slurm's times are whole seconds.
        assert made["makespan_s"] == pytest.approx(case["makespan_s"], abs=1.1)


@pytest.mark.filterwarnings("ignore::rotameter.errors.TracerWarning")
@pytest.mark.parametrize("form", ["tables", "nextflow", "sacct", "kineto"])
def test_a_healthy_trace_can_be_opened(form: str, tmp_path: Path) -> None:
    made = healthy.make_generated(form, random.Random(2), tmp_path)
    assert not made.truths
    assert len(_open(made.path).tasks if form != "kineto" else [1]) > 0


def _open(path: Path) -> Any:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return rm.open(path)


def test_the_same_seed_gives_the_same_trace(tmp_path: Path) -> None:
    for kind in ("walltime_loss", "gpu_idle_input"):
        texts = []
        for name in ("one", "two"):
            case = runner.run_case(kind, 9, tmp_path / name)
            texts.append((tmp_path / name / f"{kind}-9" / case["trace"]).read_text())
        assert texts[0] == texts[1]


def test_a_loop_waits_for_its_input_and_its_messages() -> None:
    loop = gen_gpu.Loop(10, 50, 400.0, 15.0, 100.0, 5000.0, overlapped=True)
    base = gen_gpu.play(loop)
    assert base == pytest.approx(10 * 50 * 400e-6, rel=0.05)
    from dataclasses import replace

    assert gen_gpu.play(replace(loop, input_us=20_000.0)) - base == pytest.approx(0.2, rel=0.1)
    assert gen_gpu.play(replace(loop, overlapped=False)) - base == pytest.approx(0.05, rel=0.1)


def _case(**more: Any) -> dict[str, Any]:
    return {
        "kind": "spill", "seed": 1, "form": "real", "status": "ok", "makespan_s": 10.0,
        "truths": [{"kind": "spill", "saving_s": 2.0}], **more,
    }  # fmt: skip


def _answer(*found: tuple[str, float | None]) -> dict[str, Any]:
    findings = [
        {"kind": kind, "rank": rank, "saving_s": saving}
        for rank, (kind, saving) in enumerate(found, start=1)
    ]
    return {"makespan_s": 10.0, "findings": findings}


def test_an_answer_is_judged_by_its_rank_and_its_price() -> None:
    made = score.judge(_case(), _answer(("straggler", 3.0), ("spill", 2.4)))
    assert (made.rank, made.predicted_s, made.within) == (2, 2.4, True)
    made = score.judge(_case(), _answer(("spill", 2.6)))
    assert (made.rank, made.within) == (1, False)
    made = score.judge(_case(), _answer(("spill", None)))
    assert (made.rank, made.within) == (1, False)
    made = score.judge(_case(), _answer())
    assert (made.rank, made.within) == (None, False)


def test_only_declared_synonyms_count() -> None:
    truths = [{"kind": "root_overproduction", "saving_s": 2.0}]
    made = score.judge(_case(kind="root_overproduction", truths=truths), _answer(("spill", 2.0)))
    assert made.rank == 1
    truths = [{"kind": "spill", "saving_s": 2.0}]
    made = score.judge(_case(truths=truths), _answer(("root_overproduction", 2.0)))
    assert made.rank is None


def test_a_healthy_run_may_say_little() -> None:
    case = _case(kind="healthy", truths=[])
    assert score.judge(case, _answer(("spill", 0.5), ("straggler", None))).within
    assert not score.judge(case, _answer(("spill", 0.51))).within


def test_failed_cases_count_against_and_unsettled_ones_do_not() -> None:
    good = score.judge(_case(), _answer(("spill", 2.0)))
    failed = score.Score("spill", 2, "real", "failed", note="crashed")
    open_ = score.Score("spill", 3, "real", "unsettled", rank=1, within=True)
    made = score.summary([good, failed, open_])
    assert (made["cases"], made["unsettled"], made["failed"]) == (2, 1, 1)
    assert made["top1"] == made["within"] == 0.5
    assert "crashed" in score.table([good, failed, open_])


def test_a_bad_draw_is_named() -> None:
    assert "costs only" in runner._trouble([Truth("spill", 0.1)], 1.0)
    assert "differ by" in runner._trouble([Truth("spill", 1.0, 0.5)], 5.0)
    both = [Truth("spill", 1.0), Truth("straggler", 0.9)]
    assert "no less" in runner._trouble(both, 5.0)
    assert runner._trouble(both[:1], 5.0) == ""


def test_a_case_that_crashes_or_hangs_is_stored_as_failed(tmp_path: Path) -> None:
    made = command._child(["--kind", "no_such", "--seed", "1"], tmp_path, "no_such-1", 60.0)
    assert made["status"] == "failed"
    (scored,) = score.score(tmp_path)
    assert scored.status == "failed"
    made = command._child(["--kind", "queue_wait", "--seed", "1"], tmp_path, "queue_wait-1", 0.05)
    assert made["status"] == "failed"
    assert "not done after" in str(made["trouble"])


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_real_run_holds_the_cause_only_when_planted(tmp_path: Path) -> None:
    cause = REAL["failed_work"]
    sizes = {"count": 6, "failing": 3, "seconds": 0.02}
    base = {"pieces": 2, "load_s": 0.005, "transform_s": 0.005, "bytes": 800, "ways": 1,
            "merge_s": 0.001}  # fmt: skip
    plan = real.Plan(1, (cause,), (sizes,), base, base, ("few_tiny", "small_unread"))
    failed = {}
    with real.cluster(Cluster(2, 1)) as client:
        for on in (True, False):
            path = tmp_path / f"{on}.rmt"
            took = real.run_once(client, plan, [on], path, tmp_path / "x", tmp_path)
            made = stats(_open(path))
            failed[on] = made["outcomes"].get("failed", 0)
            assert made["tasks"] > 20
            assert 0 < made["makespan_s"] <= took + 0.5
    assert failed == {True: 3, False: 0}
