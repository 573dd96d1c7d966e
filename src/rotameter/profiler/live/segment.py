"""The live record form: framed, checksummed, append-only, readable after a kill -9.

A segment is the 8 bytes of :data:`MAGIC` and then frames. A frame is a 12-byte header (marker,
payload length, CRC-32 of the payload) and a msgpack payload ``[table, columns, values]`` with
``values`` column by column. A frame stands alone, so frames can travel from a worker to the
client and be written there. The table ``meta`` holds one JSON-like mapping a row.

Only the standard library and msgpack (a dependency of distributed itself) are used here.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgpack

__all__ = [
    "MAGIC",
    "STOP_MARK",
    "Frame",
    "SegmentRead",
    "decode_payload",
    "encode_frame",
    "read_segment",
]

MAGIC = b"RMTSEG1\n"
STOP_MARK = "stopped"
"""The file beside the segments that tells children that their trace has ended."""
_MARKER = b"RMF\x01"
_HEADER = struct.Struct("<4sII")
_MAX_PAYLOAD_BYTES = 1 << 30


class Frame(NamedTuple):
    """One decoded batch of records: ``values`` has one sequence per column."""

    table: str
    columns: tuple[str, ...]
    values: list[Sequence[Any]]

    @property
    def rows(self) -> int:
        """Number of records in the batch."""
        return len(self.values[0]) if self.values else 0


class SegmentRead(NamedTuple):
    """What could be read of a segment and what could not."""

    frames: list[Frame]
    records: int
    torn_bytes: int
    foreign: bool


def _pack(obj: Any) -> bytes:
    packed: bytes = msgpack.packb(obj, use_bin_type=True, unicode_errors="replace")
    return packed


def encode_frame(table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> bytes:
    """Encode rows of one table as one frame.

    Parameters
    ----------
    table : str
        A table of the schema, or ``"meta"``.
    columns : sequence of str, shape (n_columns,)
        The columns that the rows fill; the others are null.
    rows : sequence of tuples, shape (n_rows, n_columns)
        Plain values: int, float, str, bool, None, or a dict of numbers.

    Returns
    -------
    bytes

    Raises
    ------
    ValueError
        If a value cannot be packed.

    Examples
    --------
    >>> frame = encode_frame("deps", ("task_id", "depends_on"), [("b", "a")])
    >>> read_segment(MAGIC + frame).frames[0].values
    [['b'], ['a']]
    """
    values = list(zip(*rows, strict=True))
    if len(values) != len(columns):
        raise ValueError(f"{len(columns)} columns, {len(values)} values a row")
    try:
        payload = _pack([table, list(columns), values])
    except (TypeError, OverflowError) as error:
        raise ValueError(str(error)) from None
    return _HEADER.pack(_MARKER, len(payload), zlib.crc32(payload)) + payload


def decode_payload(payload: bytes) -> Frame:
    """Decode the payload of one frame; ``ValueError`` when it is not one."""
    try:
        table, columns, values = msgpack.unpackb(payload, raw=False, strict_map_key=False)
        frame = Frame(table, tuple(columns), values)
        ok = isinstance(table, str) and len(columns) == len(values)
        ok = ok and all(isinstance(v, list) and len(v) == frame.rows for v in values)
    except Exception as error:
        raise ValueError(f"not a frame: {error}") from None
    if not ok:
        raise ValueError("not a frame: columns and values differ in number")
    return frame


def _payloads(data: bytes) -> Iterator[bytes | int]:
    """Yield payloads, and integers: bytes that had to be skipped."""
    at, end = len(MAGIC), len(data)
    while at < end:
        if end - at >= _HEADER.size:
            marker, size, crc = _HEADER.unpack_from(data, at)
            start = at + _HEADER.size
            if marker == _MARKER and size <= _MAX_PAYLOAD_BYTES and start + size <= end:
                payload = data[start : start + size]
                if zlib.crc32(payload) == crc:
                    yield payload
                    at = start + size
                    continue
        following = data.find(_MARKER, at + 1)
        following = end if following < 0 else following
        yield following - at
        at = following


def read_segment(data: bytes) -> SegmentRead:
    """Read all whole frames of a segment; a torn tail or a bad frame is skipped and counted.

    Examples
    --------
    >>> data = MAGIC + encode_frame("deps", ("task_id", "depends_on"), [("b", "a")])
    >>> read_segment(data[:-1]).records, read_segment(data[:-1]).torn_bytes > 0
    (0, True)
    """
    if data[: len(MAGIC)] != MAGIC:
        torn = MAGIC.startswith(data)
        return SegmentRead([], 0, len(data), foreign=not torn)
    frames: list[Frame] = []
    torn_bytes = 0
    for item in _payloads(data):
        if isinstance(item, int):
            torn_bytes += item
            continue
        try:
            frames.append(decode_payload(item))
        except ValueError:
            torn_bytes += len(item)
    return SegmentRead(frames, sum(f.rows for f in frames), torn_bytes, foreign=False)
