"""Dependencies of a table that cannot be: in a circle, or on a task that is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from rotameter.profiler.view import short
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.profiler.view import Codes, View

__all__ = ["odd_dependencies"]


def odd_dependencies(seen: View) -> list[str]:
    """Say what is odd about the dependencies that a table names, one line a kind.

    Only of tables that people or scripts wrote: engines name data and tasks of other computations
    as well.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> from rotameter.profiler.view import View
    >>> tables = {"tasks": [{"task_id": "a"}], "deps": [{"task_id": "a", "depends_on": "b"}]}
    >>> odd_dependencies(View(Trace.from_tables(tables, {"engine": "table"})))
    ['1 of 1 dependency names a task that is not there (`b`): it is left out']
    """
    task, on = seen.deps
    if seen.meta.get("engine") != "table" or not len(task):
        return []
    said = []
    table = seen.table("deps")
    named = pc.and_(table["task_id"].is_valid(), table["depends_on"].is_valid()).to_numpy()
    absent = ((task < 0) | (on < 0)) & named
    if absent.any():
        row = int(np.flatnonzero(absent)[0])
        column = "task_id" if task[row] < 0 else "depends_on"
        name = short(table[column][row].as_py())
        n = int(absent.sum())
        names = "names a task" if n == 1 else "name tasks"
        be, it = ("is", "it is") if n == 1 else ("are", "they are")
        whole = many(len(task), "dependency", "dependencies")
        said.append(f"{n:,} of {whole} {names} that {be} not there (`{name}`): {it} left out")
    circle = _in_circles(task[named & ~absent], on[named & ~absent], len(seen.task_ids))
    if len(circle):
        which = ", ".join(f"`{short(seen.task_ids[code])}`" for code in circle[:2])
        more = ", …" if len(circle) > 2 else ""
        verb = "depends on itself" if len(circle) == 1 else "depend on each other in a circle"
        said.append(f"{many(len(circle), 'task')} {verb} ({which}{more}): that cannot be")
    return said


def _in_circles(task: Codes, on: Codes, n: int) -> Codes:
    """Give the tasks that depend on themselves, by whatever way."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if not len(task):
        return np.zeros(0, dtype=np.int64)
    edges = coo_array((np.ones(len(task), dtype=np.int8), (task, on)), shape=(n, n)).tocsr()
    _, part = connected_components(edges, directed=True, connection="strong")
    circle = np.bincount(part)[part] > 1
    circle[task[task == on]] = True
    return np.flatnonzero(circle)
