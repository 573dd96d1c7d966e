"""Law 9: what is planted in URLs, arguments, errors and environment is in no output."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from rotameter.profiler.schema import TABLES
from rotameter.profiler.store import open_trace

pytestmark = pytest.mark.e2e

# Each is planted where its name says; all have forms that are seen in the wild.
PLANTED = {
    "url_password": "hunter2-url-pass",
    "url_query": "sig-9f8e7d6c5b4a",
    "argument": "argument-value-Zq81",
    "error_tail": "second-line-of-the-error-77",
    "error_token": "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "aws": "AKIAIOSFODNN7EXAMPLE",
    "environment": "env-secret-5512",
    "command_line": "cli-secret-8843",
    "result": "result-value-4471",
    "two_words": "argvsecret77",
    "span": "spansecret11",
    "key_tuple": "tuplesecret22",
    "key_named": "namedsecret33",
    "literal": "literal-argument-55",
    "cut": "cutsecret66",
    "worker": "workername88",
    "label": "labelsecret99",
}
# What stands in the program's own text is written into it.
WRITTEN = {
    "@LITERAL@": PLANTED["literal"],
    "@LONG@": "https://ann:" + PLANTED["cut"] * 15 + "@host/x",
}

SCRIPT = """
    import os, sys, time
    import rotameter as rm
    from dask.distributed import Client, Nanny, Scheduler, SpecCluster, span
    from distributed.metrics import context_meter

    P = dict(line.split("=", 1) for line in open("planted.txt").read().splitlines())
    os.environ["SERVICE_TOKEN"] = P["environment"]

    class UrlFile:
        pass

    @rm.task
    def local(argument):
        with rm.span(f"get https://user:{P['url_password']}@host/x?sig={P['url_query']}"):
            return P["result"]

    def fails(argument):
        raise ValueError(
            f"cannot open s3://user:{P['url_password']}@bucket/a?key={P['url_query']} "
            f"token={P['error_token']} {P['aws']}\\n{P['error_tail']}"
        )

    def works(argument):
        return P["result"]

    def metered(argument):
        with context_meter.meter(f"get https://u:{P['label']}@h/a"):
            return 1

    if __name__ == "__main__":
        local(P["argument"])
        scheduler = {"cls": Scheduler, "options": {"dashboard_address": ":0"}}
        nanny = {"cls": Nanny, "options": {"nthreads": 1}}
        with SpecCluster(
            workers={f"w-token={P['worker']}": nanny}, scheduler=scheduler
        ) as cluster, Client(cluster) as client:
            client.submit(works, "@LITERAL@").result()
            client.submit(metered, 2).result()
            client.submit(int, 7, key="cut").result()  # an address that the cut may halve: @LONG@
            with span(f"load https://ann:{P['span']}@host/x?sig={P['url_query']}"):
                client.submit(works, 2, key=(f"https://u:{P['key_tuple']}@h/a", 1)).result()
            client.submit(works, 3, key=(f"load-token={P['key_named']}", 0)).result()
            client.submit(works, 4, key=f"password: {P['key_named']}").result()
            client.submit(works, P["argument"]).result()
            client.submit(works, 1, key=f"load-https://u:{P['url_password']}@h/a?k={P['url_query']}").result()
            bad = client.submit(fails, P["argument"], retries=1)
            bad.exception()
            time.sleep(1.5)  # what is metered comes with a heartbeat
        raise RuntimeError(f"password={P['error_token']}")
"""


def _everything(place: Path) -> dict[str, str]:
    """All bytes that rotameter wrote, with the compressed tables decoded."""
    texts = {}
    for path in place.rglob("*"):
        if path.is_file() and path.name not in ("job.py", "planted.txt"):
            texts[str(path)] = path.read_bytes().decode("utf-8", "replace")
    trace = open_trace(place / "run.rmt", warn=False)
    for name in TABLES:
        texts[f"table {name}"] = repr(trace.table(name).to_pylist())
    texts["meta"] = repr(trace.meta)
    return texts


def test_planted_secrets_are_nowhere(tmp_path: Path) -> None:
    script = textwrap.dedent(SCRIPT)
    for mark, text in WRITTEN.items():
        script = script.replace(mark, text)
    (tmp_path / "job.py").write_text(script)
    (tmp_path / "planted.txt").write_text("\n".join(f"{k}={v}" for k, v in PLANTED.items()))
    argv = ["job.py", f"--password={PLANTED['command_line']}", "--password", PLANTED["two_words"]]
    rotameter = [sys.executable, "-m", "rotameter"]
    outputs = {}
    done = subprocess.run(
        [*rotameter, "run", *argv],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "MY_API_KEY": PLANTED["environment"]},
    )
    assert done.returncode == 1
    # The program's own traceback is the program's; what we add to stderr is ours.
    outputs["run"] = done.stderr[done.stderr.rindex("rotameter: ") :]
    for command in (
        ["report", "run.rmt", "-o", "r.html", "--findings-json", "f.json"],
        ["stats", "run.rmt", "--json"],
        ["convert", "run.rmt", "--to", "csv", "-o", "out-csv"],
        ["diagnose", "run.rmt"],
        ["diagnose", "run.rmt", "--json"],
    ):
        ran = subprocess.run(
            [*rotameter, *command], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        assert ran.returncode == 0, ran.stderr
        outputs[" ".join(command)] = ran.stdout + ran.stderr
    outputs.update(_everything(tmp_path))
    found = [(k, where) for where, text in outputs.items() for k, v in PLANTED.items() if v in text]
    assert found == []
    # The check can fail: what is not secret is there.
    assert "ValueError" in outputs["table tasks"]
    events = outputs["table events"]
    assert 'client.submit(works, "...").result()' in events
    assert "load https://host/x" in events and "'file': " in events
    assert "w-token=" in outputs["table workers"]
    assert "fine/execute/get https://h/a" in outputs["table samples"]
    assert any("local" in text for where, text in outputs.items() if where.endswith("r.html"))


def test_trace_folders_are_for_their_owner_only(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("print('hi')")
    subprocess.run(
        [sys.executable, "-m", "rotameter", "run", "-q", "job.py"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        timeout=60,
    )
    for path in [tmp_path / "run.rmt", *(tmp_path / "run.rmt").rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
