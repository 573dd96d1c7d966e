"""The distribution: what it asks for, what it registers, what the wheel holds."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPO = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
RUN_TIME = [Requirement(line) for line in PROJECT["dependencies"]]
EXTRAS = [
    Requirement(line) for lines in PROJECT["optional-dependencies"].values() for line in lines
]


def pins() -> dict[str, str]:
    lines = (REPO / "constraints.txt").read_text().splitlines()
    kept = [line for line in lines if line.strip() and not line.startswith("#")]
    bad = [line for line in kept if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+]+", line)]
    assert not bad, f"not a plain pin: {bad}"
    return {canonicalize_name(line.split("==")[0]): line.split("==")[1] for line in kept}


@pytest.fixture(scope="module")
def smoke() -> ModuleType:
    spec = importlib.util.spec_from_file_location("smoke_wheel", REPO / "scripts/smoke_wheel.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_requirements_are_lower_bounds_only() -> None:
    for requirement in RUN_TIME + EXTRAS:
        assert {bound.operator for bound in requirement.specifier} <= {">="}, requirement
        assert requirement.url is None


def test_every_requirement_is_pinned_within_its_bound() -> None:
    pinned = pins()
    for requirement in RUN_TIME + EXTRAS:
        if requirement.name == "rotameter":
            continue
        name = canonicalize_name(requirement.name)
        assert name in pinned, f"{name} is not in constraints.txt"
        assert requirement.specifier.contains(pinned[name]), requirement


def test_supported_pythons() -> None:
    assert PROJECT["requires-python"] == ">=3.11,<3.14"


@pytest.mark.parametrize(
    "group", ["rotameter.advisors", "rotameter.probes", "rotameter.forecasters"]
)
def test_registered_plugins_load(group: str) -> None:
    declared = PROJECT["entry-points"][group]
    found = {entry.name: entry for entry in entry_points(group=group)}
    assert declared.keys() <= found.keys(), "stale install: run make venv"
    for name in declared:
        assert callable(found[name].load()), name


def test_version_is_one() -> None:
    import rotameter

    assert rotameter.__version__ == PROJECT["version"]


def test_each_finding_has_a_page() -> None:
    pages = {path.stem for path in (REPO / "docs/reference/findings").glob("*.md")}
    assert PROJECT["entry-points"]["rotameter.advisors"].keys() <= pages


@pytest.mark.slow
def test_wheel_holds_the_package_and_nothing_else(smoke: ModuleType, tmp_path: Path) -> None:
    wheel = smoke.build_wheel(tmp_path / "build")
    assert smoke.check_archive(wheel) == []


def test_command_is_installed() -> None:
    tool = Path(sys.executable).with_name("rotameter")
    assert tool.exists()
    done = subprocess.run([tool, "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    for command in ("run", "report", "stats", "diagnose", "forecast", "doctor"):
        assert command in done.stdout
