# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""star_server: the same results as over stock gRPC, in as few calls as the graph allows; nothing is left behind."""

import functools
import json
import pathlib
import re
import sys

import pytest
from cluster import reactors_of
from conftest import ROOT, clean_environment, run_to_end
from test_failures import TRAIN, error_of

HERE = pathlib.Path(__file__).parent
CASES = [line[4:].split("(")[0] for line in (HERE / "star_cases.py").read_text().split("@case\n")[1:]]
PROTOCOLS = ("star_server", "star_server_lite")
TELL = {"TEST_TELL": "1"}


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """{case: output of star_cases.py}. All run in one process, as most of the time of a case would be TensorFlow's
    start."""

    @functools.cache
    def run():
        # A sum must not depend on how many threads share it.
        threads = {"TF_NUM_INTRAOP_THREADS": "1", **reactors_of("star_cases.py")}
        environment = clean_environment(CUDA_VISIBLE_DEVICES="", **threads)
        folder = tmp_path_factory.mktemp("cases")
        done = run_to_end([sys.executable, HERE / "star_cases.py"], folder, environment, 150)
        said = [json.loads(line.removeprefix("CASE ")) for line in done.out.splitlines() if line.startswith("CASE ")]
        return done, {each["case"]: each for each in said}

    return run


@pytest.mark.parametrize("case", CASES)
def test_what_is_seen_is_what_grpc_shows(cases, case):
    done, said = cases()
    assert case in said, done.out + done.error
    seen, runs = said[case]["seen"], said[case]["runs"]
    assert not isinstance(seen["grpc"], str), seen["grpc"]
    for protocol in PROTOCOLS:
        assert seen[protocol] == seen["grpc"]
        assert runs[protocol] > 0
    assert runs["grpc"] == 0
    assert runs["star_server_lite"] <= runs["star_server"]
    # Its sessions are closed.
    assert said[case]["parts"] == 0


# In one process: calls per step, and how many parts servers hold while many sessions train the same.
WIDE_DEEP = f"""
import os, sys
sys.path[:0] = [{str(ROOT / "examples" / "wide_deep")!r}, {str(HERE)!r}]
import fusewire
import numpy as np
import tensorflow as tf
from cluster import reactors_of
from processes import free_addresses
from data import DENSE, FEATURES
from model import build

tf1 = tf.compat.v1
tf1.disable_eager_execution()
ones = np.ones([8, FEATURES]), np.ones([8, DENSE]), np.ones([8, 1])
for protocol in {PROTOCOLS}:
    for ps in (1, 2):
        addresses = free_addresses(ps + 1)
        cluster = {{"ps": addresses[:ps], "worker": addresses[ps:]}}
        servers = [tf1.train.Server(cluster, job, index, protocol=protocol)
                   for job in cluster for index in range(len(cluster[job]))]
        place = tf1.train.replica_device_setter(cluster=cluster, worker_device="/job:worker/task:0")
        with tf.Graph().as_default(), tf1.device(place), tf1.Session(servers[-1].target) as session:
            model = build()
            session.run(tf1.global_variables_initializer())
            counts = []
            for _ in range(3):
                before = fusewire.stats()
                session.run([model.loss, model.train], dict(zip([model.ids, model.dense, model.labels], ones)))
                after = fusewire.stats()
                counts.append(after["star_runs_out"] - before["star_runs_out"])
            print(protocol, ps, *counts, after["recvs"] - before["recvs"], flush=True)
os._exit(0)
"""


def test_a_step_of_wide_and_deep_takes_as_few_calls_as_it_can(run_python):
    said = [line.split() for line in run_python(WIDE_DEEP, CUDA_VISIBLE_DEVICES="").ok().splitlines()]
    calls = {(protocol, int(ps)): [int(count) for count in counts] for protocol, ps, *counts in said}
    assert calls["star_server", 1] == [2, 2, 2, 0]
    assert calls["star_server", 2] == [5, 5, 5, 0]
    for ps in (1, 2):
        assert calls["star_server_lite", ps] <= calls["star_server", ps]


MANY_SESSIONS = f"""
import os, sys
sys.path.insert(0, {str(HERE)!r})
import fusewire
import tensorflow as tf
from processes import free_addresses

tf1 = tf.compat.v1
tf1.disable_eager_execution()
addresses = free_addresses(3)
cluster = {{"ps": addresses[:1], "worker": addresses[1:]}}
servers = [tf1.train.Server(cluster, job, index, protocol="star_server")
           for job in cluster for index in range(len(cluster[job]))]
sessions = []
for number in range(200):
    task = number % 2
    with tf.Graph().as_default(), tf.device(f"/job:worker/task:{{task}}"):
        with tf.device("/job:ps/task:0"):
            weights = tf1.get_variable("weights", [4], initializer=tf1.zeros_initializer())
        train = tf1.assign_add(weights, tf.square(weights - 1.0))
        sessions.append(tf1.Session(servers[1 + task].target))
        if number == 0:
            sessions[0].run(weights.initializer)
            before = fusewire.stats()["star_parts"]
        sessions[-1].run(train)
    if number in (0, 199):
        print(fusewire.stats()["star_parts"] - before)
for session in sessions[1:]:
    session.close()
print(fusewire.stats()["star_parts"] - before)
sessions[0].close()
print(fusewire.stats()["star_parts"], flush=True)
os._exit(0)
"""


def test_sessions_with_the_same_graph_share_a_servers_parts(run_python):
    first, last, one_left, none_left = map(int, run_python(MANY_SESSIONS, CUDA_VISIBLE_DEVICES="").ok().split())
    assert first == last == one_left > 0
    assert none_left == 0


SHARED = """
with tf1.device(place):
    weights = [tf1.get_variable(f"weights{i}", [500], initializer=tf1.zeros_initializer()) for i in range(4)]
    loss = tf.add_n([tf.reduce_mean(tf.square(each - 1.0)) for each in weights])
    train = tf1.train.GradientDescentOptimizer(1.0).minimize(loss)
apart = tf1.ConfigProto(device_filters=["/job:ps", WORKER])

def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.02)

with tf1.Session(server.target, config=apart) as session:
    session.run(tf1.global_variables_initializer())
    for _ in range(5):
        session.run(train)
    say("TRAINED")
    wait_for("end")
say("CLOSED")
wait_for("leave")
"""


def test_workers_share_parts_and_one_that_was_killed_leaves_none(tasks, tmp_path):
    cluster = tasks(SHARED, "star_server", workers=3, **TELL)
    for index in range(2):
        cluster.start("ps", index)
    workers = [cluster.start("worker", 0)]
    cluster.read_until(workers[0], "TRAINED", 60)
    parts = [cluster.told(server)["star_parts"] for server in range(2)]
    assert min(parts) > 0
    workers += [cluster.start("worker", index) for index in (1, 2)]
    for worker in workers[1:]:
        cluster.read_until(worker, "TRAINED", 60)
    assert [cluster.told(server)["star_parts"] for server in range(2)] == parts
    workers[1].kill()
    workers[1].wait()
    workers[1] = cluster.start("worker", 1)
    cluster.read_until(workers[1], "TRAINED", 60)
    assert [cluster.told(server)["star_parts"] for server in range(2)] == parts
    (tmp_path / "end").touch()
    for worker in workers:
        cluster.read_until(worker, "CLOSED", 20)
    for server in range(2):
        cluster.wait_until_told(server, "star_parts", 0, 10)


MIXED = """
with tf1.device(place):
    weights = [tf1.get_variable(f"weights{i}", [50], initializer=tf1.zeros_initializer()) for i in range(4)]
    loss = tf.add_n([tf.reduce_mean(tf.square(each - 1.0)) for each in weights])
    step = tf1.train.get_or_create_global_step()
    train = tf1.train.AdagradOptimizer(0.5).minimize(loss, global_step=step)
with tf1.train.MonitoredTrainingSession(server.target) as session:
    for _ in range(20):
        say(np.float32(session.run([loss, train])[0]).tobytes().hex())
say_stats("star_runs_out")
"""


@pytest.mark.parametrize("stock", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_server_without_the_plugin_is_left_to_send_and_receive(run_cluster, tasks, tmp_path, stock):
    cluster = tasks(MIXED, "star_server")
    for index in range(2):
        cluster.start("ps", index, **({"FUSEWIRE_DISABLE": "1"} if index == stock else {}))
    *said, stats = cluster.read_until(cluster.start("worker"), "STATS", 60)
    log = (tmp_path / "worker-0.err").read_text()
    [_] = re.findall(rf"ps:{stock} \(127\.0\.0\.1:\d+\) has no Fusewire: it is served over stock gRPC; next: ", log)
    assert said == run_cluster(MIXED + "done()", "grpc", ps=2).said
    assert json.loads(stats.removeprefix("STATS "))["star_runs_out"] >= 20


CLIENT = """
with tf.device(PS):
    weights = tf1.get_variable("weights", [50], initializer=tf1.ones_initializer())
with tf.device("/job:worker/task:0"):
    train = tf1.assign_add(weights, weights * 2.0)
    total = tf.reduce_sum(weights)
if index == 1:
    with tf1.Session("star_server://" + cluster["worker"][0]) as session:
        session.run(tf1.global_variables_initializer())
        session.run(train)
        say(session.run(total))
    open("ended", "w").close()
ends = time.monotonic() + 60
while not os.path.exists("ended") and time.monotonic() < ends:
    time.sleep(0.05)
say(index, fusewire.stats()["star_runs_out"] > 2)
done()
"""


def test_a_client_in_another_process_names_the_protocol(run_cluster):
    assert sorted(run_cluster(CLIENT, "star_server", workers=2).said) == ["0 True", "1 False", "150.0"]


# ---- kills, under load ----

TIMES = pytest.mark.parametrize("times", [3, pytest.param(20, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])])


def start_training(tasks):
    cluster = tasks(TRAIN, "star_server", **TELL)
    servers = [cluster.start("ps", index) for index in range(2)]
    worker = cluster.start("worker")
    cluster.read_until(worker, "TRAINS", 60)
    return cluster, servers, worker


def expect_no_growth(cluster, server, before):
    cluster.wait_until_told(server, "star_parts", before["star_parts"], 10)
    assert cluster.told(server)["resident_bytes"] < before["resident_bytes"] + (64 << 20)


@TIMES
def test_servers_that_are_killed_and_restarted_hang_no_step(tasks, times):
    cluster, servers, worker = start_training(tasks)
    before, step = None, 0
    for _ in range(times):
        servers[1].kill()
        servers[1].wait()
        seconds, words = error_of(cluster.read_until(worker, "ERROR", 5))
        assert seconds < 5
        assert "/job:ps/replica:0/task:1" in words
        servers[1] = cluster.start("ps", 1)
        # From the last checkpoint, which comes every 50 steps.
        assert int(cluster.read_until(worker, "TRAINS", 60)[-1].split()[1]) >= step - 50
        step = int(cluster.read_until(worker, "TRAINS", 10)[-1].split()[1])
        before = before or cluster.told(0)
    expect_no_growth(cluster, 0, before)


@TIMES
def test_workers_that_are_killed_and_restarted_leave_nothing(tasks, times):
    cluster, _, worker = start_training(tasks)
    before = None
    for _ in range(times):
        worker.kill()
        worker.wait()
        worker = cluster.start("worker")
        cluster.read_until(worker, "TRAINS", 60)
        cluster.read_until(worker, "TRAINS", 10)
        before = before or [cluster.told(server) for server in range(2)]
    for server in range(2):
        expect_no_growth(cluster, server, before[server])
