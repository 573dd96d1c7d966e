"""Which column of a ``sacct`` listing is which: headers, known orders, and by content.

Field names: https://slurm.schedmd.com/sacct.html (``sacct --helpformat``). Names are compared in
small letters and without ``_`` and blanks.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from rotameter.adapters.importers._slurm_values import JOB_ID, words

__all__ = ["KNOWN", "Layout", "fits", "from_names", "header", "infer", "kind_of", "plain"]

_BY_KIND = {
    "jobid": "jobid jobidraw",
    "time": "submit eligible start end accruetime",
    "clock": """elapsed totalcpu usercpu systemcpu cputime avecpu mincpu suspended reserved planned
        resvcpu plannedcpu""",
    "limit": "timelimit",
    "count": """alloccpus ncpus reqcpus allocnodes nnodes reqnodes ntasks elapsedraw timelimitraw
        cputimeraw priority restarts gid uid associd dbindex qosraw wckeyid reservationid
        maxrsstask maxvmsizetask maxpagestask maxdiskreadtask maxdiskwritetask mincputask
        plannedcpuraw resvcpuraw segmentsize""",
    "amount": """maxrss averss maxvmsize avevmsize maxdiskread avediskread maxdiskwrite
        avediskwrite maxpages avepages consumedenergy consumedenergyraw avecpufreq""",
    "reqmem": "reqmem",
    "state": "state",
    "exit": "exitcode derivedexitcode",
    "tres": """alloctres reqtres tresusageinave tresusageinmax tresusageinmaxnode
        tresusageinmaxtask tresusageinmin tresusageinminnode tresusageinmintask tresusageintot
        tresusageoutave tresusageoutmax tresusageoutmaxnode tresusageoutmaxtask tresusageoutmin
        tresusageoutminnode tresusageoutmintask tresusageouttot""",
    "name": """user group account partition qos qosreq cluster maxrssnode maxvmsizenode
        maxpagesnode maxdiskreadnode maxdiskwritenode mincpunode failednode sluid reqcpufreq
        reqcpufreqmin reqcpufreqmax reqcpufreqgov mcslabel blockid layout flags""",
    "list": "nodelist reqgres allocgres licenses",
    "text": """jobname comment admincomment systemcomment submitline workdir constraints
        container extra stderr stdin stdout reason reservation wckey""",
}
_KINDS = {name: kind for kind, names in _BY_KIND.items() for name in names.split()}
KNOWN = frozenset(_KINDS)
TOLD = frozenset(
    words(
        """state elapsed elapsedraw start end submit totalcpu cputime maxrss reqmem
        alloctres timelimit alloccpus ncpus exitcode jobname"""
    )
)
"""At least one of these must be there: a list of numbers alone tells nothing."""
_CLOCK = r"(?:\d+-)?(?:\d+:)?\d+:\d+(?:\.\d+)?"
_PATTERNS = {
    "time": re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d.{0,16}|\d{9,11}|Unknown|None|N/A|"),
    "clock": re.compile(rf"{_CLOCK}|UNLIMITED|Partition_Limit|INVALID|Unknown|None|"),
    "limit": re.compile(r"(?:\d+-)?(?:\d+:)?\d+:\d+|UNLIMITED|Partition_Limit|INVALID|"),
    "count": re.compile(r"\d+(?:\.\d+)?[KMGTP]?|UNLIMITED|Partition_Limit|Unknown|"),
    "amount": re.compile(r"\d+(?:\.\d+)?[KMGTPEZ]?|16\.00[A-Z]|"),
    "reqmem": re.compile(r"\d+(?:\.\d+)?[KMGTPE]?[cn]?\??|"),
    "state": re.compile(r"[A-Z][A-Z_]{2,30}\+?(?: by .{1,40})?|"),
    "exit": re.compile(r"\d+:\d+|"),
    "tres": re.compile(r"(?:[\w/:.\-]+=[^,]*)(?:,[\w/:.\-]+=[^,]*)*|"),
    "blank": re.compile(""),
}
_NAME = re.compile(r'\s*"?[A-Za-z0-9_/%. -]{0,40}"?\s*')
_DELIMITERS = ("^|^", ";|;", "|", "\t", ",", ";")
_XDMOD = words(
    """jobid jobidraw cluster partition qos account group gid user uid submit eligible
    start end elapsed exitcode state nnodes ncpus reqcpus reqmem reqtres alloctres
    timelimit nodelist jobname"""
)
_REPORTSEFF = "admincomment alloccpus elapsed jobid jobidraw maxrss nnodes ntasks reqmem state"
_ORDERS = {
    "the order of XDMoD": _XDMOD,
    "the default order of sacct": words("jobid jobname partition account alloccpus state exitcode"),
    "the order of the Snakemake plug-in's efficiency report": words(
        "jobid jobname comment elapsed totalcpu nnodes ncpus maxrss reqmem"
    ),
    "the order of reportseff": words(f"{_REPORTSEFF} timelimit totalcpu"),
    "the order of reportseff without limits": words(f"{_REPORTSEFF} totalcpu"),
}


@dataclass(frozen=True, slots=True)
class Layout:
    """How a line is split, and the name of each column ("" = nobody knows it)."""

    delimiter: str
    names: tuple[str, ...]
    how: str = "header"
    quoted: bool = False
    spans: tuple[tuple[int, int], ...] = ()

    kinds: tuple[str, ...] = field(init=False, default=())
    job: int = field(init=False, default=0)
    free: frozenset[int] = field(init=False, default=frozenset())

    def __post_init__(self) -> None:
        """Tell each column's kind, the job's, and those that may hold delimiters and line ends."""
        loose = ("text", "list", "tres", "") if self.delimiter in ",;" else ("text", "")
        kinds = tuple(kind_of(name) for name in self.names)
        object.__setattr__(self, "kinds", kinds)
        job = "jobid" if "jobid" in self.names else "jobidraw"
        object.__setattr__(self, "job", self.names.index(job))
        free = frozenset(i for i, kind in enumerate(kinds) if kind in loose)
        object.__setattr__(self, "free", free)


def plain(name: str) -> str:
    """Give a field name as it is compared: ``JobIDRaw``, ``job_id_raw`` → ``jobidraw``."""
    return re.sub(r"[\s_\"]", "", name).partition("%")[0].lower()


def kind_of(name: str) -> str:
    """Give what a column holds ("" for one that nobody knows)."""
    return _KINDS.get(name, "")


def fits(kind: str, value: str) -> bool:
    """Say whether a value may stand in a column of this kind (an empty one may, but no job id)."""
    if kind == "jobid":
        return JOB_ID.fullmatch(value) is not None
    pattern = _PATTERNS.get(kind)
    return pattern is None or pattern.fullmatch(value) is not None


def from_names(names: Sequence[str], delimiter: str, **more: object) -> Layout | None:
    """Make a layout of field names; None unless they name a job and something of it."""
    if not all(_NAME.fullmatch(name) for name in names):
        return None
    found = [plain(name) for name in names]
    while found and not found[-1]:
        found.pop()
    known = [
        name if name in KNOWN and name not in found[:i] else "" for i, name in enumerate(found)
    ]
    if not {"jobid", "jobidraw"} & set(known) or not TOLD & set(known):
        return None
    return Layout(delimiter, tuple(known), **more)  # type: ignore[arg-type]


def header(line: str, after: str = "", delimiter: str | None = None) -> Layout | None:
    r"""Read a header line, whatever stands between its names.

    Parameters
    ----------
    line, after : str
        The line, and the one after it (dashes there mean columns of fixed width).
    delimiter : str, optional
        Where it is known.

    Examples
    --------
    >>> header("JobID|State|Elapsed|").names
    ('jobid', 'state', 'elapsed')
    >>> header("JobID;|;State").delimiter, header("a,b,c")
    (';|;', None)
    """
    if len(line) > 20_000 or "job" not in line.lower():
        return None
    if re.fullmatch(r"-{2,}(?: -{1,})+ *", after):
        spans = tuple(m.span() for m in re.finditer("-+", after))
        return from_names([line[a:b].strip() for a, b in spans], " ", spans=spans)
    candidates = [delimiter] if delimiter else list(_DELIMITERS)
    between = re.search(r"[A-Za-z]([^A-Za-z0-9_]+)[A-Za-z]", line)
    if between and not delimiter:
        candidates.append(between[1])
    best: Layout | None = None
    for mark in candidates:
        if mark not in line:
            continue
        names = line.split(mark)
        quoted = '"' in line and mark in ",;\t"
        if quoted:
            names = next(csv.reader([line], delimiter=mark), names)
        made = from_names(names, mark, quoted=quoted)
        if made is None or sum(map(bool, made.names)) < max(2, 0.4 * len(made.names)):
            continue
        if best is None or sum(map(bool, made.names)) > sum(map(bool, best.names)):
            best = made
    return best


# -- without a header ------------------------------------------------------------------------------


def infer(rows: Sequence[Sequence[str]], delimiter: str) -> Layout | None:
    """Tell columns by what is in them; None where that cannot be told.

    Parameters
    ----------
    rows : sequence of sequence of str
        Some rows, all of the same length.
    """
    columns = [list(column) for column in zip(*rows, strict=True)]
    while columns and not any(columns[-1]):
        columns.pop()
    for how, names in _ORDERS.items():
        if len(names) == len(columns) and _all_fit(columns, names):
            return Layout(delimiter, names, how)
    told = _by_content(columns)
    return None if told is None else Layout(delimiter, tuple(told), "content")


def _all_fit(columns: Sequence[Sequence[str]], names: Sequence[str]) -> bool:
    good = all(
        sum(fits(kind_of(name), value) for value in column) >= 0.9 * len(column)
        for name, column in zip(names, columns, strict=True)
    )
    # Kinds that take anything say nothing: what speaks must be there, not only be empty.
    told = [
        i
        for i, name in enumerate(names)
        if kind_of(name) in ("time", "clock", "state", "exit", "reqmem")
    ]
    return good and all(any(columns[i]) for i in told)


def _share(column: Sequence[str], kind: str) -> float:
    filled = [value for value in column if value]
    return sum(fits(kind, value) for value in filled) / len(filled) if filled else 0.0


def _by_content(columns: Sequence[Sequence[str]]) -> list[str] | None:
    names = [""] * len(columns)
    ids = [i for i, column in enumerate(columns) if all(column) and _share(column, "jobid") == 1
           and min(map(len, column)) > 2]  # fmt: skip
    if not ids:
        return None
    names[ids[0]] = "jobid"
    if len(ids) > 1 and _raw_of(columns[ids[0]], columns[ids[1]]):
        names[ids[1]] = "jobidraw"
    step = ["." in value for value in columns[ids[0]]]
    left = [i for i, name in enumerate(names) if not name and any(columns[i])]
    for kind, name in (("state", "state"), ("exit", "exitcode"), ("tres", "alloctres")):
        found = [i for i in left if names[i] == "" and _share(columns[i], kind) > 0.9]
        if found:
            names[found[-1 if kind == "tres" else 0]] = name
    _times(columns, names, left)
    _clocks(columns, names, left, step)
    _amounts(columns, names, left, step)
    numeric = ("count", "reqmem", "clock")
    named = [
        i
        for i in left
        if names[i] == "" and all(_share(columns[i], kind) < 0.5 for kind in numeric)
    ]
    if named:
        names[named[0]] = "jobname"
    return names if {"state", "elapsed"} & set(names) else None


def _raw_of(ids: Sequence[str], other: Sequence[str]) -> bool:
    """Say whether a second column of numbers is JobIDRaw: a step has the same step in both."""
    ends = [(a.partition(".")[2], b.partition(".")[2]) for a, b in zip(ids, other, strict=True)]
    plain_ids = all(JOB_ID.fullmatch(b) and "_" not in b for b in other)
    long = all(len(b.partition(".")[0]) > 3 for b in other)
    return plain_ids and long and all(a == b for a, b in ends)


def _times(columns: Sequence[Sequence[str]], names: list[str], left: Sequence[int]) -> None:
    found = [i for i in left if names[i] == "" and _share(columns[i], "time") > 0.9
             and any("-" in value for value in columns[i])]  # fmt: skip
    orders = {
        4: ("submit", "eligible", "start", "end"),
        3: ("submit", "start", "end"),
        2: ("start", "end"),
    }
    for i, name in zip(found, orders.get(len(found), ()), strict=False):
        names[i] = name


def _clocks(
    columns: Sequence[Sequence[str]], names: list[str], left: Sequence[int], step: Sequence[bool]
) -> None:
    """Tell Elapsed (a step's is about its job's), TotalCPU (with parts of seconds), Timelimit."""
    found = [i for i in left if names[i] == "" and _share(columns[i], "clock") > 0.9]
    limits = [
        i
        for i in found
        if any(value in ("UNLIMITED", "Partition_Limit") for value in columns[i])
        or (any(step) and not any(v for v, s in zip(columns[i], step, strict=True) if s))
    ]
    if limits:
        names[limits[0]] = "timelimit"
    rest = [i for i in found if i not in limits]
    parts = [i for i in rest if any("." in v or v.count(":") == 1 for v in columns[i])]
    whole = [i for i in rest if i not in parts]
    if whole:
        names[whole[0]] = "elapsed"
    if parts:
        names[parts[0]] = "totalcpu"
    elif len(whole) == 2 and not limits and any(step):
        # On a step there is no limit: the second one is time on the CPU.
        names[whole[1]] = "totalcpu"


def _amounts(
    columns: Sequence[Sequence[str]], names: list[str], left: Sequence[int], step: Sequence[bool]
) -> None:
    """Tell MaxRSS (on steps only) from ReqMem (on jobs; with c or n also on steps)."""
    for i in left:
        column = columns[i]
        unit = any(value[-1:] in "KMGTcn" for value in column if value)
        if names[i] or not unit or _share(column, "reqmem") < 0.9:
            continue
        on_jobs = any(v for v, s in zip(column, step, strict=True) if not s)
        suffix = any(value[-1:] in "cn" for value in column if value)
        wanted = "reqmem" if suffix or on_jobs else "maxrss"
        if wanted not in names:
            names[i] = wanted
    counts = [i for i in left if names[i] == "" and _share(columns[i], "count") == 1
              and all(v.isdigit() for v in columns[i] if v)]  # fmt: skip
    if len(counts) == 1 and "alloccpus" not in names and max(map(len, columns[counts[0]])) < 6:
        names[counts[0]] = "alloccpus"
