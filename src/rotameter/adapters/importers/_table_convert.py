"""From the chunks of a table to rows of ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Mapped
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.adapters.importers._table_clock import Clocks, Durations
from rotameter.adapters.importers._table_derive import (
    begins_bare,
    between,
    edges,
    maps,
    peaks,
    split_ends,
)
from rotameter.adapters.importers._table_mapping import Candidate, Mapping, plan
from rotameter.adapters.importers._table_names import (
    SHORT_UNITS,
    UNITS,
    also,
    is_not,
    kind_of,
    word_of,
)
from rotameter.adapters.importers._table_outcomes import (
    decode_exit,
    ended_at_limit,
    outcome_of,
)
from rotameter.adapters.importers._table_plain import booleans, exact_ints, without_nan
from rotameter.adapters.importers._table_rows import Chunk
from rotameter.adapters.importers._table_secrets import clean_texts, safe_name
from rotameter.adapters.importers._table_styles import Styles
from rotameter.adapters.importers._table_times import DAYS, ROUNDED, in_zone, serial_days, times
from rotameter.adapters.importers._table_values import (
    Read,
    Style,
    amounts,
    as_text,
    durations,
    numbers,
    shares,
)
from rotameter.adapters.importers._table_walls import Walls, unended
from rotameter.errors import UsageError
from rotameter.profiler.live.redact import redact

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rotameter.adapters.importers.building import Builder

__all__ = ["Converter", "Made"]

_BYTES_LIMIT = float(1 << 53)  # 9 PB; what a float holds exactly
_ESSENTIAL = frozenset(("started_ns", "ended_ns", "submitted_ns", "ready_ns", "wall_s"))
_NO_VALUES = frozenset(("outcome", "outcome_kind", "error", "peak_memory_kind", "peak_disk_kind"))
_DECIMAL = frozenset(("kb", "mb", "gb", "tb"))
_LOOKED = 1_000
_SAID = {
    "time": "time", "seconds": "duration", "bytes": "size", "number": "number",
    "int": "whole number", "bool": "yes or no", "map": "map of numbers",
}  # fmt: skip


class Made:
    """What became of one chunk: columns of ``tasks``, the edges, and the rows refused."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.columns: dict[str, pa.Array] = {}
        self.features: dict[str, pa.Array] = {}
        self.edges: list[list[str]] = []
        self.wrong: dict[int, str] = {}
        self.unread: dict[int, str] = {}


class Converter:
    """Turns the chunks of one file into columns of ``tasks``.

    Parameters
    ----------
    mapping : Mapping
        What is used.
    given : frozenset of str
        Targets that the user named.
    auto : bool
        Whether well-known names are taken where the mapping says nothing.
    style : Style
        How numbers are written.
    build : Builder
        Takes the warnings.
    """

    def __init__(
        self, mapping: Mapping, given: frozenset[str], *, auto: bool, style: Style, build: Builder
    ) -> None:
        self.mapping, self.given, self.auto = mapping, given, auto
        self.style, self.build = style, build
        self.zoned = self.local = self.relative = False
        self.used: dict[str, tuple[Candidate, ...]] = {}
        self._plans: dict[tuple[str, ...], dict[str, tuple[Candidate, ...]]] = {}
        self._time_units: dict[str, str] = {}
        self._from_start: set[str] = set()
        self._rounded: dict[str, str] = {}
        self._said: set[str] = set()
        self._left: dict[str, str] = {}
        self._clocks, self._walls = Clocks(self._warn), Walls(self._warn)
        self._styles = Styles(style, self._warn)
        self._days: dict[str, bool] = {}

    def plan(self, headers: Sequence[str]) -> dict[str, tuple[Candidate, ...]]:
        """Give what is read from a table with these columns."""
        key = tuple(headers)
        if key not in self._plans:
            made = plan(self.mapping, key, self.given, auto=self.auto)
            self._plans[key] = made
            self.used.update(made)
            self._say_units(made)
        return self._plans[key]

    def _say_units(self, made: Mapped[str, Sequence[Candidate]]) -> None:
        """Say which short units the names of columns were taken to say."""
        for one in [one for target in made for one in made[target]] if self.auto else []:
            if one.unit in SHORT_UNITS and not one.stated:
                name = "+".join(one.names)
                self.build.note(redact(f"{name} counts in {one.unit}, as its name says"))

    def convert(self, chunk: Chunk) -> Made:
        """Read one chunk."""
        made = Made(len(chunk.lines))
        found = self.plan(list(chunk.columns))
        self._look(found, chunk)
        chunk, signals = split_ends(chunk, found.get("exit_code", ()))
        for target, candidates in self._times_first(found, chunk, made):
            read = self._first(target, candidates, chunk, made)
            if target.startswith("feature."):
                made.features[target.removeprefix("feature.")] = read.values
            elif target != "outcome" and target != "depends_on":
                made.columns[target] = read.values
        if signals is not None:
            said = made.columns.get("signal")
            made.columns["signal"] = signals if said is None else pc.coalesce(said, signals)
        self._ends(found.get("outcome", ()), chunk, made)
        unended(made.columns)
        self._shares(found, chunk, made)
        stated = any(c.unit for c in found.get("wall_s", ()))
        self._walls.derive(made.columns, stated=stated)
        if self.mapping.exit_coding == "pbs":
            ended_at_limit(made.columns)
        if "depends_on" in found:
            upstream = edges(self._text(found["depends_on"][0], chunk))
            made.edges = [[safe_name(up) for up in ups] for ups in upstream]
        peaks(made.columns, made.size, self.mapping.peak_kind)
        clean_texts(made.columns)
        self._nothing(made)
        return made

    def _look(self, found: Mapped[str, Sequence[Candidate]], chunk: Chunk) -> None:
        """Tell by all columns together what a number means: its decimal sign, and days."""
        numeric = {
            name: chunk.columns[name]
            for target, candidates in found.items()
            if kind_of(target) in ("time", "seconds", "bytes", "number")
            for one in candidates
            for name in one.names
        }
        self._styles.see(numeric)
        names = [
            candidates[0].names[0]
            for target in ("started_ns", "ended_ns")
            if (candidates := found.get(target))
            and candidates[0].unit is None
            and len(candidates[0].names) == 1
        ]
        if names and not self._days.keys() & set(names):
            columns = [chunk.columns[name] for name in names]
            days = serial_days(columns, [self._styles.of(name) for name in names])
            known = all(column.null_count < len(column) for column in columns)
            self._days |= dict.fromkeys(names, days) if known else {}

    def _times_first(
        self, found: Mapped[str, tuple[Candidate, ...]], chunk: Chunk, made: Made
    ) -> Iterator[tuple[str, tuple[Candidate, ...]]]:
        """Give the targets, times first: these tell what a clock's two parts are."""
        yield from ((t, ones) for t, ones in found.items() if kind_of(t) == "time")
        if self.mapping.name == "table":
            clocks = {
                target: Durations(name, ones[0].unit, chunk.columns[name], self._styles.of(name))
                for target, ones in found.items()
                if kind_of(target) == "seconds" and len(ones[0].names) == 1
                for name in ones[0].names
            }
            held = between(made.columns.get("started_ns"), made.columns.get("ended_ns"))
            self._clocks.see(clocks, held)
        yield from ((t, ones) for t, ones in found.items() if kind_of(t) != "time")

    def _warn(self, text: str) -> None:
        if text not in self._said:  # once a file, not once a chunk
            self._said.add(text)
            self.build.warn(redact(text))

    # -- reading one target -------------------------------------------------------------------

    def _first(
        self, target: str, candidates: Sequence[Candidate], chunk: Chunk, made: Made
    ) -> Read:
        """Read the candidates in turn: each fills what those before left open."""
        values: Any = None
        bad: NDArray[np.bool_] = np.zeros(made.size, dtype=bool)
        for one in candidates:
            read = self._one(target, one, chunk)
            bad |= read.bad if read.bad is not None else False
            values = read.values if values is None else pc.coalesce(values, read.values)
            if not values.null_count:
                break
        if bad.any():
            bad &= values.is_null().to_numpy(zero_copy_only=False)
            none = values.null_count == len(values)
            self._mark(target, candidates[0], chunk, bad, made, whole=none)
        return Read(values)

    def _mark(
        self,
        target: str,
        one: Candidate,
        chunk: Chunk,
        bad: NDArray[np.bool_],
        made: Made,
        *,
        whole: bool,
    ) -> None:
        """Leave out what cannot be read; refuse where a column's times are none, all of them."""
        rows = np.flatnonzero(bad)
        if not len(rows):
            return
        shown = _shown(chunk, one, int(rows[0]))
        if target in _ESSENTIAL:
            kept = made.wrong if whole and kind_of(target) == "time" else made.unread
            name = one.names[0] if one.names else target
            for row in rows:
                text = _shown(chunk, one, int(row))
                kept.setdefault(int(row), is_not(target, name, one.unit, text))
            if kept is made.wrong:
                return
        if target not in self._left:
            words = (
                f"values of {'+'.join(one.names)} that are no {_SAID[kind_of(target)]} are left "
                f"out (such as {shown!r})"
            )
            if target in _ESSENTIAL or kind_of(target) == "int":
                name = one.names[0] if one.names else target
                words = f"values are left out: {is_not(target, name, one.unit, shown)}"
            texts = (_shown(chunk, one, int(row)) for row in rows[:_LOOKED])
            self._left[target] = redact(words + also(texts))
        self.build.warn(self._left[target], len(rows))

    def _one(self, target: str, one: Candidate, chunk: Chunk) -> Read:
        size = len(chunk.lines)
        if one.constant is not None:
            column: Any = pa.array([one.constant] * size, pa.string())
            return self._typed(target, one, column, Candidate((target,), one.unit, True))
        kind = kind_of(target)
        if len(one.names) > 1 and kind not in ("text", "outcome", "edges"):
            parts = [self._typed(target, one, chunk.columns[n], one, n) for n in one.names]
            total = parts[0].values
            for part in parts[1:]:
                total = pc.add(total, part.values)
            bad = np.zeros(size, dtype=bool)
            for part in parts:
                bad |= part.bad if part.bad is not None else False
            return Read(total, bad)
        if len(one.names) > 1:
            return Read(self._text(one, chunk))
        return self._typed(target, one, chunk.columns[one.names[0]], one)

    def _text(self, one: Candidate, chunk: Chunk) -> pa.Array:
        parts = [as_text(chunk.columns[name]).to_pylist() for name in one.names]
        joined = [".".join(p for p in row if p) or None for row in zip(*parts, strict=True)]
        return pa.array(joined, pa.string())

    def _typed(
        self, target: str, one: Candidate, column: pa.Array, said: Candidate, name: str = ""
    ) -> Read:
        name = name or (one.names[0] if one.names else target)
        kind = kind_of(target)
        style = self._styles.of(name)
        self._say_commas(kind, column, name, style)
        if kind in ("time", "seconds", "bytes", "number"):
            column = without_nan(column, name, self._warn)
        if kind == "time":
            return self._time(target, one, column, style)
        if kind == "seconds":
            return self._duration(target, said, column, style)
        if kind == "bytes":
            return self._bytes(target, said, column, style)
        if kind == "number":
            what, factor = UNITS[said.unit] if said.unit else ("count", 1.0)
            return (shares if what == "share" else numbers)(column, style, factor)
        if kind == "int":
            values, bad = exact_ints(column)
            if said.unit == "0":
                values = pc.add(values, 1)
            return Read(values, bad)
        if kind == "bool":
            return booleans(column)
        if kind == "map":
            return maps(column)
        return Read(as_text(column))

    def _say_commas(self, kind: str, column: pa.Array, name: str, style: Style) -> None:
        """Say that commas are taken for decimal ones where they could group thousands."""
        tabbed = style.delimiter in ";\t" and style.decimal is None
        if not tabbed or kind not in ("seconds", "bytes", "number"):
            return
        if not pa.types.is_string(column.type):
            return
        if pc.any(pc.match_substring_regex(column, r"^\s*[+-]?[1-9]\d{0,2},\d{3}\s*$")).as_py():
            self._warn(
                f"commas in {name} are read as decimal ones; say --opt decimal=point if they "
                "group thousands"
            )

    def _time(self, target: str, one: Candidate, column: pa.Array, style: Style) -> Read:
        name = one.names[0] if one.names else target
        # Since 1970 each value shows its unit; times from some start keep that of the first.
        unit = one.unit or ("s" if name in self._from_start else None)
        if unit is None and self._days.get(name):
            unit = "d"
            self._warn(DAYS.format(name=name, word=word_of(target)))
        read = in_zone(times(column, unit, style), self.build.zone_ns)
        if read.unit == "?":
            short = word_of(target)
            raise UsageError(
                f"cannot tell what the times in {name!r} count",
                hint=f"say so: --map {short}={name}:s (or ms, us, ns)",
            )
        if read.mixed:
            self._warn(f"times in {name} count in {read.mixed}: each is read by its size")
        if read.rounded is not None:
            example = column[int(read.rounded.argmax())].as_py()
            self.build.warn(
                redact(ROUNDED.format(name=name, text=self._rounded.setdefault(name, example))),
                int(read.rounded.sum()),
            )
        known = read.values.null_count < len(column)
        if read.unit is not None and unit is None and (known or read.rounded is not None):
            self._time_units[name] = read.unit
            if read.relative:
                self._from_start.add(name)
                self._warn(
                    f"times in {name} are read as seconds from some start; say "
                    f"--map {word_of(target)}={name}:ms if they count otherwise"
                )
            elif read.unit != "s" and not read.mixed and known:
                self._warn(f"times in {name} are read as {read.unit} since 1970")
        if known:  # a column that is empty says nothing of its times
            self.zoned |= read.zoned
            self.local |= read.local
            self.relative |= read.relative
        return read

    def _duration(self, target: str, one: Candidate, column: pa.Array, style: Style) -> Read:
        unit = one.unit
        if unit is None and target == "wall_s" and not pa.types.is_duration(column.type):
            bare = pa.types.is_floating(column.type) or pa.types.is_integer(column.type)
            name = one.names[0] if one.names else target
            if bare or begins_bare(column):
                if not self.given & {target} and set(self._time_units.values()) - {"s"}:
                    self._warn(
                        f"{name} has no unit and is left out; say --map wall={name}:s (or ms …)"
                    )
                    return Read(pa.nulls(len(column), pa.float64()))
                if self.mapping.name == "table":
                    self._walls.bare(name)
        if unit is not None and UNITS[unit][0] == "share":
            return Read(pa.nulls(len(column), pa.float64()))  # needs the duration: later
        first_s = self._clocks.first_s(one.names[0]) if one.names else 60.0
        return durations(column, style, unit, first_s)

    def _bytes(self, target: str, one: Candidate, column: pa.Array, style: Style) -> Read:
        read = amounts(column, style, one.unit)
        name = one.names[0] if one.names else target
        word = {"peak_memory_bytes": "peak", "requested_memory_bytes": "request"}.get(
            target, target
        )
        known = len(column) - column.null_count
        if one.unit is None and read.bad is not None and known and read.bad.sum() > known / 2:
            if target in self.given:
                raise UsageError(
                    f"{name!r} does not say what its numbers count",
                    hint=f"say so: --map {word}={name}:KiB (or B, MB, MiB, GiB …)",
                )
            self._warn(f"{name} has no unit and is left out; say --map {word}={name}:KiB (or MB …)")
            return Read(pa.nulls(len(column), pa.float64()))
        if one.unit in _DECIMAL and not one.stated and read.values.null_count < len(column):
            unit = (one.unit or "").upper()
            self._warn(
                f"{name}: 1 {unit} is read as {UNITS[one.unit][1]:,.0f} bytes; say "
                f"--map {word}={name}:{unit[0]}iB if it counts in 1024"
            )
        values = read.values
        large = pc.fill_null(pc.greater(values, _BYTES_LIMIT), False)
        bad = large.to_numpy(zero_copy_only=False)
        if bad.any():
            values = pc.if_else(large, pa.scalar(None, pa.float64()), values)
        return Read(pc.round(values), bad if read.bad is None else read.bad | bad)

    # -- what follows from other columns ------------------------------------------------------

    def _shares(self, found: Mapped[str, Sequence[Candidate]], chunk: Chunk, made: Made) -> None:
        """CPU as a share: of one core in percent, or cores busy; times the duration."""
        for target, candidates in found.items():
            one = candidates[0]
            if kind_of(target) != "seconds" or not one.unit or not one.names:
                continue
            if UNITS[one.unit][0] != "share":
                continue
            factor = UNITS[one.unit][1]
            reads = [shares(chunk.columns[n], self._styles.of(n), factor) for n in one.names]
            values, bad = reads[0].values, np.zeros(made.size, dtype=bool)
            for read in reads[1:]:
                values = pc.add(values, read.values)
            for read in reads:
                bad |= read.bad if read.bad is not None else False
            self._mark(target, one, chunk, bad, made, whole=False)
            wall = made.columns.get("wall_s")
            if wall is None:
                wall = between(made.columns.get("started_ns"), made.columns.get("ended_ns"))
            if wall is not None:
                made.columns[target] = pc.multiply(wall, values)
            else:
                self._warn(f"{'+'.join(one.names)} is left out: a share needs a duration")

    def _ends(self, candidates: Sequence[Candidate], chunk: Chunk, made: Made) -> None:
        """Work out outcome, exit code and signal."""
        size = made.size
        codes = _listed(made.columns.get("exit_code"), size)
        signals = _listed(made.columns.get("signal"), size)
        states = [self._one("outcome", one, chunk).values.to_pylist() for one in candidates]
        if not states and "exit_code" not in made.columns and "signal" not in made.columns:
            return
        outcomes, kinds, errors = [], [], _listed(made.columns.get("error"), size)
        for row in range(size):
            raw, signal = codes[row], signals[row] or None
            code = raw
            if raw is not None:
                code, own = decode_exit(raw, self.mapping.exit_coding)
                signal = signal or own
            rules = self.mapping.exits
            shown = raw if raw is not None and str(raw) in rules else code
            outcome, kind, strange = outcome_of(
                [column[row] for column in states], shown, signal, self.mapping.states, rules
            )
            if strange is not None and errors[row] is None:
                errors[row] = strange
            if strange is not None:
                self._warn(f"state {strange[:60]!r} is not known")
            outcomes.append(outcome)
            kinds.append(kind)
            codes[row], signals[row] = code, signal
        made.columns["outcome"] = pa.array(outcomes, pa.string())
        kind_of_ends = pa.array(kinds, pa.string())
        said = made.columns.get("outcome_kind")
        made.columns["outcome_kind"] = (
            kind_of_ends if said is None else pc.coalesce(said, kind_of_ends)
        )
        made.columns["error"] = pa.array(errors, pa.string())
        if "exit_code" in made.columns or any(s is not None for s in signals):
            made.columns["exit_code"] = pa.array(codes, pa.int64())
            made.columns["signal"] = pa.array(signals, pa.int64())

    def _nothing(self, made: Made) -> None:
        """Refuse records in which every column that is read is empty, or no time can be read."""
        known = np.zeros(made.size, dtype=bool)
        for name, column in {**made.columns, **made.features}.items():
            if name not in _NO_VALUES:
                known |= column.is_valid().to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(~known).tolist():
            made.wrong.setdefault(row, "no value in any column that is read")
        timed = [column for name, column in made.columns.items() if name in _ESSENTIAL]
        for row, reason in made.unread.items():
            if not any(column[row].is_valid for column in timed):
                made.wrong.setdefault(row, reason)


def _shown(chunk: Chunk, one: Candidate, row: int) -> str:
    return str(chunk.columns[one.names[0]][row].as_py())[:40] if one.names else ""


def _listed(column: pa.Array | None, size: int) -> list[Any]:
    return [None] * size if column is None else list(column.to_pylist())
