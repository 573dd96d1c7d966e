"""The installed plotly.js, packed so that a page can carry it and run it under its own policy."""

from __future__ import annotations

import base64
import gzip
import re
from dataclasses import dataclass
from functools import cache

__all__ = ["Packed", "packed"]

_BANNER = re.compile(r"\A\s*/\*\*?(.*?)\*/", re.S)


@dataclass(frozen=True, slots=True)
class Packed:
    """The library.

    Attributes
    ----------
    text : str
        The script itself; its digest goes into the page's policy, so that no other may run.
    data : str
        Base64 of gzip, for ``DecompressionStream``.
    banner : str
        Its name, version, copyright and licence, as it states them itself.
    """

    text: str
    data: str
    banner: str


@cache
def packed() -> Packed | None:
    """Pack the installed plotly.js, once a process; None where it is not there.

    Examples
    --------
    >>> library = packed()
    >>> "plotly.js" in library.banner, "MIT" in library.banner, len(library.data) < 2_100_000
    (True, True, True)
    """
    try:
        from plotly.offline import get_plotlyjs

        text: str = get_plotlyjs()
    except (ImportError, OSError):
        return None
    found = _BANNER.match(text)
    lines = found.group(1).splitlines() if found else ["plotly.js"]
    banner = " · ".join(line for line in (raw.strip(" *") for raw in lines) if line)
    # mtime=0: the same library gives the same bytes.
    data = base64.b64encode(gzip.compress(text.encode("utf-8"), 9, mtime=0)).decode("ascii")
    return Packed(text, data, banner)
