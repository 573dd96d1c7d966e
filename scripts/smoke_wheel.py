"""Build the wheel and try it in a clean environment outside the checkout.

``python scripts/smoke_wheel.py`` builds from a copy of the sources, looks into the archive,
installs it with the pinned versions and runs itself there with ``--inside``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
NEEDED_FILES = ("rotameter/__init__.py", "rotameter/py.typed")
HEAVY = ("numpy", "pyarrow", "dask", "distributed", "sklearn", "plotly", "pandas")
GROUPS = (
    "advisors",
    "allocators",
    "detectors",
    "exporters",
    "forecasters",
    "importers",
    "policies",
    "probes",
    "stores",
)


def data_files() -> list[str]:
    """Every non-Python file under src/rotameter, as its path in the wheel."""
    source = REPO / "src"
    return sorted(
        path.relative_to(source).as_posix()
        for path in (source / "rotameter").rglob("*")
        if path.is_file() and path.suffix not in {".py", ".pyc"}
    )


def build_wheel(out: Path) -> Path:
    """Build from a copy, so that nothing stale in the checkout gets in and nothing is left there.

    Needs setuptools in the running environment; nothing is downloaded.
    """
    copy = out / "source"
    copy.mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPO / name, copy / name)
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(REPO / "src", copy / "src", ignore=ignore)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out)]
    done = subprocess.run([*command, str(copy)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"the wheel does not build:\n{done.stdout}\n{done.stderr}")
    (wheel,) = out.glob("*.whl")
    return wheel


def check_archive(wheel: Path) -> list[str]:
    """Give what is wrong with the files of a wheel."""
    names = zipfile.ZipFile(wheel).namelist()
    wrong = []
    if not wheel.name.endswith("-py3-none-any.whl"):
        wrong.append(f"not a pure wheel: {wheel.name}")
    top = {name.split("/")[0] for name in names}
    if stray := {name for name in top if name != "rotameter" and not name.endswith(".dist-info")}:
        wrong.append(f"stray top-level names: {sorted(stray)}")
    wrong += [f"missing file: {n}" for n in (*NEEDED_FILES, *data_files()) if n not in names]
    modules = {p.relative_to(REPO / "src").as_posix() for p in (REPO / "src").rglob("*.py")}
    wrong += [f"missing module: {name}" for name in sorted(modules - set(names))]
    return wrong


def inside() -> None:
    """Check the installed package; runs in the clean environment, away from the checkout."""
    import rotameter

    place = Path(rotameter.__file__).resolve().parent
    assert "site-packages" in place.parts, f"imported from {place}"
    heavy = [name for name in HEAVY if name in sys.modules]
    assert not heavy, f"import rotameter pulls in {heavy}"

    from importlib.metadata import entry_points, version

    assert version("rotameter"), "no version"
    loaded = 0
    for group in GROUPS:
        for entry in entry_points(group=f"rotameter.{group}"):
            assert callable(entry.load()), entry
            loaded += 1
    assert loaded, "no entry point of ours is registered"
    tool = Path(sys.executable).with_name("rotameter")
    shown = subprocess.run([tool, "--help"], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert "report" in shown.stdout, shown.stdout
    unknown = subprocess.run([tool, "report", "no-such.rmt"], capture_output=True, text=True)
    assert unknown.returncode in (1, 2), unknown
    assert "Traceback" not in unknown.stderr, unknown.stderr
    traced = (
        "import rotameter as rm\n"
        "@rm.task\n"
        "def double(x): return 2 * x\n"
        "if __name__ == '__main__':\n"
        "    with rm.trace('run.rmt') as run: assert double(21) == 42\n"
        "    run.report('report.html')\n"
    )
    Path("script.py").write_text(traced)
    subprocess.run([sys.executable, "script.py"], check=True)
    assert Path("report.html").stat().st_size > 10_000
    print(f"wheel: {loaded} plug-ins load, the command answers, a report is made")


def main() -> None:
    """Build, look, install, try."""
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL"))
    }
    with tempfile.TemporaryDirectory(prefix="rotameter-wheel-") as scratch:
        folder = Path(scratch)
        wheel = build_wheel(folder / "build")
        if wrong := check_archive(wheel):
            raise SystemExit("\n".join(wrong))
        print(f"wheel: {wheel.name}, {wheel.stat().st_size:,} bytes")
        subprocess.run([sys.executable, "-m", "venv", str(folder / "env")], check=True)
        python = str(folder / "env" / "bin" / "python")
        install = [python, "-m", "pip", "--disable-pip-version-check", "install", "-q"]
        pins = ["-c", str(REPO / "constraints.txt")]
        subprocess.run([*install, *pins, str(wheel)], check=True, env=environment)
        away = folder / "away"
        away.mkdir()
        shutil.copy(__file__, away / "smoke.py")
        command = [python, "-I", "smoke.py", "--inside"]
        subprocess.run(command, check=True, env=environment, cwd=away)


if __name__ == "__main__":
    inside() if "--inside" in sys.argv else main()
