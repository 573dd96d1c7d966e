"""Values that are there but cannot be read: counted by column, to be told once.

sacct's own words and numbers for "no value" (``Unknown``, ``Partition_Limit``, ``16.00E``, zero
where zero is none, …) are no losses and stay silent.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.adapters.importers._slurm_values import (
    UNKNOWN,
    amount,
    count,
    tres,
    tres_pairs,
    words,
)
from rotameter.profiler.live.redact import clean_name
from rotameter.units import many

__all__ = ["Unread", "bad_tres", "says_nothing"]

_SHOWN = 40
_SAY_NOTHING = frozenset(
    {text.lower() for text in UNKNOWN}
    | set(words("unlimited infinite partition_limit not_set no_val null nan unset none! - * ?"))
)
# 0 of what cannot be none, 1970, and Slurm's marks for "no value" (2**64 - 1 … 2**32 - 2, -2).
_NO_VALUE = re.compile(
    r"0+(?:\.0+)?(?:[KMGTPEZ]?[cn]?\??)|16(?:\.0+)?[A-Z]|18446744073709551\d{3}(?:\.0+)?"
    r"|429496729[45](?:\.0+)?|-[12]|1970-01-01T.*|(?:1969-12-31T.*)"
)
_NAMES = {
    name.lower(): name
    for name in words(
        """Submit Eligible Start End Elapsed ElapsedRaw Suspended TotalCPU UserCPU SystemCPU
        Timelimit TimelimitRaw ExitCode ConsumedEnergy ConsumedEnergyRaw Priority Restarts NTasks
        MaxRSS TRESUsageInMax TRESUsageInTot TRESUsageOutTot AveDiskRead AveDiskWrite ReqCPUS
        AllocCPUS NCPUS ReqNodes AllocNodes NNodes ReqMem ReqTRES AllocTRES"""
    )
}
_TRES = {"cpu": count, "node": count, "gres/gpu": count, "mem": amount}


def says_nothing(text: str) -> bool:
    """Say whether a value is one of sacct's marks for "no value".

    Examples
    --------
    >>> says_nothing("Partition_Limit"), says_nothing("16.00E"), says_nothing("Ystday 10:00")
    (True, True, False)
    """
    text = text.strip()
    return text.lower() in _SAY_NOTHING or _NO_VALUE.fullmatch(text) is not None


def bad_tres(text: str) -> bool:
    """Say whether a TRES string, or a number in it that counts, cannot be read."""
    if says_nothing(text) or not np.isnan(tres(text)[:4]).any():
        return False
    pairs = tres_pairs(text)
    return not pairs or any(
        key in _TRES and np.isnan(_TRES[key](value)) and not says_nothing(value)
        for key, value in pairs
    )


class Unread:
    """How many values of each column could not be read, and the first of them.

    Examples
    --------
    >>> lost = Unread()
    >>> lost.look("start", pa.array(["20:35:55", "None"]), np.array([True, True]))
    >>> lost.words()
    ["Start cannot be read in 1 row, such as '20:35:55'"]
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._first: dict[str, str] = {}

    def look(self, name: str, values: pa.Array, unknown: Any) -> None:
        """Look at the texts of those rows of a column that gave no value."""
        if not unknown.any():
            return
        for pair in pc.value_counts(values.filter(pa.array(unknown))).to_pylist():
            if not says_nothing(pair["values"]):
                self._add(name, pair["values"], pair["counts"])

    def look_encoded(self, name: str, encoded: Any, unknown: Any) -> None:
        """Look at a dictionary-encoded column; ``unknown`` tells the values of its dictionary."""
        at = np.flatnonzero(unknown)
        if not len(at):
            return
        texts = encoded.dictionary.take(pa.array(at)).to_pylist()
        bad = [(i, text) for i, text in zip(at.tolist(), texts, strict=True)
               if not says_nothing(text)]  # fmt: skip
        if not bad:
            return
        indices = encoded.indices.to_numpy(zero_copy_only=False)
        counts = np.bincount(indices, minlength=len(encoded.dictionary))
        for i, text in bad:
            self._add(name, text, int(counts[i]))

    def _add(self, name: str, text: str, times: int) -> None:
        self._counts[name] = self._counts.get(name, 0) + times
        self._first.setdefault(name, text)

    def words(self) -> list[str]:
        """Give a sentence a column."""
        said = []
        for name, times in self._counts.items():
            rows = many(times, "row")
            shown = clean_name(self._first[name].strip())
            shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
            said.append(f"{_NAMES.get(name, name)} cannot be read in {rows}, such as {shown!r}")
        return said
