"""From columns of text to columns of numbers, whole columns at a time.

Most columns hold few different values: each is read once. Times go through Arrow's own reader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.adapters.importers._slurm_blocks import Rows
from rotameter.adapters.importers._slurm_bulk import numbers
from rotameter.adapters.importers._slurm_values import (
    MISSING_NS,
    Tres,
    amount,
    clock,
    count,
    exit_code,
    gres_gpus,
    joules,
    name,
    request,
    state,
    tres,
    when,
    words,
)

__all__ = ["FLOATS", "TIMES", "Columns", "extract"]

Columns = dict[str, Any]
"""Name → numpy array (numbers, NaN or MISSING_NS unknown) or Arrow array (text)."""

TIMES = ("submit", "eligible", "start", "end")
FLOATS = words(
    """wall limit cpu req_cpus cpus req_nodes nodes tasks req_memory rss code signal energy
    priority restarts read write tres_req_cpus tres_req_memory tres_req_nodes
    tres_req_gpus tres_cpus tres_memory tres_nodes tres_gpus gpu_memory gpu_peak_percent"""
)
_LOCAL = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$"
_ZONED = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4}$"
_LAST_S = 7_258_118_400
_UNLIMITED = ("UNLIMITED", "INFINITE")


def _mapped(column: pa.Array, function: Callable[[str], Any], kind: Any) -> Any:
    """Apply a function to each different value once."""
    encoded = column.dictionary_encode()
    values = np.array([function(text) for text in encoded.dictionary.to_pylist()], dtype=kind)
    return values[encoded.indices.to_numpy(zero_copy_only=False)] if len(values) else values


def _numbers_of(column: pa.Array, function: Callable[[str], float]) -> Any:
    encoded = column.dictionary_encode()
    values = numbers(encoded.dictionary, function)
    return values[encoded.indices.to_numpy(zero_copy_only=False)] if len(values) else values


def _texts(column: pa.Array, function: Callable[[str], str | None]) -> pa.Array:
    encoded = column.dictionary_encode()
    values = pa.array([function(text) for text in encoded.dictionary.to_pylist()], pa.string())
    return values.take(encoded.indices)


def _times(column: pa.Array) -> tuple[np.ndarray[Any, Any], int, int]:
    """Give ns, and how many times have a zone and how many have none."""
    out = np.full(len(column), MISSING_NS, dtype=np.int64)
    done = np.zeros(len(column), dtype=bool)
    counts = [0, 0]
    for at, (pattern, kind) in enumerate(
        ((_ZONED, pa.timestamp("s", "UTC")), (_LOCAL, pa.timestamp("s")))
    ):
        match = pc.match_substring_regex(column, pattern)
        here = match.to_numpy(zero_copy_only=False)
        if not here.any():
            continue
        try:
            seconds = pc.cast(column.filter(match), kind).cast(pa.int64()).to_numpy()
        except pa.ArrowInvalid:
            continue
        good = (seconds > 0) & (seconds < _LAST_S)
        out[here] = np.where(good, np.where(good, seconds, 0) * 10**9, MISSING_NS)
        counts[at] = int(good.sum())
        done |= here
    if not done.all():
        left = pa.array(~done)
        both = _mapped(column.filter(left), lambda text: when(text), np.int64).reshape(-1, 2)
        out[~done] = both[:, 0]
        known = both[:, 0] != MISSING_NS
        counts[0] += int((known & (both[:, 1] == 1)).sum())
        counts[1] += int((known & (both[:, 1] == 0)).sum())
    return out, counts[0], counts[1]


class _Source:
    """The text columns of some rows, asked for by name; the first that is there counts."""

    def __init__(self, columns: Mapping[str, pa.Array], rows: int) -> None:
        self.columns, self.rows = columns, rows

    def get(self, *names: str) -> pa.Array | None:
        for wanted in names:
            column = self.columns.get(wanted)
            if column is not None:
                return column
        return None

    def floats(self, wanted: str, function: Callable[[str], float]) -> Any:
        column = self.get(wanted)
        return None if column is None else _numbers_of(column, function)

    def first(self, *choices: tuple[str, Callable[[str], float]]) -> Any:
        """Give the first column that is there; where it says nothing, the next one."""
        out = None
        for wanted, function in choices:
            values = self.floats(wanted, function)
            if values is not None:
                out = values if out is None else np.where(np.isnan(out), values, out)
        return out

    def usage(self, wanted: str, key: str, function: Callable[[str], float]) -> Any:
        """Give one key of a column of TRES usage."""
        column = self.get(wanted)
        if column is None:
            return None
        found = pc.extract_regex(column, f"(?:^|,){key}=(?P<v>[^,]*)")
        return _numbers_of(pc.fill_null(found.field("v"), ""), function)


def extract(rows: Rows) -> tuple[Columns, tuple[int, int]]:
    """Read the columns of some rows.

    Returns
    -------
    tuple of (dict, (int, int))
        The columns, and how many times have a zone and how many have none.
    """
    got = _Source(rows.columns, len(rows.lines))
    out: Columns = {"line": rows.lines}
    _identity(got, out)
    zoned = local = 0
    for wanted in TIMES:
        column = got.get(wanted)
        if column is not None:
            out[wanted], with_zone, without = _times(column)
            zoned, local = zoned + with_zone, local + without
    _state(got, out)
    _numbers(got, out)
    _resources(got, out)
    for wanted in ("comment", "admincomment", "gpu_json"):
        column = got.get(wanted)
        if column is not None and pc.any(pc.not_equal(column, "")).as_py():
            out[wanted] = column
    return {key: values for key, values in out.items() if values is not None}, (zoned, local)


def _identity(got: _Source, out: Columns) -> None:
    ids = got.get("jobid", "jobidraw")
    assert ids is not None
    ids = pc.utf8_trim_whitespace(ids)
    # Every id was checked by the reader: what follows the first point is the step.
    parts = pc.extract_regex(ids, r"^(?P<key>[^.]*)(?:\.(?P<step>.*))?$")
    out["key"] = parts.field("key")
    out["step"] = pc.fill_null(parts.field("step"), "")
    out["is_step"] = pc.not_equal(out["step"], "").to_numpy(zero_copy_only=False)
    raw = got.get("jobidraw")
    if raw is not None:
        out["raw"] = raw
    for wanted, names in (
        ("name", ("jobname",)),
        ("user", ("user",)),
        ("account", ("account",)),
        ("queue", ("partition",)),
        ("host", ("nodelist",)),
        ("cluster", ("cluster",)),
        ("sluid", ("sluid",)),
        ("reason", ("reason",)),
    ):
        column = got.get(*names)
        if column is not None:
            out[wanted] = _texts(column, name)


def _state(got: _Source, out: Columns) -> None:
    column = got.get("state")
    if column is None:
        return
    out["outcome"] = _texts(column, lambda text: state(text).outcome)
    out["error"] = _texts(column, lambda text: state(text).error)
    phases = ("ended", "running", "pending")
    out["phase"] = _mapped(column, lambda text: phases.index(state(text).phase), np.int8)


def _limit_minutes(text: str) -> float:
    return count(text) * 60


def _numbers(got: _Source, out: Columns) -> None:
    out["wall"] = got.first(("elapsedraw", count), ("elapsed", clock))
    out["limit"] = got.first(("timelimit", clock), ("timelimitraw", _limit_minutes))
    limits = got.get("timelimit", "timelimitraw")
    if limits is not None:
        out["unlimited"] = pc.is_in(limits, pa.array(_UNLIMITED)).to_numpy(zero_copy_only=False)
    user, system = got.floats("usercpu", clock), got.floats("systemcpu", clock)
    both = None if user is None or system is None else user + system
    total = got.floats("totalcpu", clock)
    out["cpu"] = total if both is None else both if total is None else np.where(
        np.isnan(total), both, total
    )  # fmt: skip
    column = got.get("exitcode")
    if column is not None:
        both = _mapped(column, exit_code, np.float64).reshape(-1, 2)
        out["code"], out["signal"] = both[:, 0], both[:, 1]
    out["energy"] = got.first(("consumedenergyraw", joules), ("consumedenergy", joules))
    out["priority"] = got.floats("priority", count)
    out["restarts"] = got.floats("restarts", count)
    tasks = out["tasks"] = got.floats("ntasks", count)
    rss = got.first(("maxrss", amount))
    most = got.usage("tresusageinmax", "mem", amount)
    out["rss"] = rss if most is None else most if rss is None else np.where(
        np.isnan(rss), most, rss
    )  # fmt: skip
    for wanted, total_name, mean in (
        ("read", "tresusageintot", "avediskread"),
        ("write", "tresusageouttot", "avediskwrite"),
    ):
        values = got.usage(total_name, "fs/disk", amount)
        averages = got.floats(mean, amount)
        if averages is not None and tasks is not None:
            averages = averages * tasks
            values = averages if values is None else np.where(np.isnan(values), averages, values)
        out[wanted] = values
    out["gpu_memory"] = got.usage("tresusageinmax", "gres/gpumem", amount)
    out["gpu_peak_percent"] = got.usage("tresusageinmax", "gres/gpuutil", count)


def _resources(got: _Source, out: Columns) -> None:
    out["req_cpus"] = got.floats("reqcpus", count)
    out["cpus"] = got.first(("alloccpus", count), ("ncpus", count))
    out["req_nodes"] = got.floats("reqnodes", count)
    out["nodes"] = got.first(("allocnodes", count), ("nnodes", count))
    column = got.get("reqmem")
    if column is not None:
        out["req_memory"] = _mapped(column, lambda text: request(text)[0], np.float64)
        per = {"": 0, "c": 1, "n": 2, "0": 3}
        out["req_per"] = _mapped(column, lambda text: per[request(text)[1]], np.int8)
    for prefix, wanted in (("tres_req_", "reqtres"), ("tres_", "alloctres")):
        column = got.get(wanted)
        if column is None:
            continue
        values = _mapped(column, tres, np.float64).reshape(-1, len(Tres._fields))
        for i, key in enumerate(("cpus", "memory", "nodes", "gpus")):
            out[prefix + key] = values[:, i]
        if prefix == "tres_":
            energy = out.get("energy")
            out["energy"] = values[:, 4] if energy is None else np.where(
                np.isnan(energy), values[:, 4], energy
            )  # fmt: skip
    for wanted, per_node, nodes in (
        ("tres_req_gpus", "reqgres", "req_nodes"),
        ("tres_gpus", "allocgres", "nodes"),
    ):
        old = got.floats(per_node, gres_gpus)
        if old is not None and out.get(nodes) is not None:
            old = old * out[nodes]
            newer = out.get(wanted)
            out[wanted] = old if newer is None else np.where(np.isnan(newer), old, newer)
