# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Connections that are lost under load: a call of a part is made again, and what it writes is written once.

The data ports are reached through a relay in this process, which resets connections at random bytes.
"""

import contextlib
import os
import random
import socket
import struct
import threading
import time

import pytest
from processes import free_ports, wait_until

RESETS = int(os.environ.get("TEST_RESETS", "150"))
LINGER_NOT = struct.pack("ii", 1, 0)  # close() resets the connection


class Relay:
    """Forwards connections to a port; resets each after so many bytes as `draw` says."""

    def __init__(self, to: int, draw=None) -> None:
        self._to, self._draw = to, draw
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._lock = threading.Lock()
        self.port = self._listener.getsockname()[1]
        self.resets = 0
        self.is_held = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                one, _ = self._listener.accept()
                threading.Thread(target=self._forward, args=(one,), daemon=True).start()

    def _forward(self, one: socket.socket) -> None:
        try:
            other = socket.create_connection(("127.0.0.1", self._to), timeout=10)
        except OSError:
            one.close()
            return
        other.settimeout(None)
        pair = (one, other)
        for each in pair:
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._pairs.add(pair)
        left = [self._draw() if self._draw else None]
        back = threading.Thread(target=self._copy, args=(other, one, pair, left), daemon=True)
        back.start()
        self._copy(one, other, pair, left)

    def _copy(self, source, target, pair, left) -> None:
        with contextlib.suppress(OSError):
            while block := source.recv(1 << 16):
                while self.is_held.is_set():
                    time.sleep(0.01)
                if left[0] is not None:
                    allowed, left[0] = left[0], left[0] - len(block)
                    if left[0] <= 0:
                        target.sendall(block[: max(allowed, 0)])
                        break
                target.sendall(block)
        self._end(pair)

    def _end(self, pair) -> None:
        with self._lock:
            if pair not in self._pairs:
                return
            self._pairs.discard(pair)
            self.resets += 1
        for each in pair:
            with contextlib.suppress(OSError):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
                each.shutdown(socket.SHUT_RD)  # wakes the other thread
            each.close()

    def rest(self) -> None:
        """From now on no connection is reset."""
        self._draw = None
        self.reset()

    def reset(self) -> None:
        for pair in list(self._pairs):
            self._end(pair)

    def close(self) -> None:
        self._listener.close()
        self.is_held.clear()
        self.reset()


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
