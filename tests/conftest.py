"""What every test gets: the shared folder, and a check that nothing was left behind."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

REPO = Path(__file__).resolve().parent.parent

# The machine may be busy: a slow example is no failure. CI repeats the same examples.
settings.register_profile(
    "rotameter",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
    print_blob=True,
)
settings.load_profile("rotameter")

# Files whose tests share what takes long to make: those of one name stay together on one core.
TOGETHER = {
    "tests/e2e/test_real_slurm.py": "slurm",
    "tests/e2e/test_report_chromium.py": "reports",
    "tests/e2e/test_report_unscripted.py": "reports",
}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object | None:
    """Spread tests over the cores one by one, but for some files."""
    from xdist.scheduler.loadscope import LoadScopeScheduling

    class Spread(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return TOGETHER.get(nodeid.partition("::")[0], nodeid)

    return Spread(config, log) if config.getvalue("dist") == "load" else None


# Threads of Dask, asyncio and the runner that live as long as the process.
PROCESS_WIDE = (
    "asyncio_",
    "Dask-",
    "IO loop",
    "MainThread",
    "Profile",
    "pytest_timeout",
    "TCP-Executor",
    "ThreadPoolExecutor-",
)


_ALONE = "ROTAMETER_TEST_ALONE"


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test marked ``alone`` by a pytest of its own."""
    if pyfuncitem.get_closest_marker("alone") is None or os.environ.get(_ALONE):
        return None
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", pyfuncitem.nodeid]
    ran = subprocess.run(
        command, env={**os.environ, _ALONE: "1"}, cwd=REPO, capture_output=True, text=True
    )
    if ran.returncode:
        pytest.fail(ran.stdout + ran.stderr, pytrace=False)
    return True


@pytest.fixture(scope="session")
def repo() -> Path:
    """The checkout."""
    return REPO


@pytest.fixture(scope="session")
def rotameter_shared() -> Path:
    """The folder of shared data: $ROTAMETER_SHARED, or ../shared beside the checkout."""
    folder = Path(os.environ.get("ROTAMETER_SHARED") or REPO.parent / "shared")
    if not folder.is_dir():
        pytest.skip(f"no shared data at {folder}; set ROTAMETER_SHARED to its path")
    return folder


def _threads() -> set[threading.Thread]:
    return {
        thread
        for thread in threading.enumerate()
        if thread.is_alive() and not thread.daemon and not thread.name.startswith(PROCESS_WIDE)
    }


def _trace_files() -> list[str]:
    found = []
    with contextlib.suppress(OSError):  # no /proc here
        for number in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):  # closed meanwhile
                target = os.readlink(f"/proc/self/fd/{number}")
                if ".rmt/" in target:
                    found.append(target)
    return found


def _open_trace() -> object | None:
    """Give the trace that is open in this process, without importing rotameter."""
    live = sys.modules.get("rotameter.profiler.live.session")
    return "in this process" if live is not None and live.active is not None else None


def _left_behind(threads: set[threading.Thread], files: list[str], trace: object) -> list[str]:
    left = [f"thread {thread.name}" for thread in _threads() - threads]
    now = _trace_files()
    if len(now) > len(files):
        left += [f"open file {path}" for path in sorted(set(now) - set(files)) or now]
    if trace is None and (open_now := _open_trace()) is not None:
        left.append(f"a trace open {open_now}")
    return left


@pytest.fixture(autouse=True)
def no_leaks() -> Iterator[None]:
    """Fail a test that leaves a thread, an open trace file or an open trace."""
    threads, files, trace = _threads(), _trace_files(), _open_trace()
    yield
    deadline = time.monotonic() + 3.0
    while left := _left_behind(threads, files, trace):
        if time.monotonic() > deadline:
            pytest.fail("left behind: " + "; ".join(left), pytrace=False)
        time.sleep(0.02)
