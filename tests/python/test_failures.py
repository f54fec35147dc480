# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Tasks that die, hang and come back: the step ends with an error that names the task, and training continues.

test_star.py kills tasks under star_server.
"""

import os
import pathlib
import re
import signal
import time

import pytest
from processes import wait_until

# Says when it trains, how each error reads and how long its step took, and that it trains again.
TRAIN = """
import time
with tf1.device(place):
    weights = [tf1.get_variable(f"weights{i}", [20000], initializer=tf1.zeros_initializer()) for i in range(4)]
    loss = tf.add_n([tf.reduce_mean(tf.square(each - 1.0)) for each in weights])
    step = tf1.train.get_or_create_global_step()
    train = tf1.train.GradientDescentOptimizer(1.0).minimize(loss, global_step=step)

class Tell(tf1.train.SessionRunHook):
    def begin(self):
        self.began = None
    def after_create_session(self, session, coordinator):
        run = session.run
        def told(*arguments, **options):
            started = time.monotonic()
            try:
                return run(*arguments, **options)
            except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
                say("ERROR", f"{time.monotonic() - started:.2f}", type(error).__name__, " ".join(str(error).split()))
                raise
        session.run = told

saved = tf1.train.CheckpointSaverHook("checkpoints", save_steps=50)
with tf1.train.MonitoredTrainingSession(server.target, hooks=[Tell()], checkpoint_dir="checkpoints",
                                        save_checkpoint_steps=50, save_checkpoint_secs=None) as session:
    said, last = time.monotonic(), -1
    while True:
        now = session.run([train, step])[1]
        if time.monotonic() - said > 0.25:
            said = time.monotonic()
            say("TRAINS", now)
"""


@pytest.fixture
def training(tasks):
    def start(protocol: str = "grpc++", **environment: str):
        cluster = tasks(TRAIN, protocol, **environment)
        servers = [cluster.start("ps", index) for index in range(2)]
        worker = cluster.start("worker")
        steps = 0
        while steps < 110:  # so that there is a checkpoint of step 100
            steps = int(cluster.read_until(worker, "TRAINS", 60)[-1].split()[1])
        return cluster, servers, worker

    return start


def error_of(lines: list[str]) -> tuple[float, str]:
    """The duration of the failed step, and its error."""
    found = next(line for line in lines if line.startswith("ERROR"))
    _, seconds, words = found.split(" ", 2)
    return float(seconds), words


def test_a_killed_parameter_server_is_named_at_once_and_found_again(training):
    cluster, servers, worker = training()
    servers[1].kill()
    servers[1].wait()
    lines = cluster.read_until(worker, "ERROR", 2)
    seconds, words = error_of(lines)
    assert seconds < 2
    assert "/job:ps/replica:0/task:1" in words
    cluster.start("ps", 1)
    before = [int(line.split()[1]) for line in lines if line.startswith("TRAINS")]
    after = cluster.read_until(worker, "TRAINS", 60)
    # From the checkpoint, not from the beginning.
    assert int(after[-1].split()[1]) > (before[-1] if before else 0) / 2


@pytest.mark.parametrize("protocol", ["grpc++", "star_server"])
def test_a_stopped_parameter_server_is_named_after_the_limit(training, protocol):
    cluster, servers, worker = training(protocol, FUSEWIRE_PEER_TIMEOUT="3")
    servers[0].send_signal(signal.SIGSTOP)
    stopped = time.monotonic()
    lines = cluster.read_until(worker, "ERROR", 12)
    _, words = error_of(lines)
    assert 2 < time.monotonic() - stopped < 9
    assert "/job:ps/replica:0/task:0" in words
    assert re.search("UnavailableError|AbortedError", words)
    servers[0].send_signal(signal.SIGCONT)
    cluster.read_until(worker, "TRAINS", 60)


# A plain session, whose program ends it once a step has failed.
CLOSE = """
with tf.device(PS):
    total = tf1.get_variable("total", [1000], initializer=tf1.zeros_initializer())
    more = tf1.assign_add(total, tf.ones([1000]))
with tf.device(WORKER):
    result = tf.reduce_sum(more * 2.0)
session = tf1.Session(server.target)
session.run(tf1.global_variables_initializer())
say("BEGUN", session.run(result))
try:
    while True:
        session.run(result)
except tf.errors.UnavailableError:
    began = time.monotonic()
    session.close()
    say("CLOSED", f"{time.monotonic() - began:.2f}")
done()
"""


@pytest.mark.parametrize("protocol", ["grpc++", "star_server"])
def test_a_session_is_closed_without_a_parameter_server_that_stands_still(tasks, protocol):
    cluster = tasks(CLOSE, protocol, FUSEWIRE_PEER_TIMEOUT="2")
    servers = [cluster.start("ps", index) for index in range(2)]
    worker = cluster.start("worker")
    cluster.read_until(worker, "BEGUN", 60)
    servers[0].send_signal(signal.SIGSTOP)
    lines = cluster.read_until(worker, "CLOSED", 20)
    assert float(lines[-1].split()[1]) < 3


def sockets_of(pid: int) -> int:
    return sum(os.readlink(path).startswith("socket:") for path in pathlib.Path(f"/proc/{pid}/fd").iterdir())


def test_a_worker_that_was_stopped_goes_on(training):
    cluster, servers, worker = training("star_server", FUSEWIRE_PEER_TIMEOUT="2")
    before = [sockets_of(server.pid) for server in servers]
    worker.send_signal(signal.SIGSTOP)
    for server, count in zip(servers, before, strict=True):  # each closes its connection to the worker
        wait_until(lambda server=server, count=count: sockets_of(server.pid) < count, 20, "the servers give it up")
    worker.send_signal(signal.SIGCONT)
    lines = [line for _ in range(3) for line in cluster.read_until(worker, "TRAINS", 60)]
    for error in (line for line in lines if line.startswith("ERROR")):
        assert re.search("UnavailableError|AbortedError", error)
    assert int(lines[-1].split()[1]) > 0


def test_a_worker_that_comes_back_goes_on(training):
    cluster, _, worker = training()
    worker.kill()
    worker.wait()
    again = cluster.start("worker")
    lines = cluster.read_until(again, "TRAINS", 60)
    assert int(lines[-1].split()[1]) > 50


# A parameter server reads from another one; neither sends anything while no worker is there.
BETWEEN_SERVERS = """
with tf.device("/job:ps/task:1"):
    there = tf1.get_variable("there", [1000], initializer=tf1.ones_initializer())
with tf.device(PS):
    here = tf1.get_variable("here", [1000], initializer=tf1.zeros_initializer())
    taken = tf1.assign(here, there * 2.0)
with tf1.Session(server.target) as session:
    session.run(tf1.global_variables_initializer())
    for _ in range(3):
        session.run(taken.op)
    say("SUM", session.run(here).sum())
done()
"""


@pytest.mark.parametrize("protocol", ["grpc++", "star_server"])
def test_a_restarted_parameter_server_is_found_by_the_other_at_the_first_try(tasks, protocol):
    cluster = tasks(BETWEEN_SERVERS, protocol)
    servers = [cluster.start("ps", index) for index in range(2)]
    for _ in range(2):
        assert cluster.read_until(cluster.start("worker"), "SUM", 60)[-1] == "SUM 2000.0"
        servers[1].kill()
        servers[1].wait()
        servers[1] = cluster.start("ps", 1)
