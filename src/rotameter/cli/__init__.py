"""The command line: one file a command; each parses and calls, and formats nothing itself."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence

import click

from rotameter import __version__
from rotameter.cli.anonymise import anonymise
from rotameter.cli.collect import collect
from rotameter.cli.compare import compare
from rotameter.cli.convert import convert
from rotameter.cli.diagnose import diagnose
from rotameter.cli.doctor import doctor
from rotameter.cli.forecast import forecast
from rotameter.cli.live import live
from rotameter.cli.plugins import plugins
from rotameter.cli.report import report
from rotameter.cli.run import run
from rotameter.cli.simulate import simulate
from rotameter.cli.size import size
from rotameter.cli.stats import stats
from rotameter.errors import RotameterError

__all__ = ["cli", "main"]


@click.group(
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.pass_context
@click.version_option(__version__, prog_name="rotameter")
def cli(context: click.Context) -> None:
    """Measure a workflow, and say what it lost and why.

    \b
    Example:
      rotameter run -o run.rmt pipeline.py
      rotameter report run.rmt -o report.html
    """  # noqa: D301
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), err=True)
        context.exit(2)


for _command in (
    run,
    report,
    diagnose,
    stats,
    size,
    simulate,
    forecast,
    compare,
    collect,
    convert,
    anonymise,
    doctor,
    live,
    plugins,
):
    cli.add_command(_command)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit.

    Exit codes: 0 ok, 1 expected error, 2 usage, 3 findings at ``--fail-on``, 4 nothing usable in
    the input, 5 optional dependency missing, 70 our own bug, 130 interrupted.
    """
    sys.exit(_main(argv))


def _main(argv: Sequence[str] | None) -> int:
    try:
        code = cli.main(list(argv) if argv is not None else None, standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except RotameterError as error:
        return _say(str(error), error.hint, error.exit_code)
    except click.exceptions.Exit as stop:
        return int(stop.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return _say("interrupted", None, 130)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = f"{context.command_path} --help" if context is not None else "rotameter --help"
        return _say(error.format_message(), hint, 2)
    except BrokenPipeError:
        _forget_stdout()
        return 0
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EIO, errno.EDQUOT):
            _forget_stdout()
            return _say(f"cannot write the output: {error.strerror}", "make room and try again", 1)
        if error.filename is not None and error.errno is not None:  # the system's word, no bug
            return _say(f"{error.filename}: {error.strerror}", "check the path", 1)
        return _our_bug()
    except Exception:
        return _our_bug()


def _forget_stdout() -> None:
    """Let what is left in stdout's buffer go nowhere at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(what: str, hint: str | None, code: int) -> int:
    click.echo(f"error: {' '.join(what.split())}", err=True)
    if hint:
        click.echo(f"hint: {hint}", err=True)
    return code


def _our_bug() -> int:
    handle, path = tempfile.mkstemp(prefix="rotameter-bug-", suffix=".txt")
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        traceback.print_exc(file=out)
    kind = sys.exc_info()[0]
    name = kind.__name__ if kind else "error"
    return _say(f"this is a bug in rotameter ({name})", f"the details are in {path}", 70)
