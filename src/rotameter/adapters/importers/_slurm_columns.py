"""Which column of a ``sacct`` listing is which, by its header.

Field names: https://slurm.schedmd.com/sacct.html (``sacct --helpformat``). Names are compared in
small letters and without ``_`` and blanks.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from rotameter.adapters.importers._slurm_values import JOB_ID, words

__all__ = ["KNOWN", "Layout", "fits", "from_names", "header", "kind_of", "plain", "spelled"]

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
_ANYONE = frozenset(
    words(
        """jobid user group account partition cluster state start end submit comment priority
        flags layout reason extra container"""
    )
)
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


def spelled(line: str, layout: Layout) -> int:
    """Count the fields that a header names as sacct does, in capitals or not; 0 without a job id.

    Other tools write ``job_id`` or ``max_rss``, sacct never does.

    Examples
    --------
    >>> spelled("jobid|State|X", header("jobid|State|X"))
    2
    >>> spelled("job_id,state,user", header("job_id,state,user"))
    0
    """
    mark = layout.delimiter
    names = [line[a:b] for a, b in layout.spans] if layout.spans else line.split(mark)
    found = {name.strip(' "\r').partition("%")[0].lower() for name in names} & KNOWN
    if not found & {"jobid", "jobidraw"}:
        return 0
    # Words that anyone may use as they are say little where the delimiter is anyone's too.
    if layout.delimiter in ",;\t " and not layout.spans and not found - _ANYONE:
        return 0
    return len(found)
