# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Clusters of every kind: tasks that only use gRPC, several servers in one process."""

import pytest
from cluster import FREE_PORTS

TRAIN = """
with tf1.device(place):
    weights = [tf1.get_variable(f"weights{i}", [50], initializer=tf1.zeros_initializer()) for i in range(4)]
    loss = tf.add_n([tf.reduce_mean(tf.square(each - 1.0)) for each in weights])
    step = tf1.train.get_or_create_global_step()
    train = tf1.train.GradientDescentOptimizer(1.0).minimize(loss, global_step=step)
with tf1.train.MonitoredTrainingSession(server.target, config=session_config) as session:
    for _ in range(30):
        value, _ = session.run([loss, train])
say(f"{value:.6f}")
say_stats("recvs", "run_graphs", "fallback_grpc_calls", "shared_bytes_out")
done()
"""


@pytest.mark.parametrize(("protocol", "job"), [("grpc++", "ps"), ("grpc++", "worker"), ("star_server", "ps")])
def test_a_task_that_speaks_grpc_only_is_served_over_grpc(run_cluster, protocol, job):
    output = run_cluster(TRAIN, protocol, ps=2, **{f"TEST_PROTOCOL_OF_{job}": "grpc"})
    assert output.said == [run_cluster(TRAIN, "grpc", ps=2).said[0]]
    assert output.stats["recvs"] == 0
    if job == "ps":
        assert output.stats["fallback_grpc_calls"] > 0


def test_switched_off_everything_goes_over_grpc(run_cluster):
    output = run_cluster(TRAIN, "grpc++", FUSEWIRE_DISABLE="1")
    assert output.stats["recvs"] == output.stats["run_graphs"] == 0


@pytest.mark.parametrize(
    ("job", "wires"), [("ps", ("", "")), ("ps", ("tcp", "")), ("worker", ("tcp", "")), ("ps", ("", "shm"))]
)
def test_memory_is_shared_where_both_tasks_agree(run_cluster, job, wires):
    """One job may use only TCP, or only shared memory; it is detected that tasks are on one machine."""
    output = run_cluster(TRAIN, "grpc++", TEST_TRANSPORT_JOB=job, TEST_TRANSPORT=wires[0], FUSEWIRE_TRANSPORT=wires[1])
    assert output.said == [run_cluster(TRAIN, "grpc").said[0]]
    assert output.stats["recvs"] > 0
    assert (output.stats["shared_bytes_out"] > 0) == (wires[0] != "tcp")


def test_a_data_port_of_the_endpoint_map(run_cluster, tmp_path):
    """An entry for an unused port: the task can't be reached there, which shows that the map was read."""
    (tmp_path / "map").mkdir()
    (tmp_path / "map/.endpoint_map").write_text("# nothing of this cluster\n\n10.0.0.1:1=10.0.0.1:2\n")
    output = run_cluster(TRAIN, "grpc++", TF_SEASTAR_ENDPOINT_MAP_PATH=str(tmp_path / "map"))
    assert output.stats["recvs"] > 0


ONE_PROCESS = """
many = {"ps": [f"127.0.0.1:{port}" for port in ports[:2]], "worker": [f"127.0.0.1:{port}" for port in ports[2:]]}
servers = {(job, task): tf1.train.Server(many, job_name=job, task_index=task, protocol=protocol)
           for job in many for task in range(2)}
for worker in range(2):
    with tf.Graph().as_default():
        with tf.device(f"/job:ps/task:{worker}"):
            value = tf.random.uniform([10]) * 0.0 + float(worker)
        with tf.device(f"/job:worker/task:{worker}"):
            total = tf.reduce_sum(value)
        with tf1.Session(f"{protocol}://127.0.0.1:{ports[2 + worker]}") as session:
            say(worker, session.run(total))
say_stats("recvs", "star_runs_out", "fallback_grpc_calls")
done()
"""


@pytest.mark.parametrize("protocol", ["grpc++", "star_server"])
def test_several_servers_in_one_process(run_cluster, protocol):
    output = run_cluster(FREE_PORTS + ONE_PROCESS, protocol, ps=0)
    assert output.said == ["0 0.0", "1 10.0"]
    assert output.stats["recvs" if protocol == "grpc++" else "star_runs_out"] >= 2
