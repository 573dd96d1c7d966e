"""Data for the browser: typed arrays, byte planes, gzip, base64; and text safe inside a page."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["pack", "pack_text", "script_json"]

_LEVEL = 6


def _squeeze(raw: bytes) -> str:
    # mtime=0: the same trace gives the same bytes.
    return base64.b64encode(gzip.compress(raw, _LEVEL, mtime=0)).decode("ascii")


def pack(values: NDArray[Any]) -> dict[str, Any]:
    """Encode an array of unsigned integers.

    Bytes of equal weight are put together (planes), which gzip shortens far better than whole
    numbers.

    Parameters
    ----------
    values : ndarray of uint8, uint16 or uint32, shape (n,)

    Returns
    -------
    dict
        ``{"n", "width", "data"}``: count, bytes per value, base64 of gzip.

    Examples
    --------
    >>> packed = pack(np.array([1, 2, 3], dtype=np.uint16))
    >>> packed["n"], packed["width"]
    (3, 2)
    """
    if values.dtype.kind != "u" or values.dtype.itemsize > 4:
        raise TypeError(f"pack takes unsigned integers of at most 4 bytes, not {values.dtype}")
    width = values.dtype.itemsize
    little = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("<"), copy=False))
    planes = little.view(np.uint8).reshape(-1, width).T
    return {"n": len(values), "width": width, "data": _squeeze(planes.tobytes())}


def pack_text(lines: list[str]) -> dict[str, Any]:
    """Encode lines of text (no line holds a line end).

    Examples
    --------
    >>> pack_text(["a", "b"])["n"]
    2
    """
    return {"n": len(lines), "width": 0, "data": _squeeze("\n".join(lines).encode())}


def script_json(value: Any) -> str:
    r"""Write JSON that cannot leave the script element which holds it.

    Examples
    --------
    >>> script_json("</script>")
    '"\\u003c/script\\u003e"'
    """
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
