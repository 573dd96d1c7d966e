"""The pieces of OTLP's JSON: containers, attributes, ids, times and the status of a span.

The format: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding and
https://github.com/open-telemetry/opentelemetry-proto. Ids are hexadecimal there, base64 where a
plain protobuf-to-JSON converter wrote them; 64-bit integers are strings or numbers; fields are in
camelCase, in snake_case from some writers.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

__all__ = [
    "attributes",
    "field",
    "hex_id",
    "integer",
    "items",
    "number",
    "resources",
    "status_of",
    "time_ns",
]

_SNAKE = re.compile(r"([A-Z])")
_HEX = re.compile(r"(?:0x)?([0-9a-fA-F]{1,64})")
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_INT64 = 1 << 63
_HALF = (1 << 32) - 1
_DEPTH = 20
_WRAPPERS = ("trace", "traces", "data")
_STATUS = {"ok": 1, "error": 2, "unset": 0}


def field(thing: Any, name: str) -> Any:
    """Give a field of a message by its camelCase or snake_case name.

    Examples
    --------
    >>> field({"parent_span_id": "a"}, "parentSpanId")
    'a'
    """
    if not isinstance(thing, Mapping):
        return None
    if name in thing:
        return thing[name]
    return thing.get(_snake(name))


@cache
def _snake(name: str) -> str:
    return _SNAKE.sub(lambda m: f"_{m[1].lower()}", name)


def items(thing: Any, *names: str) -> Iterator[Any]:
    """Give the items of the first of these fields that is a list."""
    for name in names:
        found = field(thing, name)
        if isinstance(found, list):
            yield from found
            return


def resources(document: Any, *names: str) -> Iterator[Any]:
    """Give the resource blocks of a document, also where a wrapper holds them."""
    inner = [document]
    if isinstance(document, Mapping):
        inner += [document[n] for n in _WRAPPERS if isinstance(document.get(n), Mapping)]
    for one in inner:
        yield from items(one, *names)


def attributes(thing: Any) -> dict[str, Any]:
    """Give the attributes of a message as plain values.

    Examples
    --------
    >>> attributes({"attributes": [{"key": "n", "value": {"intValue": "3"}}]})
    {'n': 3}
    """
    given = field(thing, "attributes")
    if isinstance(given, Mapping):  # a plain mapping, as some writers have it
        return {k: v for k, v in given.items() if isinstance(k, str)}
    found = {}
    for item in given if isinstance(given, list) else ():
        key = field(item, "key")
        if isinstance(key, str):
            found[key] = _value(field(item, "value"), 0)
    return found


def _value(value: Any, depth: int) -> Any:
    if not isinstance(value, Mapping):
        return value if isinstance(value, (str, int, float)) else None
    if depth > _DEPTH:
        return None
    for name in ("stringValue", "boolValue"):
        if (found := field(value, name)) is not None:
            return found if isinstance(found, (str, bool)) else None
    if (found := field(value, "intValue")) is not None:
        return integer(found)
    if (found := field(value, "doubleValue")) is not None:
        return number(found)
    if (found := field(value, "arrayValue")) is not None:
        return [_value(v, depth + 1) for v in items(found, "values")]
    if (found := field(value, "kvlistValue")) is not None:
        pairs = ((field(v, "key"), field(v, "value")) for v in items(found, "values"))
        return {k: _value(v, depth + 1) for k, v in pairs if isinstance(k, str)}
    return None


def integer(value: Any) -> int | None:
    """Give a 64-bit integer written as a number or as text; None for anything else.

    Examples
    --------
    >>> integer("12"), integer(12.0), integer("1.5"), integer(10**40)
    (12, 12, None, None)
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        if not _INTEGER.fullmatch(value.strip()):
            return None
        value = int(value)
    if isinstance(value, float):
        if not math.isfinite(value) or value != math.floor(value):
            return None
        value = int(value)
    if not isinstance(value, int) or not -_INT64 <= value < _INT64:
        return None
    return value


def number(value: Any) -> float | None:
    """Give a finite number written as a number or as text.

    Examples
    --------
    >>> number("1.5"), number(2), number("NaN")
    (1.5, 2.0, None)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        made = float(value)
    except (ValueError, OverflowError):
        return None
    return made if math.isfinite(made) else None


def time_ns(value: Any) -> int | None:
    """Give nanoseconds since the epoch; None for missing, which is 0 in OTLP.

    Raises
    ------
    ValueError
        If there is something that is no such time.

    Examples
    --------
    >>> time_ns("1544712660000000000"), time_ns("0"), time_ns(None)
    (1544712660000000000, None, None)
    """
    if value is None or value == "":
        return None
    at = _of_halves(value) if isinstance(value, Mapping) else integer(value)
    if at is None or at < 0:
        raise ValueError("no time in nanoseconds")
    return at or None


def _of_halves(value: Mapping[str, Any]) -> int | None:
    """Give an integer of 64 bits that JavaScript wrote as two of 32.

    Examples
    --------
    >>> _of_halves({"low": -1, "high": 1}), _of_halves({"low": 1})
    (8589934591, None)
    """
    low, high = integer(value.get("low")), integer(value.get("high"))
    if low is None or high is None:
        return None
    return integer((high & _HALF) << 32 | (low & _HALF))


def hex_id(value: Any, size: int) -> str | None:
    """Give an id of ``size`` bytes as lower-case hexadecimal; None if it is empty or all zeros.

    Examples
    --------
    >>> hex_id("EEE19B7EC3C1B174", 8), hex_id("7uGbfsPBsXQ=", 8), hex_id("0" * 16, 8)
    ('eee19b7ec3c1b174', 'eee19b7ec3c1b174', None)
    """
    if not isinstance(value, str) or not value.strip():
        return None
    text = value.strip()
    match = _HEX.fullmatch(text)
    if match:
        return match[1].lower() if match[1].strip("0") else None
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) == size:
        return raw.hex() if any(raw) else None
    return text[:64]


def status_of(span: Any) -> tuple[int, str | None]:
    """Give (0 unset, 1 ok, 2 error; -1 for anything else) and the message of a span's status."""
    status = field(span, "status")
    code, message = field(status, "code"), field(status, "message")
    text = message if isinstance(message, str) and message else None
    if code is None:
        return 0, text
    if isinstance(code, str) and not code.strip().isdigit():
        word = code.strip().lower().removeprefix("status_code_")
        return _STATUS.get(word, -1), text
    found = integer(code)
    return (found if found in (0, 1, 2) else -1), text
