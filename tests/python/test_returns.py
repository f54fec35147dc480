# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Parameter servers that keep snapshots are killed and come back: the session of the worker goes on."""

import shutil
import signal
import time

import pytest
from processes import wait_until

EVERY_S = 0.2
# Each step adds one to a variable of each server, moves rows by Adam, and passes a value from one server to the other.
# A step that fails, or a second session, ends the program with an error. What a server has lost is said, with how long
# before the kill the oldest lost step had ended.
TRAIN = """
with tf.device("/job:ps/task:0"):
    counts = [tf1.get_variable("count0", [], tf.int64, tf1.zeros_initializer(), use_resource=True)]
    rows = tf1.get_variable("rows", [500, 8], initializer=tf1.zeros_initializer(), use_resource=True)
with tf.device("/job:ps/task:1"):
    counts.append(tf1.get_variable("count1", [], tf.int64, tf1.zeros_initializer(), use_resource=False))
    dense = tf1.get_variable("dense", [8, 3], initializer=tf1.ones_initializer(), use_resource=True)
which = tf1.placeholder(tf.int64, [None])
with tf.device(WORKER):
    loss = tf.reduce_sum(tf.square(tf.matmul(tf.nn.embedding_lookup(rows, which), dense) - 1.0))
    train = tf1.train.AdamOptimizer(0.01).minimize(loss)
    with tf.control_dependencies([train]):
        counted = [tf.identity(tf1.assign_add(count, 1)) for count in counts]


class Sessions(tf1.train.SessionRunHook):
    made = 0

    def after_create_session(self, session, coord):
        Sessions.made += 1
        assert Sessions.made == 1, "a second session"


last, ended = [0, 0], [{0: time.time()}, {0: time.time()}]
with tf1.train.MonitoredTrainingSession(server.target, is_chief=True, hooks=[Sessions()]) as session:
    say("TRAINS")
    steps = 0
    while not os.path.exists("enough"):
        got = session.run(counted, {which: np.random.RandomState(steps).randint(0, 500, 30)})
        now = time.time()
        steps += 1
        for ps, count in enumerate(got):
            assert count <= last[ps] + 1, (ps, count, last)
            if count <= last[ps]:
                say("LOST", ps, last[ps] + 1 - count, round(ended[ps][last[ps]] - ended[ps][count - 1], 3))
            last[ps] = count
            ended[ps][count] = now
        if steps % 50 == 0:
            say("STEP", time.time())
say("DONE", steps)
done()
"""


WITHOUT_RETRIES = TRAIN.replace(
    "with tf1.train.MonitoredTrainingSession(server.target, is_chief=True, hooks=[Sessions()]) as session:\n",
    "with tf1.Session(server.target) as session:\n    session.run(tf1.global_variables_initializer())\n",
)


# Most of the time, a checkpoint is under way: each server writes its part, and tells the last one, which merges them.
SAVES = WITHOUT_RETRIES.replace(
    "    steps = 0\n",
    """    steps = 0
    os.makedirs("saved")
    saver = tf1.train.Saver(sharded=True, max_to_keep=2)
""",
).replace("        now = time.time()\n", "        saver.save(session, 'saved/m', steps)\n        now = time.time()\n")


# Waits between the two calls of a partial_run: the first server's part has sent all its tensors then, and the second
# one's waits for a feed.
PARTIAL = (
    TRAIN.partition("\nclass Sessions")[0]
    + """
summands, sums = [], []
for count in counts:
    with tf1.device(count.device):
        summands.append(tf1.placeholder(tf.int64, []))
        sums.append(tf.identity(tf1.assign_add(count, summands[-1])))


def wait_for(name):
    while not os.path.exists(name):
        time.sleep(0.01)


with tf1.Session(server.target) as session:
    session.run(tf1.global_variables_initializer())
    say("TRAINS")
    run = session.partial_run_setup(sums, summands)
    assert session.partial_run(run, sums[0], {summands[0]: 20}) == 20
    say("BEGUN")
    wait_for("second")
    try:
        say("ENDED", session.partial_run(run, sums[1], {summands[1]: 30}))
    except tf.errors.UnavailableError as error:
        say("ENDED", *error.message.split())
    wait_for("enough")
    say("HAS", *session.run(counts))
say("DONE")
done()
"""
)


@pytest.fixture
def training(tasks, tmp_path):
    """training(protocol) -> cluster, its two servers and its worker, which trains until "enough" is there."""

    def start(protocol, program=TRAIN, before_server="", **settings):
        cluster = tasks(
            program,
            protocol,
            before_server=before_server,
            **{
                "FUSEWIRE_SNAPSHOTS": str(tmp_path / "snapshots"),
                "FUSEWIRE_SNAPSHOT_EVERY": str(EVERY_S),
                "FUSEWIRE_RECOVERY": "60",
                **settings,
            },
        )
        servers = [cluster.start("ps", index) for index in range(2)]
        worker = cluster.start("worker")
        cluster.read_until(worker, "TRAINS", 60)
        return cluster, servers, worker

    return start


def kill(server):
    server.send_signal(signal.SIGKILL)
    server.wait()


def follow(cluster, worker) -> list[list[str]]:
    """Until it has made fifty steps from now on: what it has lost."""
    begun = time.time()
    lost = []
    while True:
        *before, step = (line.split() for line in cluster.read_until(worker, "STEP", 60))
        lost += [line for line in before if line[0] == "LOST"]
        if float(step[1]) > begun:
            return lost


@pytest.mark.parametrize("protocol", ["star_server", "star_server_lite"])
def test_a_training_goes_on_in_the_session_that_it_has(training, tmp_path, protocol):
    cluster, servers, worker = training(protocol)
    follow(cluster, worker)
    for index in (0, 1, 0):
        time.sleep(3 * EVERY_S)
        kill(servers[index])
        time.sleep(0.3)  # steps wait
        servers[index] = cluster.start("ps", index)
        for _, ps, _, age in follow(cluster, worker):
            assert int(ps) == index
            assert float(age) < EVERY_S + 2
        assert "it goes on with" in (tmp_path / f"ps-{index}.err").read_text()
    (tmp_path / "enough").touch()
    cluster.read_until(worker, "DONE", 60)


def test_a_checkpoint_that_is_under_way_is_written_again(training, tmp_path):
    cluster, servers, worker = training("star_server", SAVES)
    for index in (1, 0, 1):
        follow(cluster, worker)
        time.sleep(3 * EVERY_S)
        kill(servers[index])
        servers[index] = cluster.start("ps", index)
    follow(cluster, worker)
    (tmp_path / "enough").touch()
    cluster.read_until(worker, "DONE", 60)


def test_over_grpc_steps_are_made_again_if_asked(training, tmp_path):
    # The surviving server may have applied the step that was lost.
    program = TRAIN.replace("assert count <= last[ps] + 1,", "assert count <= last[ps] + 2,")
    cluster, servers, worker = training("grpc++", program, FUSEWIRE_REPEAT_STEPS="1")
    follow(cluster, worker)
    for index in (0, 1):
        time.sleep(3 * EVERY_S)
        kill(servers[index])
        time.sleep(0.3)
        servers[index] = cluster.start("ps", index)
        assert {int(ps) for _, ps, *_ in follow(cluster, worker)} <= {index}
    (tmp_path / "enough").touch()
    cluster.read_until(worker, "DONE", 60)
    assert "a step is made again, since a task was lost" in (tmp_path / "worker-0.err").read_text()


@pytest.mark.parametrize("repeats", ["0", "1"])
def test_over_grpc_a_server_that_stays_away_ends_the_step_in_time(training, tmp_path, repeats):
    cluster, servers, worker = training("grpc++", WITHOUT_RETRIES, FUSEWIRE_RECOVERY="3", FUSEWIRE_REPEAT_STEPS=repeats)
    follow(cluster, worker)
    kill(servers[0])
    begun = time.monotonic()
    wait_until(lambda: worker.poll() is not None, 30, "the worker ends")
    assert (2 if repeats == "1" else 0) < time.monotonic() - begun < 15
    assert "UnavailableError" in (tmp_path / "worker-0.err").read_text()


def test_without_a_snapshot_the_step_ends_as_it_did(training, tmp_path):
    cluster, servers, worker = training("star_server")
    kill(servers[0])
    shutil.rmtree(tmp_path / "snapshots" / "ps_0", ignore_errors=True)
    cluster.start("ps", 0)
    wait_until(lambda: worker.poll() is not None, 60, "the worker ends")
    assert "a second session" in (tmp_path / "worker-0.err").read_text()


def test_a_server_that_stays_away_ends_the_step_in_time(training, tmp_path):
    cluster, servers, worker = training("star_server", WITHOUT_RETRIES, FUSEWIRE_RECOVERY="3")
    follow(cluster, worker)
    time.sleep(3 * EVERY_S)
    kill(servers[0])
    begun = time.monotonic()
    wait_until(lambda: worker.poll() is not None, 30, "the worker ends")
    assert 1 < time.monotonic() - begun < 15
    assert "UnavailableError" in (tmp_path / "worker-0.err").read_text()


@pytest.mark.parametrize("protocol", ["grpc++", "star_server"])
def test_a_partial_run_ends_if_a_server_begins_again_between_its_calls(training, tmp_path, protocol):
    cluster, servers, worker = training(protocol, PARTIAL)
    cluster.read_until(worker, "BEGUN", 30)
    time.sleep(3 * EVERY_S)
    kill(servers[0])
    cluster.start("ps", 0)
    (tmp_path / "second").touch()
    [ended] = cluster.read_until(worker, "ENDED", 60)
    assert "/task:0 since this partial_run began" in ended
    (tmp_path / "enough").touch()
    [has] = cluster.read_until(worker, "HAS", 60)
    assert has.split()[1] in ("0", "20")  # with the snapshot before the first call, or after it
    cluster.read_until(worker, "DONE", 30)
