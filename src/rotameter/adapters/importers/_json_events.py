"""Events out of JSON that may be cut, concatenated or damaged: what is whole is read, in a stream.

For formats whose file is a list of objects, bare (``[{…}, {…}`` with or without the closing
bracket), under a key of one object, or one object a line. Memory is bounded by the largest single
value, not by the file.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from decimal import Decimal, DecimalException
from typing import TYPE_CHECKING, Any, NamedTuple

from rotameter.adapters.importers.inputs import spelled
from rotameter.errors import BadInput

if TYPE_CHECKING:
    from rotameter.adapters.importers.inputs import InputFile

__all__ = ["Damage", "EventReader", "exact_float"]

_CHUNK_BYTES = 1 << 20
_VALUE_LIMIT = 64 << 20
_ATTEMPTS = 20_000
_EXACT_DIGITS = 16
_BLANK = re.compile(r"[\s,\x00\ufeff]*")
_COLON = re.compile(r"\s*:")
_OBJECT = re.compile(r'\{\s*"')
_NEAR_END = 16
_DEPTH = 50


def exact_float(text: str) -> Any:
    """Read a decimal number; one with more digits than a float holds stays a ``Decimal``."""
    if len(text) <= _EXACT_DIGITS:
        return float(text)
    try:
        return Decimal(text)
    except DecimalException:
        return float("nan")


def _spelled(value: Any, depth: int = 0) -> Any:
    if isinstance(value, str):
        return spelled(value)
    if depth < _DEPTH and isinstance(value, dict):
        return {spelled(key): _spelled(one, depth + 1) for key, one in value.items()}
    if depth < _DEPTH and isinstance(value, list):
        return [_spelled(one, depth + 1) for one in value]
    return value


class Damage(NamedTuple):
    """A stretch that is no JSON: its line, first and end byte, whether the file's end cuts it."""

    line: int
    first: int
    end: int
    cut: bool


class _Bad(Exception):
    """No JSON value here; ``cut`` when more text might have made it one."""

    def __init__(self, cut: bool) -> None:
        super().__init__()
        self.cut = cut


class EventReader:
    """Iterates over the objects of a list of events.

    Parameters
    ----------
    file : InputFile
        The file.
    key : str
        Name of the list in the object form.
    mark : str
        A key that every event has: how events are known after damage, and in the form of one
        object a line.

    Attributes
    ----------
    header : dict
        The other keys of the object form.
    damage : list of Damage
        What could not be read.
    lists : int
        Lists of events seen; more than one in concatenated files.
    closed : bool
        Whether the last list and object were closed.
    broken : str or None
        What is wrong with the packing, if it is damaged: the events before that are read.
    """

    def __init__(self, file: InputFile, key: str = "traceEvents", mark: str = "ph") -> None:
        self.header: dict[str, Any] = {}
        self.damage: list[Damage] = []
        self.lists = 0
        self.closed = True
        self.object_form = False
        self.broken: str | None = None
        self._key, self._mark = key, mark
        self._utf16 = file.head[:2] in (b"\xff\xfe", b"\xfe\xff")
        errors = "replace" if self._utf16 else "surrogateescape"
        decoder = codecs.getincrementaldecoder("utf-16" if self._utf16 else "utf-8")
        self._decoder = decoder(errors)
        self._file, self._stream = file, file.open()
        self._raw = False
        self._text, self._at, self._start = "", 0, 0
        self._bytes, self._lines = 0, 0
        self._counted = (0, 0)
        self._ended = False
        self._attempts = 0
        decoding: Any = json.JSONDecoder(strict=False, parse_float=exact_float)
        self._scan = decoding.scan_once

    # -- where we are -------------------------------------------------------------------------

    @property
    def line(self) -> int:
        """Line of the current event, from 1."""
        at, lines = self._counted
        if at > self._start:
            at, lines = 0, 0
        lines += self._text.count("\n", at, self._start)
        self._counted = (self._start, lines)
        return self._lines + lines + 1

    def _byte(self, at: int) -> int:
        return self._bytes + self._size(self._text[:at])

    def _size(self, text: str) -> int:
        if self._utf16:
            return len(text.encode("utf-16-le", "surrogatepass"))
        return len(text.encode("utf-8", "surrogateescape"))

    # -- text ---------------------------------------------------------------------------------

    def _grow(self) -> bool:
        """Drop what is done and read on; False at the end of the file."""
        if self._ended:
            return False
        done = self._text[: self._at]
        self._bytes += self._size(done)
        self._lines += done.count("\n")
        rest = self._text[self._at :]
        data = self._more(max(_CHUNK_BYTES, len(rest)))
        text = self._decoder.decode(data, final=self._ended)
        # Kept as they are, so that bytes can be counted; spelled as they are given.
        self._raw |= not text.isascii() and self._file.spelled(text) is not text
        self._text = rest + text
        self._at, self._start, self._counted = 0, 0, (0, 0)
        return True

    def _more(self, size: int) -> bytes:
        """Read on; where the packing is damaged, what came before it still counts."""
        parts: list[bytes] = []
        while size > 0 and not self._ended:
            try:
                part = self._stream.read1(size)
            except BadInput as error:
                if " is damaged " not in str(error):
                    raise
                self.broken, part = str(error), b""
            self._ended = not part
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _peek(self) -> str:
        """Give the next character that is not blank, or '' at the end."""
        while True:
            match = _BLANK.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._grow():
                return ""

    def _value(self) -> Any:
        """Read one JSON value from here on."""
        self._start = self._at
        while True:
            text, cut = self._text, False
            try:
                value, end = self._scan(text, self._at)
            except StopIteration as error:
                cut = int(error.value) >= len(text) - _NEAR_END
            except json.JSONDecodeError as error:
                cut = error.pos >= len(text) - _NEAR_END or error.msg.startswith("Unterminated")
            except (ValueError, RecursionError):  # a number of thousands of digits; nesting
                cut = False
            else:
                if end < len(text) or self._ended:
                    self._at = end
                    return value
                cut = True
            small = len(text) - self._at < _VALUE_LIMIT
            if not (cut and small and self._grow()):
                raise _Bad(cut and self._ended)

    def _recover(self, cut: bool) -> Any:
        """Look for the next whole event after damage; None at the end of the file."""
        line, first = self.line, self._byte(self._start)
        self._at = self._start + 1
        while self._attempts < _ATTEMPTS:
            match = _OBJECT.search(self._text, self._at)
            if match is None:
                self._at = max(self._at, len(self._text) - _NEAR_END)
                if not self._grow():
                    break
                continue
            self._attempts += 1
            self._at = match.start()
            try:
                found = self._value()
            except _Bad:
                self._at = self._start + 1
                continue
            if isinstance(found, dict) and self._mark in found:
                self.damage.append(Damage(line, first, self._byte(self._start), False))
                return found
        self._at = len(self._text)
        end = self._byte(self._at)
        while self._attempts >= _ATTEMPTS and self._grow():
            self._at = len(self._text)
            end = self._byte(self._at)
        self.damage.append(Damage(line, first, end, cut))
        return None

    # -- structure ----------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        for value in self._values():
            yield _spelled(value) if self._raw else value
        if self._raw:
            self.header = _spelled(self.header)

    def _values(self) -> Iterator[Any]:
        try:
            while mark := self._peek():
                if mark == "[":
                    self._at += 1
                    yield from self._list()
                elif mark == "{":
                    yield from self._object()
                elif mark in "]}":
                    self._at += 1
                else:
                    yield from self._after(False)
        finally:
            self._stream.close()

    def _after(self, cut: bool) -> Iterator[Any]:
        found = self._recover(cut)
        if found is not None:
            yield found
            yield from self._list()

    def _list(self) -> Iterator[Any]:
        self.lists += 1
        while True:
            mark = self._peek()
            if not mark:
                self.closed = False
                return
            if mark == "]":
                self._at += 1
                return
            try:
                value = self._value()
            except _Bad as bad:
                value = self._recover(bad.cut)
                if value is None:
                    return
            yield value

    def _object(self) -> Iterator[Any]:
        """Read the object form, or one object that is an event itself."""
        found: dict[str, Any] = {}
        opened, self._at = self._at, self._at + 1
        while True:
            mark = self._peek()
            if not mark:
                self.closed = False
                break
            if mark == "}":
                self._at += 1
                break
            try:
                name = self._name()
                if name == self._key and self._peek() == "[":
                    self.object_form = True
                    self.header.update(found)
                    self._at += 1
                    yield from self._list()
                    continue
                self._peek()
                found[name] = self._value()
            except _Bad as bad:
                yield from self._after(bad.cut)
                break
        if self._mark in found:
            self._start = min(opened, self._at)
            yield found
        else:
            self.header.update(found)

    def _name(self) -> str:
        name = self._value()
        while True:
            match = _COLON.match(self._text, self._at)
            if match is not None:
                self._at = match.end()
                break
            if self._text[self._at :].strip() or not self._grow():
                raise _Bad(self._ended and not self._text[self._at :].strip())
        if not isinstance(name, str):
            raise _Bad(False)
        return name
