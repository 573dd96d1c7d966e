"""``rotameter run``: the front door. Trace an untouched script, module or command."""

from __future__ import annotations

import click

__all__ = ["run"]


class _RunCommand(click.Command):
    """Remembers whether TARGET came after ``--``, which click itself swallows."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        behind = args[args.index("--") + 1 :] if "--" in args else None
        rest = super().parse_args(ctx, args)
        given = [ctx.params.get("target"), *(ctx.params.get("args") or ())]
        ctx.meta["rotameter.command"] = behind is not None and given == behind
        return rest


@click.command(cls=_RunCommand, context_settings={"allow_interspersed_args": False})
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    help="The trace.  [default: run.rmt, or run-2.rmt … where that exists]",
)
@click.option("-m", "module", is_flag=True, help="TARGET is a module, as in python -m.")
@click.option("--force", is_flag=True, help="Replace an existing trace.")
@click.option("--level", type=click.Choice(["default", "time"]), default="default")
@click.option("--keep-errors", is_flag=True, help="Keep whole error messages in the trace.")
@click.option("-q", "--quiet", is_flag=True, help="Print no verdict at the end.")
@click.argument("target")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def run(
    context: click.Context,
    output: str | None,
    module: bool,
    force: bool,
    level: str,
    keep_errors: bool,
    quiet: bool,
    target: str,
    args: tuple[str, ...],
) -> int:
    """Run a Python script, a module (-m) or any command (after --) and record a trace.

    The program's own exit code is returned. Dask clusters that it makes or connects to are
    traced too; nothing in the program changes.

    \b
    Example:
      rotameter run -o run.rmt pipeline.py --input data/
      rotameter run -m package.main
      rotameter run -- bash pipeline.sh
    """  # noqa: D301
    from rotameter.cli.launch import Launch, launch

    command = bool(context.meta.get("rotameter.command"))
    kind = "module" if module else "command" if command else "script"
    plan = Launch(kind, target, args, output, force, level, keep_errors, quiet)
    return launch(plan)
