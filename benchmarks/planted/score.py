"""Score stored cases: what the product says about each trace, against the measured truth.

The product is asked as a user asks it: ``rotameter diagnose TRACE --json``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.planted.base import ALSO

__all__ = ["Score", "ask", "judge", "read_cases", "score", "summary", "table"]

SHARE_QUIET = 0.05


@dataclass(frozen=True, slots=True)
class Score:
    """How one case was answered."""

    kind: str
    seed: int
    form: str
    status: str
    truth_s: float | None = None
    makespan_s: float | None = None
    rank: int | None = None
    predicted_s: float | None = None
    within: bool = False
    said: str = ""
    note: str = ""
    second: tuple[str, float, int | None, float | None, bool] | None = None


def accepted(kind: str) -> frozenset[str]:
    """Give the kinds that count as an answer.

    >>> sorted(accepted("root_overproduction"))
    ['root_overproduction', 'spill']
    """
    return ALSO.get(kind, frozenset()) | {kind}


def is_within(predicted_s: float | None, truth_s: float) -> bool:
    """Say whether a predicted saving is within max(25 %, 0.3 s) of the truth.

    >>> is_within(1.3, 1.0), is_within(1.31, 1.0), is_within(5.1, 4.0), is_within(None, 1.0)
    (True, False, False, False)
    """
    return predicted_s is not None and (
        abs(predicted_s - truth_s) <= max(0.25 * truth_s, 0.3) + 1e-9
    )


def ask(trace: Path) -> dict[str, Any]:
    """Run ``rotameter diagnose TRACE --json``.

    Raises
    ------
    RuntimeError
        If it does not give JSON.
    """
    ran = subprocess.run(
        [sys.executable, "-m", "rotameter.cli", "diagnose", str(trace), "--json"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if ran.returncode != 0:
        raise RuntimeError(f"exit {ran.returncode}: {ran.stderr.strip()[-300:]}")
    answer: dict[str, Any] = json.loads(ran.stdout)
    return answer


def _find(findings: Sequence[Mapping[str, Any]], kind: str) -> Mapping[str, Any] | None:
    """Give the best-ranked finding of a kind or what is accepted for it."""
    mine = [finding for finding in findings if finding["kind"] in accepted(kind)]
    return min(mine, key=lambda finding: finding["rank"]) if mine else None


def judge(case: Mapping[str, Any], answer: Mapping[str, Any]) -> Score:
    """Compare an answer with a case's truth."""
    findings = sorted(answer["findings"], key=lambda finding: finding["rank"])
    said = ", ".join(
        f"{f['kind']} {'?' if f['saving_s'] is None else format(f['saving_s'], '.2f')}"
        for f in findings[:4]
    )
    if case["kind"] == "healthy":
        limit = SHARE_QUIET * (answer["makespan_s"] or case["makespan_s"])
        loud = [f for f in findings if (f["saving_s"] or 0.0) > limit]
        return Score(
            "healthy", case["seed"], case["form"], case["status"], None, case["makespan_s"],
            within=not loud, said=said,
        )  # fmt: skip
    first, *others = case["truths"]
    mine = _find(findings, first["kind"])
    second = None
    if others:
        found = _find(findings, others[0]["kind"])
        second = (
            others[0]["kind"],
            others[0]["saving_s"],
            None if found is None else int(found["rank"]),
            None if found is None else found["saving_s"],
            found is not None and is_within(found["saving_s"], others[0]["saving_s"]),
        )
    predicted = None if mine is None else mine["saving_s"]
    return Score(
        case["kind"], case["seed"], case["form"], case["status"], first["saving_s"],
        case["makespan_s"], None if mine is None else int(mine["rank"]), predicted,
        is_within(predicted, first["saving_s"]), said, case.get("trouble", ""), second,
    )  # fmt: skip


def read_cases(folder: Path) -> list[tuple[Path, dict[str, Any]]]:
    """Give the stored cases of a folder, in the order of their names."""
    return [
        (path.parent, json.loads(path.read_text())) for path in sorted(folder.glob("*/case.json"))
    ]


def _one(stored: tuple[Path, dict[str, Any]]) -> Score:
    place, case = stored
    if case["status"] == "failed":
        return Score(case["kind"], case["seed"], case.get("form", ""), "failed",
                     note=case["trouble"])  # fmt: skip
    try:
        return judge(case, ask(place / case["trace"]))
    except Exception as error:
        return Score(
            case["kind"], case["seed"], case["form"], "failed", note=f"diagnose: {error}"[:300]
        )


def score(folder: Path, kinds: Sequence[str] = ()) -> list[Score]:
    """Ask the product about every stored case, two at a time."""
    stored = [
        pair for pair in read_cases(folder) if not kinds or pair[1]["kind"] in (*kinds, "healthy")
    ]
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(_one, stored))


def summary(scores: Iterable[Score]) -> dict[str, Any]:
    """Sum up. Unsettled cases are counted, and in no share; failed ones are in all of them."""
    every = list(scores)
    planted = [s for s in every if s.kind != "healthy"]
    counted = [s for s in planted if s.status != "unsettled"]
    quiet = [s for s in every if s.kind == "healthy"]
    count = max(1, len(counted))
    found = [s for s in counted if s.rank is not None]
    return {
        "kinds": len({s.kind for s in counted}),
        "real_kinds": len({s.kind for s in counted if s.form == "real"}),
        "cases": len(counted),
        "unsettled": len(planted) - len(counted),
        "failed": sum(s.status == "failed" for s in every),
        "top1": sum(s.rank == 1 for s in counted) / count,
        "top3": sum(s.rank is not None and s.rank <= 3 for s in counted) / count,
        "within": sum(s.within for s in counted) / count,
        "within_of_found": sum(s.within for s in found) / max(1, len(found)),
        "healthy": len(quiet),
        "healthy_quiet": sum(s.within for s in quiet if s.status == "ok"),
    }


def table(scores: Iterable[Score]) -> str:
    """Write a line a case, then one a kind."""
    every = sorted(scores, key=lambda s: (s.kind == "healthy", s.kind, s.seed))
    lines = []
    for s in every:
        truth = "     —" if s.truth_s is None else f"{s.truth_s:6.2f}"
        made = "     —" if s.predicted_s is None else f"{s.predicted_s:6.2f}"
        whole = "     —" if s.makespan_s is None else f"{s.makespan_s:7.2f}"
        mark = "ok " if s.within else "-- "
        more = "" if s.second is None else (
            f" | 2nd {s.second[0]} {s.second[1]:.2f}: rank {s.second[2] or '—'}"
        )  # fmt: skip
        note = f" | {s.note}" if s.note else ""
        lines.append(
            f"{s.kind:24} {s.form:9} {s.seed:>6} {s.status:9} of {whole} truth {truth} "
            f"rank {s.rank or '—'} says {made} {mark} [{s.said}]{more}{note}"
        )
    lines.append("")
    for kind in dict.fromkeys(s.kind for s in every if s.kind != "healthy"):
        mine = [s for s in every if s.kind == kind and s.status != "unsettled"]
        lines.append(
            f"{kind:24} {len(mine)} cases: first {sum(s.rank == 1 for s in mine)}, among three "
            f"{sum(s.rank is not None and s.rank <= 3 for s in mine)}, saving within "
            f"{sum(s.within for s in mine)}"
        )
    return "\n".join(lines)
