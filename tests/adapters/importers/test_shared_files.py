"""Every real file and every bug case: imported or refused in one sentence, and twice the same."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path

import pytest

import rotameter
from rotameter.errors import RotameterError
from rotameter.profiler.diagnose import to_json
from rotameter.profiler.stats import stats
from rotameter.viz.report import findings_document, render

SHARED = Path(os.environ.get("ROTAMETER_SHARED") or Path(__file__).parents[4] / "shared")
TWICE_BYTES = 200_000
NOT_INPUTS = ("SOURCES.md", "expected.md", "ORACLE")


def inputs() -> list[Path]:
    found = [*SHARED.glob("data/formats/**/*"), *SHARED.glob("bugcases/*/*")]
    return sorted(p for p in found if p.is_file() and not p.name.startswith(NOT_INPUTS))


def everything(path: Path, *, page: bool) -> str:
    """Give all that is said of an input as one text, or the refusal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            trace = rotameter.open(path)
        except RotameterError as error:
            assert str(error) and error.hint and error.exit_code in (1, 2, 4, 5)
            assert "\n" not in str(error)
            return f"{type(error).__name__}: {error}"
        records = trace.meta["importer"]["records"]
        assert records["in"] == records["out"] + records["merged"] + records["rejected"]
        verdict = rotameter.diagnose(trace)
        parts = [stats(trace), to_json(trace, verdict), findings_document(trace, verdict)]
        parts[2].pop("timing", None)
        assert not page or "<html" in render(trace, verdict)[:500].lower()
    return json.dumps([trace.meta, *parts], sort_keys=True, allow_nan=False, default=str)


@pytest.mark.parametrize("path", inputs(), ids=lambda p: str(p.relative_to(SHARED)))
def test_imported_or_refused(path):
    # The large ones twice: python -m benchmarks import_same_input_twice_differs.
    small = path.stat().st_size < TWICE_BYTES
    once = everything(path, page=small)
    assert not small or once == everything(path, page=False)


def test_the_shared_folder(rotameter_shared):
    assert len(inputs()) > 100
