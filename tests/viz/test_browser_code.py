"""The browser code's own tests, run by node where it is installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def test_browser_code_passes_its_own_tests() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed, so the browser code's own tests do not run")
    tests = sorted(str(path) for path in (Path(__file__).parent / "js").glob("*.test.mjs"))
    assert tests
    done = subprocess.run([node, "--test", *tests], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
