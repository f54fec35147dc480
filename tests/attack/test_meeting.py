# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The port at which the processes of `fusewire run --inside` meet, and what a process believes of a rank 0."""

import contextlib
import os
import re
import socket
import subprocess
import sys
import time

import pytest
from conftest import DEADLINE_S, FUSEWIRE, clean_environment, process, run_to_end
from hostile import FalseRankZero, Stranger, stranger_at
from processes import free_addresses, wait_until

from fusewire.launch import bootstrap as meeting
from fusewire.launch import frames
from fusewire.launch.inside import STRANGERS

pytestmark = pytest.mark.once
SECRET = "sesame, open the door"


def environment(rank: int, size: int, secret: str) -> dict[str, str]:
    slurm = {"SLURM_PROCID": rank, "SLURM_STEP_NUM_TASKS": size, "SLURM_STEP_NODELIST": "127.0.0.1"}
    slurm |= {"SLURM_JOB_ID": os.getpid(), "SLURM_STEP_ID": 0}
    return clean_environment(**{name: str(value) for name, value in slurm.items()}, FUSEWIRE_SECRET=secret)


class Job:
    """Rank 0 of a job of two, which waits for the other; and that one, once it is to come."""

    def __init__(self, folder, secret: str, stack: contextlib.ExitStack):
        self.port = int(free_addresses(1)[0].rpartition(":")[2])
        self._folder, self._secret = folder, secret
        options = ["--ps", "0", "--host-timeout", "60", "--port-base", str(self.port)]
        self._command = [FUSEWIRE, "run", "--inside", "slurm", *options, "--", "sh", "-c", "echo trained"]
        self.leader = stack.enter_context(process(self._command, folder, environment(0, 2, secret)))

    def complete(self) -> str:
        """Lets the other rank come. What rank 0 has said of strangers, once both have done their work."""
        done = run_to_end(self._command, self._folder, environment(1, 2, self._secret))
        assert "trained" in done.ok(), done.error
        out, error = self.leader.communicate(timeout=DEADLINE_S)
        assert (self.leader.returncode, "trained" in out) == (0, True), error
        assert "Traceback" not in error
        return error


@pytest.fixture(params=[SECRET, ""], ids=["secret", "no secret"])
def job(request, tmp_path):
    with contextlib.ExitStack() as stack:
        yield Job(tmp_path, request.param, stack)


@pytest.fixture
def secret_job(tmp_path):
    with contextlib.ExitStack() as stack:
        yield Job(tmp_path, SECRET, stack)


AGENT = frames.FIRST_LINE  # what a process says in a version without these proofs
READY = frames.encode(frames.READY, 0, b"[" * 100000)
OFFER = {"rank": 1, "size": 2, "address": "::1", "dialled": "::1", "port": 7, "nonce": "0" * 32, "proof": ""}


def offer(**other: object) -> bytes:
    return meeting.FIRST_LINE + frames.encode_json(frames.OFFER, 0, {**OFFER, **other})


@pytest.mark.parametrize(
    "words",
    [
        AGENT + READY,
        AGENT + frames.encode(frames.ENDED, 0, b'[Infinity, ""]'),
        AGENT + frames.encode(frames.BYE),
        b"GET / HTTP/1.0\r\n\r\n" * 5000,
        b"\xff" * 5000,
        b"\0fusewire agent 0.0.1\n",
        meeting.FIRST_LINE + READY,
        meeting.FIRST_LINE + frames.encode(frames.OFFER, 0, b"[" * 500),
        meeting.FIRST_LINE + frames.HEADER.pack(frames.OFFER, 0, 0xFFFFFFFF),
        meeting.FIRST_LINE + frames.encode(frames.ENDED, 0, b'[Infinity, ""]'),
        meeting.FIRST_LINE + frames.encode(frames.FINISH),
        offer(rank=float("inf")),
        offer(rank=True),
        offer(port=0),
        offer(address="evil.example", proof="x"),
        offer(rank=7, proof="\u00e9" * 64),
        offer(nonce="short"),
        offer(rank=7, proof="0" * 64),
    ],
)
def test_words_of_a_stranger_end_its_connection_alone(job, words):
    stranger = stranger_at(job.port)
    with contextlib.suppress(OSError):  # it is closed meanwhile
        stranger.send(words)
    stranger.hear_all()
    said = job.complete()
    assert "a connection is closed: " in said
    stranger.close()


def test_silent_connections_keep_no_member_out(job):
    """As many as rank 0 holds open, and more."""
    first = stranger_at(job.port)
    silent = [first, *(Stranger(("127.0.0.1", job.port)) for _ in range(STRANGERS + 10))]
    begun = time.monotonic()
    job.complete()
    assert time.monotonic() - begun < DEADLINE_S / 2
    for one in silent:
        one.close()


FLOOD = """
import socket, sys
held = []
while True:
    try:
        held = [*held[-50:], socket.create_connection(("127.0.0.1", int(sys.argv[1])))]
    except OSError:
        break
"""


def test_a_flood_of_connections_keeps_no_member_out(secret_job):
    stranger_at(secret_job.port).close()
    with subprocess.Popen([sys.executable, "-c", FLOOD, str(secret_job.port)]) as flood:
        try:
            said = secret_job.complete()
        finally:
            flood.kill()
    assert said.count("a connection is closed") <= 20


def test_a_peer_without_a_proof_has_five_seconds(secret_job):
    stranger = stranger_at(secret_job.port, limit_s=30)
    begun = time.monotonic()
    assert b"has not proved itself within 5 s" in stranger.hear_all()
    assert 4 < time.monotonic() - begun < 20
    secret_job.complete()


def test_a_stranger_receives_nothing_that_depends_on_the_secret(tmp_path):
    """Twice the same with two secrets: only the nonce differs, and is new for each connection."""
    heard = []
    for secret in (SECRET, "another secret of some length"):
        with contextlib.ExitStack() as stack:
            job = Job(tmp_path, secret, stack)
            stranger = stranger_at(job.port)
            stranger.send(offer(proof="0" * 64))
            heard.append(stranger.hear_all())
            job.complete()
    nonces = [re.search(rb"[0-9a-f]{32}", words)[0] for words in heard]
    assert nonces[0] != nonces[1]
    assert heard[0].replace(nonces[0], b"") == heard[1].replace(nonces[1], b"")
    assert not re.search(rb"[0-9a-f]{16}", heard[0].replace(nonces[0], b""))


def test_a_proof_is_good_for_one_connection(secret_job):
    """What a process said to a false rank 0 does not let anybody in at the true one."""
    false = FalseRankZero()
    command = [FUSEWIRE, "run", "--inside", "slurm", "--ps", "0", "--meet", false.address, "true"]
    with process(command, "/", environment(1, 2, SECRET)) as victim:
        false.meet()
        victim.communicate(timeout=DEADLINE_S)
    stranger = stranger_at(secret_job.port)
    stranger.send(meeting.FIRST_LINE + frames.encode_json(frames.OFFER, 0, false.offer))
    assert b"does not know the secret" in stranger.hear_all()
    secret_job.complete()
    false.close()


def test_both_versions_are_named(secret_job):
    stranger = stranger_at(secret_job.port)
    stranger.send(AGENT)
    stranger.hear_all()
    assert f"it is of fusewire {meeting.VERSION}, and rank 0 of {meeting.SPEAKS}. Fix: " in secret_job.complete()


# What a process believes of the one at the address of rank 0.
START = frames.encode_json(frames.START, 0, {"TF_CONFIG": "{}"})


class Victim:
    """A process of a job, and what is at the address of its rank 0."""

    def __init__(self, folder, theirs: str, ours: str, stack: contextlib.ExitStack):
        self.folder = folder
        self.rank_zero = FalseRankZero(theirs)
        stack.callback(self.rank_zero.close)
        options = ["--ps", "0", "--host-timeout", "5", "--meet", self.rank_zero.address]
        command = [FUSEWIRE, "run", "--inside", "slurm", *options, "sh", "-c", "touch ran; exec sleep 1000"]
        self.process = stack.enter_context(process(command, folder, environment(1, 2, ours)))

    def ends(self) -> str:
        """What it says; its program has not run."""
        _, error = self.process.communicate(timeout=DEADLINE_S)
        assert self.process.returncode in (126, 255), error
        assert "Traceback" not in error
        return error

    @property
    def has_run(self) -> bool:
        return (self.folder / "ran").exists()


@pytest.fixture
def victim(tmp_path):
    with contextlib.ExitStack() as stack:
        yield lambda theirs, ours: Victim(tmp_path, theirs, ours, stack)


@pytest.mark.parametrize("kind", [frames.FINISH, frames.OPEN, frames.START, frames.SIGNAL, frames.WELCOME])
def test_nothing_is_obeyed_before_rank_0_has_proved_itself(victim, kind):
    """FINISH ended the process with 0, as if the job was done."""
    one = victim("", SECRET)
    line, _ = one.rank_zero._listener.accept()
    one.rank_zero.line = line
    line.sendall(frames.encode(kind) if kind == frames.FINISH else frames.encode(kind, 0, b"{}"))
    assert "rank 0 sends invalid frames" in one.ends()
    assert not one.has_run


def test_a_rank_0_that_does_not_know_the_secret(victim):
    one = victim("a guess", SECRET)
    one.rank_zero.meet()
    assert "rank 0 does not know the secret. Fix: " in one.ends()
    assert not one.has_run


@pytest.mark.parametrize("how", ["without", "of another key", "of another frame", "of the other direction"])
def test_a_frame_that_is_put_in(victim, how):
    one = victim(SECRET, SECRET)
    one.rank_zero.meet()
    nonces = (one.rank_zero.NONCE, one.rank_zero.offer["nonce"])
    seal = {
        "without": b"",
        "of another key": meeting.seal_of("guess", meeting.LEADS, nonces).of_next(START),
        "of another frame": meeting.seal_of(SECRET, meeting.LEADS, nonces).of_next(START[:-2] + b" }"),
        "of the other direction": meeting.seal_of(SECRET, meeting.COMES, nonces).of_next(START),
    }[how]
    one.rank_zero.send(START + (seal or frames.encode(frames.PING) * 4))
    assert "a frame has a wrong seal" in one.ends()
    assert not one.has_run


@pytest.mark.parametrize("how", ["again", "in another order", "left out"])
def test_frames_that_are_delayed(victim, how):
    one = victim(SECRET, SECRET)
    one.rank_zero.meet()
    first, second, third = (one.rank_zero.sealed(frames.encode(frames.PING)) for _ in range(3))
    one.rank_zero.send({"again": first + first, "in another order": second + first, "left out": first + third}[how])
    assert "a frame has a wrong seal" in one.ends()


@pytest.mark.parametrize(
    ("lie", "told"),
    [
        (frames.encode_json(frames.START, 0, {"LD_PRELOAD": "evil.so"}), "rank 0 sets LD_PRELOAD, which it may not"),
        (frames.encode_json(frames.START, 0, {"\x1b[2J\n": ""}), r"rank 0 sets \x1b[2J\n, which it may not set"),
        (frames.encode_json(frames.START, 0, {"A": 1}), "the launcher sends invalid frames"),
        (frames.encode_json(frames.START, 0, [1]), "the launcher sends invalid frames"),
        (frames.encode(frames.START, 0, b"[" * 100000), "the launcher sends invalid frames"),
        (frames.encode(frames.SIGNAL, 0, b"99"), "the launcher sends invalid frames"),
        (frames.encode_json(frames.OPEN, 0, {"words": ["evil"]}), "the launcher sends invalid frames"),
        (frames.encode_json(frames.READY, 0, {}), "the launcher sends invalid frames"),
    ],
)
@pytest.mark.parametrize("secret", [SECRET, ""], ids=["secret", "no secret"])
def test_a_rank_0_that_lies(victim, secret, lie, told):
    one = victim(secret, secret)
    one.rank_zero.meet()
    one.rank_zero.send(one.rank_zero.sealed(lie))
    assert told in one.ends()
    assert not one.has_run


def test_something_else_at_the_address_of_rank_0(victim):
    one = victim("", "")
    one.rank_zero.line, _ = one.rank_zero._listener.accept()
    one.rank_zero.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    assert "rank 0 sends invalid frames: kind 72 of a frame is unknown" in one.ends()


def test_a_job_of_a_true_rank_0_works(victim):
    """The other tests would pass if nothing worked."""
    one = victim(SECRET, SECRET)
    one.rank_zero.meet()
    one.rank_zero.send(one.rank_zero.sealed(START))
    wait_until(lambda: one.has_run, DEADLINE_S, "the program has run")
    one.rank_zero.line.shutdown(socket.SHUT_RDWR)
    assert "rank 0 has closed the connection" in one.ends()
