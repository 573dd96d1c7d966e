"""The scheduler's hub and the client's inbox, without a cluster."""

from __future__ import annotations

import asyncio
import functools
import os
import time
from pathlib import Path

import pytest

from rotameter.adapters.dask import hub as hub_module
from rotameter.adapters.dask import transport
from rotameter.adapters.dask.hub import Hub
from rotameter.adapters.dask.transport import Inbox, SegmentStore, WorkerLink, pieces
from rotameter.profiler.live.segment import MAGIC, encode_frame, read_segment


def frame(n, size=10):
    return encode_frame("deps", ("task_id", "depends_on"), [(str(n), "x" * size)])


class Client:
    """Takes what the hub sends, as the client's stream would."""

    def __init__(self):
        self.got = []
        self.gone = False

    def send(self, client, message):
        if self.gone:
            raise OSError("gone")
        self.got.append((message["n"], message["origin"], message["seq"], message["data"]))


def seqs(client):
    return [seq for _, _, seq, _ in client.got]


def test_forwards_in_order_within_a_window(monkeypatch):
    monkeypatch.setattr(hub_module, "WINDOW_BYTES", 1_000)
    client = Client()
    hub = Hub(client.send)
    hub.attach("c")
    for n in range(20):
        hub.receive("w", n, frame(n, 200))
    sent = len(client.got)
    assert 3 <= sent < 20 and hub.pending == 20
    while hub.pending:
        hub.acknowledge(client.got[-1][0], "c")
    assert seqs(client) == list(range(20))
    hub.close()


def test_holds_spools_and_drains_to_the_next_client(monkeypatch, tmp_path):
    monkeypatch.setattr(hub_module, "HELD_LIMIT_BYTES", 1_000)
    monkeypatch.setattr(hub_module.tempfile, "tempdir", str(tmp_path))
    client = Client()
    hub = Hub(client.send)
    frames = [frame(n, 300) for n in range(30)]
    for n, data in enumerate(frames):
        hub.receive(f"w{n % 3}", n // 3, data)
    assert hub.pending == 30 and hub.spool_folder is not None
    hub.attach("c")
    while hub.pending:
        hub.acknowledge(client.got[-1][0], "c")
    assert [data for *_, data in client.got] == frames
    assert hub.lost_batches == 0 and hub.spool_folder is None
    assert list(tmp_path.iterdir()) == []
    hub.close()


def test_what_a_lost_client_had_not_acknowledged_is_sent_again():
    client = Client()
    hub = Hub(client.send)
    hub.attach("c")
    for n in range(4):
        hub.receive("w", n, frame(n))
    hub.acknowledge(1, "c")
    hub.detach("c")
    hub.receive("w", 4, frame(4))
    hub.attach("d")
    assert seqs(client) == [0, 1, 2, 3, 2, 3, 4]
    hub.acknowledge(client.got[-1][0], "c")  # of the old client: not heard
    assert hub.pending == 3
    client.gone = True
    hub.receive("w", 5, frame(5))
    assert hub.client is None and hub.pending == 4


def test_the_spool_is_bounded_and_what_is_left_is_a_trace(monkeypatch, tmp_path, caplog):
    monkeypatch.setattr(hub_module, "HELD_LIMIT_BYTES", 100)
    monkeypatch.setattr(hub_module.tempfile, "tempdir", str(tmp_path))
    hub = Hub(Client().send, spool_limit_bytes=2_000)
    for n in range(30):
        hub.receive("w", n, frame(n, 200))
    assert hub.lost_batches > 0
    hub.close()
    assert "no client took these records" in caplog.text
    (folder,) = tmp_path.iterdir()
    (segment,) = (folder / "segments").iterdir()
    read = read_segment(segment.read_bytes())
    assert read.records + hub.lost_batches == 30 and read.torn_bytes == 0


def test_a_scheduler_that_writes_its_own_trace(tmp_path):
    hub = Hub(Client().send, SegmentStore(str(tmp_path)))
    hub.receive("w", 0, frame(0))
    hub.receive("v", 0, frame(1))
    hub.close()
    assert len(list((tmp_path / "segments").iterdir())) == 2


def test_the_inbox_writes_each_message_once(tmp_path):
    acknowledged = []
    inbox = Inbox(str(tmp_path), lambda error: pytest.fail(str(error)))
    for n, seq in enumerate([0, 1, 1, 0, 2]):
        inbox.receive(acknowledged.append, n, "w", seq, frame(seq), now=True)
    inbox.close()
    assert acknowledged == [0, 1, 2, 3, 4] and inbox.batches == 3
    (segment,) = (tmp_path / "segments").iterdir()
    assert [f.values[0][0] for f in read_segment(segment.read_bytes()).frames] == ["0", "1", "2"]
    assert oct(os.stat(tmp_path / "segments").st_mode)[-3:] == "700"


def test_a_message_that_was_overtaken_is_written(tmp_path):
    """Workers of one process share an origin; each sends over a stream of its own."""
    inbox = Inbox(str(tmp_path), pytest.fail)
    for seq in (1, 0, 1, 4, 0, 3, 4, 2, -1, 5):
        inbox.receive(None, 0, "w", seq, frame(seq))
    inbox.close()
    (segment,) = (tmp_path / "segments").iterdir()
    rows = [f.values[0][0] for f in read_segment(segment.read_bytes()).frames]
    assert rows == ["1", "0", "4", "3", "2", "5"]


def test_one_acknowledgement_stands_for_several_messages_or_for_much_data(tmp_path):
    acknowledged = []
    inbox = Inbox(str(tmp_path), lambda error: pytest.fail(str(error)))
    for n in range(9):
        inbox.receive(acknowledged.append, n, "w", n, frame(n))
    inbox.receive(acknowledged.append, 9, "w", 9, frame(9, transport.ACK_BYTES))
    inbox.receive(acknowledged.append, 10, "w", 10, frame(10))
    inbox.receive(acknowledged.append, 11, "w", -1, b"", now=True)
    inbox.close()
    assert acknowledged == [3, 7, 9, 11] and inbox.batches == 11


def test_at_the_end_the_client_is_asked_for_what_it_has_not_acknowledged(tmp_path):
    hub = Hub(lambda client, message: to_inbox(message))
    inbox = Inbox(str(tmp_path), lambda error: pytest.fail(str(error)))

    def to_inbox(message):
        said, now = message["data"], message.get("now", False)
        acknowledge = functools.partial(hub.acknowledge, client="c")
        inbox.receive(acknowledge, message["n"], message["origin"], message["seq"], said, now)

    hub.attach("c")
    for n in range(6):
        hub.receive("w", n, frame(n))
    began = time.monotonic()
    asyncio.run(hub.settle("w", began + 30))
    assert hub.pending == 0 and time.monotonic() < began + 20
    inbox.close()
    assert inbox.batches == 6


class Line:
    """A hub and its client's stream into an inbox, which may lose acknowledgements."""

    def __init__(self, inbox):
        self.inbox, self.deaf = inbox, False
        self.hub = Hub(self.send)

    def acknowledge(self, n):
        if not self.deaf:
            self.hub.acknowledge(n, "c")

    def send(self, client, message):
        place = message["n"], message["origin"], message["seq"], message["data"]
        self.inbox.receive(self.acknowledge, *place, message.get("now", False))


def test_a_client_that_is_back_frees_the_window_by_what_it_has_already(tmp_path, monkeypatch):
    monkeypatch.setattr(hub_module, "WINDOW_BYTES", 3 * transport.ACK_BYTES)
    inbox = Inbox(str(tmp_path), lambda error: pytest.fail(str(error)))
    line = Line(inbox)
    line.hub.attach("c")
    line.deaf = True
    for n in range(4):
        line.hub.receive("w", n, frame(n, transport.ACK_BYTES))
    while inbox.batches < 3:  # the window is full then
        time.sleep(0.01)
    line.deaf = False
    line.hub.detach("c")
    line.hub.attach("c")
    for n in range(4, 12):
        line.hub.receive("w", n, frame(n, transport.ACK_BYTES))
    asyncio.run(line.hub.settle("w", time.monotonic() + 30))
    assert line.hub.pending == 0
    inbox.close()
    assert inbox.batches == 12


def test_clients_that_share_an_inbox_are_each_acknowledged(tmp_path):
    inbox = Inbox(str(tmp_path), lambda error: pytest.fail(str(error)))
    lines = [Line(inbox), Line(inbox)]
    for line in lines:
        line.hub.attach("c")
    for n in range(40):  # every fourth message is of the second
        lines[n % 4 == 3].hub.receive(f"w{n % 4 == 3}", n, frame(n))
    inbox.close()
    assert [line.hub.pending for line in lines] == [2, 2]


def test_messages_say_of_which_trace_they_are():
    got = []
    hub = Hub(lambda client, message: got.append(message), trace="a1")
    hub.attach("c")
    hub.receive("w", 0, frame(0))
    assert got[0]["trace"] == "a1" and "now" not in got[0]


def test_a_full_disk_is_told_once_and_acknowledged(tmp_path, monkeypatch):
    errors, acknowledged = [], []
    inbox = Inbox(str(tmp_path), errors.append)
    monkeypatch.setattr(inbox.store, "append", _no_space)
    for n in range(3):
        inbox.receive(acknowledged.append, n, "w", n, frame(n), now=True)
    inbox.close()
    assert len(errors) == 1 and acknowledged == [0, 1, 2] and inbox.lost_batches == 3


def _no_space(origin, data):
    raise OSError(28, "No space left on device")


def test_pieces_are_whole_frames():
    frames = b"".join(frame(n, 50 * n) for n in range(20))
    cut = pieces(frames, limit=500)
    assert b"".join(cut) == frames and len(cut) > 3
    assert all(read_segment(MAGIC + piece).torn_bytes == 0 for piece in cut)
    assert pieces(b"") == []


def test_a_link_without_a_worker_refuses():
    with pytest.raises(OSError):
        WorkerLink("w").write(frame(0))


def test_two_origins_do_not_share_a_segment(tmp_path):
    store = SegmentStore(str(tmp_path))
    store.append("a", frame(0))
    store.close()
    store = SegmentStore(str(tmp_path))
    store.append("a", frame(1))
    store.close()
    assert sorted(p.name for p in Path(tmp_path, "segments").iterdir()) == ["a-0.seg", "a-1.seg"]
