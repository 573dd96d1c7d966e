"""``rotameter collect slurm``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rotameter.cli.collect import collect
from rotameter.errors import TraceNotFound, UsageError

SACCT = """\
#!{python}
import sys
if "--helpformat" in sys.argv:
    print("JobID State Elapsed")
else:
    print("JobID|State|Elapsed")
    print("7|COMPLETED|00:02:00")
"""


def _run(*argv: str) -> Result:
    return CliRunner().invoke(collect, ["slurm", *argv])


def test_print_shows_the_command_and_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    ran = _run("--jobs", "12,13_4", "--print", "-o", "my jobs.txt")
    assert ran.exit_code == 0
    assert ran.stdout.startswith("SLURM_TIME_FORMAT=%Y-%m-%dT%H:%M:%S%z sacct --parsable2")
    assert ran.stdout.endswith(" --jobs=12,13_4 > 'my jobs.txt'\n")


def test_writes_what_sacct_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "sacct"
    script.write_text(SACCT.format(python=sys.executable))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    out = tmp_path / "jobs.txt"
    ran = _run("--since", "7d", "-o", str(out))
    assert ran.exit_code == 0 and ran.stdout == ""
    assert "1 row to" in ran.stderr and "rotameter report" in ran.stderr
    assert out.read_text() == "JobID|State|Elapsed\n7|COMPLETED|00:02:00\n"


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (("--jobs", "7"), UsageError),
        (("-o", "jobs.txt"), UsageError),
        (("--jobs", "x", "--print"), UsageError),
        (("--since", "2025-02-30", "--print"), UsageError),
        (("--since", "2025-02-03T25:00", "--print"), UsageError),
        (("--jobs", "7", "-o", "nodir/jobs.txt"), UsageError),
        (("--jobs", "7", "-o", "jobs.txt"), TraceNotFound),
    ],
)
def test_what_is_wrong_is_said(
    argv: tuple[str, ...], error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "")
    assert isinstance(_run(*argv).exception, error)
    assert not list(tmp_path.iterdir())
