"""Workers as pods: worker and nanny die together, of memory or because somebody takes the machine.

Outside Dask, as an orchestrator is: it ends a pod whose worker has more than its limit, takes one
away now and then, and starts another in its place.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from typing import Any

__all__ = ["Pods"]

LOOK_S = 0.05
START_S = 1.0


class Pods:
    """So many pods, each ``dask worker`` with its nanny in a process group of its own.

    Parameters
    ----------
    address : str
        Of the scheduler.
    number, threads : int
    limit_bytes : int
        A pod whose worker is above it is ended, without a word.
    resources : str, optional
        What each offers, as ``dask worker`` takes it.
    kills : int
        How many are taken away at random, a second after they began at the earliest.
    every_s : float
        Mean time between these.
    seed : int
    """

    def __init__(
        self,
        address: str,
        number: int,
        threads: int,
        limit_bytes: int,
        *,
        resources: str | None = None,
        kills: int = 0,
        every_s: float = 0.0,
        seed: int = 0,
    ) -> None:
        self._command = [
            sys.executable, "-m", "dask", "worker", address, "--nthreads", str(threads),
            "--memory-limit", str(limit_bytes), "--no-dashboard", "--nanny",
        ]  # fmt: skip
        if resources:
            self._command += ["--resources", resources]
        self._limit, self._kills, self._every_s = limit_bytes, kills, every_s
        self._random = random.Random(seed)
        self.ended: dict[str, str] = {}
        """Name of a pod → why it ended: ``memory`` or ``taken``."""
        self._made = 0
        self._pods: dict[str, subprocess.Popen[bytes]] = {}
        self._due: list[float] = []
        self._next = float("inf")
        self._over = threading.Event()
        for _ in range(number):
            self._start()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def begin(self) -> None:
        """From now on pods are taken away."""
        if self._kills:
            self._next = time.monotonic() + self._random.expovariate(1 / self._every_s)

    def _start(self) -> None:
        name = f"pod-{self._made}"
        self._made += 1
        quiet = {
            f"DASK_DISTRIBUTED__WORKER__MEMORY__{what}": "False"
            for what in ("TARGET", "SPILL", "PAUSE", "TERMINATE")
        }
        self._pods[name] = subprocess.Popen(
            [*self._command, "--name", name],
            start_new_session=True,
            env={**os.environ, **quiet},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _end(self, name: str, why: str) -> None:
        pod = self._pods.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pod.pid, signal.SIGKILL)
        pod.wait()
        if why:
            self.ended[name] = why
            self._due.append(time.monotonic() + START_S)

    def _used(self, pod: subprocess.Popen[bytes]) -> int:
        import psutil

        with contextlib.suppress(psutil.Error):
            inside = psutil.Process(pod.pid).children(recursive=True)
            return max((p.memory_info().rss for p in inside), default=0)
        return 0

    def _watch(self) -> None:
        while not self._over.wait(LOOK_S):
            now = time.monotonic()
            for name, pod in list(self._pods.items()):
                if self._used(pod) > self._limit:
                    self._end(name, "memory")
            if now > self._next and self._kills and self._pods:
                self._end(self._random.choice(sorted(self._pods)), "taken")
                self._kills -= 1
                self._next = now + self._random.expovariate(1 / self._every_s)
            while self._due and self._due[0] < now:
                self._due.pop(0)
                self._start()

    def close(self) -> None:
        """End all of them."""
        self._over.set()
        self._thread.join()
        for name in list(self._pods):
            self._end(name, "")

    def __enter__(self) -> Pods:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
