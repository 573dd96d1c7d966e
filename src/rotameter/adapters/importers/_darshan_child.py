"""Reads Darshan logs with libdarshan-util, in a process of its own.

The library is C and believes what a log says: a damaged one can end its process. So it runs apart:
a path a line comes in, a JSON document a line goes out; the importer starts another where one died.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import Any

MODULES = ("POSIX", "MPI-IO", "STDIO")
_MEMORY_LIMIT_BYTES = 16 << 30
_RECORDS_LIMIT = 20_000_000


def _records(backend: Any, log: Any, module: str) -> list[Any]:
    found: list[Any] = []
    while len(found) < _RECORDS_LIMIT:
        record = backend.log_get_record(log, module, dtype="dict")
        if record is None:
            break
        counters = {k: int(v) for k, v in record["counters"].items() if _wanted(k)}
        times = {k: float(v) for k, v in record["fcounters"].items() if _wanted(k)}
        found.append([str(int(record["id"])), int(record["rank"]), {**counters, **times}])
    return found


def _wanted(name: str) -> bool:
    rest = name.partition("_")[2]
    return rest.endswith(("OPENS", "READS", "WRITES", "_TIME", "_TIMESTAMP")) or (
        rest in ("BYTES_READ", "BYTES_WRITTEN")
    )


def read(path: str) -> dict[str, Any]:
    """Give all that the importer needs of one log."""
    import darshan.backend.cffi_backend as backend

    log = backend.log_open(path)
    if not log["handle"]:
        return {"error": "not a Darshan log, or one of an unknown version"}
    try:
        modules = backend.log_get_modules(log)
        names: dict[str, str] = {}
        with contextlib.suppress(UnicodeDecodeError):
            names = {str(int(k)): v for k, v in backend.log_get_name_records(log).items()}
        return {
            "job": backend.log_get_job(log),
            "exe": backend.log_get_exe(log),
            "mounts": backend.log_get_mounts(log),
            "modules": modules,
            "names": names,
            "records": {m: _records(backend, log, m) for m in MODULES if m in modules},
        }
    finally:
        backend.log_close(log)


def main() -> None:
    """Answer each path on standard input with a line on standard output."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # The library prints to standard output, too: that is no answer.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_LIMIT_BYTES, _MEMORY_LIMIT_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, ValueError, OSError):
        pass
    for line in sys.stdin:
        try:
            answer = read(json.loads(line))
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:200]}
        out.write(json.dumps(answer) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
