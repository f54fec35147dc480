# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The two ends of the connection between a launcher and its agents, each against a partner that lies or goes away."""

import json
import os
import subprocess
import sys

import pytest
from conftest import DEADLINE_S, clean_environment

from fusewire.cli import ours
from fusewire.launch import frames
from fusewire.launch.loop import Loop
from fusewire.launch.plan import Host
from fusewire.launch.processes import LOST
from fusewire.launch.rates import Progress
from fusewire.launch.remote import Remote, why_ended

pytestmark = pytest.mark.once
REQUEST = {"folder": "/", "words": ["sh", "-c", "echo $WHO; exit 3"], "plain": True, "ports": 1, "port_base": None}


class Heard:
    """A listener that remembers."""

    def __init__(self):
        self.out, self.status, self.why, self.served, self.progress = b"", None, "", False, None

    def on_output(self, stream, data):
        self.out += data

    def on_serving(self):
        self.served = True

    def on_progress(self, progress):
        self.progress = progress

    def on_end(self, status, why=""):
        self.status, self.why = status, why


@pytest.fixture
def remote():
    """A Remote, and the descriptor into which its agent writes."""
    loop = Loop()
    (from_agent, agent), (reads, to_agent) = os.pipe(), os.pipe()
    made = Remote(loop, (from_agent, to_agent), 5.0, REQUEST, lambda: "it has gone. Fix: look")
    yield made, agent, loop
    made.begin()
    made.close()
    os.close(agent)
    os.close(reads)


READY = frames.FIRST_LINE + frames.encode_json(frames.READY, 0, {"ports": [7]})


def test_an_agent_passes_on_how_far_a_task_is(remote):
    made, agent, loop = remote
    heard = Heard()
    os.write(agent, READY)
    loop.turn(1)
    made.start({}, heard)
    os.write(agent, frames.encode_json(frames.PROGRESS, 0, [7, 1.5, None, "", True]))
    loop.turn(1)
    assert heard.progress == Progress(7, 1.5, None, "", True)
    os.write(agent, frames.encode_json(frames.PROGRESS, 0, ["7", 1.5, None, "", True]))
    loop.turn(1)
    assert "the step of a task is 7, not a number" in made.error
    assert heard.status == LOST


def test_what_a_shell_prints_first_is_skipped(remote):
    made, agent, loop = remote
    os.write(agent, b"Welcome!\n\0not yet\n" + READY[:20])
    loop.turn(1)
    assert not made.is_ready
    os.write(agent, READY[20:])
    loop.turn(1)
    assert (made.answer, made.error) == ({"ports": [7]}, "")


@pytest.mark.parametrize(
    ("lie", "told"),
    [
        (b"x" * 70000, "it begins with 'xxx"),
        (b"\0fusewire agent 9.9.9\n", "fusewire 9.9.9 is installed there, but"),
        (frames.FIRST_LINE + frames.encode(99), "kind 99 of a frame is unknown"),
        (frames.FIRST_LINE + frames.HEADER.pack(frames.OUT, 0, 1 << 31), "length 2147483648 of a frame is larger"),
        (frames.FIRST_LINE + frames.encode(frames.READY, 0, b"no json"), "invalid frames"),
        (frames.FIRST_LINE + frames.encode(frames.READY, 0, b"[]"), "invalid frames"),
        (frames.FIRST_LINE + frames.encode_json(frames.READY, 0, {"error": "no room"}), "no room"),
        (READY + frames.encode(frames.OUT, 7, b"of whom?"), "invalid frames"),
        (READY + frames.encode(frames.OUT, 0xFFFFFFFF, b"of whom?"), "invalid frames"),
        (READY + frames.encode_json(frames.ENDED, 0, "well"), "invalid frames"),
        (READY + frames.encode(frames.BYE), "not expected now"),
        (READY + frames.encode(frames.OPEN), "not expected now"),
        (b"", "it has gone. Fix: look"),
    ],
)
def test_an_agent_that_lies_or_goes_is_lost_with_its_tasks(remote, lie, told):
    made, agent, loop = remote
    heard = Heard()
    made.start({}, heard)
    for start in range(0, len(lie), 60000):
        os.write(agent, lie[start : start + 60000])
        loop.turn(1)
    if not lie:
        os.dup2(os.open(os.devnull, os.O_RDONLY), agent)
        loop.turn(1)
    assert told in made.error
    assert (heard.status, told in heard.why) == (LOST, True)


class Launcher:
    """Talks to a real agent."""

    def __init__(self):
        pipe = subprocess.PIPE
        self.agent = subprocess.Popen(
            ours("fusewire.launch.agent"), env=clean_environment(), stdin=pipe, stdout=pipe, stderr=pipe
        )
        assert self.agent.stdout.read(len(frames.FIRST_LINE)) == frames.FIRST_LINE

    def send(self, data):
        self.agent.stdin.write(data)
        self.agent.stdin.flush()

    def receive(self):
        kind, task, length = frames.HEADER.unpack(self.agent.stdout.read(frames.HEADER.size))
        return kind, task, self.agent.stdout.read(length)

    def open(self, **more):
        self.send(frames.encode_json(frames.OPEN, 0, {**REQUEST, "silence_s": 60.0, **more}))
        kind, _, answer = self.receive()
        assert kind == frames.READY
        return json.loads(answer)


@pytest.fixture
def launcher():
    made = Launcher()
    yield made
    made.agent.kill()
    made.agent.communicate()


# A task with a status port, as a program with the plug-in has one; it has made 100 steps more at each question.
TELLS = """
import json, os, pathlib, socket
with socket.create_server(("127.0.0.1", 0)) as listener:
    entry = {"pid": os.getpid(), "start": 1, "host": "127.0.0.1", "port": listener.getsockname()[1]}
    entry["tasks"] = [{"task": "worker:0", "members": {}}]
    folder = pathlib.Path(os.environ["XDG_RUNTIME_DIR"], "fusewire")
    folder.mkdir(mode=0o700)
    (folder / "new").write_text(json.dumps(entry))
    (folder / "new").rename(folder / "1.json")
    for turn in range(1, 100):
        with listener.accept()[0] as asked:
            asked.recv(4096)
            lines = [{"kind": "session", "count": 100 * turn, "bytes": 0}]
            status = {"pid": os.getpid(), "now_ns": turn * 10**9, "lines": lines}
            asked.sendall(b"HTTP/1.1 200 OK\\r\\n\\r\\n" + json.dumps(status).encode())
"""


def test_an_agent_tells_how_far_its_tasks_are(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    launcher = Launcher()
    try:
        assert "ports" in launcher.open(words=[sys.executable, "-c", TELLS], progress=True)
        launcher.send(frames.encode_json(frames.START, 0, {}))
        told = []
        while len(told) < 2:
            kind, task, payload = launcher.receive()
            assert (kind, task) == (frames.PROGRESS, 0), payload
            told.append(Progress.of(json.loads(payload)))
        assert told == [Progress(100), Progress(200, 100.0, 0.0)]
    finally:
        launcher.agent.kill()
        launcher.agent.communicate()


def test_an_agent_runs_tasks_until_the_end(launcher):
    assert len(launcher.open()["ports"]) == 1
    launcher.send(frames.encode_json(frames.START, 5, {"WHO": "me"}) + frames.encode(frames.PING))
    heard = {}
    while frames.ENDED not in heard:
        kind, task, payload = launcher.receive()
        assert (task == 5) == (kind != frames.PONG)
        heard[kind] = heard.get(kind, b"") + payload
    launcher.send(frames.encode(frames.FINISH))
    while frames.BYE not in heard:
        kind, _, payload = launcher.receive()
        heard[kind] = heard.get(kind, b"") + payload
    assert heard[frames.OUT] == b"me\n"
    assert json.loads(heard[frames.ENDED]) == [3, ""]
    assert launcher.agent.wait(DEADLINE_S) == 0


@pytest.mark.parametrize("end", ["closed", "silent", "noise"])
def test_an_agent_ends_with_its_launcher(launcher, end, tmp_path):
    ready = tmp_path / "ready"
    launcher.open(words=["sh", "-c", f"touch {ready}; exec sleep 1000"], silence_s=0.5 if end == "silent" else 60.0)
    launcher.send(frames.encode_json(frames.START, 0, {}))
    if end == "closed":
        launcher.agent.stdin.close()
        launcher.agent.stdin = None
    elif end == "noise":
        launcher.send(b"\xff" * 100)
    assert launcher.agent.wait(DEADLINE_S) == 1
    kinds = set()
    while header := launcher.agent.stdout.read(frames.HEADER.size):
        kind, _, length = frames.HEADER.unpack(header)
        launcher.agent.stdout.read(length)
        kinds.add(kind)
    assert frames.BYE not in kinds
    assert launcher.agent.stderr.read() == b"" or end == "noise"


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        ({"folder": "/absent"}, "the working directory /absent can't be entered: No such file or directory. Fix: "),
        ({"words": ["absent.py"]}, "there is no file absent.py. Fix: "),
        ({"words": ["absent-command"]}, "no command absent-command. Fix: "),
        ({"port_base": 65535, "ports": 2}, "port 65536 can't be reserved: "),
    ],
)
def test_an_agent_that_cannot_start_says_why(launcher, request_, told):
    assert told in launcher.open(**request_)["error"]


@pytest.mark.parametrize(
    ("code", "said", "was_ready", "told"),
    [
        (255, ["ssh: Could not resolve hostname b: Name or service not known"], False, "Fix: check the name"),
        (255, ["ssh: connect to host b port 22: Connection timed out"], False, "Fix: check that the host is up"),
        (255, ["Connection to b closed by remote host."], True, "the connection has ended: Connection to b closed"),
        (255, ["something new"], False, "something new. Fix: try `ssh -p 7 me@b python3 -m fusewire --version`"),
        (127, ["sh: 1: exec: python3: not found"], False, "there is no python3 there. Fix: "),
        (1, ["python3: No module named fusewire"], False, "python3 has no fusewire "),
        (1, ["python3: No module named fusewire.launch.agent"], False, "python3 has no fusewire "),
        (None, [], False, "without a word. Fix: try"),
    ],
)
def test_the_words_of_ssh_become_advice(code, said, was_ready, told):
    assert told in why_ended(Host("b", "me"), code, said, "python3", ["ssh", "-p", "7"], was_ready)
