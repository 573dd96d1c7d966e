"""Whose the bytes of a file are, call by call, and what counting them costs."""

from __future__ import annotations


def test_a_file_that_stays_open_counts_for_the_task_that_reads_it(session, tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 640)
    with open(tmp_path / "a", "rb", buffering=0) as file:
        counts = []
        for calls in (3, 2, 0, 5):
            running = session.begin(f"t{calls}", "g")
            for _ in range(calls):
                file.read(64)
            counts.append([e[:2] for e in (running.files or {}).values()])
            session.end(running)
    assert counts == [[[192, 3]], [[128, 2]], [], [[320, 5]]]


def test_a_call_within_a_call_has_its_own_bytes(session, tmp_path):
    with open(tmp_path / "a", "wb", buffering=0) as file:
        outer = session.begin("outer", "g")
        file.write(b"12")
        inner = session.begin("inner", "g")
        file.write(b"345")
        (entry,) = inner.files.values()
        session.end(inner)
        file.write(b"6789")
        (own,) = outer.files.values()
        session.end(outer)
    assert (entry[:2], own[:2]) == ([3, 1], [6, 2])


def test_what_counting_costs_is_said(session, tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 64_000)
    before, opened = session.files_s, session.files_opened
    running = session.begin("t", "g")
    with open(tmp_path / "a", "rb", buffering=0) as file:
        while file.read(64):
            pass
    session.end(running)
    assert (session.file_calls, session.files_opened - opened) == (1000, 1)
    assert session.overhead_s >= session.files_s > before
