"""A row with more fields than columns: which of them belong together.

sacct escapes nothing: a job's name, comment or command line may hold the delimiter. Columns of a
known form (ids, times, states …) hold the row in place; free text takes what is too much.
"""

from __future__ import annotations

from collections.abc import Sequence

from rotameter.adapters.importers._slurm_columns import Layout, fits

__all__ = ["align"]

_EXTRA_LIMIT = 100


def align(layout: Layout, fields: Sequence[str]) -> list[str] | None:
    """Give as many fields as there are columns, or None where nothing fits.

    Examples
    --------
    >>> from rotameter.adapters.importers._slurm_columns import header
    >>> align(header("JobID|SubmitLine|State"), ["7", "cat a ", " wc", "FAILED"])
    ['7', 'cat a | wc', 'FAILED']
    """
    wide = len(layout.names)
    extra = len(fields) - wide
    if extra < 0 or extra > _EXTRA_LIMIT:
        return None
    kinds, free = layout.kinds, layout.free
    # came[i][e]: how many fields column i took when e fields too many were taken after it.
    came: list[dict[int, int]] = []
    reached = {0}
    for i in range(wide):
        here: dict[int, int] = {}
        for taken in reached:
            if i in free:
                for more in range(extra - taken + 1):
                    here.setdefault(taken + more, more + 1)
            elif fits(kinds[i], fields[i + taken].strip()):
                here.setdefault(taken, 1)
        if not here:
            return None
        came.append(here)
        reached = set(here)
    if extra not in reached:
        # A trailing delimiter is no field.
        return align(layout, fields[:-1]) if extra and not fields[-1] else None
    return _walk(layout, fields, came, extra)


def _walk(
    layout: Layout, fields: Sequence[str], came: Sequence[dict[int, int]], extra: int
) -> list[str]:
    row: list[str] = []
    end, taken = len(fields), extra
    for i in range(len(came) - 1, -1, -1):
        size = came[i][taken]
        row.append(layout.delimiter.join(fields[end - size : end]))
        end -= size
        taken -= size - 1
    return row[::-1]
