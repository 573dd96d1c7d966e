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
from rotameter.adapters.importers._slurm_resized import end_resized
from rotameter.adapters.importers._slurm_unread import Unread, bad_tres
from rotameter.adapters.importers._slurm_values import (
    LAST_S,
    MISSING_NS,
    PHASES,
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
    """wall suspended limit cpu req_cpus cpus req_nodes nodes tasks req_memory rss code signal
    energy priority restarts read write tres_req_cpus tres_req_memory tres_req_nodes
    tres_req_gpus tres_cpus tres_memory tres_nodes tres_gpus gpu_memory gpu_peak_percent"""
)
_LOCAL = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$"
_ZONED = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4}$"
_UNLIMITED = ("UNLIMITED", "INFINITE")


def _mapped(column: pa.Array, function: Callable[[str], Any], kind: Any) -> Any:
    """Apply a function to each different value once."""
    encoded = column.dictionary_encode()
    values = np.array([function(text) for text in encoded.dictionary.to_pylist()], dtype=kind)
    return values[encoded.indices.to_numpy(zero_copy_only=False)] if len(values) else values


def _numbers_of(
    column: pa.Array, function: Callable[[str], float], name: str, unread: Unread
) -> Any:
    encoded = column.dictionary_encode()
    values = numbers(encoded.dictionary, function)
    unread.look_encoded(name, encoded, np.isnan(values))
    return values[encoded.indices.to_numpy(zero_copy_only=False)] if len(values) else values


def _texts(column: pa.Array, function: Callable[[str], str | None]) -> pa.Array:
    encoded = column.dictionary_encode()
    values = pa.array([function(text) for text in encoded.dictionary.to_pylist()], pa.string())
    return values.take(encoded.indices)


def _times(column: pa.Array) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Give ns, and whether each has a zone."""
    zoned = np.zeros(len(column), dtype=bool)
    out = np.full(len(column), MISSING_NS, dtype=np.int64)
    done = np.zeros(len(column), dtype=bool)
    for pattern, kind in ((_ZONED, pa.timestamp("s", "UTC")), (_LOCAL, pa.timestamp("s"))):
        match = pc.match_substring_regex(column, pattern)
        here = match.to_numpy(zero_copy_only=False)
        if not here.any():
            continue
        try:
            seconds = pc.cast(column.filter(match), kind).cast(pa.int64()).to_numpy()
        except pa.ArrowInvalid:
            continue
        good = (seconds > 0) & (seconds < LAST_S)
        out[here] = np.where(good, np.where(good, seconds, 0) * 10**9, MISSING_NS)
        zoned |= here if pattern is _ZONED else False
        done |= here
    if not done.all():
        left = pa.array(~done)
        both = _mapped(column.filter(left), lambda text: when(text), np.int64).reshape(-1, 2)
        out[~done] = both[:, 0]
        zoned[~done] = both[:, 1] == 1
    return out, zoned & (out != MISSING_NS)


class _Source:
    """The text columns of some rows, asked for by name; the first that is there counts."""

    def __init__(self, columns: Mapping[str, pa.Array], unread: Unread) -> None:
        self.columns, self.unread = columns, unread

    def get(self, *names: str) -> pa.Array | None:
        for wanted in names:
            column = self.columns.get(wanted)
            if column is not None:
                return column
        return None

    def floats(self, wanted: str, function: Callable[[str], float]) -> Any:
        column = self.get(wanted)
        return None if column is None else _numbers_of(column, function, wanted, self.unread)

    def mapped(
        self, wanted: str, function: Callable[[str], Any], lost: Callable[[str], bool]
    ) -> Any:
        """Apply a function that gives several numbers; ``lost`` tells the texts it cannot read."""
        column = self.columns[wanted]
        encoded = column.dictionary_encode()
        texts = encoded.dictionary.to_pylist()
        self.unread.look_encoded(wanted, encoded, np.array([lost(t) for t in texts], dtype=bool))
        values = np.array([function(text) for text in texts], dtype=np.float64)
        return values[encoded.indices.to_numpy(zero_copy_only=False)] if len(values) else values

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
        return _numbers_of(pc.fill_null(found.field("v"), ""), function, wanted, self.unread)


def extract(
    rows: Rows, unread: Unread, zone_ns: int | None = None
) -> tuple[Columns, tuple[int, int]]:
    """Read the columns of some rows; what cannot be read is counted in ``unread``.

    Parameters
    ----------
    rows : Rows
    unread : Unread
    zone_ns : int, optional
        Zone of times that carry none, nanoseconds east of UTC: they are on the common axis then.

    Returns
    -------
    tuple of (dict, (int, int))
        The columns, and how many times have a zone and how many have none.
    """
    got = _Source(rows.columns, unread)
    out: Columns = {"line": rows.lines}
    _identity(got, out)
    zoned = local = 0
    for wanted in TIMES:
        column = got.get(wanted)
        if column is not None:
            out[wanted], zones = _times(column)
            known = out[wanted] != MISSING_NS
            unread.look(wanted, column, ~known)
            with_zone = int(zones.sum())
            if zone_ns is not None:
                out[wanted] = np.where(known & ~zones, out[wanted] - zone_ns, out[wanted])
                with_zone = int(known.sum())
            else:
                for side, times in (("at_zone", zones), ("at_local", known & ~zones)):
                    if times.any():
                        out[side] = times | out.get(side, False)
            zoned, local = zoned + with_zone, local + int(known.sum()) - with_zone
            if zones.any() and wanted in ("start", "end"):
                out["zoned"] = zones | out.get("zoned", False)
    _state(got, out)
    end_resized(out)
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
        if got.get("jobid") is None:
            out["only_raw"] = np.ones(len(raw), dtype=bool)
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
    out["phase"] = _mapped(column, lambda text: PHASES.index(state(text).phase), np.int8)


def _limit_minutes(text: str) -> float:
    return count(text) * 60


def _numbers(got: _Source, out: Columns) -> None:
    out["wall"] = got.first(("elapsedraw", count), ("elapsed", clock))
    out["suspended"] = got.floats("suspended", clock)
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
        both = got.mapped("exitcode", exit_code, lambda text: bool(np.isnan(exit_code(text)[0])))
        both = both.reshape(-1, 2)
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
        out["req_memory"] = got.mapped(
            "reqmem", lambda text: request(text)[0], lambda text: bool(np.isnan(request(text)[0]))
        )
        per = {"": 0, "c": 1, "n": 2, "0": 3}
        out["req_per"] = _mapped(column, lambda text: per[request(text)[1]], np.int8)
    for prefix, wanted in (("tres_req_", "reqtres"), ("tres_", "alloctres")):
        column = got.get(wanted)
        if column is None:
            continue
        values = got.mapped(wanted, tres, bad_tres).reshape(-1, len(Tres._fields))
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
        gres = got.get(per_node)
        old = None if gres is None else _mapped(gres, gres_gpus, np.float64)
        if old is not None and out.get(nodes) is not None:
            old = old * out[nodes]
            newer = out.get(wanted)
            out[wanted] = old if newer is None else np.where(np.isnan(newer), old, newer)
