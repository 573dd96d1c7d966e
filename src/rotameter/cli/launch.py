"""Start the user's program in a child process, wait for it, and say what it lost.

The child is traced from inside (`rotameter.cli.child`); the parent only waits, so that a program
that is killed still leaves a trace whose facts say so.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from rotameter.errors import RotameterError, UsageError, WouldOverwrite
from rotameter.profiler.folder import free_name, run_facts
from rotameter.profiler.live.redact import redact_command

__all__ = ["Launch", "launch"]

_DEFAULT = "run.rmt"
_TRIES = 16  # runs that begin together and find the same free name
_FORWARDED = tuple(
    getattr(signal, name)
    for name in ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)
)


@dataclass(frozen=True, slots=True)
class Launch:
    """What to run and how to trace it. ``kind`` is script, module or command."""

    kind: str
    target: str
    args: tuple[str, ...]
    output: str | None
    force: bool
    level: str
    keep_errors: bool
    quiet: bool

    @property
    def argv(self) -> list[str]:
        """The child's command line."""
        if self.kind == "command":
            return [self.target, *self.args]
        return [sys.executable, "-m", "rotameter.cli.child", self.kind, self.target, *self.args]


def _check(plan: Launch) -> None:
    if plan.kind != "script":
        return
    path = Path(plan.target)
    if not path.exists():
        other = shutil.which(plan.target) is not None
        hint = f"for a command: rotameter run -- {plan.target} …" if other else "check the path"
        raise UsageError(f"no such script: {plan.target}", hint=hint)
    if path.is_file() and path.suffix not in (".py", ".pyz", ".pyw", ""):
        with contextlib.suppress(OSError), path.open("rb") as opened:
            head = opened.readline(200)
            if b"python" not in head:
                raise UsageError(
                    f"{plan.target} does not look like a Python script",
                    hint=f"for another command: rotameter run -- {plan.target} …",
                )


def _with_preload(key: str, variable: str) -> str:
    """Give the site's own preloads, with ours behind; the variable alone would replace them.

    Whatever is wrong with Dask or its configuration is the program's affair, if it uses Dask.
    """
    ours = str(Path(__file__).parent.parent / "adapters" / "dask" / "preload_client.py")
    existing: Any = None
    with contextlib.suppress(Exception, SystemExit):
        import dask

        existing = dask.config.get(key, [])
    return json.dumps([*(_words(existing) or _words(_literal(os.environ.get(variable)))), ours])


def _literal(text: str | None) -> Any:
    """Read a variable as Dask would: a Python literal, else the text itself."""
    with contextlib.suppress(Exception):
        return ast.literal_eval(text or "[]")
    return text


def _words(value: Any) -> list[str]:
    """Give a preload list as a list, whatever a site wrote; what is no text cannot be loaded."""
    if isinstance(value, str):
        return [value]
    return [w for w in value if isinstance(w, str)] if isinstance(value, (list, tuple)) else []


def _environment(plan: Launch, folder: Path) -> dict[str, str]:
    variable = "DASK_DISTRIBUTED__CLIENT__PRELOAD"
    options = {"level": plan.level, "keep_errors": plan.keep_errors}
    return {
        **os.environ,
        "ROTAMETER_TRACE": str(folder),
        "ROTAMETER_OPTIONS": json.dumps(options),
        variable: _with_preload("distributed.client.preload", variable),
    }


@contextlib.contextmanager
def _forward_signals(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Leave Ctrl-C to the child (it gets it too) and pass other signals on."""

    def forward(number: int, _: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(number)

    def interrupted(number: int, _: object) -> None:
        # A terminal (or a kill of the group) reaches the child too; a kill of this process alone
        # does not, which shows a second later.
        if not _of_terminal():
            signal.setitimer(signal.ITIMER_REAL, 1.0)

    before = {number: signal.signal(number, forward) for number in _FORWARDED}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, interrupted)
    before[signal.SIGALRM] = signal.signal(
        signal.SIGALRM, lambda _number, frame: forward(signal.SIGINT, frame)
    )
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def _of_terminal() -> bool:
    """Tell whether this is the foreground job of a terminal, so that Ctrl-C goes to all of it."""
    with contextlib.suppress(OSError), open("/dev/tty", "rb") as terminal:
        return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    return False


def _wait(child: subprocess.Popen[bytes]) -> tuple[int, Any]:
    """Wait for the child; its return code (negative: a signal) and its resource usage."""
    with _forward_signals(child):
        while True:
            try:
                _, status, usage = os.wait4(child.pid, 0)
                break
            except InterruptedError:
                continue
    child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, usage


def _ended(code: int, outcome: dict[str, Any]) -> dict[str, Any]:
    """How the program ended: what it said itself, unless the kernel knows better."""
    if code < 0:
        with contextlib.suppress(ValueError):
            name = signal.Signals(-code).name
            status = "interrupted" if -code in (signal.SIGINT, signal.SIGTERM) else "failed"
            return {"status": status, "signal": -code, "error": f"killed by {name}"}
        return {"status": "failed", "signal": -code, "error": f"killed by signal {-code}"}
    if outcome.get("exit_code") == code:
        return outcome
    return {"status": "failed" if code else "ok", "exit_code": code}


def _program_row(plan: Launch, folder: Path, run: dict[str, Any], usage: Any, child: int) -> None:
    """Record the program itself as one attempt, where it recorded no task of its own."""
    from rotameter.profiler.live.process import open_segment

    recorder = open_segment(str(folder), "launcher")
    columns = {
        "task_id": f"program-{child}",
        "attempt": 1,
        "group": Path(plan.target).name,
        "worker": "launcher",
        "started_ns": run["started_ns"],
        "ended_ns": run["ended_ns"],
        "outcome": {"ok": "ok", "interrupted": "cancelled"}.get(run["status"], "failed"),
        "outcome_kind": "reported",
        "error": run.get("error"),
        "cpu_s": usage.ru_utime + usage.ru_stime,
        # The largest single process, not the sum over the tree.
        "peak_memory_bytes": usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
        "peak_memory_kind": "lower_bound",
        "exit_code": run.get("exit_code"),
        "signal": run.get("signal"),
        "source": "launcher",
    }
    recorder.channel("tasks", tuple(columns)).add(tuple(columns.values()))
    recorder.close()


def _make_folder(plan: Launch) -> Path:
    """Make the trace's folder; only a name that was not chosen makes way for what exists."""
    from rotameter.profiler import store

    if plan.output is not None or plan.force:
        place = Path(plan.output or _DEFAULT).expanduser().absolute()
        return store.create(place, force=plan.force)
    for _ in range(_TRIES):
        with contextlib.suppress(WouldOverwrite, FileExistsError):  # another run took the name
            return store.create(free_name(Path(_DEFAULT).absolute()))
    return store.create(Path(_DEFAULT).absolute())


def launch(plan: Launch) -> int:
    """Run the program, close the trace, print the verdict; give the program's exit code."""
    from rotameter.profiler import store

    _check(plan)
    if plan.output == "":
        raise UsageError("the name of the trace is empty", hint="-o run.rmt")
    started_ns = time.time_ns()
    facts = run_facts()
    facts["command"] = redact_command([plan.target, *plan.args])
    run = {"status": "running", "started_ns": started_ns}
    try:
        folder = _make_folder(plan)
        store.update_meta(folder, run=run, engine="python", **facts)
    except OSError as error:
        raise RotameterError(
            f"cannot write {plan.output or _DEFAULT}: {error.strerror or error}",
            hint="choose another place with -o",
        ) from error
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:  # as some daemons leave it
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # else no exit code is kept for us
    try:
        child = subprocess.Popen(plan.argv, env=_environment(plan, folder))
    except OSError as error:
        store.remove(folder)
        raise UsageError(
            f"cannot start {plan.target}: {error.strerror or error}", hint="check the command"
        ) from error
    code, usage = _wait(child)
    outcome = store.read_meta(folder).get("outcome") or {}
    run = {"started_ns": started_ns, "ended_ns": time.time_ns(), **_ended(code, outcome)}
    run["cpu_s"] = usage.ru_utime + usage.ru_stime
    try:
        _close(plan, folder, run, usage, child.pid)
    except Exception as error:  # the program's result stands, whatever becomes of the trace
        click.echo(f"rotameter: the trace could not be closed: {error}", err=True)
    return code if code >= 0 else 128 - code


def _close(plan: Launch, folder: Path, run: dict[str, Any], usage: Any, child: int) -> None:
    from rotameter import api
    from rotameter.profiler import store

    trace = store.compact(folder, run=run)
    if not len(trace.table("tasks")):
        _program_row(plan, folder, run, usage, child)
        trace = store.compact(folder)
    if plan.quiet:
        return
    shown = os.path.relpath(folder)
    shown = f"./{shown}" if shown.startswith("-") else shown  # no option
    verdict = api.diagnose(trace)
    click.echo(f"\nrotameter: {verdict.sentence}", err=True)
    click.echo(f"trace:  {shown}", err=True)
    page = f"{Path(shown).stem}.html"
    page = f"./{page}" if page.startswith("-") else page
    command = shlex.join(["rotameter", "report", shown, "-o", page])
    click.echo(f"report: {command}", err=True)
