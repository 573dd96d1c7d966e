"""Whether a text file ends inside its last line: it may have been cut there.

A trace and a benchmark are written line by line, so that a last line without an end, where the
others have one, is mostly one that is not all there (a full disk, a copy broken off).
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder
    from rotameter.adapters.importers.inputs import InputFile

__all__ = ["End", "watch"]

_ENDS = (b"\n", b"\r", b"\n\0", b"\r\0")


class End:
    """What is known of a file's end once it has been read."""

    def __init__(self) -> None:
        self.tail = b""
        self.text = ""
        """The last line."""
        self.lines = 0

    def is_open(self, row: Mapping[str, Any]) -> bool:
        """Say whether the file ends without a line's end, in the last value of this row."""
        if self.lines < 2 or not self.tail or self.tail.endswith(_ENDS):
            return False
        text = self.text.strip()
        return bool(text) and text.endswith(str(list(row.values())[-1]).rpartition("\n")[2].strip())

    def say(self, column: str, cut: bool | None, build: Builder) -> None:
        """Warn of the last value, of which it is known or not (None) whether it is cut."""
        if cut:
            build.warn(
                "the last line has no end, and its last value is cut: "
                f"{column} of that row is left unknown; copy the file again"
            )
        elif cut is None:
            build.warn(
                "the last line has no end: it may be cut, its last value "
                f"({column}) with it; copy the file again"
            )


class _Watched(io.RawIOBase):
    """Passes bytes on and keeps the last of them."""

    def __init__(self, raw: IO[bytes], end: End) -> None:
        self._raw, self._end = raw, end
        self._read = getattr(raw, "read1", raw.read)
        end.tail = b""

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read what fits, and keep the last of it."""
        data = self._read(len(buffer))
        if data:
            self._end.tail = (self._end.tail + data[-4:])[-4:]
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close what the bytes come from."""
        self._raw.close()
        super().close()


def watch(file: InputFile) -> tuple[Any, End]:
    """Give the file with a note of how it ends; the note is true once all lines were read."""
    end = End()
    opener = file.opener

    def opened() -> IO[bytes]:
        """Open the file anew."""
        return _Watched(opener(), end)  # type: ignore[return-value]

    return _Lines(replace(file, opener=opened), end), end


class _Lines:
    """A file's name and lines, the last of which is noted."""

    def __init__(self, file: InputFile, end: End) -> None:
        self.name, self._file, self._end = file.name, file, end

    def lines(self) -> Iterator[tuple[int, str]]:
        """Give the number and text of each line."""
        for number, line in self._file.lines():
            self._end.text, self._end.lines = line, number
            yield number, line
