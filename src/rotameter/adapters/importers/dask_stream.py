"""Dask task streams saved as JSON: what ``get_task_stream`` and ``client.get_task_stream`` give.

The format: https://distributed.dask.org/en/stable/diagnosing-performance.html and
``distributed/diagnostics/task_stream.py`` (one message a finished task: key, worker, thread,
status, nbytes and ``startstops``, each an action with its start and stop in epoch seconds).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers._dask_common import (
    Attempts,
    Stretch,
    not_measured,
    seconds_ns,
)
from rotameter.adapters.importers._dask_json import Broken, values
from rotameter.errors import BadInput
from rotameter.profiler.live.redact import clean_name, clip, redact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rotameter.adapters.importers.building import Builder
    from rotameter.adapters.importers.inputs import InputFile
    from rotameter.values import Head

__all__ = ["Importer"]

_MESSAGE = ("worker", "thread", "startstops", "status", "nbytes", "stimulus_id")
_TOP = re.compile(r"[\s,]*[\[{]")
_ACTION = re.compile(r'"(?:action|compute_start)"|"startstops"\s*:\s*(?:null|\[\s*(?:\[\s*"|\]))')
_STATUS = re.compile(r'"status"\s*:\s*"(?:OK|error)"')
# Before startstops there was a pair of fields for each action.
_PAIRS = (("transfer", "transfer"), ("compute", "compute"), ("disk_load", "disk-read"))
_DEPTH = 20
_BYTES_LIMIT = 1 << 62


class Importer:
    """Reads the messages of a task stream: a JSON list, an object that holds it, or lines."""

    name = "dask_stream"
    engine = "dask"
    options: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._attempts = Attempts(self.name)
        self._seen: set[tuple[Any, ...]] = set()

    def sniff(self, head: Head) -> float:
        """Look for messages with ``startstops``, or for the other fields of one."""
        text = head.text
        if not _TOP.match(text) or '"key"' not in text:
            return 0.0
        if '"startstops"' in text and _ACTION.search(text):
            return 0.95
        words = sum(f'"{word}"' in text for word in _MESSAGE)
        return 0.7 if words >= 3 and _STATUS.search(text) else 0.0

    def read(self, file: InputFile, build: Builder, **options: Any) -> None:
        """Read one file of messages."""
        bad: list[tuple[int, str]] = []
        count = good = 0
        for line, value in values(file.read_text()):
            for message in _messages(value):
                count += 1
                reason = self._message(message, build)
                if reason is None:
                    good += 1
                elif len(bad) < count:
                    bad.append((line, reason))
        if not good:
            said = f": {bad[0][1]}" if bad else ""
            raise BadInput(
                f"{file.name} holds no task-stream messages{said}",
                hint="save what get_task_stream gives with json.dump(data, file, default=str)",
            )
        build.records_in += count
        for line, reason in bad:
            build.reject(file.name, line, reason)
        self._attempts.flush(build)

    def finish(self, build: Builder) -> None:
        """Add the workers; say what the format cannot tell."""
        self._attempts.finish(build)
        not_measured(build)
        build.meta.setdefault("clock", "epoch seconds by the workers' clocks")

    def _message(self, message: Any, build: Builder) -> str | None:
        """Take one message; give why not, if it is none."""
        if isinstance(message, Broken):
            return message.reason
        if not isinstance(message, dict) or not any(name in message for name in _MESSAGE):
            return "not a message of a task stream"
        key = _key(message.get("key"))
        if key is None:
            return "a message without a key"
        stretches = list(_stretches(message, build))
        worker, thread = _text(message.get("worker")), _text(message.get("thread"))
        stimulus = _text(message.get("stimulus_id"))
        # A message of a worker that died has no stretches: only what caused it tells it apart.
        mark = (key, worker, thread, stimulus)
        again = not stretches and stimulus is not None and mark in self._seen
        if again or self._attempts.twice(key, worker, thread, stretches):
            build.merged += 1
            build.warn("a message occurs twice: it counts once")
            return None
        if not stretches and stimulus is not None:
            self._seen.add(mark)
        outcome, error = _outcome(message)
        self._attempts.add(
            key,
            worker,
            thread,
            stretches,
            outcome=(outcome, "reported"),
            error=error,
            output_bytes=_size(message.get("nbytes")) if outcome == "ok" else None,
        )
        return None


def _messages(value: Any) -> Iterator[Any]:
    """Give the messages in a value: itself, or the items of the lists that an object holds."""
    if isinstance(value, list):
        yield from value
        return
    lists = []
    if isinstance(value, dict) and "key" not in value:
        lists = [
            item
            for item in value.values()
            if isinstance(item, list) and any(isinstance(x, dict) and "key" in x for x in item)
        ]
    if not lists:
        yield value
    for one in lists:
        yield from one


def _key(value: Any, depth: int = 0) -> str | None:
    """Give a key as Dask prints it: JSON has lists where Dask has tuples."""
    if isinstance(value, str):
        return value or None
    made = _part(value, depth)
    return None if made is None else str(made)


def _part(value: Any, depth: int) -> Any:
    if isinstance(value, list):
        if depth >= _DEPTH or not value:
            return None
        parts = tuple(item if item is None else _part(item, depth + 1) for item in value)
        wrong = any(p is None and v is not None for p, v in zip(parts, value, strict=True))
        return None if wrong else parts
    if isinstance(value, int) and abs(value) > _BYTES_LIMIT:
        return None  # printing it may be refused
    return value if isinstance(value, (str, int, float)) else None


def _text(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return None
    if isinstance(value, int) and not -_BYTES_LIMIT < value < 1 << 65:
        return None
    return str(value) or None


def _size(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if 0 <= value < _BYTES_LIMIT else None


def _outcome(message: dict[str, Any]) -> tuple[str, str | None]:
    status = message.get("status")
    word = status.strip().lower() if isinstance(status, str) else ""
    if word == "ok":
        return "ok", None
    if word not in ("error", "erred"):
        return "unknown", clip(redact(status)) if word else None
    error = _error(message)
    kind = (error or "").lstrip("<").partition("(")[0].partition(":")[0]
    return {"MemoryError": "oom", "KilledWorker": "worker_lost"}.get(kind, "failed"), error


def _error(message: dict[str, Any]) -> str | None:
    for name in ("exception_text", "exception"):
        text = message.get(name)
        # A pickled exception stays closed: no code of a file is run.
        if isinstance(text, str) and text.strip() and not text.startswith(("b'", 'b"', "<Seri")):
            return clip(redact(text.strip().split("\n", 1)[0]))
    return None


def _stretches(message: dict[str, Any], build: Builder) -> Iterator[Stretch]:
    items = message.get("startstops")
    if items is None:
        items = [
            (action, message.get(f"{name}_start"), message.get(f"{name}_stop"))
            for name, action in _PAIRS
            if f"{name}_start" in message
        ]
    for item in items if isinstance(items, list) else ():
        action, start, stop, peer = _fields(item)
        begin, end = seconds_ns(start), seconds_ns(stop)
        if not isinstance(action, str) or begin is None or end is None:
            build.warn("a startstop without action, start or stop is left out")
        elif end < begin:
            build.warn("a startstop that ends before it begins is left out")
        else:
            yield Stretch(action, begin, end, peer)


def _fields(item: Any) -> tuple[Any, Any, Any, str | None]:
    if isinstance(item, dict):
        source = item.get("source")
        peer = clean_name(source) if isinstance(source, str) and source else None
        return item.get("action"), item.get("start"), item.get("stop"), peer
    if isinstance(item, (list, tuple)) and len(item) >= 3:  # as old versions wrote them
        return item[0], item[1], item[2], None
    return None, None, None, None
