"""``@task`` and ``span`` on every kind of function."""

from __future__ import annotations

import asyncio
import functools
import inspect
import pickle
import subprocess
import sys
import threading
import time
import warnings

import cloudpickle
import pytest

from rotameter.errors import UsageError
from rotameter.profiler.live import session as session_module
from rotameter.profiler.live.context import current, hook
from rotameter.profiler.live.tracer import group_name, span, task


@task
def double(x: int, *, plus: int = 0) -> int:
    """Double."""
    return 2 * x + plus


@task(group="outer", requested_memory="2GiB", features=lambda x: {"x": x, "bad": float("nan")})
def outer(x):
    return double(x) + 1


@task
def fail(message):
    raise ValueError(message)


class Thing:
    @task
    def method(self, x):
        return self, x

    @task
    @staticmethod
    def above_static(x):
        return x

    @staticmethod
    @task
    def below_static(x):
        return x

    @task
    @classmethod
    def above_class(cls, x):
        return cls, x

    @classmethod
    @task
    def below_class(cls, x):
        return cls, x


@task
async def wait(seconds, burn_s=0.0):
    end = time.thread_time() + burn_s
    while time.thread_time() < end:
        pass
    await asyncio.sleep(seconds)
    return seconds


@task
def count(n):
    got = []
    for i in range(n):
        got += [(yield i)]
    return got


@task
async def acount(n):
    for i in range(n):
        try:
            got = yield i
        except KeyError:
            got = "caught"
        if got:
            yield got
        await asyncio.sleep(0)


def test_untraced_calls_change_nothing():
    assert double(3, plus=1) == 7
    assert double.__doc__ == "Double." and double.__name__ == "double"
    assert str(inspect.signature(double)) == "(x: 'int', *, plus: 'int' = 0) -> 'int'"
    assert list(count(3)) == [0, 1, 2]
    assert asyncio.run(wait(0)) == 0
    assert asyncio.iscoroutinefunction(wait) and inspect.isgeneratorfunction(count)
    assert inspect.isasyncgenfunction(acount)
    with span("nothing"):
        pass
    with pytest.raises(ValueError, match="x"):
        fail("x")


def test_a_call_is_a_row_with_its_parent(lab):
    traced = lab().activate()
    assert outer(4) == 9
    inner, whole = traced.rows()
    assert whole["group"] == "outer" and inner["group"] == group_name(double)
    assert inner["parent"] == whole["task_id"] and whole["parent"] is None
    assert whole["requested_memory_bytes"] == 2 << 30
    assert whole["features"] == {"x": 4.0}
    assert whole["outcome"] == "ok" and whole["outcome_kind"] == "reported"
    assert whole["started_ns"] <= inner["started_ns"] <= inner["ended_ns"] <= whole["ended_ns"]
    assert whole["wall_s"] >= inner["wall_s"] >= 0
    assert abs(whole["started_ns"] - time.time_ns()) < 60e9
    assert whole["source"] == "tracer"
    assert current.get() is None


def test_an_error_goes_through_and_is_recorded_redacted(lab):
    traced = lab().activate()
    with pytest.raises(ValueError) as caught:
        fail("password=hunter2 is wrong\nsecond line")
    assert caught.value.args == ("password=hunter2 is wrong\nsecond line",)
    row = traced.rows()[0]
    assert row["outcome"] == "failed"
    assert row["error"] == "ValueError: password=[redacted] is wrong"


def test_keep_errors_keeps_all(lab):
    traced = lab(keep_errors=True).activate()
    with pytest.raises(ValueError):
        fail("one\ntwo")
    assert traced.rows()[0]["error"] == "ValueError: one\ntwo"


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (MemoryError(), "oom"),
        (KeyboardInterrupt(), "cancelled"),
        (SystemExit(0), "ok"),
        (SystemExit(3), "failed"),
        (asyncio.CancelledError(), "cancelled"),
    ],
)
def test_outcomes(lab, error, outcome):
    traced = lab().activate()

    @task
    def stop():
        raise error

    with pytest.raises(type(error)):
        stop()
    assert traced.rows()[0]["outcome"] == outcome


def test_methods_of_every_kind(lab):
    traced = lab().activate()
    thing = Thing()
    assert thing.method(1) == (thing, 1)
    assert Thing.above_static(2) == thing.below_static(2) == 2
    assert Thing.above_class(3) == thing.below_class(3) == (Thing, 3)
    groups = {row["group"].rpartition(".")[2] for row in traced.rows()}
    names = {"method", "above_static", "below_static", "above_class", "below_class"}
    assert groups == names


def test_a_generator_counts_only_its_own_time(lab):
    traced = lab().activate()

    def burn(seconds):
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass

    @task
    def produce():
        for _ in range(3):
            burn(0.01)
            yield current.get().task_id

    for task_id in produce():
        assert task_id.startswith(group_name(produce))
        assert current.get() is None  # the consumer is not the producer
        burn(0.05)
    (row,) = traced.rows()
    assert 0.03 <= row["cpu_s"] < 0.05
    assert row["cpu_s"] <= row["wall_s"] + 1e-6
    assert (row["ended_ns"] - row["started_ns"]) / 1e9 > 0.12


def test_generators_send_throw_return_and_close(lab):
    traced = lab().activate()
    generator = count(3)
    assert next(generator) == 0
    assert generator.send("a") == 1
    assert generator.send("b") == 2
    with pytest.raises(StopIteration) as stop:
        generator.send("c")
    assert stop.value.value == ["a", "b", "c"]
    thrown = count(3)
    next(thrown)
    with pytest.raises(KeyError):
        thrown.throw(KeyError("k"))
    closed = count(3)
    next(closed)
    closed.close()
    never = count(3)
    del never
    assert [row["outcome"] for row in traced.rows()] == ["ok", "failed", "ok"]


def test_a_generator_with_many_short_stretches_is_only_timed(lab):
    traced = lab().activate()
    assert sum(count(200)) == 19_900
    (row,) = traced.rows()
    assert row["io_kind"] in (None, "lower_bound")
    assert row["peak_memory_kind"] in (None, "lower_bound")
    assert row["wall_s"] > 0


def test_a_generator_consumed_by_a_task_is_its_sibling_in_time(lab):
    traced = lab().activate()

    @task
    def total(n):
        return sum(count(n))

    assert total(5) == 10
    inner, whole = traced.rows()
    assert inner["parent"] == whole["task_id"]
    assert inner["wall_s"] < whole["wall_s"]
    assert whole["concurrency"] == pytest.approx(1.0, abs=0.05)


def test_coroutines_count_the_cpu_between_awaits(lab):
    traced = lab().activate()

    async def main():
        return await asyncio.gather(wait(0.05, 0.02), wait(0.05, 0.01))

    assert asyncio.run(main()) == [0.05, 0.05]
    one, two = sorted(traced.rows(), key=lambda row: -row["cpu_s"])
    assert 0.02 <= one["cpu_s"] < 0.03 and 0.01 <= two["cpu_s"] < 0.02
    assert one["wall_s"] >= 0.05 and two["wall_s"] >= 0.05
    assert one["parent"] is None
    assert max(one["concurrency"], two["concurrency"]) > 1.2


def test_nested_coroutines_know_their_parent(lab):
    traced = lab().activate()

    @task
    async def parent():
        await asyncio.gather(*(wait(0.001) for _ in range(5)))

    asyncio.run(parent())
    rows = traced.rows()
    (whole,) = [row for row in rows if row["group"] == group_name(parent)]
    children = [row for row in rows if row is not whole]
    assert len(children) == 5
    assert {row["parent"] for row in children} == {whole["task_id"]}


def test_cancelling_a_coroutine(lab):
    traced = lab().activate()

    async def main():
        running = asyncio.ensure_future(wait(10))
        await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    assert traced.rows()[0]["outcome"] == "cancelled"


def test_async_generators(lab):
    traced = lab().activate()

    async def main():
        assert [i async for i in acount(3)] == [0, 1, 2]
        generator = acount(2)
        assert await generator.__anext__() == 0
        assert await generator.asend("sent") == "sent"
        assert await generator.__anext__() == 1
        assert await generator.athrow(KeyError("k")) == "caught"
        await generator.aclose()

    asyncio.run(main())
    assert [row["outcome"] for row in traced.rows()] == ["ok", "ok"]


def test_threads_are_concurrent(lab):
    traced = lab().activate()
    barrier = threading.Barrier(3)

    @task
    def meet():
        barrier.wait()
        time.sleep(0.02)
        barrier.wait()

    threads = [threading.Thread(target=meet) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = traced.rows()
    assert len({row["task_id"] for row in rows}) == 3
    assert all(1 < row["concurrency"] <= 3.01 for row in rows), rows
    assert {row["parent"] for row in rows} == {None}
    assert not traced.session._active


def test_spans(lab):
    traced = lab().activate()

    @task
    def work():
        with span("one"), span("two"):
            pass

    work()
    with span("free"):
        pass
    with pytest.raises(KeyError), span("broken"):
        raise KeyError
    two, one, free, broken = traced.rows("intervals")
    (row,) = traced.rows()
    assert (two["name"], two["parent"], one["parent"]) == ("two", "one", None)
    assert two["task_id"] == one["task_id"] == row["task_id"]
    assert free["task_id"] is None and broken["name"] == "broken"
    assert row["started_ns"] <= one["start_ns"] <= two["start_ns"] <= two["end_ns"]
    assert {two["kind"], two["lane"]} == {"span", threading.current_thread().name}


def test_recursion(lab):
    traced = lab().activate()

    @task
    def down(n):
        return n and down(n - 1)

    down(30)
    rows = traced.rows()
    assert len(rows) == 31
    assert [row["parent"] for row in rows[:-1]] == [row["task_id"] for row in rows[1:]]


@pytest.mark.parametrize("level", ["time", "default"])
def test_a_recursion_gets_as_deep_as_without_a_trace(lab, level):
    @task
    def down(n):
        try:
            return down(n + 1)
        except RecursionError:
            return n

    def deeper():  # a call takes two frames: with one more the last that fits is another
        return down(0)

    untraced = down(0), deeper()
    traced = lab(level=level).activate()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            assert (down(0), deeper()) == untraced
    assert not traced.session._active
    assert current.get() is None
    faults = traced.session.faults
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        faults.tell()
        faults.tell()
    assert len(caught) <= 1 and faults.count > 0
    assert faults._untold is None


def test_a_traceback_shows_one_frame_of_ours(lab):
    lab().activate()

    @task
    def broken():
        raise KeyError("x")

    with pytest.raises(KeyError) as error:
        broken()
    names = [entry.name for entry in error.traceback]
    assert names[1:] == ["wrapper", "broken"]


def test_hostile_names_are_cut_but_stay_apart(lab):
    traced = lab().activate()
    for end in "ab":
        task(group="x\n<b>" * 3000 + end)(lambda: None)()
    one, two = (row["group"] for row in traced.rows())
    assert one != two and len(one) == 300 and "\n" not in one


def test_features_that_fail_do_not_stop_the_task(lab):
    traced = lab().activate()

    @task(features=lambda: 1 / 0)
    def work():
        return "done"

    with pytest.warns(match="could not measure a task"):
        assert work() == "done"
    assert work() == "done"
    assert [row["features"] for row in traced.rows()] == [None, None]


@pytest.mark.parametrize("bad", [3, "f", int, None.__class__])
def test_only_functions_can_be_tasks(bad):
    with pytest.raises(UsageError):
        task(bad)


@pytest.mark.parametrize("options", [{"requested_memory": "much"}, {"group": 3}])
def test_bad_arguments_are_told_at_once(options):
    with pytest.raises(UsageError):
        task(**options)(lambda: None)


def test_a_partial_is_a_function(lab):
    traced = lab().activate()
    assert task(functools.partial(pow, 2))(5) == 32
    assert traced.rows()[0]["group"].endswith("partial")


def test_pickles_by_reference_and_by_value(lab):
    assert pickle.loads(pickle.dumps(double)) is double
    traced = lab().activate()

    def local(x):
        return x + 1

    copy = cloudpickle.loads(cloudpickle.dumps(task(local)))
    assert copy(1) == 2
    assert traced.rows()[0]["group"].endswith("local")
    assert cloudpickle.loads(cloudpickle.dumps(hook)) is hook


def test_a_task_runs_where_the_package_is_absent(tmp_path):
    code = """if True:
        import cloudpickle, sys
        from rotameter.profiler.live.tracer import task
        @task(group="g", features={"n": 1})
        def f(x):
            return x * 2
        @task
        def g(n):
            yield from range(n)
        open(sys.argv[1], "wb").write(cloudpickle.dumps((f, g)))
    """
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "f")], check=True)
    load = """if True:
        import sys
        sys.modules["rotameter"] = None
        import cloudpickle
        f, g = cloudpickle.loads(open(sys.argv[1], "rb").read())
        print(f(21), list(g(3)), cloudpickle.loads(cloudpickle.dumps(f))(1))
    """
    command = [sys.executable, "-c", load, str(tmp_path / "f")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.split("\n")[0] == "42 [0, 1, 2] 2"


def test_activation_is_seen_everywhere(lab):
    traced = lab().activate()
    assert session_module.active is hook.active is traced.session
    session_module.deactivate()
    assert session_module.active is hook.active is hook.gate is None
