"""Answers made of snapshots by hand: each cause is told from its look-alikes."""

from __future__ import annotations

import asyncio
import json
import pickle
import pickletools
import sys
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotameter.adapters.dask import why as why_module
from rotameter.adapters.dask._why_eta import eta
from rotameter.adapters.dask._why_ship import ByValue
from rotameter.adapters.dask._why_worker import _what, look, process_state
from rotameter.adapters.dask.why import explain

A, B = "tcp://10.0.0.1:4000", "tcp://10.0.0.2:4000"


def group(n, executing=0, unfit=0, need=None, s=None):
    return {"n": n, "executing": executing, "unfit": unfit, "need": need or {}, "s": s}


def answer(executing=(), by_group=None, **more):
    return {
        "status": "running",
        "nthreads": 2,
        "executing": [
            {"key": f"k{i}", "group": g, "s": 1.0, "where": "f (x.py:1)", "waits": waits}
            for i, (g, waits) in enumerate(executing)
        ],
        "by_group": by_group or {},
        "waits": [],
        "flights": {},
        "available": {},
        "memory": {},
        **more,
    }


def worker(address=A, groups=None, **more):
    return {
        "address": address,
        "name": address,
        "host": address[6:-5],
        "status": "running",
        "nthreads": 2,
        "pid": 77,
        "last_seen_s": 0.2,
        "limit_bytes": 10**9,
        "rss_bytes": 10**8,
        "managed_bytes": 0,
        "resources": {},
        "groups": groups or {},
        "asked": True,
        "answer": answer(),
        **more,
    }


def shot(prefixes, workers=(), **more):
    facts = {
        name: {
            "states": states,
            "recent_mean_s": None,
            "compute_s": float(states.get("memory", 0)),
            "other_s": 0.0,
            "suspicious": 0,
            "deps": [],
        }
        for name, states in prefixes.items()
    }
    return {
        "prefixes": facts,
        "more_prefixes": 0,
        "unrunnable": [],
        "n_unrunnable": sum(row["n"] for row in more.get("unrunnable", ())),
        "queued": sum(states.get("queued", 0) for states in prefixes.values()),
        "finished": {},
        "last_finish_s": None,
        "clients": [],
        "lag_s": 0.0,
        "waits": {},
        "odd": {},
        "failed": {},
        "wanted": {},
        "scanned": 10,
        "tasks": 10,
        "workers": list(workers),
        "n_workers": len(workers),
        "slots": sum(w["nthreads"] for w in workers if w["status"] == "running"),
        "spent_s": 0.1,
        **more,
    }


def unrunnable(**more):
    row = {"group": "x", "n": 3, "resources": {}, "workers": [], "hosts": [], "loose": False}
    return {**row, "fits": [], "s": 1.0, **more}


def codes(found):
    return {g.group: [r.code for r in g.reasons] for g in found.groups}


def test_nothing_to_do():
    found = explain(shot({}))
    assert found.status == "idle"
    assert found.groups == ()


def test_a_healthy_run_is_running_with_an_eta():
    row = worker(
        groups={"x": group(3, 2)},
        answer=answer([("x", None)] * 2, {"x": {"executing": 2, "ready": 1}}),
    )
    found = explain(shot({"x": {"processing": 3, "queued": 7, "memory": 10}}, [row]))
    assert found.status == "running"
    assert not found.causes
    low, high = found.eta_interval80_s
    assert low <= found.eta_s <= high
    assert 3 <= found.eta_s <= 6  # ten tasks of 1 s on two threads, two of them half done


@pytest.mark.parametrize(
    ("process", "late", "code"),
    [
        ({"pid": 77, "state": "T", "cpu_ratio": 0.0}, 0.3, "worker_stopped"),
        ({"pid": 77, "state": "t", "cpu_ratio": 0.0}, 9.0, "worker_stopped"),
        ({"pid": 77, "state": "R", "cpu_ratio": 1.0}, 9.0, "gil_held"),
        ({"pid": 77, "state": "D", "cpu_ratio": 0.0}, 9.0, "worker_silent"),
        ({"pid": 77, "state": None, "cpu_ratio": None}, 9.0, "worker_silent"),
        (None, 9.0, "worker_silent"),
        (None, 5.0, "ready"),
        # A busy machine: one answer is missing, the process is well, heartbeats are recent.
        ({"pid": 77, "state": "R", "cpu_ratio": 1.0}, 0.8, "ready"),
        (None, 0.8, "ready"),
    ],
)
def test_a_worker_without_an_answer(process, late, code):
    row = worker(groups={"x": group(3)}, answer=None, process=process, last_seen_s=late)
    found = explain(shot({"x": {"processing": 3}}, [row]))
    assert codes(found) == {"x": [code]}
    assert found.groups[0].blocking == (code in ("worker_stopped", "worker_silent"))


def test_several_workers_with_the_same_trouble_are_counted():
    process = {"pid": 77, "state": "T", "cpu_ratio": 0.0}
    rows = [
        worker(f"tcp://10.0.0.{i}:4000", {"x": group(2)}, answer=None, process=process)
        for i in range(4)
    ]
    found = explain(shot({"x": {"processing": 8}}, rows))
    assert found.causes[0].n_tasks == 8
    assert len(found.causes[0].workers) == 4
    assert found.groups[0].text.endswith("(likewise 3 more workers)")


def test_a_stopped_worker_that_holds_data_of_others():
    waits = [{"group": "x", "key": "x1", "dep": "d", "state": "flight", "from": B, "who_has": [B]}]
    here = worker(
        groups={"x": group(2)}, answer=answer(by_group={"x": {"waiting": 2}}, waits=waits)
    )
    there = worker(B, answer=None, process={"pid": 5, "state": "T", "cpu_ratio": 0.0})
    found = explain(shot({"x": {"processing": 2}}, [here, there]))
    assert codes(found) == {"x": ["worker_stopped"]}
    assert found.causes[0].workers == (B,)
    there = worker(B)
    found = explain(shot({"x": {"processing": 2}}, [here, there]))
    assert codes(found) == {"x": ["transferring"]}
    found = explain(shot({"x": {"processing": 2}}, [here]))
    assert codes(found) == {"x": ["transfer_stuck"]}


def test_a_paused_worker_hoards_but_what_executes_there_runs():
    memory = {"rss_bytes": 9 * 10**8, "limit_bytes": 10**9, "pause_ratio": 0.8}
    row = worker(
        status="paused",
        groups={"x": group(5, 1)},
        held=[("big", 8 * 10**8, 4)],
        answer=answer(
            [("x", None)], {"x": {"executing": 1, "ready": 4}}, status="paused", memory=memory
        ),
    )
    found = explain(
        shot(
            {"x": {"processing": 5}, "y": {"waiting": 1}},
            [row],
            waits={"y": [("x", "processing", 5)]},
        )
    )
    assert codes(found)["x"] == ["paused_worker", "running"]
    assert codes(found)["y"] == ["paused_worker"]
    assert found.causes[0].n_tasks == 4
    assert found.status == "blocked"
    assert "`big` 800 MB in 4 keys" in found.groups[0].text
    assert found.eta_s is None
    assert found.eta_reason


@pytest.mark.parametrize(
    ("row", "code", "words"),
    [
        ({"resources": {"GPU": 1}}, "unmet_resource", "GPU=1, which no worker offers"),
        ({"resources": {"mem": 9}}, "unmet_resource", "the most that one offers is 4"),
        ({"resources": {"mem": 4, "net": 1}}, "unmet_resource", "no single worker"),
        ({"workers": ["tcp://9.9.9.9:1"]}, "unmet_restriction", "9.9.9.9"),
        ({"hosts": ["elsewhere"]}, "unmet_restriction", "elsewhere"),
        ({"resources": {"mem": 4}, "fits": [A]}, "disagreement", "look again"),
        ({"resources": {"mem": 4}, "workers": [B]}, "unmet_resource", "workers that it names"),
    ],
)
def test_tasks_that_no_worker_may_run(row, code, words):
    workers = [worker(resources={"mem": 4}), worker(B, resources={"net": 1, "mem": 2})]
    found = explain(shot({"x": {"no-worker": 3}}, workers, unrunnable=[unrunnable(**row)]))
    assert codes(found) == {"x": [code]}
    assert words in found.groups[0].text
    assert found.status == "stuck"


def test_a_group_beyond_the_cut_of_the_look_is_followed_by_the_graph():
    cut = shot(
        {"x": {"no-worker": 3}, "y": {"waiting": 9}, "z": {"waiting": 1}},
        [worker()],
        unrunnable=[unrunnable(resources={"GPU": 1})],
        scanned=3,
    )
    cut["prefixes"]["y"]["deps"] = ["x"]
    cut["prefixes"]["z"]["deps"] = ["y"]
    found = explain(cut)
    assert codes(found) == {name: ["unmet_resource"] for name in "xyz"}
    assert any("3 of 10 tasks" in note for note in found.notes)


def test_no_workers_at_all_and_all_paused():
    found = explain(shot({"x": {"no-worker": 3}}, unrunnable=[unrunnable()]))
    assert codes(found) == {"x": ["no_workers"]}
    assert codes(explain(shot({"x": {"queued": 3}}))) == {"x": ["no_workers"]}
    rows = [worker(status="paused", answer=answer(status="paused"))]
    found = explain(shot({"x": {"no-worker": 3}}, rows, unrunnable=[unrunnable()]))
    assert codes(found) == {"x": ["paused_worker"]}
    assert codes(explain(shot({"x": {"queued": 3}}, rows))) == {"x": ["paused_worker"]}


@pytest.mark.parametrize(
    ("status", "code", "word"),
    [
        ("paused", "paused_worker", "is paused"),
        ("closing_gracefully", "retiring_worker", "is being retired"),
    ],
)
def test_queued_tasks_name_a_worker_that_is_out_and_holds_none(status, code, word):
    """The queue moves, but only through half of the cluster."""
    busy = worker(
        groups={"x": group(2, 2)},
        answer=answer([("x", None)] * 2, {"x": {"executing": 2}}),
    )
    out = worker(B, status=status, rss_bytes=9 * 10**8, answer=answer(status=status))
    states = {"x": {"processing": 2, "queued": 47, "memory": 11}}
    found = explain(shot(states, [busy, out]))
    assert found.status == "running"
    assert found.eta_s is not None
    assert codes(found) == {"x": [code, "running"]}
    assert found.groups[0].reasons[0].n_tasks == 47
    assert not found.groups[0].blocking
    assert [(c.code, c.workers) for c in found.causes] == [(code, (B,))]
    assert f"1 of 2 workers {word}" in found.sentence
    assert "all 2 threads of the running workers are taken" in found.groups[0].text
    assert word in str(found)
    both = [worker(status=status, answer=answer(status=status)), out]
    found = explain(shot({"x": {"queued": 3}}, both))
    assert codes(found) == {"x": [code]}
    assert found.status == "stuck"
    found = explain(shot(states, [busy, worker(B)]))
    assert codes(found) == {"x": ["running", "queued"]}
    assert not found.causes


def test_scheduler_and_worker_disagree():
    row = worker(groups={"x": group(3)}, lost=[("x", "x1", None), ("x", "x2", "memory")])
    found = explain(shot({"x": {"processing": 3}}, [row]))
    assert codes(found) == {"x": ["disagreement", "ready"]}
    assert found.groups[0].reasons[0].n_tasks == 2
    row = worker(groups={"x": group(3)}, status="paused", other_status="running")
    assert codes(explain(shot({"x": {"processing": 3}}, [row]))) == {"x": ["disagreement"]}
    found = explain(shot({"x": {"processing": 3}}, [worker()]))
    assert codes(found) == {"x": ["disagreement"]}
    assert codes(explain(shot({"x": {"no-worker": 3}}, [worker()]))) == {"x": ["disagreement"]}
    found = explain(shot({"x": {"queued": 3}}, [worker()], queued=1))
    assert codes(found) == {"x": ["disagreement"]}
    odd = {"x": {"n": 1, "what": "waits for a task that is erred", "key": "x1"}}
    assert codes(explain(shot({"x": {"waiting": 1}}, odd=odd))) == {"x": ["failed_dependency"]}


def test_a_deadlock_of_nested_tasks_only_where_nothing_else_runs():
    stuck = answer([("out", "client")] * 2, {"out": {"executing": 2}, "in": {"ready": 2}})
    rows = [worker(groups={"out": group(2, 2), "in": group(2)}, answer=stuck)]
    states = {"out": {"processing": 2}, "in": {"processing": 2}}
    assert codes(explain(shot(states, rows))) == {
        "out": ["nested_deadlock"],
        "in": ["nested_deadlock"],
    }
    runs = worker(B, {"in": group(1, 1)}, answer=answer([("in", None)], {"in": {"executing": 1}}))
    states["in"]["processing"] = 3
    assert explain(shot(states, [*rows, runs])).status == "running"
    half = answer([("out", "client")], {"out": {"executing": 1}})
    rows = [worker(groups={"out": group(1, 1)}, answer=half)]
    assert explain(shot({"out": {"processing": 1}}, rows)).status == "running"


def test_a_lock_that_nobody_gives():
    stuck = answer([("x", "lock")] * 2, {"x": {"executing": 2, "ready": 1}})
    rows = [worker(groups={"x": group(3, 2)}, answer=stuck)]
    assert codes(explain(shot({"x": {"processing": 3}}, rows))) == {"x": ["lock_wait"]}


@pytest.mark.parametrize(
    ("kind", "leases", "words"),
    [
        ("Lock", {"L": {"taken": 1, "most": 1, "waiting": 2}},
         "wait for the Lock 'L' (1 of 1 taken, 2 wait for it)"),
        ("Semaphore", {}, "wait for the Semaphore 'L'"),
        ("Event", {}, "wait for the Event 'L', which nobody has set"),
        ("Queue", {}, "wait for the Queue 'L', which nobody fills (or empties)"),
    ],
)  # fmt: skip
def test_what_is_waited_for_is_named(kind, leases, words):
    stuck = answer([("x", "lock")] * 2, {"x": {"executing": 2}})
    for row in stuck["executing"]:
        row["on"] = {"kind": kind, "name": "L"}
    rows = [worker(groups={"x": group(2, 2)}, answer=stuck)]
    found = explain(shot({"x": {"processing": 2}}, rows, leases=leases))
    assert words in found.groups[0].text
    stuck["executing"][0]["on"] = {"kind": kind, "name": "other"}
    mixed = explain(shot({"x": {"processing": 2}}, rows, leases=leases))
    assert "a distributed Lock, Event, Queue or Semaphore" in mixed.groups[0].text


def test_what_was_not_run_for_a_failure_is_in_a_line():
    states = {"boom": {"erred": 2}, "after": {"erred": 2}}
    more = {"failed": {"boom": {"n": 2, "text": "ValueError('x')"}}}
    found = explain(shot(states, fallen={"after": {"n": 2, "of": "boom"}}, **more))
    assert found.sentence == (
        "Nothing is left to do: 0 of 4 tasks done, 2 failed, 2 not run as what they need failed."
    )
    assert codes(found) == {"boom": ["failed"], "after": ["failed_dependency"]}
    assert found.groups[0].text == "is not run, as `boom` failed before it"


def test_resources_that_others_use_and_a_worker_that_can_never_run_it():
    busy = answer([("x", None)], {"x": {"executing": 1, "constrained": 4}}, available={"GPU": 0})
    rows = [worker(groups={"x": group(5, 1, need={"GPU": 1})}, answer=busy)]
    found = explain(shot({"x": {"processing": 5}}, rows))
    assert codes(found) == {"x": ["resource_busy", "running"]}
    assert found.status == "running"
    never = answer(by_group={"x": {"constrained": 2}})
    rows = [worker(groups={"x": group(2, unfit=2, need={"GPU": 1})}, answer=never)]
    assert codes(explain(shot({"x": {"processing": 2}}, rows))) == {"x": ["unmet_resource"]}


def test_failed_tasks_are_said_but_are_no_hang():
    failed = {"x": {"n": 2, "text": "ValueError('token=abc123secret')"}}
    found = explain(shot({"x": {"erred": 2, "memory": 1}}, [worker()], failed=failed))
    assert found.status == "idle"
    assert "2 failed" in found.sentence
    assert "abc123secret" not in json.dumps(found.to_dict())


def test_the_eta_says_what_it_does_not_know():
    known = shot({"x": {"queued": 5}, "y": {"waiting": 5}}, [worker()])
    found = eta(known)
    assert found.eta_s is None
    assert "`x`, `y`" in found.reason
    known["prefixes"]["x"]["recent_mean_s"] = 2.0
    found = eta(known)
    assert found.eta_s >= 5
    assert found.interval80_s is None
    assert "`y`" in found.reason
    assert eta(shot({"x": {"queued": 5}})).reason == "no worker is running"


def test_the_eta_follows_the_pace_where_threads_cannot_be_used():
    rows = [worker(nthreads=8)]
    free = shot({"x": {"queued": 100, "memory": 100}}, rows)
    held = {**free, "finished": {"x": (21, 20.0, 0.0)}}  # one a second: a resource, or the GIL
    assert eta(free).eta_s == pytest.approx(12.5, rel=0.1)
    assert eta(held).eta_s == pytest.approx(100, rel=0.1)
    assert eta(held).interval80_s[0] < 20


names = st.text(min_size=1, max_size=200)


@given(
    st.dictionaries(
        names,
        st.dictionaries(
            st.sampled_from(["waiting", "processing", "queued", "no-worker", "erred", "memory"]),
            st.integers(1, 10**6),
            max_size=4,
        ),
        max_size=30,
    ),
    st.text(max_size=300),
)
def test_text_is_bounded_and_html_is_inert_for_any_names(prefixes, words):
    failed = {name: {"n": 1, "text": words} for name in prefixes}
    rows = [worker(groups={n: group(3) for n in prefixes}, name=words)]
    found = explain(shot(prefixes, rows, failed=failed))
    lines = found.to_text().splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 80
    tags = set()
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: tags.add(tag)
    parser.feed(found._repr_html_())
    assert tags <= {"div", "strong", "table", "thead", "tbody", "tr", "th", "td", "code", "em"}
    json.dumps(found.to_dict(), allow_nan=False)


def test_what_travels_names_no_module_of_ours():
    for module, name in (("_why_snapshot", "snapshot"), ("_why_worker", "look")):
        packed = pickle.dumps(ByValue(f"rotameter.adapters.dask.{module}", name))
        strings = [a for op, a, _ in pickletools.genops(packed) if isinstance(a, str)]
        source = max(strings, key=len)
        assert not [s for s in strings if "rotameter" in s and s not in (source, "rotameter_why")]
        assert "import rotameter" not in source
        assert "from rotameter" not in source
        assert pickle.loads(packed).__name__ == name


def test_a_worker_of_another_version_gives_less_and_does_not_fail():
    bare = SimpleNamespace(
        state=SimpleNamespace(tasks={"a": SimpleNamespace(state="ready")}),
        status=SimpleNamespace(name="running"),
    )
    found = look(["a", "b"], dask_worker=bare)
    assert found["states"] == [("a", "ready"), ("b", None)]
    assert found["executing"] == []


def test_the_state_of_a_process():
    import os

    assert process_state(os.getpid())["state"] in ("R", "S")
    assert process_state(2**22 + 1)["state"] is None


@pytest.mark.parametrize("seconds", [0.0, 0.04])
def test_a_closed_port_and_a_silent_one_are_told_apart(monkeypatch, seconds):
    async def refused(address, timeout, **arguments):
        await asyncio.sleep(timeout)  # it tries again until then
        try:
            raise ConnectionRefusedError(111, "refused")
        except OSError as error:
            raise OSError(f"Timed out trying to connect after {timeout} s") from error

    async def silent(address, timeout, **arguments):
        await asyncio.sleep(60)

    comm = SimpleNamespace(connect=refused)
    monkeypatch.setattr(why_module, "_distributed", lambda name: comm)
    with pytest.raises(why_module.NoAnswer, match="connection refused: nothing listens there"):
        asyncio.run(why_module._why("tcp://127.0.0.1:1", {}, 0.2 + seconds))
    comm.connect = silent
    with pytest.raises(why_module.NoAnswer, match="took the connection and says nothing"):
        asyncio.run(why_module._why("tcp://127.0.0.1:1", {}, 0.2 + seconds))


def test_a_thread_says_what_it_waits_for_by_kind_and_name():
    class Lock:
        name = "L"

        def acquire(self):
            return _what(sys._getframe())

    class Plain:
        def acquire(self):
            return _what(sys._getframe())

    assert Lock().acquire() == {"kind": "Lock", "name": "L"}
    assert Plain().acquire() is None
