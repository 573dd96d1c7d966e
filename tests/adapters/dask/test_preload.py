"""The facts of a run that a scheduler's preload writes, and what distributed says of preloads."""

from __future__ import annotations

import json
import logging

from rotameter.adapters import dask
from rotameter.adapters.dask.preload import begin_meta, end_meta


def test_a_run_begins_and_ends(tmp_path):
    started_ns = begin_meta(str(tmp_path))
    meta = json.loads((tmp_path / "meta.json").read_text())
    assert meta["run"] == {"status": "running", "started_ns": started_ns}
    assert (meta["schema"], meta["engine"], meta["time_base"]) == (1, "dask", "epoch_ns")
    end_meta(str(tmp_path), started_ns)
    run = json.loads((tmp_path / "meta.json").read_text())["run"]
    assert run["status"] == "ok" and run["ended_ns"] >= started_ns
    assert [path.name for path in tmp_path.iterdir()] == ["meta.json"]


def test_the_meta_of_another_writer_is_left_alone(tmp_path):
    path = tmp_path / "meta.json"
    path.write_text('{"run": {"status": "failed"}}')
    assert begin_meta(str(tmp_path)) is None
    end_meta(str(tmp_path), None)
    assert json.loads(path.read_text()) == {"run": {"status": "failed"}}
    path.unlink()
    started_ns = begin_meta(str(tmp_path))
    path.write_text('{"run": {"status": "failed"}}')
    end_meta(str(tmp_path), started_ns)
    assert json.loads(path.read_text()) == {"run": {"status": "failed"}}


def test_a_secret_of_two_words_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["small.py", "--password", "argvsecret77", "--n", "3"])
    begin_meta(str(tmp_path))
    text = (tmp_path / "meta.json").read_text()
    assert "argvsecret77" not in text
    assert json.loads(text)["command"] == ["small.py", "--password", "[redacted]", "--n", "3"]


def test_only_our_own_preloads_are_hushed(caplog):
    logger = logging.getLogger("distributed.preloading")
    with caplog.at_level(logging.INFO, logger="distributed.preloading"):
        logger.info("Run preload setup: %s", dask.__name__)
        logger.info("Run preload setup: %s", "/x/rotameter/adapters/dask/preload_client.py")
        logger.info("Run preload setup: %s", "site_preload")
        logger.error("Failed to start preload: %s", dask.__name__)
    with caplog.at_level(logging.INFO, logger="distributed.utils"):
        for name in ("preload_client", "site_preload"):
            logging.getLogger("distributed.utils").info(
                "Reload module %s from %s file", name, ".py"
            )
    said = [record.args[0] for record in caplog.records]
    assert said == ["site_preload", dask.__name__, "site_preload"]
