"""What DaYu's records say, added up: tasks, uses of datasets by tasks, facts of files."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rotameter.adapters.importers._dayu_json import microseconds, plain_name, whole

__all__ = ["Dataset", "File", "State", "Task", "Use"]

_PAGES = 4096
_FILE = "file"
"""What DaYu calls I/O of a file that belongs to no dataset."""
_RAW = "H5FD_MEM_DRAW"
_CPU = ("POSIX-READ-Time", "POSIX-WRITE-Time", "POSIX-OPEN-Time", "POSIX-CLOSE-Time")


@dataclass(slots=True)
class Task:
    """One task of one process."""

    name: str
    group: str
    pid: str | None
    folder: str
    host: str | None = None
    first_us: float | None = None
    last_us: float | None = None
    io_us: float | None = None
    measured: bool = False
    order: int | None = None


@dataclass(slots=True)
class Use:
    """One task reading or writing one dataset (or, where there is none, the file itself)."""

    ops: int | None = None
    bytes: int | None = None
    meta_ops: int = 0
    meta_bytes: int = 0
    first_us: float | None = None
    last_us: float | None = None
    pages: array[int] = field(default_factory=lambda: array("q"))
    full: int = _PAGES
    page_bytes: int | None = None
    bounded: bool = True

    def page(self, first: int, last: int) -> None:
        """Add a stretch of pages; the array holds first, last, first, last, …."""
        pages = self.pages
        if len(pages) > 1 and pages[-2] <= first and last <= pages[-1]:
            return
        pages.append(first)
        pages.append(last)
        if len(pages) >= self.full:
            self.pages = self.touched()
            self.full = max(_PAGES, 2 * len(self.pages))

    def touched(self) -> array[int]:
        """Give the stretches in order, those that overlap or touch being one."""
        made, pages = array("q"), self.pages
        for first, last in sorted(zip(pages[::2], pages[1::2], strict=True)):
            if made and first <= made[-1] + 1:
                made[-1] = max(made[-1], last)
            elif first <= last:
                made.append(first)
                made.append(last)
        return made


@dataclass(slots=True)
class File:
    """One file."""

    size: int | None = None
    at_us: float = -1.0
    created_us: float | None = None


@dataclass(slots=True)
class Dataset:
    """What a dataset is, as last seen."""

    at_us: float = -1.0
    facts: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Opened:
    """A file from its opening to its closing, with the time its process spent in calls by then."""

    task: str
    file: str
    open_us: float
    close_us: float
    read_us: float | None
    write_us: float | None


class State:
    """Takes records in.

    Attributes
    ----------
    uses : dict
        (task, file, dataset or None, op) → Use.
    unplaced : int
        Files whose total is more than what their datasets add up to, in both directions.
    """

    def __init__(self) -> None:
        self.tasks: dict[str, Task] = {}
        self.uses: dict[tuple[str, str, str | None, str], Use] = {}
        self.files: dict[str, File] = {}
        self.datasets: dict[tuple[str, str], Dataset] = {}
        self.opened: dict[tuple[str, str | None], list[Opened]] = {}
        self.orders: dict[tuple[str, str], int] = {}
        self.listed: list[tuple[str, str, str]] = []
        self.unplaced = 0
        self.lossy: set[str] = set()
        self.lossy_pids: set[tuple[str, str | None]] = set()
        self._here: set[str] = set()
        self._spent: dict[tuple[str, str | None], dict[str, float]] = {}
        self._before: dict[str, str] = {}

    def task(self, name: Any, pid: str | None, folder: str) -> Task:
        """Give the task of a name and process; DaYu ends the name with the process."""
        text = name if isinstance(name, str) and name.strip() else ""
        text = text.strip()[:500]
        match = re.search(r"-(\d+)$", text)
        group = text
        if match is not None:
            # A file may hold tasks of processes that its own one started.
            pid, group = match[1], text[: match.start()]
        elif text and pid is not None:
            text = f"{text}-{pid}"
        key = text or f"process {pid or '?'}"
        found = self.tasks.get(key)
        if found is None:
            found = self.tasks[key] = Task(key, group or "unnamed", pid, folder)
        self._here.add(key)
        return found

    def begin(self) -> None:
        """Begin a file."""
        self._here = set()

    def lose(self, pid: str | None, folder: str) -> None:
        """Note that records of this file, of the file level, are lost: sums are lower bounds."""
        self.lossy |= self._here
        if pid is not None:
            self.lossy_pids.add((folder, pid))

    # -- the file level: VFD ------------------------------------------------------------------

    def vfd(
        self, record: dict[str, Any], info: dict[str, Any], pid: str | None, folder: str
    ) -> bool:
        """Take in what a task did between opening and closing a file; False if it says nothing."""
        name = record.get("file_name")
        if not isinstance(name, str) or not name:
            return False
        task = self.task(record.get("task_name") or info.get("task_name"), pid, folder)
        task.measured = True
        host = record.get("node_id")
        if isinstance(host, str) and host:
            task.host = task.host or host
        opened, closed = (microseconds(record, f"{part}_time") for part in ("open", "close"))
        _stretch(task, opened, closed)
        page = whole(info.get("tracker_vfd_page_size"))
        self._file(name, record, opened, closed)
        sums = {"read": [0, 0], "write": [0, 0]}
        for part in ("data", "metadata"):
            for dataset, kind, numbers in _parts(record.get(part)):
                for op, total in sums.items():
                    moved = self._one(task, name, dataset, op, numbers, page, kind)
                    total[0] += moved[0]
                    total[1] += moved[1]
                    if moved[1]:
                        use = self.uses[task.name, name, dataset, op]
                        _stretch(use, opened, closed)
        self._rest(task, name, record, sums, (opened, closed))
        self._times(task, name, info, opened, closed, (folder, task.pid))
        return True

    def _one(
        self,
        task: Task,
        file: str,
        dataset: str | None,
        op: str,
        numbers: dict[str, Any],
        page: int | None,
        kind: str,
    ) -> tuple[int, int]:
        given = [numbers.get(f"{op}_{what}") for what in ("bytes", "cnt")]
        if any(value is not None and whole(value) is None for value in given):
            self.lossy.add(task.name)
        size, ops = (whole(value) or 0 for value in given)
        if not size and not ops:
            return 0, 0
        use = self.uses.setdefault((task.name, file, dataset, op), Use())
        use.ops, use.bytes = (use.ops or 0) + ops, (use.bytes or 0) + size
        if kind != _RAW:
            use.meta_ops, use.meta_bytes = use.meta_ops + ops, use.meta_bytes + size
        use.page_bytes = page if use.page_bytes in (None, page) else 0
        ranges = numbers.get(f"{op}_ranges")
        for pages in ranges.values() if isinstance(ranges, dict) else ():
            ends = [whole(p) for p in pages] if isinstance(pages, list) else []
            if len(ends) == 2 and ends[0] is not None and ends[1] is not None:
                use.page(ends[0], ends[1])
            else:
                use.bounded = False
        if not isinstance(ranges, dict) or (ops and not ranges):
            use.bounded = False
        return size, ops

    def _rest(
        self,
        task: Task,
        file: str,
        record: dict[str, Any],
        sums: dict[str, list[int]],
        times: tuple[float | None, float | None],
    ) -> None:
        """Place what the file's total says beyond its datasets, where there is one way to."""
        calls = {op: whole(record.get(f"file_{op}_cnt")) or 0 for op in sums}
        total = whole(record.get("io_bytes"))
        more = {op: calls[op] - sums[op][1] for op in sums if calls[op] > sums[op][1]}
        size = None if total is None else total - sums["read"][0] - sums["write"][0]
        if not more and not size:
            return
        only = [op for op in sums if calls[op]]
        if len(only) == 1 and size is not None and size >= 0:
            more.setdefault(only[0], 0)
        elif size:
            self.unplaced += 1
        for op, ops in more.items():
            use = self.uses.setdefault((task.name, file, None, op), Use())
            use.ops = (use.ops or 0) + ops
            use.bounded = False
            if len(only) == 1 and size is not None and size >= 0:
                use.bytes = (use.bytes or 0) + size
            _stretch(use, *times)

    def _file(
        self, name: str, record: dict[str, Any], opened: float | None, closed: float | None
    ) -> None:
        file = self.files.setdefault(name, File())
        size, at = whole(record.get("file_size")), closed or opened or 0.0
        if size is not None and at >= file.at_us:
            file.size, file.at_us = size, at
        intent = str(record.get("file_intent"))[:500]
        if opened is not None and ("ACC_TRUNC" in intent or "ACC_EXCL" in intent):
            file.created_us = min(opened, file.created_us or opened)

    def _times(
        self,
        task: Task,
        name: str,
        info: dict[str, Any],
        opened: float | None,
        closed: float | None,
        place: tuple[str, str | None],
    ) -> None:
        """Give the record what its process spent in calls since the one before."""
        so_far = {key: microseconds(info, key) for key in _CPU}
        spent = self._spent.setdefault(place, {})
        since: dict[str, float | None] = {}
        for key, value in so_far.items():
            if value is None:
                since[key] = None
                continue
            before = spent.get(key, 0.0)
            since[key] = value - before if value >= before else value
            spent[key] = value
        known = [value for value in since.values() if value is not None]
        if known:
            task.io_us = (task.io_us or 0.0) + sum(known)
        if opened is not None and closed is not None:
            row = Opened(task.name, name, opened, closed, since[_CPU[0]], since[_CPU[1]])
            self.opened.setdefault(place, []).append(row)

    # -- the object level: VOL ----------------------------------------------------------------

    def vol(self, record: dict[str, Any], pid: str | None, folder: str) -> bool:
        """Take in datasets, or a file, of the object level; False if it says nothing."""
        name = record.get("file_name")
        if not isinstance(name, str) or not name:
            return False
        sets = record.get("datasets")
        if not isinstance(sets, list):
            opened, closed = (microseconds(record, f"{part}_time") for part in ("open", "close"))
            self._file(name, record, opened, closed)
            # Such a record names no task: it ends those of its datasets, which stand before it.
            known = self._before.get(f"{folder}\0{pid}\0{name}")
            if known is not None:
                _stretch(self.tasks[known], opened, closed)
            return True
        task = self.task(record.get("task_name"), pid, folder)
        self._before[f"{folder}\0{pid}\0{name}"] = task.name
        self.files.setdefault(name, File())
        for found in sets:
            if isinstance(found, dict):
                self._dataset(task, name, found)
        return True

    def _dataset(self, task: Task, file: str, found: dict[str, Any]) -> None:
        label = found.get("dset_name")
        dataset = label if isinstance(label, str) and label else None
        start, end = (microseconds(found, f"{part}_time") for part in ("start", "end"))
        _stretch(task, start, end)
        for op in ("read", "write"):
            calls = whole(found.get(f"dataset_{op}_cnt"))
            if not calls:
                continue
            use = self.uses.setdefault((task.name, file, dataset, f"{op} object"), Use())
            use.ops = (use.ops or 0) + calls
            _stretch(use, start, end)
        if dataset is not None:
            known = self.datasets.setdefault((file, dataset), Dataset())
            if (start or 0.0) >= known.at_us:
                known.at_us, known.facts = start or 0.0, dict(_facts(found))

    # -- lists beside them --------------------------------------------------------------------

    def lists(self, name: str, found: dict[str, Any], folder: str) -> bool:
        """Take in a task's files, as listed by the user or DaYu's scripts."""
        task = self.task(name, None, folder)
        order = whole(found.get("order"))
        task.order = order if order is not None else task.order
        for op, key in (("read", "input"), ("write", "output")):
            files = found.get(key)
            for file in files if isinstance(files, list) else ():
                if isinstance(file, str) and file:
                    self.listed.append((task.name, file, op))
        return True


def _stretch(thing: Task | Use, start: float | None, end: float | None) -> None:
    if start is not None and (thing.first_us is None or start < thing.first_us):
        thing.first_us = start
    last = end if end is not None else start
    if last is not None and (thing.last_us is None or last > thing.last_us):
        thing.last_us = last


def _parts(found: Any) -> Iterator[tuple[str | None, str, dict[str, Any]]]:
    """Give (dataset, kind of memory, numbers) of a record's data or metadata."""
    for entry in found if isinstance(found, list) else [found]:
        for dataset, kinds in entry.items() if isinstance(entry, dict) else ():
            name = plain_name(dataset)
            for kind, numbers in kinds.items() if isinstance(kinds, dict) else ():
                if isinstance(numbers, dict):
                    yield (None if name in ("", _FILE) else name), plain_name(kind), numbers


def _facts(found: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Give what a dataset is, as numbers."""
    elements, item = whole(found.get("dset_n_elements")), whole(found.get("dset_type_size"))
    kind, layout = (str(found.get(key, ""))[:40] for key in ("dt_class", "layout"))
    if elements is not None:
        yield "dataset_elements", float(elements)
    if item is not None:
        yield "dataset_item_bytes", float(item)
    # Of varying length: the items are pointers, the data lies elsewhere in the file.
    if elements is not None and item is not None and kind != "H5T_VLEN":
        yield "dataset_bytes", float(elements) * item
    stored = whole(found.get("storage_size"))
    if stored:  # 0 is written where it was not known yet
        yield "dataset_stored_bytes", float(stored)
    for prefix, text in (("layout", layout), ("type", kind)):
        word = re.sub(r"[^a-z0-9_]", "", text.rpartition("_")[2].lower())
        if word:
            yield f"{prefix}_{word}", 1.0
    sizes = found.get("dimensions")
    for number, size in enumerate(sizes[:8] if isinstance(sizes, list) else (), 1):
        if (length := whole(size)) is not None:
            yield f"dimension_{number}", float(length)
