"""Jobs that have only their number in common: of two clusters, or of before numbers began anew.

A requeued job keeps its user and its name. Listings that do not name the cluster may hold the same
number of two clusters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rotameter.adapters.importers._slurm_values import MISSING_NS

__all__ = ["call_by_job_id", "namesakes"]

_TOLD_BY = ("name", "user", "queue", "account")


def call_by_job_id(rows: dict[str, Any]) -> None:
    """Give rows that have only a JobIDRaw the JobID that a row with both says, as of an array.

    Examples
    --------
    >>> import numpy as np
    >>> rows = {"key": pa.array(["4_1", "5"]), "raw": pa.array(["5", "5"])}
    >>> rows |= {"is_step": np.zeros(2, bool), "only_raw": np.array([False, True])}
    >>> call_by_job_id(rows)
    >>> rows["key"].to_pylist()
    ['4_1', '4_1']
    """
    only_raw = rows.pop("only_raw", None)
    if only_raw is None or only_raw.all():
        return
    keys, raws, step = rows["key"], rows["raw"], rows["is_step"]
    other = pc.fill_null(pc.not_equal(keys, raws), False).to_numpy(zero_copy_only=False)
    cluster = rows.get("cluster")
    several = cluster is not None and len(pc.unique(cluster.drop_null())) > 1
    named = cluster.to_pylist() if several and cluster is not None else [None] * len(keys)
    found: dict[tuple[Any, str], set[str]] = {}
    for row in (~only_raw & other & ~step).nonzero()[0].tolist():
        key = keys[row].as_py()
        if "[" not in key:  # the number of an array that waits is one of its tasks' later on
            found.setdefault((named[row], raws[row].as_py()), set()).add(key)
    if not found:
        return
    texts = keys.to_pylist()
    for row in only_raw.nonzero()[0].tolist():
        said = found.get((named[row], texts[row]), ())
        if len(said) == 1:
            (texts[row],) = said
    rows["key"] = pa.array(texts, pa.string())


def namesakes(jobs: dict[str, Any], rows: Sequence[int]) -> list[list[int]]:
    """Share rows of one number out over the jobs that they tell of.

    Another user makes another job; so does another name together with another partition or
    account (a name or a partition alone may be changed by ``scontrol update``). What was submitted
    at the same time is one job, whatever it is called. A listing of fixed width cuts names.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> columns = {"user": pa.array(["ann", "ann", "bob", None])}
    >>> namesakes(columns, [0, 1, 2, 3])
    [[0, 1, 3], [2]]
    """
    columns = {name: jobs[name].take(list(rows)).to_pylist() for name in _TOLD_BY if name in jobs}
    if all(len({*values} - {None}) < 2 for values in columns.values()):
        return [list(rows)]
    found: list[tuple[dict[str, str], set[int], list[int]]] = []
    for at, row in enumerate(rows):
        told = {name: values[at] for name, values in columns.items() if values[at] is not None}
        submit = int(jobs["submit"][row]) if "submit" in jobs else MISSING_NS
        same = [one for one in found if submit in one[1]]
        fit = same or [one for one in found if not _another(told, one[0])]
        known, submits, mine = fit[0] if fit else ({}, set(), [])
        if not fit:
            found.append((known, submits, mine))
        for name, value in told.items():
            if name not in known or _is_cut(known[name], value):
                known[name] = value
        if submit != MISSING_NS:
            submits.add(submit)
        mine.append(row)
    return [mine for _, _, mine in found]


def _another(one: dict[str, str], two: dict[str, str]) -> bool:
    differ = {name for name in one.keys() & two.keys() if not _same(one[name], two[name])}
    return "user" in differ or ("name" in differ and len(differ) > 1)


def _same(one: str, two: str) -> bool:
    return one == two or _is_cut(one, two) or _is_cut(two, one)


def _is_cut(short: str, whole: str) -> bool:
    """Say whether a text may be what sacct left of another one where its column was too narrow.

    Examples
    --------
    >>> _is_cut("a_long_jo+", "a_long_job_name"), _is_cut("a_long_jo+", "a_long_jo")
    (True, False)
    """
    return short[-1:] == "+" and len(whole) > len(short) and whole.startswith(short[:-1])
