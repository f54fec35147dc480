# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""A parameter server's process is dead, or stands still, and another process takes its tasks over."""

import signal
import time

import pytest
from processes import wait_until
from test_returns import EVERY_S, follow, kill, training  # noqa: F401  (a fixture)

from fusewire.inspect import inquiry

SECRET = "a secret of the tests of adopting"
LOST_S = EVERY_S + 2
# Another session, of a worker that has not met any server before.
VISIT = """
with tf.device("/job:ps/task:1"):
    count = tf1.get_variable("count1", [], tf.int64, tf1.zeros_initializer(), use_resource=False)
session = tf1.Session(server.target)
before = session.run(count)
time.sleep(1)
after = session.run(count)
say("VISITED", after > before, before, after)
done()
"""


def order(cluster, task: int, words: str, secret: str = SECRET) -> str:
    return inquiry.give_order(cluster.address("ps", task), words, secret)


def visit(cluster, tmp_path) -> None:
    """A new worker's session reaches both servers, and sees the training go on."""
    program = tmp_path / "program.py"
    text = program.read_text()
    try:
        program.write_text(text[: text.index("with tf.device")] + VISIT)
        worker = cluster.start_guest()
        assert cluster.read_until(worker, "VISITED", 60)[-1].startswith("VISITED True")
    finally:
        program.write_text(text)


@pytest.mark.parametrize("protocol", ["star_server", "star_server_lite"])
def test_a_living_process_takes_over_what_a_dead_one_had(training, tmp_path, protocol):  # noqa: F811
    cluster, servers, worker = training(protocol, FUSEWIRE_SECRET=SECRET)
    follow(cluster, worker)
    time.sleep(3 * EVERY_S)
    kill(servers[1])
    begun = time.monotonic()
    said = order(cluster, 0, "adopt ps:1")
    assert "ps:1" in said
    lost = follow(cluster, worker)
    print(f"{said}; {time.monotonic() - begun:.2f} s from the order to fifty steps")
    for _, ps, _, age in lost:
        assert int(ps) == 1
        assert float(age) < LOST_S
    visit(cluster, tmp_path)
    # The dead one's process comes back, finds its task taken, and says where it is.
    servers[1] = cluster.start("ps", 1)
    wait_until(lambda: "serves it" in (tmp_path / "ps-1.err").read_text(), 30, "the old one yields")
    visit(cluster, tmp_path)
    follow(cluster, worker)
    (tmp_path / "enough").touch()
    cluster.read_until(worker, "DONE", 60)


def test_one_that_stood_still_serves_no_more(training, tmp_path, fusewire_command):  # noqa: F811
    cluster, servers, worker = training("star_server", FUSEWIRE_SECRET=SECRET, FUSEWIRE_PEER_TIMEOUT="3")
    follow(cluster, worker)
    time.sleep(3 * EVERY_S)
    servers[1].send_signal(signal.SIGSTOP)
    words = ["adopt", "ps:1", "--by", "ps:0", "--cluster", cluster.address("ps", 0)]
    said = fusewire_command(*words, FUSEWIRE_SECRET=SECRET).ok()
    assert "ps:1 is served by the process of ps:0, at " in said
    for _, ps, _, _ in follow(cluster, worker):
        assert int(ps) == 1
    servers[1].send_signal(signal.SIGCONT)
    wait_until(lambda: "epoch 2" in (tmp_path / "ps-1.err").read_text(), 30, "the old one notices")
    assert not [line for line in follow(cluster, worker) if line]
    visit(cluster, tmp_path)
    (tmp_path / "enough").touch()
    cluster.read_until(worker, "DONE", 60)


def test_what_is_not_to_be_done_is_said(training, fusewire_command):  # noqa: F811
    cluster, _, worker = training("star_server", FUSEWIRE_SECRET=SECRET)
    follow(cluster, worker)
    for words, why in (
        ("adopt ps:1", "serves it"),
        ("adopt ps:0", "not its own"),
        ("adopt ps:7", "the cluster has no"),
        ("adopt worker:0", "of another job"),
        ("dance", "not an order"),
    ):
        with pytest.raises(inquiry.OrderError, match=why):
            order(cluster, 0, words)
    with pytest.raises(inquiry.OrderError, match="the proof is wrong"):
        order(cluster, 0, "adopt ps:1", "another secret of the tests")
    follow(cluster, worker)
    # The command.
    words = ["adopt", "ps:1", "--by", "ps:0", "--cluster", cluster.address("ps", 0)]
    for given, secret, why in (
        (words, SECRET, "serves it"),
        (words, "", "orders need the cluster's secret"),
        ([*words[:3], "ps:5", *words[4:]], SECRET, "has no task ps:5"),
        ([*words[:5], "127.0.0.1:1"], SECRET, "no task answers that knows where ps:0 is"),
        (["adopt", "ps", *words[2:]], SECRET, "'ps' is not a task"),
    ):
        done = fusewire_command(*given, FUSEWIRE_SECRET=secret)
        assert done.status != 0, given
        assert why in done.error
    follow(cluster, worker)
