"""Bytes of a ``sacct`` listing as blocks of lines, and lines that are one row each as columns.

Arrow reads all lines of a block that have the right number of fields and a job id at once; the
others go to the part that puts records together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import methodcaller
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from rotameter.adapters.importers._slurm_columns import Layout
from rotameter.adapters.importers._slurm_values import JOB_ID
from rotameter.errors import BadInput

if TYPE_CHECKING:
    from rotameter.adapters.importers.inputs import InputFile

__all__ = ["BLOCK_BYTES", "Rows", "after", "blocks", "fast", "from_lists"]

BLOCK_BYTES = 8 << 20
_LINE_LIMIT_BYTES = 32 << 20
_ARROW_ID = "^(?:" + JOB_ID.pattern + ")$"


@dataclass(slots=True)
class Rows:
    """Rows of one layout: a text column a field, and the line of each row."""

    columns: dict[str, pa.Array]
    lines: np.ndarray[tuple[int], np.dtype[np.int64]]


def blocks(file: InputFile) -> Iterator[tuple[int, bytes]]:
    """Give (number of the first line, whole lines) as UTF-8 with plain ends."""
    number, carry = 1, b""
    utf16 = file.head[:2] in (b"\xff\xfe", b"\xfe\xff")
    with file.open() as stream:
        first = True
        while True:
            data = file.read_text().encode("utf-8") if utf16 else stream.read(BLOCK_BYTES)
            if first:
                data = data.removeprefix(b"\xef\xbb\xbf")
                first = False
            last = utf16 or not data
            carry += data
            cut = len(carry) if last else carry.rfind(b"\n") + 1
            if cut == 0 and len(carry) > _LINE_LIMIT_BYTES:
                if b"\r" not in carry:
                    raise BadInput(f"{file.name}: a line is too long", hint="check the file")
                cut = carry.rfind(b"\r") + 1
            block, carry = _plain(carry[:cut], file), carry[cut:]
            if block:
                yield number, block
                number += block.count(b"\n")
            if last:
                return


def _plain(block: bytes, file: InputFile) -> bytes:
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if b"\0" in block:
        block = block.replace(b"\0", b"")
    try:
        block.decode("utf-8")
    except UnicodeDecodeError:
        block = file.spelled(block.decode("utf-8", "surrogateescape")).encode("utf-8")
    return block


def after(block: bytes, lines: int) -> bytes:
    at = 0
    for _ in range(lines):
        at = block.find(b"\n", at) + 1
        if at == 0:
            return b""
    return block[at:]


def fast(
    layout: Layout, number: int, lines: list[bytes], mark: bytes
) -> tuple[Rows | None, list[tuple[int, bytes]]]:
    """Read the lines that are one row each, all at once; give the others back.

    A line before one that is no row may go on there: it is given back too, as is the last one.
    """
    count, wide = len(lines), len(layout.names)
    fields = np.fromiter(map(methodcaller("count", mark), lines), np.int64, count) + 1
    filled = np.fromiter(map(bool, lines), bool, count)
    for have in (wide, wide + 1):
        regular = fields == have
        if have > 1 and regular.sum() > 0.3 * count:
            break
    else:
        return None, _left(lines, number, filled)
    table = _arrow(layout, [lines[i] for i in np.flatnonzero(regular).tolist()], mark, have)
    if table is None:
        return None, _left(lines, number, filled)
    ids = pc.utf8_trim_whitespace(table[layout.names[layout.job]])
    good = pc.match_substring_regex(ids, _ARROW_ID)
    if have > wide:
        good = pc.and_(good, pc.equal(table["spare"], ""))
    good = good.to_numpy(zero_copy_only=False)
    at = np.flatnonzero(regular)
    regular[at[~good]] = False
    odd = filled & ~regular
    if any(b"jobid" in lines[i].lower() for i in np.flatnonzero(odd).tolist()):
        return None, _left(lines, number, filled)  # another header may be among them
    next_to = np.append(np.flatnonzero(odd), np.flatnonzero(filled)[-1] + 1 if filled.any() else 0)
    alone = np.ones(count + 1, dtype=bool)
    alone[np.maximum(next_to - 1, 0)] = False
    if any(i < layout.job for i in layout.free):  # text before the id may begin a line earlier
        alone[np.flatnonzero(odd) + 1] = False
    taken = regular & alone[:count]
    keep = pa.array(taken[at])
    columns = {f: table[f].filter(keep) for f in layout.names if f}
    rows = Rows(columns, np.flatnonzero(taken) + number) if taken.any() else None
    return rows, _left(lines, number, filled & ~taken)


def _left(lines: list[bytes], number: int, mask: Any) -> list[tuple[int, bytes]]:
    return [(i + number, lines[i]) for i in np.flatnonzero(mask).tolist()]


def _arrow(layout: Layout, lines: list[bytes], mark: bytes, have: int) -> Any:
    names = [name or f"#{i}" for i, name in enumerate(layout.names)]
    names += ["spare"] * (have - len(names))
    block = b"\n".join(lines) + b"\n"
    try:
        table = pv.read_csv(
            pa.py_buffer(block),
            read_options=pv.ReadOptions(
                column_names=names, use_threads=False, block_size=len(block) + 2
            ),
            parse_options=pv.ParseOptions(
                delimiter=mark.decode(), quote_char=False, double_quote=False
            ),
            convert_options=pv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                include_columns=[name for name in names if name[0] != "#"],
                strings_can_be_null=False,
            ),
        )
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return None
    if table.num_rows != len(lines):
        return None
    return {name: table[name].combine_chunks() for name in table.column_names}


def from_lists(
    names: Sequence[str], rows: Sequence[Sequence[str]], lines: Sequence[int]
) -> Rows | None:
    """Make rows of lists of fields."""
    if not rows:
        return None
    turned = zip(*rows, strict=True)
    columns = {
        name: _text_array(values) for name, values in zip(names, turned, strict=True) if name
    }
    return Rows(columns, np.array(lines, dtype=np.int64))


def _text_array(values: Sequence[str]) -> pa.Array:
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:  # a lone surrogate
        return pa.array([v.encode("utf-8", "replace").decode() for v in values], pa.string())
