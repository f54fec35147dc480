# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Connections that are lost under load: a call of a part is made again, and what it writes is written once.

The data ports are reached through a relay in this process, which resets connections at random bytes.
"""

import os
import random
import time

import pytest
from processes import free_ports, wait_until
from resetting import Relay

RESETS = int(os.environ.get("TEST_RESETS", "150"))
# Each step adds one to a resource variable and to a reference variable, moves rows of a table by a sparse update, and
# adds what the first server has counted to a sum on the second one. A step that is applied twice, or not at all, shows.
COUNT = """
with tf.device("/job:ps/task:0"):
    count = tf1.get_variable("count", [], tf.int64, tf1.zeros_initializer(), use_resource=True)
    table = tf1.get_variable("table", [1000, 16], initializer=tf1.zeros_initializer(), use_resource=True)
    old = tf1.get_variable("old", [200], initializer=tf1.zeros_initializer(), use_resource=False)
with tf.device("/job:ps/task:1"):
    sums = tf1.get_variable("sums", [], tf.int64, tf1.zeros_initializer(), use_resource=True)
rows = tf1.placeholder(tf.int64, [None])
with tf.device("/job:ps/task:0"):
    counted = count.assign_add(1)
    aged = tf1.assign_add(old, tf.ones([200]))
    moved = tf1.scatter_add(table, rows, tf.ones([tf.shape(rows)[0], 16]))
    passed = tf.identity(counted) * 1
with tf.device("/job:ps/task:1"):
    summed = sums.assign_add(passed)
with tf.device(WORKER):
    fetched = [tf.identity(counted), tf.identity(summed), tf.reduce_sum(aged) * 1.0]
    with tf.control_dependencies([moved]):
        after = tf.identity(1)
session = tf1.Session(server.target)
session.run(tf1.global_variables_initializer())
say("BEGUN")
total = np.zeros([1000])
expected = 0
step = 0
while not os.path.exists("enough"):
    step += 1
    which = np.random.RandomState(step).randint(0, 1000, 50)
    got = session.run([*fetched, after], {rows: which})
    np.add.at(total, which, 16)
    expected += step
    assert got[:3] == [step, expected, 200 * step], (step, expected, got)
    if step % 50 == 0:
        say("STEP", step)
final = session.run([count, sums, tf.reduce_sum(table, 1), old])
assert final[0] == step and final[1] == expected and (final[3] == step).all(), (step, final)
assert (final[2] == total).all()
say("REPEATED", fusewire.stats()["calls_repeated"])
say("DONE", step)
done()
"""


@pytest.fixture
def counting(tasks, tmp_path):
    """counting(protocol, draws) -> cluster, servers, worker, relays: trains through relays until "enough" is there."""
    relays: list[Relay] = []

    def start(protocol, draws=(None, None), **environment):
        cluster = tasks(COUNT, protocol, FUSEWIRE_TRANSPORT="tcp", **environment)
        servers = []
        for index, (port, draw) in enumerate(zip(free_ports(2), draws, strict=True)):
            relays.append(Relay(port, draw))
            place = {"FUSEWIRE_PORTS": str(port), "FUSEWIRE_ADVERTISE": f"127.0.0.1:{relays[-1].port}"}
            servers.append(cluster.start("ps", index, **place))
        worker = cluster.start("worker")
        cluster.read_until(worker, "BEGUN", 60)
        return cluster, servers, worker, relays

    yield start
    for relay in relays:
        relay.close()


def finish(cluster, worker, relays, folder, deadline_s=60) -> tuple[int, int]:
    """How many calls were repeated, and how many steps were made. The last step reads all variables in peace."""
    for relay in relays:
        relay.rest()
    (folder / "enough").touch()
    lines = cluster.read_until(worker, "DONE", deadline_s)
    repeated = next(line for line in lines if line.startswith("REPEATED"))
    return int(repeated.split()[1]), int(lines[-1].split()[1])


@pytest.mark.parametrize("protocol", ["star_server", "star_server_lite"])
def test_each_step_is_applied_once_over_connections_that_are_reset(counting, tmp_path, protocol):
    drawn = random.Random(7)
    draws = [lambda: drawn.randint(2_000, 60_000)] * 2
    cluster, _, worker, relays = counting(protocol, draws)
    wait_until(lambda: sum(relay.resets for relay in relays) > RESETS, RESETS, f"{RESETS} connections are reset")
    repeated, steps = finish(cluster, worker, relays, tmp_path)
    print(f"{RESETS} resets, {repeated} calls repeated, {steps} steps")
    assert repeated > RESETS / 5
    assert steps > RESETS / 2


def test_a_partition_that_is_longer_than_the_silence_costs_a_wait(counting, tmp_path):
    settings = {"FUSEWIRE_PEER_TIMEOUT": "1", "FUSEWIRE_RECOVERY": "40"}
    cluster, _, worker, relays = counting("star_server", **settings)
    cluster.read_until(worker, "STEP", 30)
    for relay in relays:
        relay.is_held.set()
    time.sleep(4)
    for relay in relays:
        relay.is_held.clear()
    repeated, _ = finish(cluster, worker, relays, tmp_path)
    assert repeated > 0


def test_without_recovery_a_lost_connection_ends_the_step(counting, tmp_path):
    cluster, _, worker, relays = counting("star_server", FUSEWIRE_RECOVERY="0")
    cluster.read_until(worker, "STEP", 30)
    for relay in relays:
        relay.reset()
    wait_until(lambda: worker.poll() is not None, 30, "the worker ends")
    assert "UnavailableError" in (tmp_path / "worker-0.err").read_text()


# The first worker waits, the server waits for it, and the second worker for the server.
WAITING = """
if index == 1:
    server.join()
def wait(x):
    say("WAITS")
    while not os.path.exists("enough"):
        time.sleep(0.01)
    return x
with tf.device(WORKER):
    waited = tf1.py_func(wait, [1.0], tf.float32)
    waited.set_shape([])
with tf.device(PS):
    limit = tf1.get_variable("limit", [], initializer=tf1.constant_initializer(3.0))
    counted = tf1.while_loop(lambda x: x < limit, lambda x: x + 1.0, [waited])
with tf.device("/job:worker/task:1"):
    result = counted * 2
session = tf1.Session(server.target)
session.run(limit.initializer)
say("BEGUN")
try:
    session.run(result)
except tf.errors.OpError as error:
    say("ENDED", type(error).__name__, repr(error.message))
done()
"""


def test_a_step_that_only_the_server_knows_to_be_lost_is_not_cancelled(tasks, tmp_path):
    cluster = tasks(WAITING, "grpc++", workers=2, FUSEWIRE_TRANSPORT="tcp")
    [port] = free_ports(1)
    relay = Relay(port)
    cluster.start("ps", 0, FUSEWIRE_PORTS=str(port), FUSEWIRE_ADVERTISE=f"127.0.0.1:{relay.port}")
    cluster.start("ps", 1)
    cluster.start("worker", 1)
    worker = cluster.start("worker", 0)
    cluster.read_until(worker, "BEGUN", 60)
    cluster.read_until(worker, "WAITS", 60)
    relay.reset_server()
    (tmp_path / "enough").touch()
    ended = cluster.read_until(worker, "ENDED", 60)[-1]
    relay.close()
    assert "UnavailableError" in ended, ended
    assert "/job:ps/replica:0/task:0 has lost its connection to worker:0" in ended
