"""DaYu's sums as rows of a trace."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers._dayu_state import Dataset, Opened, State, Task, Use
from rotameter.profiler.live.redact import clean_name
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder

__all__ = ["emit"]

Key = tuple[str, str, str | None, str]
_OBJECT = " object"


def emit(state: State, build: Builder, *, by_dataset: bool) -> None:
    """Give the rows of all tables.

    Parameters
    ----------
    state : State
        What was read.
    build : Builder
        Where the rows go.
    by_dataset : bool
        Whether a dataset of a file is an object of its own.
    """
    _join(state)
    _listed(state)
    busy = _busy(state.opened.values())
    _flows(state, busy, build, by_dataset=by_dataset)
    _tasks(state, build)
    _datasets(state.datasets, build)
    for name in sorted(state.files):
        file = state.files[name]
        row = {"object": clean_name(name), "size_bytes": file.size}
        build.add("objects", {**row, "created_ns": _ns(file.created_us)})
    if state.unplaced:
        build.warn(
            f"files whose total is not the sum of their datasets: {state.unplaced:,}; what is over "
            "could be read or written and is in no flow"
        )
    lossy = sum(task.measured and _lossy(state, task) for task in state.tasks.values())
    if lossy:
        build.warn(
            f"records of {many(lossy, 'task')} could not be read, or the file is cut: their bytes, "
            "calls and seconds are lower bounds"
        )
    build.not_measured(
        "when tasks began and ended: from their first opening of an HDF5 file to their last closing"
    )
    build.not_measured("I/O beside HDF5, CPU time, memory, and whether tasks failed")
    if not all(task.measured for task in state.tasks.values()):
        build.not_measured("bytes of tasks without a VFD file")


def _lossy(state: State, task: Task) -> bool:
    return task.name in state.lossy or (task.folder, task.pid) in state.lossy_pids


def _join(state: State) -> None:
    """Lay the object level over the file level: it knows better when a dataset was used."""
    for key in [key for key in state.uses if key[3].endswith(_OBJECT)]:
        seen = state.uses.pop(key)
        place = (*key[:3], key[3].removesuffix(_OBJECT))
        use = state.uses.get(place)
        if use is not None:
            use.first_us, use.last_us = seen.first_us or use.first_us, seen.last_us or use.last_us
        elif not state.tasks[key[0]].measured:
            state.uses[place] = Use(seen.ops, first_us=seen.first_us, last_us=seen.last_us)


def _listed(state: State) -> None:
    """Add the files that a list names and no measurement has."""
    known = {(task, file, op) for task, file, _, op in state.uses}
    for task, file, op in state.listed:
        if (task, file, op) not in known and not state.tasks[task].measured:
            state.uses.setdefault((task, file, None, op), Use())
            state.files.setdefault(file, _no_file())


def _no_file() -> Any:
    from rotameter.adapters.importers._dayu_state import File

    return File()


def _busy(opened: Iterable[list[Opened]]) -> dict[tuple[str, str, str], float | None]:
    """Give seconds in calls per (task, file, op).

    DaYu writes the process's time so far whenever it closes a file. Where files of a process were
    open at the same time, the difference is of both, and each one's own is not known.
    """
    spent: dict[tuple[str, str, str], float | None] = {}
    for rows in opened:
        for row, alone in zip(rows, _alone(rows), strict=True):
            for op, used in (("read", row.read_us), ("write", row.write_us)):
                key = row.task, row.file, op
                before = spent.get(key, 0.0)
                known = alone and used is not None and before is not None
                spent[key] = before + used / 1e6 if known else None  # type: ignore[operator]
    return spent


def _alone(rows: list[Opened]) -> list[bool]:
    """Tell of each opening whether no other of the process overlaps it."""
    order = sorted(range(len(rows)), key=lambda i: (rows[i].open_us, rows[i].close_us))
    alone = [True] * len(rows)
    latest: int | None = None
    for at in order:
        if latest is not None and rows[at].open_us < rows[latest].close_us:
            alone[at] = alone[latest] = False
        if latest is None or rows[at].close_us > rows[latest].close_us:
            latest = at
    return alone


def _flows(
    state: State,
    busy: dict[tuple[str, str, str], float | None],
    build: Builder,
    *,
    by_dataset: bool,
) -> None:
    totals: dict[tuple[str, str, str], int] = {}
    for (task, file, _, op), use in state.uses.items():
        totals[task, file, op] = totals.get((task, file, op), 0) + (use.bytes or 0)
    metadata: dict[tuple[str, str], int] = {}
    for key in sorted(state.uses, key=lambda k: (k[0], k[1], k[2] or "", k[3])):
        task, file, dataset, op = key
        use = state.uses[key]
        metadata[task, file] = metadata.get((task, file), 0) + use.meta_ops
        name = clean_name(file)
        label = clean_name(dataset) if dataset is not None else None
        build.add(
            "flows",
            {
                **_who(state.tasks[task]),
                "object": f"{name}::{label}" if by_dataset and label is not None else name,
                "medium": "file",
                "op": op,
                "bytes": use.bytes,
                "footprint_bytes": _footprint(use),
                "ops": use.ops,
                "first_ns": _ns(use.first_us),
                "last_ns": _ns(use.last_us),
                "busy_s": _share(busy.get((task, file, op)), use.bytes, totals[task, file, op]),
                "peer": label,
            },
        )
    for (task, file), ops in sorted(metadata.items()):
        if ops:
            row = {"object": clean_name(file), "medium": "file", "op": "metadata", "ops": ops}
            build.add("flows", {**_who(state.tasks[task]), **row})


def _who(task: Task) -> dict[str, Any]:
    return {"task_id": clean_name(task.name), "attempt": 1, "worker": _worker(task)}


def _share(busy: float | None, size: int | None, total: int) -> float | None:
    """Give a dataset's part of the time in its file, by bytes."""
    if busy is None or size is None:
        return None
    return busy * size / total if total else (0.0 if not busy else None)


def _footprint(use: Use) -> int | None:
    """Give an upper bound of the distinct bytes: whole pages, and no more than were moved."""
    if use.bytes is None or not use.bounded or not use.page_bytes or not use.pages:
        return None
    ends = use.touched()
    pages = sum(last - first + 1 for first, last in zip(ends[::2], ends[1::2], strict=True))
    return min(use.bytes, pages * use.page_bytes)


def _worker(task: Task) -> str | None:
    if task.pid is None:
        return None
    return clean_name(f"{task.host}:{task.pid}" if task.host else f"process {task.pid}")


def _ns(at_us: float | None) -> int | None:
    return None if at_us is None else round(at_us) * 1000


def _tasks(state: State, build: Builder) -> None:
    moved: dict[tuple[str, str], list[int]] = {}
    unknown: set[tuple[str, str]] = set()
    for (owner, _, _, op), use in state.uses.items():
        sums = moved.setdefault((owner, op), [0, 0, 0, 0])
        for place, value in enumerate((use.bytes, use.meta_bytes, use.ops, use.meta_ops)):
            sums[place] += value or 0
        if use.bytes is None:
            unknown.add((owner, op))
    for name in sorted(state.tasks):
        task = state.tasks[name]
        order = task.order
        if order is None:
            order = state.orders.get((task.folder, task.group))
        first, last = _ns(task.first_us), _ns(task.last_us)
        lossy = _lossy(state, task)
        low = lossy or state.unplaced or any((name, op) in unknown for op in ("read", "write"))
        row: dict[str, Any] = {
            "task_id": clean_name(name),
            "attempt": 1,
            "run_id": task.pid,
            "group": clean_name(task.group),
            "worker": _worker(task),
            "host": clean_name(task.host) if task.host else None,
            "started_ns": first,
            "ended_ns": last,
            "wall_s": None if first is None or last is None else max(last - first, 0) / 1e9,
            "outcome": "unknown",
            "features": None if order is None else {"stage_order": float(order)},
            "source": "dayu",
        }
        if task.measured:
            read, wrote = (moved.get((name, op), [0, 0, 0, 0]) for op in ("read", "write"))
            # Of what is lost, all may have been of a kind that is not seen.
            sizes = [None if lossy and not one[2] else one[0] for one in (read, wrote)]
            unseen = sizes == [None, None]
            row |= {
                "read_bytes": sizes[0],
                "write_bytes": sizes[1],
                "io_kind": None if unseen else "lower_bound" if low else "exact",
                "io_s": None if task.io_us is None else task.io_us / 1e6,
            }
            _metadata(task, read, wrote, last, build)
        build.add("tasks", row)


def _metadata(
    task: Task, read: list[int], wrote: list[int], at_ns: int | None, build: Builder
) -> None:
    size, part = read[0] + wrote[0], read[1] + wrote[1]
    values = {"metadata_bytes": part, "metadata_ops": read[3] + wrote[3]}
    shares: dict[str, float] = {key: float(value) for key, value in values.items()}
    if size:
        shares["metadata_share_ratio"] = part / size
    for metric, value in shares.items():
        row = {"at_ns": at_ns, "subject": clean_name(task.name), "metric": metric}
        build.add("samples", {**row, "value": value, "quality": "exact"})


def _datasets(datasets: dict[tuple[str, str], Dataset], build: Builder) -> None:
    for (file, dataset), known in sorted(datasets.items()):
        subject = f"{clean_name(file)}::{clean_name(dataset)}"
        at = _ns(known.at_us) if known.at_us > 0 else None
        for metric, value in sorted(known.facts.items()):
            row = {"at_ns": at, "subject": subject, "metric": metric}
            build.add("samples", {**row, "value": value, "quality": "exact"})
