"""The front door: an untouched program behaves as without us, and leaves a trace."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from rotameter.profiler.store import open_trace

pytestmark = pytest.mark.e2e


def _run(place: Path, *argv: str, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rotameter", "run", *argv],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=100,
        **more,  # type: ignore[call-overload]
    )


def _script(place: Path, text: str, name: str = "job.py") -> str:
    (place / name).write_text(textwrap.dedent(text))
    return name


def test_script_sees_what_python_gives_it(tmp_path: Path) -> None:
    script = _script(
        tmp_path,
        """
        import json, sys, pickle
        class Thing: pass
        if __name__ == "__main__":
            pickle.loads(pickle.dumps(Thing()))
            print(json.dumps([sys.argv, sys.path[0], __file__, __name__, sys.stdin.read()]))
        """,
    )
    plain = subprocess.run(
        [sys.executable, script, "-x", "--", "y"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        input="in",
    )
    ours = _run(tmp_path, script, "-x", "--", "y", input="in")
    assert ours.stdout == plain.stdout
    assert ours.returncode == 0
    assert "report: rotameter report run.rmt" in ours.stderr
    trace = open_trace(tmp_path / "run.rmt")
    row = trace.table("tasks").to_pylist()[0]
    assert (row["group"], row["outcome"]) == ("job.py", "ok")
    assert row["cpu_s"] > 0 and row["peak_memory_bytes"] > 1e6


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("import sys; sys.exit(7)", 7),
        ("raise ValueError('boom')", 1),
        ("import sys; sys.exit('no')", 1),
    ],
)
def test_exit_code_and_traceback_are_the_programs_own(tmp_path: Path, body: str, code: int) -> None:
    script = _script(tmp_path, f"def work():\n    {body}\nwork()\n")
    plain = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True)
    ours = _run(tmp_path, script)
    assert ours.returncode == plain.returncode == code
    assert ours.stderr.startswith(plain.stderr)
    assert open_trace(tmp_path / "run.rmt").meta["run"]["status"] == "failed"
    assert "Run failed" in ours.stderr


def test_killed_program_leaves_a_trace_that_says_so(tmp_path: Path) -> None:
    script = _script(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    ours = _run(tmp_path, script)
    assert ours.returncode == 128 + signal.SIGKILL
    run = open_trace(tmp_path / "run.rmt").meta["run"]
    assert run["status"] == "failed" and run["signal"] == 9
    assert "SIGKILL" in ours.stderr


def test_interrupt_reaches_the_program_and_is_130(tmp_path: Path) -> None:
    script = _script(
        tmp_path,
        "import time, pathlib\npathlib.Path('up').touch()\ntime.sleep(60)\n",
    )
    child = subprocess.Popen(
        [sys.executable, "-m", "rotameter", "run", script],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not (tmp_path / "up").exists():
        assert child.poll() is None
        time.sleep(0.05)
    os.killpg(child.pid, signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert open_trace(tmp_path / "run.rmt").meta["run"]["status"] == "interrupted"
    assert "KeyboardInterrupt" in err


def test_a_parent_that_ignores_its_children_costs_no_exit_code(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); "
        "os.execv(sys.executable, [sys.executable, '-m', 'rotameter', 'run', *sys.argv[1:]])"
    )
    script = _script(tmp_path, "raise SystemExit(7)")
    done = subprocess.run(
        [sys.executable, "-c", code, "-q", "-o", "out.rmt", script],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (7, "")
    assert open_trace(tmp_path / "out.rmt").meta["run"]["exit_code"] == 7


def test_module_and_command(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    _script(tmp_path / "package", "import sys; print(__name__, sys.argv[1:])", "main.py")
    ours = _run(tmp_path, "-o", "m.rmt", "-m", "package.main", "a")
    assert ours.stdout == "__main__ ['a']\n", ours.stderr
    ours = _run(tmp_path, "-o", "c.rmt", "--", "sh", "-c", "echo hello; exit 3")
    assert (ours.stdout, ours.returncode) == ("hello\n", 3)
    row = open_trace(tmp_path / "c.rmt").table("tasks").to_pylist()[0]
    assert (row["group"], row["exit_code"], row["outcome"]) == ("sh", 3, "failed")
    ours = _run(tmp_path, "-o", "n.rmt", "--", "no-such-command-at-all")
    assert ours.returncode == 2 and "hint:" in ours.stderr
    assert not (tmp_path / "n.rmt").exists()


def test_a_name_with_a_dash_is_printed_as_no_option(tmp_path: Path) -> None:
    done = _run(tmp_path, "-o", "./-dash.rmt", _script(tmp_path, "pass"))
    assert "rotameter report ./-dash.rmt -o ./-dash.html" in done.stderr


def test_existing_trace_is_kept(tmp_path: Path) -> None:
    script = _script(tmp_path, "open('ran', 'w')")
    assert _run(tmp_path, "-o", "run.rmt", script).returncode == 0
    (tmp_path / "ran").unlink()
    again = _run(tmp_path, "-o", "run.rmt", script)
    assert again.returncode == 1 and "--force" in again.stderr
    assert not (tmp_path / "ran").exists()
    assert _run(tmp_path, "-o", "run.rmt", "--force", script).returncode == 0


def test_a_name_that_nobody_chose_makes_way(tmp_path: Path) -> None:
    script = _script(tmp_path, "print('ran')")
    for name in ("run.rmt", "run-2.rmt", "run-3.rmt"):
        done = _run(tmp_path, script)
        assert done.returncode == 0 and f"rotameter report {name}" in done.stderr
    done = _run(tmp_path, "--force", script)
    assert done.returncode == 0 and "rotameter report run.rmt" in done.stderr
    assert {p.name for p in tmp_path.glob("*.rmt")} == {"run.rmt", "run-2.rmt", "run-3.rmt"}


def test_decorated_tasks_and_children_arrive(tmp_path: Path) -> None:
    script = _script(
        tmp_path,
        """
        import rotameter as rm
        from concurrent.futures import ProcessPoolExecutor
        @rm.task
        def square(x):
            return x * x
        if __name__ == "__main__":
            print(square(3))
            with ProcessPoolExecutor(2) as pool:
                print(sum(pool.map(square, range(10))))
        """,
    )
    ours = _run(tmp_path, script)
    assert ours.stdout == "9\n285\n", ours.stderr
    tasks = open_trace(tmp_path / "run.rmt").table("tasks")
    assert tasks["group"].to_pylist() == ["square"] * 11


def test_nested_trace_in_a_script_changes_nothing(tmp_path: Path) -> None:
    script = _script(
        tmp_path,
        """
        import rotameter as rm
        @rm.task
        def work(): return 1
        work()
        with rm.trace("inner.rmt") as run:
            work()
        assert len(run.trace.tasks) == 1
        run.report("inner.html")
        print("done")
        """,
    )
    ours = _run(tmp_path, script)
    assert (ours.stdout, ours.returncode) == ("done\n", 0), ours.stderr
    assert "open already" in ours.stderr
    assert len(open_trace(tmp_path / "run.rmt").tasks) == 2
    assert len(open_trace(tmp_path / "inner.rmt").tasks) == 1
    assert (tmp_path / "inner.html").exists()


def test_executors_left_open_neither_hang_nor_lose_work(tmp_path: Path) -> None:
    script = _script(
        tmp_path,
        """
        import threading, time
        from concurrent.futures import ThreadPoolExecutor
        import rotameter as rm
        @rm.task(group="late")
        def late(x):
            time.sleep(0.3)
            return x
        pool = ThreadPoolExecutor(2)
        pool.submit(late, 1).result()
        pool.submit(late, 2)
        threading.Thread(target=late, args=(3,)).start()
        """,
    )
    ours = _run(tmp_path, script)
    assert ours.returncode == 0, ours.stderr
    assert open_trace(tmp_path / "run.rmt").table("tasks")["group"].to_pylist() == ["late"] * 3


def test_local_dask_schedulers_are_traced(tmp_path: Path) -> None:
    script = _script(
        tmp_path,
        """
        import dask
        @dask.delayed
        def inc(x):
            return x + 1
        if __name__ == "__main__":
            for kind in ("threads", "sync"):
                print(dask.compute(*[inc(i) for i in range(4)], scheduler=kind))
        """,
    )
    ours = _run(tmp_path, script)
    assert ours.stdout == "(1, 2, 3, 4)\n" * 2, ours.stderr
    groups = open_trace(tmp_path / "run.rmt").table("tasks")["group"].to_pylist()
    assert groups.count("inc") == 8


def test_annotations_futures_and_syntax_are_the_scripts_own(tmp_path: Path) -> None:
    script = _script(
        tmp_path,
        """
        import dataclasses
        @dataclasses.dataclass
        class Point:
            x: int
        def f(x: int) -> float: ...
        print(f.__annotations__, dataclasses.fields(Point)[0].type, __cached__)
        """,
    )
    plain = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True)
    assert _run(tmp_path, script).stdout == plain.stdout != ""


@pytest.mark.parametrize("argv", [["-m", "nosuchmodule"], ["-m", "emptypackage"], ["bad.py"]])
def test_what_cannot_start_says_what_python_says(tmp_path: Path, argv: list[str]) -> None:
    (tmp_path / "emptypackage").mkdir()
    (tmp_path / "emptypackage" / "__init__.py").touch()
    _script(tmp_path, "def f(:\n", "bad.py")
    plain = subprocess.run([sys.executable, *argv], cwd=tmp_path, capture_output=True, text=True)
    ours = _run(tmp_path, *argv)
    assert ours.returncode == plain.returncode
    assert ours.stderr.startswith(plain.stderr), ours.stderr


def test_an_untouched_script_loads_neither_dask_nor_arrow(tmp_path: Path) -> None:
    script = _script(
        tmp_path,
        "import sys, atexit\n"
        "heavy = {'dask', 'distributed', 'pyarrow', 'numpy', 'pandas', 'yaml'}\n"
        "print(sorted(heavy & set(sys.modules)))\n",
    )
    assert _run(tmp_path, script).stdout == "[]\n"


def test_interrupting_rotameter_alone_interrupts_the_program(tmp_path: Path) -> None:
    script = _script(tmp_path, "import time, pathlib\npathlib.Path('up').touch()\ntime.sleep(60)\n")
    child = subprocess.Popen(
        [sys.executable, "-m", "rotameter", "run", script],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not (tmp_path / "up").exists():
        assert child.poll() is None
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=60)
    assert child.returncode == 130


def test_names_in_the_printed_command_are_quoted(tmp_path: Path) -> None:
    script = _script(tmp_path, "print(1)")
    ours = _run(tmp_path, "-o", "x y é.rmt", script)
    assert "rotameter report 'x y é.rmt' -o 'x y é.html'" in ours.stderr
