from __future__ import annotations

import base64
import gzip
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotameter.viz.payload import pack, pack_text, script_json


def _unpack(packed: dict[str, object]) -> list[int]:
    raw = gzip.decompress(base64.b64decode(str(packed["data"])))
    count, width = int(str(packed["n"])), int(str(packed["width"]))
    planes = np.frombuffer(raw, np.uint8).reshape(width, count)
    return [sum(int(planes[k, i]) << (8 * k) for k in range(width)) for i in range(count)]


@given(st.lists(st.integers(0, 2**32 - 1), max_size=50))
def test_planes_join_to_the_same_numbers(values: list[int]) -> None:
    assert _unpack(pack(np.array(values, dtype=np.uint32))) == values


def test_packing_is_the_same_each_time() -> None:
    values = np.arange(1000, dtype=np.uint32)
    assert pack(values) == pack(values)


def test_signed_and_wide_numbers_are_refused() -> None:
    for kind in (np.int64, np.uint64, np.float32):
        with pytest.raises(TypeError, match="unsigned"):
            pack(np.zeros(3, dtype=kind))


def test_text_comes_back() -> None:
    packed = pack_text(["a", "", "🦀"])
    assert gzip.decompress(base64.b64decode(packed["data"])).decode() == "a\n\n🦀"


@given(st.text())
def test_json_cannot_leave_its_script_element(text: str) -> None:
    written = script_json({"text": text.encode("utf-8", "replace").decode()})
    assert not set("<>&\u2028\u2029") & set(written)
    assert json.loads(written)["text"] == text.encode("utf-8", "replace").decode()
