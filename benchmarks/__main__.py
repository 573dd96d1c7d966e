"""``python -m benchmarks [NAME …] [--shared DIR] [--json] [--full]``."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from pathlib import Path

from benchmarks.harness import ROWS, Context, run_row

_MODULES = (
    "rows_tracer",
    "rows_store",
    "rows_report",
    "rows_import",
    "rows_dataflow_import",
    "rows_flow",
    "rows_folding",
    "rows_scaling",
    "rows_replay",
    "rows_storage",
    "rows_compare",
    "rows_dask_hooks",
    "rows_dask",
    "rows_why",
    "rows_planted",
    "rows_sizing",
    "rows_sizing_fresh",
    "rows_sizing_time",
    "rows_swap",
    "rows_allocate",
    "rows_allocate_faults",
    "rows_allocate_harm",
    "rows_changes",
    "rows_cosim",
    "rows_arrivals",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help="rows, or their beginnings; all by default")
    parser.add_argument("--shared", default=os.environ.get("ROTAMETER_SHARED", "../shared"))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--full", action="store_true", help="the long versions of the rows")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    for module in _MODULES:
        importlib.import_module(f"benchmarks.{module}")
    chosen = [
        name
        for name in ROWS
        if not options.names or any(name.startswith(given) for given in options.names)
    ]
    if not chosen:
        parser.error(f"no such row; known: {', '.join(ROWS)}")
    if options.list:
        for name in chosen:
            print(f"{name:40} issue {ROWS[name].issue}  {ROWS[name].target}")
        return 0
    shared = options.shared if Path(options.shared).is_dir() else None
    rows = []
    for name in chosen:
        row = run_row(name, Context(shared, options.full))
        rows.append(row)
        print(_line(row), file=sys.stderr if options.json else sys.stdout, flush=True)
    if options.json:
        print(json.dumps({"rows": rows}, indent=1))
    return 0


def _line(row: dict[str, object]) -> str:
    state = {True: "met", False: "NOT MET", None: "NOT RESOLVED"}[row["met"]]  # type: ignore[index]
    value = row["value"]
    shown = f"{value:,.4g}" if isinstance(value, (int, float)) else "—"
    interval = row["interval"]
    between = f" [{interval[0]:,.4g}, {interval[1]:,.4g}]" if interval else ""  # type: ignore[index]
    return (
        f"{row['row']:40} {shown}{between} {row['unit']} (target {row['target']}) "
        f"{state} in {row['seconds']} s  {row['note']}"
    )


if __name__ == "__main__":
    sys.exit(main())
