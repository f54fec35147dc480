# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""What sessions and clusters can do over stock gRPC: the same programs, the same words over our protocols, and over
grpc with the plug-in loaded.
"""

import pytest
from cluster import FREE_PORTS

TRACE = """
with tf1.device(place):
    weights = tf1.get_variable("weights", [300, 30], initializer=tf1.zeros_initializer())
    loss = tf.reduce_mean(tf.square(weights - 1.0))
    train = tf1.train.GradientDescentOptimizer(1.0).minimize(loss)
metadata = tf1.RunMetadata()
options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
with tf1.Session(server.target) as session:
    session.run(tf1.global_variables_initializer())
    session.run(train)
    session.run(train, options=options, run_metadata=metadata)
for device in metadata.step_stats.dev_stats:
    for node in device.node_stats:
        if node.node_name == "RecvTensor":
            size = node.output[0].tensor_description.allocation_description.requested_bytes
            say(device.device, size, node.timeline_label.split("] ")[-1], 0 <= node.all_end_rel_micros < 1000000)
done()
"""


def test_a_trace_shows_the_transfers(run_cluster):
    ps, worker = (f"/job:{job}/replica:0/task:0/device:CPU:0" for job in ("ps", "worker"))
    assert sorted(run_cluster(TRACE, "grpc++").said) == [
        f"{ps} 36000 edge_8_gradients/Square_grad/Mul_1 from {worker} to {ps} True",
        f"{worker} 36000 edge_4_ReadVariableOp from {ps} to {worker} True",
    ]


SYNC = """
import time
is_chief = index == 0

def wait_for(path):
    ends = time.monotonic() + 60
    while not os.path.exists(path) and time.monotonic() < ends:
        time.sleep(0.002)

with tf1.device(place):
    weights = tf1.get_variable("weights", [10], initializer=tf1.zeros_initializer())
    step = tf1.train.get_or_create_global_step()
    loss = tf.reduce_mean(tf.square(weights - 1.0 - index))
    optimizer = tf1.train.SyncReplicasOptimizer(tf1.train.GradientDescentOptimizer(0.5), replicas_to_aggregate=2,
                                                total_num_replicas=2)
    train = optimizer.minimize(loss, global_step=step)
hook = optimizer.make_session_run_hook(is_chief, num_tokens=0)
with tf1.train.MonitoredTrainingSession(server.target, is_chief=is_chief, hooks=[hook]) as session:
    for number in range(10):
        value, at, _ = session.run([loss, step, train])
        if is_chief:
            say(f"{number} {at} {value:.6f}")
        # The tokens are nobody's: who is faster would take both.
        open(f"at-{index}-{number}", "w").close()
        wait_for(f"at-{1 - index}-{number}")
    # A worker that ends takes its part of the session along, and the chief hands out the tokens.
    open(f"done-{index}", "w").close()
    if is_chief:
        wait_for("done-1")
    done()
"""


@pytest.mark.in_turn(1)
@pytest.mark.parametrize("protocol", ["grpc++", "star_server"])
def test_synchronous_replicas_take_each_step_together(run_cluster, protocol):
    expected, weight = [], 0.0
    for step in range(10):
        expected.append(f"{step} {step} {(weight - 1) ** 2:.6f}")
        weight -= 0.5 * ((weight - 1.0) + (weight - 2.0)) / 10
    assert run_cluster(SYNC, protocol, workers=2).said == expected


FILTERS = """
with tf.device(WORKER):
    ones = tf1.get_variable("ones", [3], initializer=tf1.ones_initializer())
with tf.device(PS):
    total = tf.reduce_sum(ones * 2.0)
filters = tf1.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{index}"])
with tf1.Session(server.target, config=filters) as session:
    session.run(tf1.global_variables_initializer())
    names = sorted(device.name for device in session.list_devices() if device.device_type == "CPU")
    say(index, session.run(total), *names)
done()
"""


@pytest.mark.parametrize("protocol", ["grpc++", "star_server"])
def test_a_session_sees_what_its_device_filters_leave(run_cluster, protocol):
    said = run_cluster(FILTERS, protocol, workers=2).said
    own = "/job:ps/replica:0/task:0/device:CPU:0 /job:worker/replica:0/task:{}/device:CPU:0"
    assert sorted(said) == [f"{index} 6.0 {own.format(index)}" for index in range(2)]


# All call themselves /job:local/task:0 where nobody says otherwise, and two of them dial the third.
PROPAGATION = """
servers = [tf1.train.Server({"local": ["localhost:0"]}, protocol=protocol) for _ in range(3)]
addresses = [server.target.split("://")[1] for server in servers]
named_late = tf1.ConfigProto(cluster_def=tf1.train.ClusterSpec({"worker": addresses}).as_cluster_def())
with tf.device("/job:worker/task:1"):
    ones = tf1.get_variable("ones", [1000], initializer=tf1.ones_initializer())
with tf.device("/job:worker/task:0"):
    part = tf.reduce_sum(ones * 3.0)
with tf.device("/job:worker/task:2"):
    total = tf.reduce_sum(ones) + part
sessions = [tf1.Session(server.target, config=named_late) for server in servers]
for turn in range(3):
    for session in sessions:
        session.run(tf1.global_variables_initializer())
        say(session.run(total), len(session.list_devices()))
say_stats("recvs", "fallback_grpc_calls")
done()
"""


@pytest.mark.parametrize("protocol", ["grpc", "grpc++", "star_server"])
def test_a_cluster_that_only_the_session_names(run_cluster, protocol):
    output = run_cluster(PROPAGATION, protocol, ps=0)
    assert output.said == ["4000.0 3"] * 9
    assert (output.stats["recvs"] > 0) == (protocol != "grpc")
    assert output.stats["fallback_grpc_calls"] == 0


RESET = """
with tf1.container("kept"):
    kept = tf1.get_variable("kept", initializer=1.0)
with tf1.container("cleared"):
    cleared = tf1.get_variable("cleared", initializer=2.0)
session = tf1.Session(server.target)
session.run(tf1.global_variables_initializer())
say(*session.run([kept, cleared]))
tf1.Session.reset(server.target, ["cleared"])
for attempt in range(2):
    try:
        say(session.run(kept))
    except tf.errors.AbortedError as error:
        say("aborted", "is not found" in str(error))
session = tf1.Session(server.target)
say(session.run(kept))
try:
    say(session.run(cleared))
except tf.errors.FailedPreconditionError as error:
    say("uninitialized", "cleared" in str(error))
session.close()
try:
    session.run(kept)
except RuntimeError as error:
    say("closed", "closed" in str(error))
done()
"""


@pytest.mark.parametrize("protocol", ["grpc", "grpc++", "star_server"])
def test_a_session_that_was_reset_aborts(run_cluster, protocol):
    """An error after which MonitoredTrainingSession creates a new session."""
    said = run_cluster(RESET, protocol, ps=0).said
    assert said == ["1.0 2.0", "aborted True", "aborted True", "1.0", "uninitialized True", "closed True"]


LIMITS = """
import threading, time
with tf.device(PS):
    queue = tf1.FIFOQueue(10, tf.float32, shared_name="queue")
    size, put, taken = queue.size(), queue.enqueue(1.0), queue.dequeue()
with tf.device(WORKER):
    result = taken + 1.0

def fails(run):
    began = time.monotonic()
    try:
        run()
    except tf.errors.OpError as error:
        say(type(error).__name__, 1.0 < time.monotonic() - began < 8.0)

def left_after_put(session):
    # A dequeue that is still at the server would take it.
    time.sleep(0.5)
    session.run(put)
    say("left", session.run(size))

with tf1.Session(server.target, config=tf1.ConfigProto(operation_timeout_in_ms=1200)) as session:
    fails(lambda: session.run(result))
with tf1.Session(server.target) as session:
    left_after_put(session)
    say(session.run(result))
    fails(lambda: session.run(result, options=tf1.RunOptions(timeout_in_ms=1200)))
    left_after_put(session)
    say(session.run(result))
    threading.Timer(1.2, session.close).start()
    fails(lambda: session.run(result))
with tf1.Session(server.target) as session:
    left_after_put(session)
done()
"""

# Over stock gRPC the first such step hangs: it is cancelled once, while nothing listens to it.
SHORT_LIMITS = """
import time

with tf1.device(place):
    queue = tf1.FIFOQueue(10, [tf.float32], [[]], shared_name="never")
with tf1.Session(server.target) as session:
    for limit in (1, 2, 5, 10, 20, 40, 80):
        result = queue.dequeue() * float(limit)  # what is new is prepared
        began = time.monotonic()
        try:
            session.run(result, options=tf1.RunOptions(timeout_in_ms=limit))
        except tf.errors.OpError as error:
            say(type(error).__name__, time.monotonic() - began < 8.0)
    say(session.run(tf.constant(1.0) + 1.0))
done()
"""


@pytest.mark.parametrize("protocol", ["grpc++", "star_server", "star_server_lite"])
def test_a_limit_may_pass_while_a_step_is_being_prepared(run_cluster, protocol):
    assert run_cluster(SHORT_LIMITS, protocol).said == ["DeadlineExceededError True"] * 7 + ["2.0"]


@pytest.mark.parametrize("protocol", ["grpc++", "star_server"])
def test_limits_and_cancels_reach_the_peer(run_cluster, protocol):
    late, cancelled = "DeadlineExceededError True", "CancelledError True"
    expected = [late, "left 1", "2.0", late, "left 1", "2.0", cancelled, "left 1"]
    assert run_cluster(LIMITS, protocol).said == expected


INPUT = """
with tf.device(WORKER):
    data = tf1.data.make_one_shot_iterator(tf.data.Dataset.range(5)).get_next()
with tf1.device(place):
    weights = tf1.get_variable("weights", [10], initializer=tf1.zeros_initializer())
    step = tf1.train.get_or_create_global_step()
    loss = tf.reduce_mean(tf.square(weights - tf.cast(data, tf.float32)))
    train = tf1.train.GradientDescentOptimizer(0.5).minimize(loss, global_step=step)
with tf1.train.MonitoredTrainingSession(server.target) as session:
    steps = 0
    while not session.should_stop():
        session.run(train)
        steps += 1
say("ended after", steps)
with tf1.Session(server.target) as session:
    session.run(tf1.global_variables_initializer())
    try:
        while True:
            session.run(train)
    except tf.errors.OutOfRangeError as error:
        say(type(error).__name__, session.run(step))
done()
"""


@pytest.mark.parametrize("protocol", ["grpc++", "star_server"])
def test_the_end_of_input_is_an_end_and_no_error(run_cluster, protocol):
    output = run_cluster(INPUT, protocol)
    assert output.said == ["ended after 5", "OutOfRangeError 5"]
    assert "fusewire: E" not in output.errors
    assert ": E tensorflow" not in output.errors


RNN = """
if os.environ["CONTROL_FLOW"] == "1":
    tf1.disable_control_flow_v2()
    tf1.disable_resource_variables()  # which its gradient cannot have on another task
else:
    tf1.enable_control_flow_v2()
with tf1.device(place):
    def weights(name, *shape):
        values = np.linspace(-0.3, 0.3, int(np.prod(shape))).reshape(shape)
        return tf1.get_variable(name, shape, initializer=tf1.constant_initializer(values))

    kept, fed = weights("kept", 8, 8), weights("fed", 4, 8)
    inputs = tf.constant(np.linspace(0, 1, 48).reshape(6, 2, 4), tf.float32)
    step = tf1.train.get_or_create_global_step()

    def one(time, state):
        return time + 1, tf.tanh(tf.matmul(state, kept) + tf.matmul(inputs[time], fed))

    _, state = tf.while_loop(lambda time, _: time < 6, one, [0, tf.zeros([2, 8])])
    loss = tf.reduce_mean(tf.square(state - 0.5))
    train = tf1.train.AdagradOptimizer(0.1).minimize(loss, global_step=step)
with tf1.train.MonitoredTrainingSession(server.target, config=session_config) as session:
    for _ in range(10):
        say(repr(float(session.run([loss, train])[0])))
done()
"""


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_recurrent_network_trains_the_same(run_cluster, version):
    """Its loop, and its gradient, run on the worker with weights of two servers."""
    said = [
        run_cluster(RNN, protocol, ps=2, fuse=fuse, CONTROL_FLOW=version).said
        for protocol, fuse in [("grpc", False), ("grpc++", False), ("grpc++", True), ("star_server", False)]
    ]
    assert len(said[0]) == 10
    assert said[0] == said[1] == said[2] == said[3]


# The client is task 0 itself; the others are servers in the same process.
UPDATE = """
import json, os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import fusewire
import tensorflow as tf
from tensorflow.core.protobuf import tensorflow_server_pb2
from tensorflow.python.eager import context

protocol = os.environ["TEST_PROTOCOL"]

def cluster_of(*members):
    return tf.train.ClusterSpec({"worker": [f"127.0.0.1:{ports[member]}" for member in members]})

def start(index, *members):
    return tf.distribute.Server(cluster_of(*members), job_name="worker", task_index=index, protocol=protocol)

def told(*members):
    told = tensorflow_server_pb2.ServerDef(job_name="worker", task_index=0, protocol=protocol)
    told.cluster.CopyFrom(cluster_of(*members).as_cluster_def())
    return told

ones = tf.ones([3, 3])

@tf.function
def product():
    with tf.device("/job:worker/task:1"):
        square = tf.matmul(ones, ones)
    with tf.device("/job:worker/task:0"):
        return tf.reduce_sum(square)

@tf.function
def chain():
    with tf.device("/job:worker/task:1"):
        square = tf.matmul(ones, ones)
    with tf.device("/job:worker/task:2"):
        cube = tf.matmul(square, ones)
    with tf.device("/job:worker/task:0"):
        return tf.reduce_sum(square + cube)

def ask(task, times):
    with tf.device(f"/job:worker/replica:0/task:{task}/device:CPU:0"):
        return float(tf.reduce_sum(ones * times))

first = start(1, 0, 1)
context.set_server_def(told(0, 1))
print("first", ask(1, 2.0), float(product()))
second = start(1, 0, 2)
context.update_server_def(told(0, 2))
print("another in its place", ask(1, 3.0), float(product()))
third = start(2, 0, 2, 3)
context.update_server_def(told(0, 2, 3))
print("one more", ask(2, 4.0), float(product()), float(chain()))
context.update_server_def(told(0, 2))
print("one less", ask(1, 5.0), float(product()))
stats = fusewire.stats()
print("STATS", json.dumps({name: stats.get(name, 0) for name in ("recvs", "fallback_grpc_calls")}), flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("protocol", ["grpc", "grpc++"])
def test_a_cluster_that_changes_under_a_program(run_cluster, protocol):
    output = run_cluster("", protocol, ps=0, prologue=FREE_PORTS + UPDATE)
    expected = ["first 18.0 27.0", "another in its place 27.0 27.0", "one more 36.0 27.0 108.0", "one less 45.0 27.0"]
    assert output.said == expected
    assert (output.stats["recvs"] > 0) == (protocol == "grpc++")
    assert output.stats["fallback_grpc_calls"] == 0


AHEAD = """
with tf1.device(place):
    weights = [tf1.get_variable(f"weights{i}", [100], initializer=tf1.zeros_initializer()) for i in range(10)]
    loss = tf.add_n([tf.reduce_mean(tf.square(each - 1.0)) for each in weights])
    train = tf1.train.GradientDescentOptimizer(1.0).minimize(loss)
with tf1.Session(server.target) as session:
    session.run(tf1.global_variables_initializer())
    for _ in range(3):
        session.run(train)
    before = fusewire.stats()
    for _ in range(20):
        session.run(train)
    after = fusewire.stats()
for name in ("recvs", "recv_batches"):
    say(name, (after[name] - before[name]) / 20)
done()
"""


def test_a_step_asks_at_once_for_all_that_steps_before_it_received(run_cluster):
    said = dict(line.split() for line in run_cluster(AHEAD, "grpc++").said)
    assert float(said["recvs"]) >= 10
    assert float(said["recv_batches"]) == 1
