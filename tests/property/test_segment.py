"""Whatever is cut or flipped, a segment gives back whole records only, and never raises."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rotameter.profiler.live.segment import MAGIC, encode_frame, read_segment

_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=20),
    st.dictionaries(st.text(max_size=5), st.floats(allow_nan=False), max_size=3),
)
_rows = st.lists(st.tuples(_values, _values), min_size=1, max_size=5)
_batches = st.lists(_rows, min_size=1, max_size=5)


def _segment(batches: list[list[tuple[Any, Any]]]) -> bytes:
    return MAGIC + b"".join(encode_frame("tasks", ("a", "b"), rows) for rows in batches)


def _rows_of(data: bytes) -> list[tuple[Any, Any]]:
    return [row for frame in read_segment(data).frames for row in zip(*frame.values, strict=True)]


@given(_batches)
def test_round_trip(batches: list[list[tuple[Any, Any]]]) -> None:
    clean = [
        [
            tuple(v.encode("utf-8", "replace").decode() if isinstance(v, str) else v for v in row)
            for row in rows
        ]
        for rows in batches
    ]
    assert _rows_of(_segment(clean)) == [row for rows in clean for row in rows]


@given(_batches, st.data())
def test_cut_anywhere_keeps_the_whole_frames_before(
    batches: list[list[tuple[Any, Any]]], data: st.DataObject
) -> None:
    whole = _segment(batches)
    cut = data.draw(st.integers(0, len(whole)))
    kept = _rows_of(whole[:cut])
    everything = _rows_of(whole)
    assert kept == everything[: len(kept)]
    sizes = [len(encode_frame("tasks", ("a", "b"), rows)) for rows in batches]
    whole_frames = [i for i in range(len(sizes) + 1) if len(MAGIC) + sum(sizes[:i]) <= cut]
    expected = sum(len(rows) for rows in batches[: max(whole_frames, default=0)])
    assert len(kept) == expected


@settings(max_examples=300)
@given(_batches, st.data())
def test_flipped_bytes_lose_frames_but_invent_none(
    batches: list[list[tuple[Any, Any]]], data: st.DataObject
) -> None:
    whole = bytearray(_segment(batches))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(len(MAGIC), len(whole) - 1))
        whole[at] ^= data.draw(st.integers(1, 255))
    read = read_segment(bytes(whole))
    originals = [encode_frame("tasks", ("a", "b"), rows) for rows in batches]
    for frame in read.frames:
        assert (
            encode_frame("tasks", frame.columns, list(zip(*frame.values, strict=True))) in originals
        )


@given(st.binary(max_size=300))
def test_any_bytes_are_survived(data: bytes) -> None:
    for given_data in (data, MAGIC + data):
        read = read_segment(given_data)
        assert read.records == sum(frame.rows for frame in read.frames)
        assert 0 <= read.torn_bytes <= len(given_data)
        assert read.frames or read.torn_bytes or given_data in (b"", MAGIC)
