"""Sizes given as text, for the live half (which must not import the rest of the package)."""

from __future__ import annotations

import re

from rotameter.errors import UsageError

__all__ = ["size_bytes"]

_FACTORS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15}
_TEXT = re.compile(r"\s*([0-9][0-9_]*(?:\.[0-9]+)?)\s*([kmgtp]?)(i?)(b?)\s*", re.I)


def size_bytes(size: int | str) -> int:
    """Give a size in bytes: a whole number, or text such as ``2GiB`` or ``500 MB``.

    Raises
    ------
    UsageError
        If it is neither.

    Examples
    --------
    >>> size_bytes("2GiB"), size_bytes("1.5 GB"), size_bytes(7)
    (2147483648, 1500000000, 7)
    """
    if isinstance(size, int) and not isinstance(size, bool) and size >= 0:
        return size
    found = _TEXT.fullmatch(size) if isinstance(size, str) else None
    if found is None or (found[3] and not found[2]):
        raise UsageError(f"not a size: {size!r:.80}", hint='write bytes or text such as "2GiB"')
    factor = _FACTORS[found[2].lower()]
    if found[3]:
        factor = 1024 ** "kmgtp".index(found[2].lower()) * 1024
    return int(float(found[1].replace("_", "")) * factor)
