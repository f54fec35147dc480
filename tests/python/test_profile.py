# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""TensorFlow's own profiler: every transfer of the profiled steps is in it, of this task and of a remote one."""

import json
import pathlib

import pytest

# profile(steps, folder) profiles so many steps, and says what fusewire counted meanwhile.
PROFILE = """
weights = []
with tf1.device(place):
    for i in range(6):
        weights.append(tf1.get_variable(f"weights_{i}", [50, 40], initializer=tf1.ones_initializer()))
    loss = tf.add_n([tf.reduce_mean(tf.square(each)) for each in weights])
    train = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
COUNTED = ("recvs", "tensor_bytes", "star_runs_out")

def profile(session, steps, folder):
    for _ in range(3):  # the first steps learn what is received
        session.run(train)
    before = fusewire.stats()
    options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2)
    tf.profiler.experimental.start(folder, options)
    for _ in range(steps):
        session.run(train)
    tf.profiler.experimental.stop()
    after = fusewire.stats()
    say("COUNTED", json.dumps({name: after[name] - before[name] for name in COUNTED}))
"""

LOCAL = """
with tf1.Session(server.target) as session:
    session.run(tf1.global_variables_initializer())
    profile(session, 10, "profile")
done()
"""

# The worker takes a profile of its parameter server, through the profiler service of that server's gRPC port.
REMOTE = """
import threading
with tf1.Session(server.target) as session:
    session.run(tf1.global_variables_initializer())
    session.run(train)
    stopped = threading.Event()
    def steps():
        while not stopped.is_set():
            session.run(train)
    stepping = threading.Thread(target=steps)
    stepping.start()
    try:
        tf.profiler.experimental.client.trace("grpc://" + cluster["ps"][0], "profile", 400, num_tracing_attempts=3)
    finally:
        stopped.set()
        stepping.join()
say("taken")
done()
"""

PLANE = "/device:CUSTOM:fusewire"


def space_of(folder: pathlib.Path):
    """The only profile under the folder."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    (path,) = folder.rglob("*.xplane.pb")
    space = xplane_pb2.XSpace()
    space.ParseFromString(path.read_bytes())
    return space


def plane_of(space, name: str):
    (plane,) = (plane for plane in space.planes if plane.name == name)
    return plane


def events_of(plane, line_words: str) -> list[dict]:
    """The events of the lines that begin with these words, each as its stats."""
    events = []
    for line in plane.lines:
        if not line.name.startswith(line_words):
            continue
        for event in line.events:
            stats = {"name": plane.event_metadata[event.metadata_id].name}
            for stat in event.stats:
                value = getattr(stat, stat.WhichOneof("value"))
                stats[plane.stat_metadata[stat.metadata_id].name] = value
            events.append(stats)
    return events


def threads_with(space, event_name: str) -> set[str]:
    """The names of the host's threads that have such an event."""
    plane = plane_of(space, "/host:CPU")
    wanted = {key for key, metadata in plane.event_metadata.items() if metadata.name == event_name}
    return {line.name for line in plane.lines for event in line.events if event.metadata_id in wanted}


@pytest.mark.parametrize("protocol", ["grpc++", "star_server", "star_server_lite"])
def test_every_receive_of_the_profiled_steps_is_in_the_profile(run_cluster, tmp_path, protocol):
    output = run_cluster(PROFILE + LOCAL, protocol, FUSEWIRE_WORKER_LIST="always")
    (line,) = (line for line in output.said if line.startswith("COUNTED "))
    counted = json.loads(line.removeprefix("COUNTED "))
    space = space_of(tmp_path / "profile")
    plane = plane_of(space, PLANE)
    receives, parts = events_of(plane, "received from ps:0"), events_of(plane, "run by ps:0")
    assert len(receives) == counted["recvs"]
    assert len(parts) == counted["star_runs_out"]
    for event in receives + parts:
        assert event["peer"] == "ps:0"
        assert event["queue"] >= 1
        assert event["wait_us"] >= 0
        assert event["land_us"] >= 0
        assert "error" not in event
    content = 6 * 50 * 40 * 4
    if protocol == "grpc++":
        assert counted["recvs"] >= 10 * 6
        values = [event for event in receives if event["bytes_in"] == content // 6]
        assert len({event["tensor"] for event in values}) == 6, receives
        assert len(values) == 60
        assert sum(event["bytes_in"] for event in receives if event["bytes_in"] > 1024) == counted["tensor_bytes"]
        names = ["fusewire ask", "fusewire part in"]
    else:
        assert counted["star_runs_out"] >= 10
        assert sum(event["bytes_in"] for event in parts) >= 10 * content  # the values out, the gradients back
        assert sum(event["bytes_out"] for event in parts) >= 10 * content
        names = ["fusewire run part", "fusewire part ran"]
        # Steps that are profiled leave the list: TensorFlow's executor writes an event for each kernel.
        kernels = [metadata.name for metadata in plane_of(space, "/host:CPU").event_metadata.values()]
        assert [name for name in kernels if name.endswith(":Mul")], kernels
    for name in names:
        assert threads_with(space, name), name
    if protocol == "grpc++":
        assert all(name.startswith("fusewire-work/") for name in threads_with(space, "fusewire ask"))


def test_a_remote_parameter_server_is_profiled_by_tensorflows_client(run_cluster, tmp_path):
    output = run_cluster(PROFILE + REMOTE, "grpc++")
    assert output.said[-1] == "taken"  # behind what the client says
    space = space_of(tmp_path / "profile")
    sent = events_of(plane_of(space, PLANE), "sent to worker:0")
    assert {event["tensor"] for event in sent if event["bytes_out"] == 50 * 40 * 4}
    assert all(name.startswith("fusewire-ps/") for name in threads_with(space, "fusewire part out"))


# As in test_strategies: MultiWorkerMirroredStrategy, whose collectives are ours.
MIRRORED = """
import json, os, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "1"
import fusewire
import tensorflow as tf
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
strategy = tf.distribute.MultiWorkerMirroredStrategy(resolver)

@tf.function
def step():
    def replica():
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.ones([300000]))
    return strategy.run(replica)

step()
before = fusewire.stats()["collectives"]
tf.profiler.experimental.start(f"profile-{index}", tf.profiler.experimental.ProfilerOptions(host_tracer_level=2))
for _ in range(5):
    result = step()
float(result[0])
tf.profiler.experimental.stop()
print("COUNTED", fusewire.stats()["collectives"] - before, flush=True)
open(f"done-{index}", "w").close()
ends = time.monotonic() + 60
while not all(os.path.exists(f"done-{each}") for each in range(2)) and time.monotonic() < ends:
    time.sleep(0.02)
os._exit(0)
"""


def test_every_collective_is_in_the_profile(run_cluster, tmp_path):
    output = run_cluster(MIRRORED, "grpc++", ps=0, workers=2, prologue="")
    counted = [int(line.removeprefix("COUNTED ")) for line in output.said]
    assert counted == [5, 5]
    for index in range(2):
        events = events_of(plane_of(space_of(tmp_path / f"profile-{index}"), PLANE), "collectives of group")
        assert len(events) == 5
        for event in events:
            assert event["operation"].startswith("all-reduce ")
            assert event["bytes_in"] == event["bytes_out"] == 300000 * 4
