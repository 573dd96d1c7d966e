"""The other end of `_darshan_child`: starts it, asks it, and outlives it."""

from __future__ import annotations

import importlib.util
import json
import os
import selectors
import subprocess
import sys
import time
import weakref
from typing import Any

from rotameter.errors import BadInput, MissingDependency

__all__ = ["Reader"]

_CHILD = "rotameter.adapters.importers._darshan_child"
_PATIENCE_S = 300.0
_CHUNK = 1 << 20


class Reader:
    """Reads logs through one child process, a new one where it died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._finish: weakref.finalize[..., Any] | None = None

    def read(self, path: str, name: str) -> dict[str, Any]:
        """Give what the child says about a log.

        Raises
        ------
        MissingDependency
            If pydarshan is not installed.
        BadInput
            If the log cannot be read.
        """
        if importlib.util.find_spec("darshan") is None:
            raise MissingDependency(
                f"{name} is a Darshan log: reading it needs pydarshan",
                hint="pip install 'rotameter[darshan]', or import the text of darshan-parser",
            )
        process = self._running()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(path).encode() + b"\n")
            process.stdin.flush()
            answer = _line(process, time.monotonic() + _PATIENCE_S)
            data = json.loads(answer) if answer else None
        except (OSError, ValueError):
            data = None
        if not isinstance(data, dict):
            self.close()
            raise BadInput(f"{name} is a damaged Darshan log", hint="copy the file again")
        if "error" in data:
            reason = str(data["error"])
            if reason.startswith(("ModuleNotFoundError", "ImportError", "RuntimeError: Could not")):
                raise MissingDependency(
                    f"pydarshan cannot be loaded: {reason[:120]}",
                    hint="pip install 'rotameter[darshan]'",
                )
            raise BadInput(f"{name} cannot be read: {reason[:120]}", hint="check the file")
        return data

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            places = os.pathsep.join(place for place in sys.path if place)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", _CHILD],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": places},
                start_new_session=True,  # Ctrl-C is for the parent
            )
            self._finish = weakref.finalize(self, _stop, self._process)
        return self._process

    def close(self) -> None:
        """End the child."""
        if self._finish is not None:
            self._finish()
        self._process = self._finish = None


def _stop(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        try:
            if pipe is not None:
                pipe.close()
        except OSError:
            continue
    process.kill()
    process.wait()


def _line(process: subprocess.Popen[bytes], deadline: float) -> bytes:
    """Read up to the end of a line; nothing if the child died or takes too long."""
    assert process.stdout is not None
    parts: list[bytes] = []
    with selectors.DefaultSelector() as waiting:
        waiting.register(process.stdout, selectors.EVENT_READ)
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not waiting.select(left):
                return b""
            part = os.read(process.stdout.fileno(), _CHUNK)
            if not part:
                return b""
            parts.append(part)
            if part.endswith(b"\n"):
                return b"".join(parts)
