# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""What `fusewire run` reads from the status ports of its tasks: also from those that are slow, lie, or have gone."""

import contextlib
import json
import os
import socket
import threading
import time

import pytest

from fusewire.inspect import seeing
from fusewire.launch.loop import Loop
from fusewire.launch.rates import Counters, Progress, Rates, Steps

pytestmark = pytest.mark.once
S = 10**9
ANSWER_BYTES_MAX = 100_000  # here


def line(kind, count, moved=0):
    return {"kind": kind, "count": count, "bytes": moved}


def status(now_s, *lines, pid=None):
    return {"pid": pid or os.getpid(), "now_ns": now_s * S, "lines": list(lines)}


def test_rates_are_between_two_answers():
    first = Counters.of(status(10, line("session", 100), line("step", 7), line("receive", 9, 1000)))
    assert first == Counters(10 * S, 100, 1000)
    assert first.since(None) == Progress(100)
    then = Counters.of(status(12, line("session", 300), line("receive", 9, 5000), line("provide", 9, 4000)))
    assert then.since(first) == Progress(300, 100.0, 4000.0)
    assert first.since(first) == Progress(100)  # no time has passed
    # A parameter server of star_server is in no step; one of grpc++ is in those of its workers.
    assert Counters.of(status(1, line("run_in", 9, 50))).since(Counters(0, 0, 0)) == Progress(None, None, 50.0)
    assert Counters.of(status(1, line("step", 9))).steps == 9


def test_bytes_of_collectives_are_counted_also_if_they_are_not_recorded():
    told = status(10, line("collective", 3, 700), line("receive", 1, 50))
    assert Counters.of(told).moved_bytes == 750
    assert Counters.of({**told, "numbers": {"collectives": 90, "collective_bytes": 9000}}).moved_bytes == 9050


@pytest.mark.parametrize(
    "values", [[], {}, [1, 2], ["1", 0, 0, "", True], [1, "2", 0, "", True], [1, 2, 3, 4, True], [1, 2, 3, "", 5]]
)
def test_progress_from_an_agent_is_checked(values):
    with pytest.raises(ValueError, match=r"of a task is|progress is"):
        Progress.of(values)
    assert Progress.of([1, 2.5, None, "stopped", True]) == Progress(1, 2.5, None, "stopped", True)


def test_a_told_step_replaces_the_count_and_its_rate_falls_when_no_more_come():
    seen, steps = Progress(70, 7.0, 5.0), Steps()
    assert not steps
    assert steps.added_to(seen) == seen
    steps.add(1000, now=10.0)
    assert steps.added_to(seen, now=10.0) == Progress(1000, None, 5.0, is_told=True)
    steps.add(1200, now=12.0)
    assert steps.added_to(seen, now=12.0) == Progress(1200, 100.0, 5.0, is_told=True)
    assert steps.added_to(seen, now=20.0).steps_per_s == 20.0
    for turn in range(1000):
        steps.add(1200 + turn, now=12.0 + turn)
    assert steps.added_to(seen, now=1011.0) == Progress(2199, 1.0, 5.0, is_told=True)


class Task:
    """This process, as a launcher has started it."""

    secret = "hush"
    pid = os.getsid(0)

    def __init__(self):
        self.told = []

    def on_progress(self, progress):
        self.told.append(progress)

    def turn(self):
        pass


@pytest.fixture
def port(tmp_path, monkeypatch):
    """port(answer...): the status port of this process; each question gets the next answer, None is never given."""
    # Servers of this process too.
    monkeypatch.setattr("fusewire.inspect.seeing.folders", lambda: [tmp_path / "fusewire"])
    monkeypatch.setattr("fusewire.launch.rates.EVERY_S", 0.05)
    monkeypatch.setattr("fusewire.launch.rates.ANSWER_BYTES_MAX", ANSWER_BYTES_MAX)
    with contextlib.ExitStack() as stack:

        def start(*answers):
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            asked = []

            def serve():
                for answer in answers:
                    with contextlib.suppress(OSError):
                        held, _ = listener.accept()
                        stack.callback(held.close)
                        asked.append(held.recv(4096))
                        if answer is not None:
                            held.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + answer)
                            held.close()

            thread = threading.Thread(target=serve)
            thread.start()
            stack.callback(thread.join, 30)
            stack.callback(listener.shutdown, socket.SHUT_RDWR)  # accept() returns
            entry = {"pid": os.getpid(), "start": 1, "host": "127.0.0.1", "port": listener.getsockname()[1]}
            entry["tasks"] = [{"task": "worker:0", "members": {}}]
            (tmp_path / "fusewire").mkdir(mode=0o700)
            (tmp_path / "fusewire" / "1.json").write_text(json.dumps(entry))
            return asked

        yield start


def turn_until(rates, loop, condition):
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        rates.turn()
        loop.turn(0.02)


def encode(value):
    return json.dumps(value).encode()


def test_a_task_is_asked_with_proof_and_tells_its_rates(port):
    asked = port(encode(status(10, line("session", 5))), encode(status(11, line("session", 25))))
    loop, task = Loop(), Task()
    rates = Rates(loop, lambda: [task])
    turn_until(rates, loop, lambda: len(task.told) == 2)
    rates.close()
    assert task.told == [Progress(5), Progress(25, 20.0, 0.0)]
    assert asked[0].startswith(b"GET /status.json HTTP/1.0\r\n")
    assert b"\r\nAuthorization: Fusewire " in asked[0]


def test_an_answer_that_does_not_come_is_a_state_and_delays_nothing(port, monkeypatch):
    monkeypatch.setattr(seeing, "ANSWER_S", 0.3)
    asked = port(None, *[encode(status(10, line("session", 5)))] * 20)
    loop, task = Loop(), Task()
    rates = Rates(loop, lambda: [task])
    rates.turn()
    assert task.told == asked == []  # it did not wait
    turn_until(rates, loop, lambda: Progress(5) in task.told)
    rates.close()
    assert task.told[0] == Progress(state="no answer")


@pytest.mark.parametrize(
    "lie",
    [
        b"",
        b"[]",
        b"{",
        b'{"pid": 1}',
        encode(status(10, pid=1)),
        encode({**status(10), "lines": [{"kind": "session", "count": "many"}]}),
        encode({**status(10), "now_ns": None}),
        b" " * (2 * ANSWER_BYTES_MAX),
    ],
)
def test_a_lying_port_is_ignored(port, lie):
    port(lie, encode(status(10, line("session", 5))))
    loop, task = Loop(), Task()
    rates = Rates(loop, lambda: [task])
    turn_until(rates, loop, lambda: task.told)
    rates.close()
    assert task.told == [Progress(5)]


def test_a_port_that_is_gone_and_processes_of_others_are_ignored(port, tmp_path):
    port()
    loop, task = Loop(), Task()
    other = Task()
    other.pid = -1
    file = tmp_path / "fusewire" / "1.json"
    entry = json.loads(file.read_text())
    for host in ("127.0.0.1", "::1", "no address"):
        with socket.create_server(("127.0.0.1", 0)) as gone:
            entry["port"] = gone.getsockname()[1]
        file.write_text(json.dumps({**entry, "host": host}))
        for watched in (task, other):
            rates = Rates(loop, lambda watched=watched: [watched])
            for _ in range(3):
                rates.turn()
                loop.turn(0.05)
            rates.close()
    assert task.told == other.told == []
