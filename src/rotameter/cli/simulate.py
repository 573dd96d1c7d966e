"""``rotameter simulate``: a log under another policy or on another machine."""

from __future__ import annotations

import csv
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rotameter.cli._common import Given, echo_json, input_options, load
from rotameter.errors import UsageError
from rotameter.units import many, parse_bytes, parse_seconds

if TYPE_CHECKING:
    from rotameter.forecasting.cosim.machine import Machine
    from rotameter.forecasting.cosim.simulation import Simulation

__all__ = ["simulate"]

_CLASSES = ("queue", "user", "account", "group")


@click.command()
@click.argument("trace", nargs=-1, required=True)
@click.option(
    "--policy",
    default="easy",
    show_default=True,
    help="fcfs, easy, conservative, priority, fair-share, or a plug-in's name.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of the policy, such as age_weight=2.",
)
@click.option(
    "--processors",
    type=click.IntRange(1),
    help="Processors of the machine.  [default: as recorded]",
)
@click.option(
    "--node-cores",
    type=click.IntRange(1),
    help="Of one node: jobs then take nodes, not any processors.",
)
@click.option("--node-memory", help="Of one node, such as 128GB; counted where it is given.")
@click.option("--node-gpus", type=click.IntRange(1), help="Of one node.")
@click.option("--exclusive", is_flag=True, help="A job has its nodes for itself.")
@click.option("--starts", type=click.Path(dir_okay=False), help="Write a CSV file: job_id,start_s.")
@click.option("-o", "--output", type=click.Path(), help="Write the schedule as a trace, OUT.rmt.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option(
    "--force-what-if",
    is_flag=True,
    help="Answer for another machine although the replay is too far from the record.",
)
@click.option(
    "--cores",
    "cores_from",
    type=click.Choice(("requested", "granted")),
    help="Which of the two a job holds.  [default: requested, unless the log mixes units]",
)
@click.option("--by", type=click.Choice(_CLASSES), help="Classes of the wait score.")
@click.option("--price", type=click.FloatRange(0), help="Of one core for one hour, for the cost.")
@click.option("--wait-limit", help="Jobs that wait longer are late, such as 4h.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema 1).")
@input_options
def simulate(
    trace: tuple[str, ...],
    policy: str,
    settings: tuple[str, ...],
    processors: int | None,
    node_cores: int | None,
    node_memory: str | None,
    node_gpus: int | None,
    exclusive: bool,
    starts: str | None,
    output: str | None,
    force: bool,
    force_what_if: bool,
    cores_from: str | None,
    by: str | None,
    price: float | None,
    wait_limit: str | None,
    as_json: bool,
    given: Given,
) -> None:
    """Simulate the jobs of TRACE... under a policy.

    Takes logs of batch systems (SWF, Slurm). What they recorded is compared with the simulation
    first.

    \b
    Examples:
      rotameter simulate log.swf --policy easy --processors 100 --starts starts.csv
      rotameter simulate log.swf --processors 1024 --node-cores 32 --exclusive
    """  # noqa: D301
    from rotameter import api
    from rotameter.cli.convert import refuse_existing
    from rotameter.cli.simulate_text import simulation_text

    for path in (starts, output):
        refuse_existing(path, force=force, file=path == starts)
    asked = _settings(settings)
    wait_limit_s = None if wait_limit is None else _seconds(wait_limit)
    machine = _machine(processors, node_cores, node_memory, node_gpus, exclusive=exclusive)
    log = load(list(trace), given)
    began = time.perf_counter()
    done = api.simulate(
        log,
        policy.replace("-", "_"),
        machine,
        settings=asked,
        cores_from=cores_from,
        by=by,
        forced=force_what_if,
        price_core_h=price,
        wait_limit_s=wait_limit_s,
    )
    took = time.perf_counter() - began
    if starts is not None:
        _write_starts(done, starts)
    if output is not None:
        done.trace.save(output, force=force)
        click.echo(f"Wrote {output} ({many(len(done.schedule.jobs), 'job')})", err=True)
    if as_json:
        for note in done.notes:
            click.echo(f"note: {note}", err=True)
        echo_json({**done.to_dict(), "timing": {"simulate_s": took}})
    else:
        click.echo(simulation_text(done))


def _write_starts(done: Simulation, path: str) -> None:
    with Path(path).open("w", encoding="utf-8", newline="") as out:
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(("job_id", "start_s"))
        rows.writerows(zip(done.schedule.jobs.ids, done.schedule.starts_s.tolist(), strict=True))
    click.echo(f"Wrote {path} ({many(len(done.schedule.jobs), 'job')})", err=True)


def _machine(
    processors: int | None,
    node_cores: int | None,
    node_memory: str | None,
    node_gpus: int | None,
    *,
    exclusive: bool,
) -> Machine | None:
    from rotameter.forecasting.cosim.machine import Machine

    if node_cores is None:
        for name, value in (
            ("--node-memory", node_memory),
            ("--node-gpus", node_gpus),
            ("--exclusive", exclusive or None),
        ):
            if value is not None:
                raise UsageError(f"{name} goes with --node-cores", hint="say how large a node is")
        return None if processors is None else Machine(cores=processors)
    if processors is None:
        raise UsageError("--node-cores goes with --processors", hint="add --processors N")
    if processors % node_cores:
        raise UsageError(
            f"{processors} processors are no whole number of nodes of {node_cores}",
            hint=f"such as --processors {max(processors // node_cores, 1) * node_cores}",
        )
    return Machine(
        cores=node_cores,
        nodes=processors // node_cores,
        memory_bytes=None if node_memory is None else _bytes(node_memory),
        gpus=node_gpus,
        exclusive=exclusive and processors > node_cores,
    )


def _settings(texts: tuple[str, ...]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        try:
            made[name.strip().replace("-", "_")] = float(value)
        except ValueError:
            equals = ""
        if not equals or not name.strip():
            raise UsageError(f"--set {text!r}: not NAME=NUMBER", hint="such as age_weight=2")
    return made


def _bytes(text: str) -> int:
    try:
        value = parse_bytes(text)
    except (ValueError, OverflowError):
        value = 0
    if not 0 < value < 1 << 62:
        raise UsageError(f"--node-memory {text[:60]}: no amount of memory", hint="such as 128GB")
    return value


def _seconds(text: str) -> float:
    try:
        return parse_seconds(text)
    except (ValueError, OverflowError):
        raise UsageError(f"--wait-limit {text[:60]}: no time", hint="such as 4h") from None
