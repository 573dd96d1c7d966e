"""``rotameter run`` beside a site's Dask configuration: kept where good, harmless where broken."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from rotameter.profiler.store import open_trace

pytestmark = pytest.mark.e2e


def _run(place: Path, body: str, **env: str) -> subprocess.CompletedProcess[str]:
    (place / "job.py").write_text(textwrap.dedent(body))
    return subprocess.run(
        [sys.executable, "-m", "rotameter", "run", "job.py"],
        cwd=place,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=100,
    )


def _configuration(place: Path, text: str) -> str:
    folder = place / "configuration"
    folder.mkdir()
    (folder / "site.yaml").write_text(text)
    return str(folder)


@pytest.mark.parametrize(
    "text",
    [
        "distributed: [unclosed\n  - {",
        "- a list\n- at the top\n",
        "distributed: nothing\n",
        "distributed:\n  client:\n    preload: 7\n",
        "distributed:\n  client:\n    preload: [2026-01-01, {a: 1}]\n",
        "distributed:\n  client: null\n",
    ],
)
def test_a_broken_configuration_does_not_stop_a_program_without_dask(
    tmp_path: Path, text: str
) -> None:
    done = _run(tmp_path, "print('ran')", DASK_CONFIG=_configuration(tmp_path, text))
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr
    assert "bug in rotameter" not in done.stderr
    assert len(open_trace(tmp_path / "run.rmt").table("tasks")) == 1


def test_a_variable_is_kept_beside_a_broken_configuration(tmp_path: Path) -> None:
    done = _run(
        tmp_path,
        "import os; print(os.environ['DASK_DISTRIBUTED__CLIENT__PRELOAD'])",
        DASK_CONFIG=_configuration(tmp_path, "distributed: [unclosed\n"),
        DASK_DISTRIBUTED__CLIENT__PRELOAD="['site_a', 'site_b']",
    )
    assert done.stdout.startswith('["site_a", "site_b", "'), done.stderr


@pytest.mark.parametrize("by", ["yaml", "variable"])
def test_a_sites_own_preload_is_kept(tmp_path: Path, by: str) -> None:
    (tmp_path / "site_preload.py").write_text(
        "def dask_setup(client):\n    print('the site was here')\n"
    )
    env = {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    if by == "yaml":
        text = "distributed:\n  client:\n    preload: [site_preload]\n"
        env["DASK_CONFIG"] = _configuration(tmp_path, text)
    else:
        env["DASK_DISTRIBUTED__CLIENT__PRELOAD"] = "site_preload"
    done = _run(
        tmp_path,
        """
        from distributed import Client

        def double(x):
            return 2 * x

        if __name__ == "__main__":
            with Client(n_workers=1, threads_per_worker=1, dashboard_address=":0") as client:
                print(sum(client.gather(client.map(double, range(5)))))
        """,
        **env,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "the site was here\n20\n"
    rows = open_trace(tmp_path / "run.rmt").table("tasks").to_pylist()
    assert [r["group"] for r in rows] == ["double"] * 5
