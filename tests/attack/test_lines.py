# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Members of the cluster that are not ranks, and ranks that send nonsense, beside the ranks' own messages: Horovod's
lines between ranks, and MPI's messages from any source."""

import contextlib
import os
import pathlib
import pickle
import queue
import struct
from collections.abc import Iterator

import numpy as np
import pytest

from fusewire import collective, p2p
from fusewire.horovod.common import joining, lines
from fusewire.mpi import messages

pytestmark = pytest.mark.once
LIMIT_S = 20.0
TAG = lines._TAG


@contextlib.contextmanager
def endpoints(*names: str) -> Iterator[list[p2p.Endpoint]]:
    """In one cluster. All are connected to the first one."""
    with contextlib.ExitStack() as stack:
        ends = [stack.enter_context(p2p.Endpoint(name)) for name in names]
        for other in ends[1:]:
            other.connect(ends[0].name, ends[0].address, LIMIT_S)
            ends[0].peer(other.name)
        yield ends


class Liar:
    """Sends any message to the first endpoint."""

    def __init__(self, end: p2p.Endpoint, to: p2p.Endpoint, tag: int = TAG):
        self._end, self._peer, self._tag = end, end.peer(to.name), tag

    def say(self, data: bytes) -> None:
        with contextlib.suppress(p2p.Error):  # it may hear that this is too long
            self._end.send(self._peer, self._tag, np.frombuffer(data, np.uint8), LIMIT_S, confirm=True)


def piece(text: bytes, more: bool = False, number: int = 1) -> bytes:
    """As the lines of two ranks were before, with the number of a sender that may lie."""
    return struct.pack("<?I", more, number) + text


NONSENSE = {
    "nothing": b"",
    "a short one": b"\0\1",
    "no JSON": b"\0{",
    "no text": b"\0\xff\xfe",
    "no object": b"\0[1]",
    "deep": b"\0" + b"[" * 30000,
    "an old head": piece(b'{"round": 0}'),
    "too long": b"\0" + b" " * lines._PIECE * 2,
}


@pytest.mark.parametrize("words", NONSENSE.values(), ids=NONSENSE.keys())
@pytest.mark.parametrize("who", ["a rank", "a stranger"])
def test_nonsense_ends_no_thread(words, who):
    with endpoints("g:0", "g:1", "stranger") as (zero, one, stranger):
        heard: queue.SimpleQueue[tuple[int, dict]] = queue.SimpleQueue()
        here = lines.Lines(zero, ["g:0", "g:1"], 0, lambda sender, line: heard.put((sender, line)))
        Liar(one if who == "a rank" else stranger, zero).say(words)
        there = lines.Lines(one, ["g:0", "g:1"], 1, lambda *_: None)
        there.send(0, {"round": 7})
        assert heard.get(timeout=LIMIT_S) == (1, {"round": 7})
        there.close()
        here.close()
        assert heard.empty()


def test_a_line_is_of_the_rank_that_has_sent_it():
    with endpoints("g:0", "g:1", "g:2", "stranger") as (zero, one, two, stranger):
        heard: queue.SimpleQueue[tuple[int, dict]] = queue.SimpleQueue()
        names = ["g:0", "g:1", "g:2"]
        here = lines.Lines(zero, names, 0, lambda sender, line: heard.put((sender, line)))
        for liar in (one, stranger):
            for more in (True, False):
                Liar(liar, zero).say(piece(b'{"round": 1}', more, 2))
                Liar(liar, zero).say(bytes([more]) + b'{"round": 2}')
        sender = lines.Lines(two, names, 2, lambda *_: None)
        sender.send(0, {"round": 3})
        found = [heard.get(timeout=LIMIT_S)]
        while found[-1] != (2, {"round": 3}):
            found.append(heard.get(timeout=LIMIT_S))
        assert {number for number, _ in found[:-1]} <= {1}
        sender.close()
        here.close()


def test_a_line_without_end_holds_a_bounded_memory(monkeypatch):
    monkeypatch.setattr(lines, "_LINE_MAX", 1 << 17, raising=False)
    with endpoints("g:0", "g:1") as (zero, one):
        heard: queue.SimpleQueue[tuple[int, dict]] = queue.SimpleQueue()
        here = lines.Lines(zero, ["g:0", "g:1"], 0, lambda sender, line: heard.put((sender, line)))
        liar = Liar(one, zero)
        for _ in range(20):
            liar.say(b"\1" + b" " * lines._PIECE)
        assert sum(map(len, here._parts.values())) <= (1 << 17) + lines._PIECE
        liar.say(b"\0{}")  # the end of that line
        liar.say(b'\0{"round": 1}')
        assert heard.get(timeout=LIMIT_S) == (1, {"round": 1})
        here.close()


LIES = [
    {},
    {"round": "1"},
    {"round": True, "last": 0},
    {"round": 0, "last": "0"},
    {"round": 0, "turns": [1]},
    {"round": 0, "turns": {"0": "many"}},
    {"round": 0, "told": [1, 2]},
    {"round": 0, "told": None},
    {"round": -1, "last": 1},
]


@pytest.mark.parametrize("line", LIES, ids=str)
def test_a_rank_that_sends_nonsense_ends_no_join(line):
    with endpoints("g:0", "g:1") as (zero, one):
        joiner = joining.Joiner(zero, ["g:0", "g:1"], 0, dict)
        there = lines.Lines(one, ["g:0", "g:1"], 1, lambda *_: None)
        there.send(0, line)
        for number in range(5000):
            there.send(0, {"round": number + 10, "last": 0})
        there.send(0, {"round": 0, "turns": {}})
        assert joiner.join() in (0, 1)
        assert len(joiner._rounds) < 100
        there.close()
        joiner.close()


class Told:
    """Unpickling it makes a folder."""

    def __init__(self, path: pathlib.Path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.fixture
def mail(monkeypatch):
    """The mail of rank 0 of two, and that of rank 1, and a stranger in the cluster."""
    with endpoints("g:0", "g:1", "stranger") as ends:
        members = [(end.name, end.address) for end in ends[:2]]
        monkeypatch.setattr(collective, "members", lambda: members)
        monkeypatch.setattr(collective, "endpoint", lambda: ends[0])
        yield messages.Mail(0, 0, [0, 1]), ends


def test_from_any_source_means_from_any_rank(mail):
    here, (_, one, stranger) = mail
    into = np.zeros(4, np.int64)
    request = here.receive(into, messages.ANY_SOURCE, 5, LIMIT_S)
    tag = here._tag(messages._ARRAY, 5)
    stranger.send(stranger.peer("g:0"), tag, np.full(4, 9), LIMIT_S, confirm=True)
    assert not request.test()[0]
    one.send(one.peer("g:0"), tag, np.full(4, 1), LIMIT_S, confirm=True)
    status = messages.Status()
    request.wait(status)
    assert (status.Get_source(), into.tolist()) == (1, [1] * 4)


def test_nothing_of_a_stranger_is_unpickled(mail, tmp_path):
    here, (_, one, stranger) = mail

    def send(end: p2p.Endpoint, value: object) -> None:
        packed = np.frombuffer(pickle.dumps(value), np.uint8)
        for kind, array in ((messages._LENGTH, np.array([len(packed)])), (messages._OBJECT, packed)):
            end.prepare_send(end.peer("g:0"), here._tag(kind, 5), array).post(LIMIT_S)

    request = here.receive_object(messages.ANY_SOURCE, 5, LIMIT_S)
    send(stranger, Told(tmp_path / "run"))
    send(one, "words")
    assert request.wait() == "words"
    assert not (tmp_path / "run").exists()
