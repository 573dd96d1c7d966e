"""The checks that every importer must pass; raise `AssertionError` where one fails."""

from __future__ import annotations

import gzip
import random
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rotameter.errors import RotameterError
from rotameter.values import Head

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = ["check_importer", "import_bytes"]


def import_bytes(make: Callable[[], Any], files: Mapping[str, bytes], **options: Any) -> Trace:
    """Import files given as bytes, without sniffing; ``files`` maps names to contents."""
    from rotameter.adapters.importers.building import Builder
    from rotameter.adapters.importers.inputs import open_members

    importer = make()
    build = Builder(importer.name, importer.engine)
    with tempfile.TemporaryDirectory() as place:
        for name, data in files.items():
            path = Path(place) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            for file in open_members(path):
                importer.read(file, build, **options)
                build.files += 1
        importer.finish(build)
        return build.build()


def _same(a: Trace, b: Trace) -> bool:
    from rotameter.profiler.schema import TABLES

    names = [name for name in TABLES if name != "rejects"]  # those name the file
    return all(a.table(name).equals(b.table(name)) for name in names)


def _kept(trace: Trace, name: str) -> None:
    records = trace.meta["importer"]["records"]
    out = records["out"] + records["merged"] + records["rejected"]
    assert records["in"] == out, f"{name}: records in {records['in']}, accounted for {out}"


def check_importer(
    make: Callable[[], Any], samples: Mapping[str, bytes], *, text: bool = True, cuts: int = 40
) -> None:
    """Check an importer on whole samples, each importable on its own.

    Sniffing knows each sample and nothing else; records in are records out, merged or rejected;
    a second import is the same; packing, line ends and a byte order mark change nothing; a
    sample cut or garbled at any place is imported in part or refused, never anything else.

    Parameters
    ----------
    make : callable
        Gives a new importer.
    samples : mapping of str to bytes
        File name → content.
    text : bool
        Whether the format is text.
    cuts : int
        Number of places at which each sample is cut and garbled.
    """
    assert samples, "give at least one sample"
    importer = make()
    assert importer.name and importer.engine and isinstance(importer.options, frozenset)
    rng = random.Random(0)
    foreign = [b"", b"\n", b"{}", b"[]", b"hello world", rng.randbytes(4096)]
    for data in foreign:
        sure = importer.sniff(Head("some.txt", data))
        assert sure < 0.5, f"{importer.name} takes {data[:20]!r} for its own ({sure})"
    for name, data in samples.items():
        sure = importer.sniff(Head(name, data[: 1 << 16]))
        assert sure >= 0.5, f"{importer.name} does not know {name} ({sure})"
        trace = import_bytes(make, {name: data})
        _kept(trace, name)
        assert _same(trace, import_bytes(make, {name: data})), f"{name}: two imports differ"
        variants = {f"{name}.gz": gzip.compress(data)}
        if text:
            plain = data.replace(b"\r\n", b"\n")
            variants[name] = b"\xef\xbb\xbf" + plain.replace(b"\n", b"\r\n")
        for variant, content in variants.items():
            again = import_bytes(make, {variant: content})
            assert _same(trace, again), f"{variant}: packing or line ends change the result"
        _check_damage(make, name, data, rng, cuts)


def _check_damage(
    make: Callable[[], Any], name: str, data: bytes, rng: random.Random, cuts: int
) -> None:
    for _ in range(cuts):
        at = rng.randrange(len(data) + 1)
        garbled = bytearray(data)
        for _ in range(rng.randrange(1, 5)):
            if garbled:
                garbled[rng.randrange(len(garbled))] = rng.randrange(256)
        for content in (data[:at], bytes(garbled), data[at:], data[:at] + data):
            try:
                _kept(import_bytes(make, {name: content}), name)
            except RotameterError:
                continue
