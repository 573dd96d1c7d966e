"""Which nodes of a model a selection of tasks means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rotameter.profiler.replaying.model import Model
    from rotameter.profiler.view import Mask

    Tasks = str | Sequence[str] | NDArray[Any] | None
else:
    Tasks = object

__all__ = ["Tasks", "chosen"]


def chosen(model: Model, tasks: Tasks) -> Mask:
    """Turn a selection of tasks into a mask over the nodes; gates are never chosen.

    Parameters
    ----------
    model : Model
    tasks : None, str, sequence of str, ndarray of bool or of int
        All; groups by name; attempts of the trace by mask or by row.

    Returns
    -------
    ndarray of bool, shape (model.n,)

    Raises
    ------
    ValueError
        If a mask is shorter than the trace's attempts.

    Examples
    --------
    >>> from rotameter.profiler.replaying.model import make_model
    >>> model = make_model([1.0, 2.0], group=[0, 1], groups=["a", "b"])
    >>> chosen(model, "b").tolist(), chosen(model, np.array([True, False])).tolist()
    ([False, True], [True, False])
    """
    nodes = ~model.gate
    if tasks is None:
        return nodes
    if isinstance(tasks, np.ndarray):
        known = model.row >= 0
        if tasks.dtype == bool:
            if known.any() and int(model.row.max()) >= len(tasks):
                raise ValueError(f"a mask of {len(tasks)} for attempts up to {model.row.max()}")
            return np.asarray(nodes & known & tasks[np.where(known, model.row, 0)])
        return np.asarray(nodes & np.isin(model.row, tasks[tasks >= 0]))
    wanted = {tasks} if isinstance(tasks, str) else set(tasks)
    codes = [code for code, name in enumerate(model.groups) if name in wanted]
    return np.asarray(nodes & np.isin(model.group, codes))
