"""The hard limits of the code style, and what a committed file may not hold."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parent.parent
SOURCE = REPO / "src" / "rotameter"
MODULES = sorted(SOURCE.rglob("*.py"))

MODULE_LINES = 500
FUNCTION_LINES = 80

# Written in two halves, so that this file does not hold what it looks for.
FORBIDDEN = re.compile(
    "|".join(
        [
            r"py" r"pi\.org",
            r"python" r"hosted\.org",
            r"registry" r"\.npmjs\.org",
            r"(?:deb|security)" r"\.debian\.org",
            r"--(?:extra-)?index" r"-url",
            r"/wo" r"rk/(?:main|shared|\.library)",
            r"/ro" r"ot/\.",
            r"/tmp/bash" r"_jobs",
        ]
    )
)

SUBMODULES = {path.stem for path in SOURCE.glob("[!_]*.py")} | {
    path.parent.name for path in SOURCE.glob("*/__init__.py")
}
HEAVY = ("numpy", "pyarrow", "dask", "distributed", "sklearn", "plotly", "pandas", "ruptures")


def committed_files() -> list[Path]:
    """Files that git tracks or would track."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", "-z"],
            cwd=REPO,
            capture_output=True,
            check=True,
        ).stdout.decode()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"not a git checkout: {error}")
    return [path for name in listed.split("\0") if name and (path := REPO / name).is_file()]


def test_modules_are_short() -> None:
    long = {
        str(path.relative_to(REPO)): lines
        for path in MODULES
        if (lines := len(path.read_text().splitlines())) > MODULE_LINES
    }
    assert not long, f"over {MODULE_LINES} lines: {long}"


def test_functions_are_short() -> None:
    long = [
        f"{path.relative_to(REPO)}:{node.lineno} {node.name} ({lines} lines)"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES
    ]
    assert not long, f"over {FUNCTION_LINES} lines: {long}"


def test_imports_are_absolute_and_name_no_private_module_of_distributed() -> None:
    bad = []
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or path.name == "_compat.py":
                continue
            private = [alias.name for alias in node.names if alias.name.startswith("_")]
            if node.level or ((node.module or "").startswith("distributed") and private):
                bad.append(f"{path.relative_to(REPO)}:{node.lineno}")
    assert not bad


def test_no_address_of_a_registry_and_no_path_of_a_machine_is_committed() -> None:
    found = []
    for path in committed_files():
        text = path.read_bytes()
        if b"\0" in text[:8192]:
            continue
        found += [
            f"{path.relative_to(REPO)}:{number}: {match.group()}"
            for number, line in enumerate(text.decode(errors="replace").splitlines(), 1)
            if (match := FORBIDDEN.search(line))
        ]
    assert not found


def test_all_names_are_the_public_names() -> None:
    import rotameter

    def ours(name: str) -> bool:
        value = vars(rotameter).get(name)
        home = getattr(value, "__module__", None) or "rotameter"
        return not name.startswith("_") and name not in SUBMODULES and home.startswith("rotameter")

    assert sorted(rotameter.__all__) == list(rotameter.__all__)
    missing = [name for name in rotameter.__all__ if not hasattr(rotameter, name)]
    assert not missing
    public = set(filter(ours, dir(rotameter))) - {"TYPE_CHECKING", "annotations"}
    assert public == set(rotameter.__all__) - SUBMODULES


@pytest.mark.parametrize(
    "statement",
    [
        "import rotameter",
        "import rotameter; rotameter.task(print); rotameter.span",
        "import rotameter.errors",
        "from rotameter.cli import main",
    ],
)
def test_imports_are_light(statement: str) -> None:
    code = f"{statement}\nimport sys\nprint(*(m for m in {HEAVY!r} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_help_is_light() -> None:
    code = (
        "import sys\nfrom rotameter.cli import main\n"
        "sys.argv = ['rotameter', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"print('heavy:', *(m for m in {HEAVY!r} if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].split() == ["heavy:"]
