"""Causes in the way files are read and written."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.planted import work
from benchmarks.planted.base import REAL, RealCause

if TYPE_CHECKING:
    from benchmarks.planted.real import Env

__all__: list[str] = []


def _draw_small(rng: random.Random, scale: float) -> dict[str, Any]:
    return {
        "files": rng.randrange(8, 12),
        "bytes": int(rng.randrange(5, 8) * scale * 1_000_000),
        "block": rng.choice((32, 40, 48, 64)),
        "seconds": rng.uniform(0.04, 0.08),
    }


def _write_files(place: Path, sizes: Mapping[str, Any]) -> None:
    place.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(sizes["bytes"])
    for number in range(sizes["files"]):
        (place / f"table-{number:03d}.bin").write_bytes(rng.bytes(sizes["bytes"]))


def _small(env: Env, sizes: Mapping[str, Any], on: bool) -> None:
    """Files read record by record; without the cause in large blocks."""
    paths = [
        str(env.inputs / "small_io" / f"table-{number:03d}.bin") for number in range(sizes["files"])
    ]
    block = sizes["block"] if on else 1 << 20
    env.finish(env.map(work.read_blocks, paths, block=block, seconds=sizes["seconds"]))


REAL["small_io"] = RealCause(
    "small_io",
    "files",
    _draw_small,
    _small,
    prepare=lambda place, sizes: _write_files(place / "small_io", sizes),
)


def _draw_many(rng: random.Random, scale: float) -> dict[str, Any]:
    return {
        "folders": rng.randrange(8, 11),
        "files": int(rng.randrange(3000, 4000) * scale),
        "bytes": rng.randrange(100, 400),
        "seconds": rng.uniform(0.04, 0.08),
    }


def _write_folders(place: Path, sizes: Mapping[str, Any]) -> None:
    for folder in range(sizes["folders"]):
        made = place / f"samples-{folder:02d}"
        made.mkdir(parents=True)
        content = bytes([folder]) * sizes["bytes"]
        for number in range(sizes["files"]):
            with open(made / f"s{number:05d}.txt", "wb", buffering=0) as file:
                file.write(content)
        (place / f"samples-{folder:02d}.pack").write_bytes(content * sizes["files"])


def _many(env: Env, sizes: Mapping[str, Any], on: bool) -> None:
    """A folder of thousands of tiny files a task; without the cause one file."""
    place = env.inputs / "metadata_io"
    folders = [str(place / f"samples-{folder:02d}") for folder in range(sizes["folders"])]
    if on:
        parts = env.map(work.read_folder, folders, seconds=sizes["seconds"])
    else:
        packs = [f"{folder}.pack" for folder in folders]
        parts = env.map(work.read_packed, packs, seconds=sizes["seconds"])
    env.finish(parts)


REAL["metadata_io"] = RealCause(
    "metadata_io",
    "files",
    _draw_many,
    _many,
    second=False,
    prepare=lambda place, sizes: _write_folders(place / "metadata_io", sizes),
)


def _draw_repeated(rng: random.Random, scale: float) -> dict[str, Any]:
    return {
        "count": rng.randrange(16, 24),
        "bytes": int(rng.randrange(130, 190) * scale) << 20,
        "seconds": rng.uniform(0.02, 0.05),
    }


def _write_reference(place: Path, sizes: Mapping[str, Any]) -> None:
    place.mkdir(parents=True, exist_ok=True)
    block = np.random.default_rng(3).bytes(4 << 20)
    with open(place / "reference.db", "wb") as file:
        for _ in range(max(1, sizes["bytes"] >> 22)):
            file.write(block)


def _repeated(env: Env, sizes: Mapping[str, Any], on: bool) -> None:
    """Each task reads the reference; without the cause each worker does, once."""
    path = str(env.inputs / "repeated_reads" / "reference.db")
    items = [(number, sizes["seconds"]) for number in range(sizes["count"])]
    tag = None if on else env.tag
    env.finish(env.map(work.with_reference, items, path=path, tag=tag))


REAL["repeated_reads"] = RealCause(
    "repeated_reads",
    "files",
    _draw_repeated,
    _repeated,
    prepare=lambda place, sizes: _write_reference(place / "repeated_reads", sizes),
)


def _draw_unread(rng: random.Random, scale: float) -> dict[str, Any]:
    return {
        "count": rng.randrange(10, 16),
        "bytes": int(rng.randrange(60, 100) * scale) << 20,
        "seconds": rng.uniform(0.04, 0.08),
    }


def _unread(env: Env, sizes: Mapping[str, Any], on: bool) -> None:
    """Each task writes a large file that nobody reads; without the cause it does not."""
    folder = str(env.folder("checkpoints"))
    items = [(number, sizes["seconds"], sizes["bytes"]) for number in range(sizes["count"])]
    env.finish(env.map(work.produce, items, folder=folder, write=on))


REAL["unread_outputs"] = RealCause("unread_outputs", "files", _draw_unread, _unread)
