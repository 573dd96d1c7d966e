"""Listings of several clusters, and listings that tell different things of the same jobs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rotameter.adapters.importers.slurm import Importer
from rotameter.testing import import_bytes


def read(*files: str) -> Any:
    trace = import_bytes(Importer, {f"d{i}.txt": text.encode() for i, text in enumerate(files)})
    records = trace.meta["importer"]["records"]
    assert records["in"] == records["out"] + records["merged"] + records["rejected"]
    return trace


def tasks(*files: str) -> list[dict[str, Any]]:
    return read(*files).table("tasks").to_pylist()


def _job(number: int, cluster: str) -> dict[str, Any]:
    time = {"start": 1_700_000_000, "end": 1_700_000_600, "elapsed": 600}
    used = {"max": [{"type": "mem", "name": "", "count": number * 2**20}]}
    step = {
        "step": {"id": f"{number}.batch", "name": "batch"},
        "time": time,
        "state": ["COMPLETED"],
        "tasks": {"count": 1},
        "tres": {"requested": used},
    }
    return {
        "job_id": number,
        "cluster": cluster,
        "name": f"on_{cluster}",
        "state": {"current": ["COMPLETED"]},
        "time": time | {"submission": 1_699_999_000},
        "tres": {"allocated": [{"type": "cpu", "count": 1}]},
        "steps": [step],
    }


@pytest.mark.parametrize("second", [7, 8])
@pytest.mark.parametrize("apart", [True, False])
def test_steps_in_json_are_of_the_cluster_of_their_job(second: int, apart: bool) -> None:
    jobs = [_job(7, "east"), _job(second, "west")]
    lists = [[job] for job in jobs] if apart else [jobs]
    rows = tasks(*(json.dumps({"meta": {"slurm": {}}, "jobs": one}) for one in lists))
    assert [(row["task_id"], row["group"], row["peak_memory_bytes"]) for row in rows] == [
        ("east:7", "on_east", 7 * 2**20),
        (f"west:{second}", "on_west", second * 2**20),
    ]
    assert sum(row["wall_s"] for row in rows) == 1200
