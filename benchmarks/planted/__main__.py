"""``python -m benchmarks.planted run|score``: plant causes, measure them, ask the product.

python -m benchmarks.planted run --seeds 5 --healthy 40 --keep DIR
python -m benchmarks.planted run --kinds spill straggler --seed 7 --keep DIR
python -m benchmarks.planted score DIR
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.planted import score as scoring

__all__ = ["main", "run_all"]

LIMIT_S = 400.0


def _child(arguments: list[str], keep: Path, name: str, limit_s: float) -> dict[str, object]:
    """Run one case in a process of its own, so that a hung or broken one harms no other."""
    command = [sys.executable, "-m", "benchmarks.planted", "case", *arguments, "--keep", str(keep)]
    log = keep / f"{name}.log"
    with log.open("w") as out:
        child = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
        trouble = ""
        try:
            code = child.wait(timeout=limit_s)
            trouble = f"exit {code}" if code else ""
        except subprocess.TimeoutExpired:
            trouble = f"not done after {limit_s:.0f} s"
        finally:
            # What it left behind, also where we are stopped: its workers are in its session.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    target = keep / name / "case.json"
    if trouble or not target.exists():
        kind = name.rsplit("-", 1)[0] if not name.startswith("healthy") else "healthy"
        case: dict[str, object] = {
            "kind": kind, "seed": 0, "form": "", "truths": [], "status": "failed",
            "trouble": f"{trouble}; see {log.name}", "took_s": None,
        }  # fmt: skip
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(case))
        return case
    log.unlink()
    made: dict[str, object] = json.loads(target.read_text())
    return made


def run_all(
    kinds: list[str], seeds: list[int], healthy: int, keep: Path, limit_s: float = LIMIT_S
) -> None:
    """Run every case and store it under ``keep``; say how each went."""
    keep.mkdir(parents=True, exist_ok=True)
    jobs = [
        (["--kind", kind, "--seed", str(seed)], f"{kind}-{seed}")
        for seed in seeds
        for kind in kinds
    ]
    jobs += [
        (["--kind", "healthy", "--seed", str(seeds[0]), "--number", str(number)],
         f"healthy-{seeds[0]}-{number:02d}")
        for number in range(healthy)
    ]  # fmt: skip
    began = time.perf_counter()
    for number, (arguments, name) in enumerate(jobs, start=1):
        case = _child(arguments, keep, name, limit_s)
        truths = ", ".join(
            f"{t['kind']} {t['saving_s']:.2f} s"
            for t in case["truths"]  # type: ignore[attr-defined]
        )
        print(
            f"[{number}/{len(jobs)} {time.perf_counter() - began:5.0f} s] {name}: "
            f"{case['status']}; {truths or 'no cause'} {case['trouble']}",
            file=sys.stderr,
            flush=True,
        )


def _case(options: argparse.Namespace) -> int:
    from benchmarks.planted import runner

    if options.kind == "healthy":
        runner.run_healthy(options.number, options.seed, options.keep)
    else:
        runner.run_case(options.kind, options.seed, options.keep)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planted", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run cases, store them, score them")
    run.add_argument("--kinds", nargs="*", default=[])
    run.add_argument("--seeds", type=int, default=1, help="cases a kind")
    run.add_argument("--seed", type=int, help="the first seed; drawn and printed by default")
    run.add_argument("--healthy", type=int, default=0)
    run.add_argument("--keep", type=Path, required=True)
    run.add_argument("--no-score", action="store_true")
    one = commands.add_parser("case", help="run one case (used by run)")
    one.add_argument("--kind", required=True)
    one.add_argument("--seed", type=int, required=True)
    one.add_argument("--number", type=int, default=0)
    one.add_argument("--keep", type=Path, required=True)
    again = commands.add_parser("score", help="score stored cases")
    again.add_argument("folder", type=Path)
    again.add_argument("--kinds", nargs="*", default=[])
    again.add_argument("--json", action="store_true")
    commands.add_parser("kinds", help="list the kinds")
    return parser


def main() -> int:
    options = _parser().parse_args()
    # Stopped means stopped: the children are ended too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if options.command == "case":
        return _case(options)
    if options.command == "kinds":
        from benchmarks.planted import runner

        print("\n".join(runner.KINDS))
        return 0
    if options.command == "run":
        from benchmarks.planted import runner

        unknown = sorted(set(options.kinds) - set(runner.KINDS))
        if unknown:
            print(f"no such kind: {', '.join(unknown)}", file=sys.stderr)
            return 2
        first = options.seed
        if first is None:
            first = random.SystemRandom().randrange(1, 100_000)
        print(f"seed {first}", file=sys.stderr)
        seeds = list(range(first, first + options.seeds))
        run_all(options.kinds or list(runner.KINDS), seeds, options.healthy, options.keep)
        if options.no_score:
            return 0
        options.folder, options.json = options.keep, False
    scores = scoring.score(options.folder, options.kinds)
    if options.json:
        print(json.dumps(scoring.summary(scores), indent=1))
    else:
        print(scoring.table(scores))
        print(json.dumps(scoring.summary(scores)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
