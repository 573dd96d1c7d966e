"""Secrets of other tools' logs stay out, in every table and for every importer."""

from __future__ import annotations

import pyarrow as pa

from rotameter.adapters.importers.building import Builder
from rotameter.adapters.importers.cleaning import clean_tables

PLANTED = [
    "run --password=hunter2hunter2",
    "load-AKIAIOSFODNN7EXAMPLE",
    "https://ann:hunter2hunter2@example.org/x",
    "s3://bucket/a?sig=hunter2hunter2",
    "API_KEY: hunter2hunter2",
    "curl -H 'Authorization: Bearer hunter2hunter2'",
]


def test_no_column_keeps_a_secret_and_names_stay_different():
    build = Builder("x", "x")
    for number, text in enumerate([*PLANTED, "plain", "the-key-of-it-1"]):
        build.records_in += 1
        build.add("tasks", {"task_id": text, "group": text, "error": text, "user": text})
        build.add("deps", {"task_id": text, "depends_on": f"other-{number}"})
        build.add("flows", {"task_id": text, "object": text})
        build.event("instant", 1, subject=text, text=text)
    build.meta["command"] = PLANTED
    trace = build.build()
    said = str(
        [trace.meta, *(trace.table(n).to_pylist() for n in ("tasks", "deps", "flows", "events"))]
    )
    assert "hunter2" not in said and "AKIAIOSF" not in said
    ids = trace.table("tasks")["task_id"].to_pylist()
    assert len(set(ids)) == len(ids) and ids[-2:] == ["plain", "the-key-of-it-1"]
    assert trace.table("deps")["task_id"].to_pylist() == ids
    assert any("look like secrets" in word for word in trace.warnings)


def test_columns_without_secrets_stay_as_they_are():
    names = pa.chunked_array([pa.array([f"task-{i}" for i in range(1_000)])])
    table = pa.table({"task_id": names})
    cleaned, changed = clean_tables({"tasks": table})
    assert changed == 0 and cleaned["tasks"] is table
