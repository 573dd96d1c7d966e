"""Events of a trace file one after the other, whatever state the file is in.

The file may be an object with ``traceEvents`` or a bare list, cut at any byte, damaged in the
middle, or hold what PyTorch writes although JSON has no such thing (``nan``, ``inf``, single
backslashes in names). Text is read in pieces, so that memory does not grow with the file.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rotameter.errors import BadInput

if TYPE_CHECKING:
    from rotameter.adapters.importers.inputs import InputFile

__all__ = ["Events"]

_STEP = 1 << 13  # what a break in a packed file can cost at most
_PIECE = 4 << 20
_AHEAD = 1 << 20
_VALUE_LIMIT = 32 << 20
_HEADER_LIMIT = 200
_SPACE = re.compile(r"[ \t\r\n]*")
_COMMA = re.compile(r"[ \t\r\n]*,[ \t\r\n]*")
_EVENTS = re.compile(r'"traceEvents"\s{0,20}:\s{0,20}\[')
# Where the next event begins: an object in the list, so not one after a colon.
_NEXT = re.compile(r'[,}\]\[]\s{0,20}\{\s{0,20}"(?:ph|name|cat|pid|ts|args|id)"\s{0,20}:')
_BACKSLASH = re.compile(r'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_NOT_NUMBER = re.compile(r":\s{0,20}[-+]?(?:nan|inf|infinity|-nan\(ind\))(?=\s{0,20}[,}\]])", re.I)
# Microseconds since the epoch with a fraction: a float would lose the fraction.
_FINE_EPOCH = re.compile(rb'"ts"\s*:\s*"?\d{15,}\.\d')

Reject = Callable[[int, str], None]


class Events:
    """The events of one file, and what stands around them.

    Parameters
    ----------
    file : InputFile
    reject : callable
        Told line number and reason of each event that cannot be read.

    Attributes
    ----------
    header : dict
        The other entries of the file's object.
    broken : str or None
        Why the file ends early, if it does.
    """

    def __init__(self, file: InputFile, reject: Reject) -> None:
        self.header: dict[str, Any] = {}
        self.broken: str | None = None
        self._file, self._reject = file, reject
        self._text, self._at, self._ended = "", 0, False
        self._lines, self._counted = 1, 0  # the line at that place of the text
        self._raw: Any = None
        self._decoder: Any = None
        fine = _FINE_EPOCH.search(file_head(file)) is not None
        decoder: Any = json.JSONDecoder(strict=False, parse_float=Decimal if fine else None)
        self._decode = decoder.scan_once

    def __iter__(self) -> Iterator[Any]:
        """Give each event, in the file's order.

        Raises
        ------
        BadInput
            If the file holds no list of events.
        """
        with self._file.open() as stream:
            # Beneath the buffer: a buffer would throw away all that came before a break.
            self._raw = stream.raw
            self._fill(_AHEAD)
            self._skip()
            first = self._text[self._at : self._at + 1]
            if first == "[":
                self._at += 1
                yield from self._list()
            elif first == "{":
                self._at += 1
                yield from self._object()
            else:
                raise BadInput(
                    f"{self._file.name} is no trace: it begins with neither {{ nor [",
                    hint="give the JSON file that torch.profiler wrote",
                )

    # -- text ---------------------------------------------------------------------------------

    def _fill(self, ahead: int) -> None:
        """Have so many characters before us, if the file has them."""
        if self._ended or len(self._text) - self._at >= ahead:
            return
        parts, have = [], 0
        while have < max(ahead, _PIECE) and not self._ended:
            try:
                data = self._raw.read(_STEP)
            except BadInput as error:
                self._ended, self.broken = True, str(error)
                data = b""
            if not data:
                self._ended = True
            if self._decoder is None:
                wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
                kind = "utf-16" if wide else "utf-8-sig"
                errors = "replace" if wide else "surrogateescape"
                self._decoder = codecs.getincrementaldecoder(kind)(errors)
            parts.append(self._file.spelled(self._decoder.decode(data, final=self._ended)))
            have += len(parts[-1])
        _ = self.line
        self._text = self._text[self._at :] + "".join(parts)
        self._at = self._counted = 0

    @property
    def line(self) -> int:
        """The line at which the event given last begins."""
        self._lines += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._lines

    def _skip(self) -> None:
        self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]

    def _cut(self) -> None:
        if self.broken is None:
            self.broken = f"{self._file.name} is cut off in line {self.line:,}"

    # -- structure ----------------------------------------------------------------------------

    def _object(self) -> Iterator[Any]:
        """Go through the file's object; an unreadable entry is passed over."""
        found = False
        while True:
            self._fill(_AHEAD)
            self._skip()
            if self._text.startswith(",", self._at):
                self._at += 1
                continue
            if self._text.startswith("}", self._at):
                break
            key = self._key()
            if key == "traceEvents":
                found = True
                yield from self._list()
            elif key is None and not self._jump():
                break
            elif key is None:
                found = True
                yield from self._list()
        if not found:
            if self._ended and self.broken is None and not self._text[self._at :].strip():
                self._cut()
            raise BadInput(
                self.broken or f"{self._file.name} holds no traceEvents",
                hint="give the JSON file that torch.profiler wrote",
            )

    def _key(self) -> str | None:
        """Read one key, and its value unless that is the list of events; None = unreadable."""
        try:
            key, at = self._decode(self._text, self._at)
            at = _SPACE.match(self._text, at).end()  # type: ignore[union-attr]
            if not isinstance(key, str) or self._text[at : at + 1] != ":":
                return None
            at = _SPACE.match(self._text, at + 1).end()  # type: ignore[union-attr]
            if key == "traceEvents" and self._text[at : at + 1] == "[":
                self._at = at + 1
                return key
            value, at = self._decode(self._text, at)
        except (ValueError, StopIteration, RecursionError, ArithmeticError):
            return None
        self._at = at
        if len(self.header) < _HEADER_LIMIT:
            self.header[key] = value
        return key if key != "traceEvents" else ""

    def _jump(self) -> bool:
        """Go to the list of events over what cannot be read; False where there is none."""
        while True:
            match = _EVENTS.search(self._text, self._at)
            if match is not None:
                self._at = match.end()
                return True
            if self._ended:
                self._cut()
                self._at = len(self._text)
                return False
            self._at = max(self._at, len(self._text) - 100)
            self._fill(_AHEAD)

    def _list(self) -> Iterator[Any]:
        """Give what the list holds, up to its end or the file's."""
        decode = self._decode
        comma = _COMMA.match
        self._skip()
        while True:
            if not self._ended and len(self._text) - self._at < _AHEAD:
                self._fill(_AHEAD)
                self._skip()
            try:
                value, at = decode(self._text, self._at)
            except (ValueError, StopIteration, RecursionError, ArithmeticError):
                if self._text.startswith("]", self._at):  # empty, or a comma before the end
                    self._at += 1
                    return
                if self._text.startswith(",", self._at):
                    self._at += 1
                    self._skip()
                    continue
                value = self._repair()
                if value is _END:
                    return
                if value is not _NOTHING:
                    yield value
                continue
            yield value
            match = comma(self._text, at)
            if match is not None:
                self._at = match.end()
                continue
            self._at = at
            self._skip()
            if self._text.startswith("]", self._at):
                self._at += 1
                return
            if self._at >= len(self._text):
                if not self._ended:
                    continue
                self._cut()
                return

    def _repair(self) -> Any:
        """Read an event that is not quite JSON, or refuse it; then stand at the next one."""
        while True:
            match = _NEXT.search(self._text, self._at + 1)
            if match is not None or self._ended or len(self._text) - self._at > _VALUE_LIMIT:
                break
            self._fill(2 * (len(self._text) - self._at))
        line = self.line
        end = len(self._text) if match is None else match.start() + 1
        piece = self._text[self._at : end]
        fixed = _NOT_NUMBER.sub(": null", _BACKSLASH.sub(r"\\\\", piece))
        last = match is None
        self._at = end
        try:
            value, used = self._decode(fixed, 0)
        except (ValueError, StopIteration, RecursionError, ArithmeticError):
            if piece.strip(" \t\r\n,]}"):
                if last and self._ended:
                    self._cut()
                self._reject(line, "cut off" if last and self._ended else "not JSON")
            elif last and self._ended:
                self._cut()
            self._skip_comma()
            return _END if last and self._ended else _NOTHING
        if last:  # go on in the rest of the piece: the list's end may be there
            self._lines += piece.count("\n") - fixed.count("\n", used)
            self._text, self._at, self._counted = fixed[used:], 0, 0
            if not self._text.strip() and self._ended:
                self._cut()
        self._skip_comma()
        return value

    def _skip_comma(self) -> None:
        match = _COMMA.match(self._text, self._at)
        if match is not None:
            self._at = match.end()
        else:
            self._skip()


_END = object()
_NOTHING = object()


def file_head(file: InputFile) -> bytes:
    """Give the first bytes of a file, or none where it cannot be opened."""
    try:
        return file.head
    except BadInput:
        return b""
