"""The data in a Bokeh page: found and decoded, never executed.

Bokeh puts one JSON document into ``<script type="application/json">``, with ``<``, ``>`` and ``&``
escaped (https://docs.bokeh.org/en/latest/docs/dev_guide/server.html and the serialisation code of
Bokeh 0.12 to 3.9). Data columns are lists, ``{"__ndarray__": base64}`` (to 2.x) or typed objects
(3.x); mappings are objects or ``{"type": "map", "entries": [[key, value], …]}`` (3.x).
"""

from __future__ import annotations

import base64
import binascii
import html
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Page", "column", "numbers", "read_page", "texts", "unescaped"]

_INLINE = re.compile(r"docs_json\s*=\s*(?=\{)")
_DTYPE = re.compile(r"[<>=|]?(?:[iu][1248]|f[248]|b1)")
_NAMES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
_DTYPES = frozenset((*_NAMES, "float16", "float32", "float64"))
_ESCAPES = 3
_OPEN = re.compile(r"<(script|title)(?=[\s>/])", re.I)
_CLOSE = {name: re.compile(rf"</{name}", re.I) for name in ("script", "title")}
_TAG_LIMIT = 4096
_WORDS = {
    "nan": math.nan,
    "inf": math.inf,
    "+inf": math.inf,
    "-inf": -math.inf,
    "infinity": math.inf,
    "-infinity": -math.inf,
}


@dataclass
class Page:
    """What a page holds: Bokeh versions, tables (name → column) and texts, as written."""

    versions: list[str] = field(default_factory=list)
    tables: list[dict[str, Any]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    documents: int = 0


class _Tag(HTMLParser):
    """Reads the attributes of one start tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.kind = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.kind = next((v or "" for name, v in attrs if name == "type"), "").strip().lower()


def _elements(text: str) -> Iterator[tuple[str, str, str]]:
    """Give (tag, type, content) of scripts and titles.

    The whole page is not fed to the parser: on text that is no HTML at all its time grows with
    the square of the length.
    """
    at = 0
    while match := _OPEN.search(text, at):
        tag = match[1].lower()
        begin = text.find(">", match.end(), match.end() + _TAG_LIMIT) + 1
        if not begin:
            at = match.end()
            continue
        close = _CLOSE[tag].search(text, begin)
        at = close.end() if close else len(text)
        content = text[begin : close.start() if close else len(text)]
        yield tag, _Tag(text[match.start() : begin]).kind, content


def read_page(text: str) -> Page:
    """Parse a page and give what its Bokeh documents hold.

    Examples
    --------
    >>> doc = '{"x": {"roots": {"references": [{"type": "ColumnDataSource",'
    >>> doc += ' "attributes": {"data": {"start": [1, 2]}}}]}, "version": "1.4.0"}}'
    >>> page = read_page(f'<script type="application/json">{doc}</script>')
    >>> page.tables, page.versions
    ([{'start': [1, 2]}], ['1.4.0'])
    """
    page = Page()
    for tag, kind, content in _elements(text):
        if tag == "title":
            continue  # what looks like a script in it is none
        document = _document(kind, content)
        if isinstance(document, dict):
            page.documents += 1
            _gather(document, page)
    return page


def _document(kind: str, text: str) -> Any:
    if kind == "application/json":
        return _loads(text)
    match = _INLINE.search(text)
    if match is None:
        return None
    try:
        return json.JSONDecoder().raw_decode(text, match.end())[0]
    except (ValueError, RecursionError):
        return None


def _loads(text: str) -> Any:
    """Load JSON whose text was escaped for HTML once, not at all, or twice."""
    once = html.unescape(text)
    for candidate in (once, text, html.unescape(once)):
        try:
            return json.loads(candidate)
        except (ValueError, RecursionError):
            continue
    return None


def _gather(document: dict[str, Any], page: Page) -> None:
    """Walk a document without recursion, in the order of its text."""
    stack: list[Any] = [document]
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            stack.extend(item for item in reversed(node) if isinstance(item, (dict, list)))
            continue
        version = node.get("version")
        if isinstance(version, str) and "roots" in node and version not in page.versions:
            page.versions.append(version[:40])
        attributes = node.get("attributes")
        if isinstance(attributes, dict):
            if "ColumnDataSource" in (node.get("type"), node.get("name")):
                table = _mapping(attributes.get("data"))
                if table:
                    page.tables.append(table)
            for name in ("text", "code"):
                if isinstance(attributes.get(name), str):
                    page.texts.append(attributes[name])
        stack.extend(v for v in reversed(node.values()) if isinstance(v, (dict, list)))


def _mapping(value: Any) -> dict[str, Any]:
    """Give a mapping of either layout as a dict with text keys."""
    if not isinstance(value, dict):
        return {}
    if value.get("type") == "map" and isinstance(value.get("entries"), list):
        pairs = (e for e in value["entries"] if isinstance(e, list) and len(e) == 2)
        return {key: item for key, item in pairs if isinstance(key, str)}
    return value


def column(value: Any) -> list[Any] | NDArray[Any] | None:
    """Give a data column as a list or an array; None if it is encoded in no known way.

    Examples
    --------
    >>> column({"__ndarray__": "AACAPwAAAEA=", "dtype": "float32", "shape": [2]}).tolist()
    [1.0, 2.0]
    >>> column([1, "NaN"])
    [1, 'NaN']
    """
    if isinstance(value, list):
        return value
    if not isinstance(value, dict):
        return None
    if "__ndarray__" in value:
        return _decode(value["__ndarray__"], value)
    if value.get("type") in ("ndarray", "typed_array"):
        array = value.get("array")
        if isinstance(array, list):
            return array
        if isinstance(array, dict):
            return _decode(array.get("data"), value)
        return _decode(array, value)
    return None


def _decode(data: Any, about: dict[str, Any]) -> NDArray[Any] | None:
    dtype = about.get("dtype")
    if not isinstance(data, str) or not isinstance(dtype, str):
        return None
    if dtype not in _DTYPES and not _DTYPE.fullmatch(dtype):
        return None
    order = about.get("order")
    kind = np.dtype(dtype)
    if order in ("little", "big"):
        kind = kind.newbyteorder("<" if order == "little" else ">")
    elif dtype in _DTYPES:
        kind = kind.newbyteorder("<")  # before Bokeh 2 nothing says it; browsers are little-endian
    try:
        raw = base64.b64decode(data, validate=True)
        values = np.frombuffer(raw, kind)
    except (binascii.Error, ValueError):
        return None
    shape = about.get("shape")
    if isinstance(shape, list) and shape != [len(values)]:
        return None
    return values.astype(kind.newbyteorder("="))


def numbers(value: Any) -> NDArray[np.float64] | None:
    """Give a column as float64, NaN for what is no number; None if it cannot be decoded.

    Examples
    --------
    >>> numbers([1, None, "NaN", {"type": "number", "value": "-inf"}, "x"]).tolist()
    [1.0, nan, nan, -inf, nan]
    """
    items = column(value)
    if items is None:
        return None
    if isinstance(items, np.ndarray):
        return items.astype(np.float64)
    return np.array([_number(item) for item in items], dtype=np.float64)


def _number(item: Any) -> float:
    if isinstance(item, bool):
        return math.nan
    if isinstance(item, (int, float)):
        try:
            return float(item)
        except OverflowError:
            return math.nan
    if isinstance(item, dict) and item.get("type") == "number":
        item = item.get("value")
    return _WORDS.get(item.lower(), math.nan) if isinstance(item, str) else math.nan


def texts(value: Any) -> list[str | None] | None:
    """Give a column as texts; None if it cannot be decoded."""
    items = column(value)
    if items is None:
        return None
    plain = items.tolist() if isinstance(items, np.ndarray) else items
    return [_words(item) for item in plain]


def _words(item: Any) -> str | None:
    if isinstance(item, str):
        return item
    if isinstance(item, bool) or not isinstance(item, (int, float)):
        return None
    return str(item) if abs(item) < 1e18 or isinstance(item, float) else None


def unescaped(text: str) -> Iterator[str]:
    """Give a text, then with one escape after the other taken off, until nothing changes."""
    for _ in range(_ESCAPES):
        yield text
        plain = html.unescape(text)
        if plain == text:
            return
        text = plain
