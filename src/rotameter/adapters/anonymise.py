"""A trace without names: what people would recognise becomes a stable pseudonym.

Every text of every table and of the metadata either is one of a closed list of words that name
nobody (outcomes, kinds, media, well-known file suffixes) or is replaced by a keyed hash of itself.
So nothing survives by being forgotten. The same text gets the same pseudonym, in one trace by any
key and in several by the same key; without the key nobody can try names against it. Numbers and
times stay.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rotameter import __version__
from rotameter.adapters._anonymise_devices import DEVICE_LABEL, Timeline
from rotameter.adapters._anonymise_words import (
    COLUMN_WORDS,
    ERRORS,
    META_WORDS,
    PACKAGES,
    SCHEMES,
    SUFFIXES,
    words,
)
from rotameter.errors import UsageError
from rotameter.profiler.schema import TABLES
from rotameter.profiler.trace import Trace

__all__ = ["Pseudonyms", "anonymise"]

_KEY_BYTES = 8
_DIGITS = 12
_VERSION = re.compile(r"\d{1,6}(?:\.\d{1,6}){0,3}(?:(?:a|b|rc|\.dev|\.post)\d{1,6})?")
_OF_WORKER = re.compile(r"(.+) (host|device \d{1,6})", re.S)
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]{0,20})://(.*)", re.S)

# Column → what a value in it is, for the word in front of its pseudonym.
_CATEGORY = {
    "task_id": "task", "depends_on": "task", "parent": "task", "run_id": "run", "group": "group",
    "worker": "worker", "host": "host", "user": "user", "account": "account", "queue": "queue",
    "object": "object", "file": "path", "policy": "policy", "lane": "lane", "name": "name",
    "peer": "peer", "subject": "subject", "devices": "device", "reason": "text", "text": "text",
    "error": "error", "span": "span", "layer": "layer", "version": "version",
}  # fmt: skip
# Columns that refer to things which other columns name: they take those pseudonyms.
_REFERRING = ("peer", "subject", "object", "parent", "name", "depends_on")
_NAMING = ("worker", "host", "task_id", "group", "user", "account", "queue")
_PATHS = ("object", "file", "peer", "source", "subject", "name")


class Pseudonyms:
    """Gives each text its pseudonym under a key.

    Parameters
    ----------
    key : bytes
        At least 8 bytes; the same key gives the same pseudonyms.

    Examples
    --------
    >>> names = Pseudonyms(b"a long secret key")
    >>> names.of("ann", "user") == names.of("ann", "user") != names.of("bob", "user")
    True
    >>> names.path("/home/ann/reads.fastq.gz").endswith(".fastq.gz")
    True
    """

    def __init__(self, key: bytes) -> None:
        if len(key) < _KEY_BYTES:
            raise UsageError(
                f"the key has {len(key)} bytes: too short",
                hint=f"{_KEY_BYTES} or more, so that nobody finds it by trying",
            )
        self._key = key
        self._made: dict[str, str] = {}

    def digest(self, text: str) -> str:
        """Give the keyed hash of a text."""
        made = self._made.get(text)
        if made is None:
            data = text.encode("utf-8", "surrogatepass")
            made = hmac.new(self._key, data, hashlib.sha256).hexdigest()[:_DIGITS]
            self._made[text] = made
        return made

    def of(self, text: str, category: str) -> str:
        """Give a text's pseudonym, with what it is in front."""
        return f"{category}-{self.digest(text)}" if text else text

    def path(self, text: str) -> str:
        """Give a path's pseudonym: its parts one by one, well-known suffixes kept."""
        match = _URL.fullmatch(text)
        if match:
            scheme = match[1].lower()
            start = scheme if scheme in SCHEMES else self.of(scheme, "scheme")
            return f"{start}://{self.path(match[2])}"
        parts = re.split(r"([/\\])", text)
        return "".join(p if p in ("", "/", "\\", ".", "..") else self._part(p) for p in parts)

    def _part(self, text: str) -> str:
        stem, suffixes = text, ""
        for _ in range(3):
            start, dot, suffix = stem.rpartition(".")
            if not dot or not start or suffix.lower() not in SUFFIXES:
                break
            stem, suffixes = start, f".{suffix}{suffixes}"
        return f"{self.digest(stem)}{suffixes}"

    def error(self, text: str) -> str:
        """Give an error's pseudonym; the type stays where everyone has it."""
        kind, colon, rest = text.partition(":")
        if kind in ERRORS:
            return f"{kind}: {self.of(rest.strip(), 'text')}" if colon else kind
        return self.of(text, "error")


def anonymise(trace: Trace, *, key: bytes | None = None, shift_ns: int | None = 0) -> Trace:
    """Replace every name and text of a trace by a pseudonym.

    Parameters
    ----------
    trace : Trace
        What to make nameless; it stays as it is.
    key : bytes, optional
        Keeps pseudonyms the same from file to file. By default a new random one, which is
        forgotten.
    shift_ns : int or None
        Added to every point in time; None lets the run begin at 0.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> bare = anonymise(Trace.from_tables({"tasks": [{"task_id": "ann-7", "wall_s": 2.0}]}))
    >>> row = bare.table("tasks").to_pylist()[0]
    >>> row["task_id"].startswith("task-"), row["wall_s"]
    (True, 2.0)
    """
    names = Pseudonyms(secrets.token_bytes(32) if key is None else key)
    known = _named(trace)
    by_ns = _shift(trace, shift_ns)
    tables = {}
    for table, columns in TABLES.items():
        made = trace.table(table)
        for at, (column, kind) in enumerate(columns):
            values = made[column]
            if kind == "s":
                values = _replaced(values, _renamer(table, column, names, known))
            elif kind == "m":
                values = _features(values, names)
            elif by_ns and column.endswith("_ns"):
                values = pc.add(values, by_ns)
            made = made.set_column(at, made.schema.field(at), values)
        tables[table] = made
    return Trace(tables, _meta(trace.meta, names, by_ns, known))


def _shift(trace: Trace, shift_ns: int | None) -> int:
    if shift_ns is not None:
        return shift_ns
    lows = [
        pc.min(trace.table(table)[column]).as_py()
        for table, columns in TABLES.items()
        for column, kind in columns
        if kind == "i" and column.endswith("_ns")
    ]
    return -min((low for low in lows if low is not None), default=0)


def _named(trace: Trace) -> dict[str, str]:
    """Give text → category for all that is named somewhere; the first column that names it wins."""
    known: dict[str, str] = {}
    for column in _NAMING:
        for table, columns in TABLES.items():
            if column in dict(columns):
                for text in pc.unique(trace.table(table)[column]).to_pylist():
                    if text:
                        known.setdefault(text, _CATEGORY[column])
    return known


def _renamer(
    table: str, column: str, names: Pseudonyms, known: Mapping[str, str]
) -> Callable[[str], str]:
    words = COLUMN_WORDS.get(column, frozenset())
    category = _CATEGORY.get(column, column.removesuffix("_kind").replace("_", ""))

    def rename(text: str) -> str:
        """Give what a value of this column becomes."""
        if text in words and not (table == "rejects" and column == "source"):
            return text
        if column == "outcome":
            return "unknown"
        if column == "error":
            return names.error(text)
        if column == "version" and _VERSION.fullmatch(text):
            return text
        if column in ("object", "lane") and DEVICE_LABEL.fullmatch(text):
            return text
        if column == "subject" and (part := _OF_WORKER.fullmatch(text)) and part[1] in known:
            return f"{names.of(part[1], known[part[1]])} {part[2]}"
        if column in _REFERRING and text in known:
            return names.of(text, known[text])
        if column in _PATHS and ("/" in text or "\\" in text):
            return names.path(text)
        if column == "file" or (table == "rejects" and column == "source"):
            return names.path(text)
        return names.of(text, category)

    return rename


def _replaced(values: pa.ChunkedArray, rename: Callable[[str], str]) -> pa.Array:
    """Rename each text once."""
    coded = values.combine_chunks()
    if isinstance(coded, pa.ChunkedArray):  # older Arrow
        coded = pa.concat_arrays(coded.chunks) if coded.num_chunks else pa.array([], pa.string())
    coded = coded.dictionary_encode()
    made = [None if t is None else rename(t) for t in coded.dictionary.to_pylist()]
    return pc.take(pa.array(made, pa.string()), coded.indices)


def _features(values: pa.ChunkedArray, names: Pseudonyms) -> pa.Array:
    kind = pa.map_(pa.string(), pa.float64())
    if not len(values) or values.null_count == len(values):
        return values
    rows = [
        None if row is None else [(names.of(key, "feature"), value) for key, value in row]
        for row in values.to_pylist()
    ]
    return pa.array(rows, kind)


# -- metadata ---------------------------------------------------------------------------------

_NUMBERS = frozenset(
    words(
        "schema segments records dropped dropped_unsaid faults saved merged_from in out "
        "merged rejected files cores memory_bytes pid exit_code signal started_ns ended_ns "
        "start_ns encode_s probe_s files_s count makespan_s"
    )
)
_DROPPED_TEXTS = ("warnings", "not_measured", "processes")


def _meta(
    meta: Mapping[str, Any], names: Pseudonyms, by_ns: int, known: Mapping[str, str]
) -> dict[str, Any]:
    """Keep of the metadata what is a known number or word; say how much was left out."""
    made: dict[str, Any] = {}
    for key in ("origin", "engine", "time_base", "dask_local"):
        value = meta.get(key)
        if isinstance(value, str):
            made[key] = value if value in META_WORDS[key] else names.of(value, key)
    made.update(_numbers(meta))
    made["schema"] = meta.get("schema") if isinstance(meta.get("schema"), int) else 1
    if isinstance(meta.get("run"), Mapping):
        made["run"] = _run(meta["run"], names, by_ns)
    if isinstance(meta.get("importer"), Mapping):
        made["importer"] = _importer(meta["importer"])
    if isinstance(meta.get("versions"), Mapping):
        made["versions"] = _versions(meta["versions"])
    if isinstance(meta.get("machines"), (list, tuple)):
        made["machines"] = [_machine(m, names) for m in meta["machines"] if isinstance(m, Mapping)]
    if isinstance(meta.get("overhead"), Mapping):
        made["overhead"] = _numbers(meta["overhead"])
    if isinstance(meta.get("scale"), Mapping):
        made["scale"] = {
            names.of(str(k), "scale"): v for k, v in meta["scale"].items() if _is_number(v)
        }
    if isinstance(meta.get("executors"), Mapping):
        told = meta["executors"]
        made["executors"] = {k: told[k] for k in ("local", "batch") if _is_number(told.get(k))}
    timeline = Timeline(
        _renamer("tasks", "worker", names, known),
        _renamer("intervals", "name", names, known),
        names.path,
        lambda text: names.of(text, "device"),
    )
    if isinstance(meta.get("device_timeline"), Mapping):
        made["device_timeline"] = timeline.of(meta["device_timeline"])
    left = sum(len(meta[key]) for key in _DROPPED_TEXTS if isinstance(meta.get(key), (list, tuple)))
    made["anonymised"] = {
        "rotameter": __version__,
        "texts_left_out": left + timeline.left_out,
        "texts_of_timeline": timeline.left_out,
        "times_shifted": bool(by_ns),
    }
    return made


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def _numbers(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in facts.items() if k in _NUMBERS and _is_number(v)}


def _run(run: Mapping[str, Any], names: Pseudonyms, by_ns: int) -> dict[str, Any]:
    made = _numbers(run)
    for key in ("started_ns", "ended_ns"):
        if key in made:
            made[key] += by_ns
    if run.get("status") in META_WORDS["status"]:
        made["status"] = run["status"]
    if isinstance(run.get("error"), str):
        made["error"] = names.error(run["error"])
    return made


def _importer(facts: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = _numbers(facts)
    if facts.get("name") in META_WORDS["name"]:
        made["name"] = facts["name"]
    if isinstance(facts.get("version"), str) and _VERSION.fullmatch(facts["version"]):
        made["version"] = facts["version"]
    if isinstance(facts.get("records"), Mapping):
        made["records"] = _numbers(facts["records"])
    return made


def _versions(versions: Mapping[str, Any]) -> dict[str, str]:
    """Keep the versions of packages that everyone has; what follows a ``+`` is local."""
    made = {}
    for key, value in versions.items():
        text = str(value).partition("+")[0]
        if str(key) in PACKAGES and _VERSION.fullmatch(text):
            made[str(key)] = text
    return made


def _machine(machine: Mapping[str, Any], names: Pseudonyms) -> dict[str, Any]:
    made: dict[str, Any] = _numbers(machine)
    if isinstance(machine.get("host"), str):
        made["host"] = names.of(machine["host"], "host")
    system = machine.get("system")
    if isinstance(system, str):
        word = system.split(" ", 1)[0].split("-", 1)[0]
        made["system"] = word if word in ("Linux", "Darwin", "Windows") else names.of(system, "os")
    return made
