# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""tensor_fuse with protocol="grpc": a fused receive is one call, and everything else is as over stock gRPC."""

import json
import re
import signal
import time

import pytest

# Each worker has variables of its own, so that its losses are its own. What it counts, it counts after the first steps:
# they still ask who has the plug-in.
TRAIN = """
with tf1.device(place):
    weights = [tf1.get_variable(f"weights{index}_{i}", [20, 30], initializer=tf1.random_normal_initializer(seed=i))
               for i in range(6)]
    feed = tf1.placeholder(tf.float32, [20, 30])
    loss = tf.add_n([tf.reduce_mean(tf.square(each * feed - 1.0)) for each in weights])
    train = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
# A worker that has done its part may be gone before another has begun: they must not wait for each other.
session_config.MergeFrom(tf1.ConfigProto(device_filters=["/job:ps", WORKER]))
random = np.random.RandomState(3)
with tf1.Session(server.target, config=session_config) as session:
    session.run(tf1.global_variables_initializer())
    for step in range(25):
        if step == 5:
            before = fusewire.stats()
        say(index, np.float32(session.run([loss, train], {feed: random.rand(20, 30)})[0]).tobytes().hex())
    after = fusewire.stats()
    say("STATS", json.dumps({name: (after[name] - before[name]) / 20 for name in after}))
done()
"""
STOCK = {"FUSEWIRE_DISABLE": "1"}  # the plug-in is not loaded


@pytest.mark.parametrize("tasks_of_a_job", [1, 2])
def test_a_fused_receive_is_one_call(run_cluster, tasks_of_a_job):
    size = {"ps": tasks_of_a_job, "workers": tasks_of_a_job}
    stock = run_cluster(TRAIN, "grpc", **STOCK, **size)
    assert len(stock.said) == 25 * tasks_of_a_job
    single = run_cluster(TRAIN, "grpc", **size)
    fused = run_cluster(TRAIN, "grpc", fuse=True, **size)
    assert sorted(fused.said) == sorted(single.said) == sorted(stock.said)
    # Of two servers each says at its end that it has updated, in a control edge that comes alone.
    alone = 0 if tasks_of_a_job == 1 else 2
    assert single.stats["grpc_recvs"] == 6 + alone
    assert single.stats["grpc_fused_recvs"] == 0
    assert fused.stats["grpc_recvs"] == alone
    assert fused.stats["grpc_fused_recvs"] == fused.stats["fused_recvs"] == tasks_of_a_job
    assert fused.stats["calls_out"] == fused.stats["recvs"] == fused.stats["fallback_grpc_calls"] == 0


@pytest.mark.parametrize("job", ["ps", "worker"])
def test_a_task_without_the_plugin_is_asked_one_by_one(run_cluster, tasks, job):
    cluster = tasks(TRAIN, "grpc", TEST_FUSE="1")
    for index in range(2):
        cluster.start("ps", index, **(STOCK if job == "ps" else {}))
    worker = cluster.start("worker", **(STOCK if job == "worker" else {}))
    *said, stats = cluster.read_until(worker, "STATS", 60)
    assert said == run_cluster(TRAIN, "grpc", ps=2, **STOCK).said
    if job == "ps":
        counted = json.loads(stats.removeprefix("STATS "))
        assert [counted[name] for name in ("fused_recvs", "grpc_recvs", "grpc_fused_recvs")] == [2, 8, 0]


def test_a_peer_that_speaks_grpc_is_asked_in_one_call(run_cluster):
    """From our server to a stock server with the plug-in, and the reverse."""
    expected = run_cluster(TRAIN, "grpc").said
    output = run_cluster(TRAIN, "grpc++", fuse=True, TEST_PROTOCOL_OF_ps="grpc")
    assert output.said == expected
    assert (output.stats["grpc_recvs"], output.stats["grpc_fused_recvs"]) == (0, 1)
    output = run_cluster(TRAIN, "grpc++", fuse=True, TEST_PROTOCOL_OF_worker="grpc")
    assert output.said == expected
    assert (output.stats["grpc_recvs"], output.stats["grpc_fused_recvs"]) == (0, 1)


# Feeds for a parameter server: every type, scalars, strings, an empty tensor, and a large one.
TYPES = """
names = ["float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
         "uint64", "bool", "complex64", "complex128"]
fetches, expected = [], []
random = np.random.RandomState(1)
for name in names:
    for shape in [(), (0,), (3,), (0, 4), (5, 300), (1, 2, 1, 3, 1, 2, 1, 2)]:
        expected.append(np.asarray(random.rand(*shape) * 100).astype(tf.dtypes.as_dtype(name).as_numpy_dtype))
expected.append(np.array([b"", b"a", b"\\0" * 70000, "\\u00e4".encode()], dtype=object))
expected.append(np.array(b"alone", dtype=object))
expected.append(np.zeros([0], dtype=object))
expected.append(np.arange(5000000, dtype=np.float32))
for value in expected:
    with tf.device(PS):
        fed = tf1.placeholder(tf.dtypes.as_dtype(value.dtype), value.shape)
    fetches.append(fed)
with tf.device(PS):
    there = [tf.raw_ops.Identity(input=fed) for fed in fetches]
    # A variant, beside the rest.
    listed = tf.raw_ops.TensorListFromTensor(tensor=fetches[16], element_shape=tf.constant([300]))
with tf.device(WORKER):
    here = [tf.raw_ops.Identity(input=each) for each in there]
    row = tf.constant([300])
    stacked = tf.raw_ops.TensorListStack(input_handle=listed, element_shape=row, element_dtype=tf.float32)
session_config.graph_options.rewrite_options.disable_meta_optimizer = True
session_config.graph_options.optimizer_options.opt_level = tf1.OptimizerOptions.L0
with tf1.Session(server.target, config=session_config) as session:
    for step in range(5):
        before = fusewire.stats()
        *results, list_here = session.run([*here, stacked], dict(zip(fetches, expected)))
        after = fusewire.stats()
        for result, value in zip(results, expected):
            result = np.asarray(result, dtype=value.dtype)
            assert result.shape == value.shape, (result.shape, value.shape)
            assert (result == value).all(), value.dtype
        assert (list_here == expected[16]).all()
    say(len(results))
    say("STATS", json.dumps({name: after[name] - before[name] for name in after}))
done()
"""


def test_every_type_and_shape_arrives(run_cluster):
    output = run_cluster(TYPES, "grpc", fuse=True)
    assert output.said == ["94"]
    assert output.stats["grpc_recvs"] == 0
    assert output.stats["grpc_fused_recvs"] == output.stats["fused_recvs"] > 0


# A dequeue on the parameter server keeps a fused receive waiting, until something is put in.
LIMITS = """
import threading, time
with tf.device(PS):
    queue = tf1.FIFOQueue(10, tf.float32, shared_name="queue")
    size, put, taken = queue.size(), queue.enqueue(1.0), queue.dequeue()
    ones = tf1.placeholder_with_default(np.ones([3], np.float32), [3]) + 0.0
with tf.device(WORKER):
    result = taken + tf.reduce_sum(ones)

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

with tf1.Session(server.target, config=session_config) as session:
    for _ in range(2):  # who has the plug-in is known then
        left_after_put(session)
        say(session.run(result))
    calls = fusewire.stats().get("grpc_fused_recvs")
    fails(lambda: session.run(result, options=tf1.RunOptions(timeout_in_ms=1200)))
    left_after_put(session)
    say(session.run(result))
    threading.Timer(1.2, session.close).start()
    fails(lambda: session.run(result))
short = tf1.ConfigProto(operation_timeout_in_ms=1200)
short.MergeFrom(session_config)
with tf1.Session(server.target, config=short) as session:
    left_after_put(session)
    say(session.run(result))
    fails(lambda: session.run(result))
with tf1.Session(server.target, config=session_config) as session:
    left_after_put(session)
    say(session.run(result))
    say("STATS", json.dumps({"calls": fusewire.stats().get("grpc_fused_recvs", 0)}))
done()
"""


def test_limits_and_cancels_reach_the_peer(run_cluster):
    stock = run_cluster(LIMITS, "grpc", **STOCK)
    assert stock.said.count("left 1") == 5
    assert [line for line in stock.said if line.endswith("Error True")] == [
        "DeadlineExceededError True",
        "CancelledError True",
        "DeadlineExceededError True",
    ]
    fused = run_cluster(LIMITS, "grpc", fuse=True)
    assert fused.said == stock.said
    assert fused.stats["calls"] >= 7


# Trains until a step fails, and says how.
UNTIL_IT_FAILS = """
import time
with tf1.device(place):
    weights = [tf1.get_variable(f"weights{i}", [20000], initializer=tf1.zeros_initializer()) for i in range(8)]
    loss = tf.add_n([tf.reduce_mean(tf.square(each - 1.0)) for each in weights])
    train = tf1.train.GradientDescentOptimizer(1.0).minimize(loss)
with tf1.Session(server.target, config=session_config) as session:
    session.run(tf1.global_variables_initializer())
    said = time.monotonic()
    while True:
        started = time.monotonic()
        try:
            session.run(train)
        except tf.errors.OpError as error:
            say("ERROR", f"{time.monotonic() - started:.2f}", type(error).__name__, " ".join(str(error).split()))
            break
        if time.monotonic() - said > 0.25:
            said = time.monotonic()
            say("TRAINS", fusewire.stats()["grpc_fused_recvs"])
done()
"""


def test_a_killed_parameter_server_is_named_at_once(tasks):
    cluster = tasks(UNTIL_IT_FAILS, "grpc", TEST_FUSE="1")
    servers = [cluster.start("ps", index) for index in range(2)]
    worker = cluster.start("worker")
    cluster.read_until(worker, "TRAINS", 60)
    assert int(cluster.read_until(worker, "TRAINS", 10)[-1].split()[1]) > 0
    servers[1].kill()
    killed = time.monotonic()
    words = cluster.read_until(worker, "ERROR", 10)[-1]
    assert time.monotonic() - killed < 5
    assert "UnavailableError" in words
    assert re.search("GRPC error information from remote target /job:ps/replica:0/task:1", words)


# One fused receive that waits for a queue on each server: its step is in the middle of a call when the server goes.
IN_A_CALL = """
import time
results = []
for number in range(2):
    with tf.device(f"/job:ps/task:{number}"):
        queue = tf1.FIFOQueue(10, tf.float32, shared_name=f"queue{number}")
        put, taken = queue.enqueue(1.0), queue.dequeue()
        ones = tf1.placeholder_with_default(np.ones([3], np.float32), [3]) + 0.0
    with tf.device(WORKER):
        results.append((put, taken + tf.reduce_sum(ones)))
put, result = results[1]
with tf1.Session(server.target, config=session_config) as session:
    for _ in range(3):
        session.run(put)
        session.run(result)
    say("WAITS", fusewire.stats()["grpc_fused_recvs"])
    started = time.monotonic()
    try:
        session.run(result)
    except tf.errors.OpError as error:
        say("ERROR", f"{time.monotonic() - started:.2f}", type(error).__name__, " ".join(str(error).split()))
done()
"""


def test_a_call_under_way_ends_with_its_server(tasks):
    cluster = tasks(IN_A_CALL, "grpc", TEST_FUSE="1")
    servers = [cluster.start("ps", index) for index in range(2)]
    worker = cluster.start("worker")
    assert int(cluster.read_until(worker, "WAITS", 60)[-1].split()[1]) > 0
    time.sleep(0.5)  # nothing tells that a step has begun to wait
    servers[1].send_signal(signal.SIGKILL)
    killed = time.monotonic()
    words = cluster.read_until(worker, "ERROR", 10)[-1]
    assert time.monotonic() - killed < 5
    assert "UnavailableError" in words
    assert re.search("GRPC error information from remote target /job:ps/replica:0/task:1", words)


# Tells of errors, and goes on in a new session.
RECOVERS = """
import time
with tf1.device(place):
    weights = [tf1.get_variable(f"weights{i}", [1000], initializer=tf1.zeros_initializer()) for i in range(8)]
    loss = tf.add_n([tf.reduce_mean(tf.square(each - 1.0)) for each in weights])
    step = tf1.train.get_or_create_global_step()
    train = tf1.train.GradientDescentOptimizer(1.0).minimize(loss, global_step=step)
with tf1.train.MonitoredTrainingSession(server.target, config=session_config) as session:
    said = time.monotonic()
    before, steps = fusewire.stats()["grpc_fused_recvs"], 0
    while True:
        session.run(train)
        steps += 1
        if time.monotonic() - said > 0.25 and steps >= 10:
            calls = fusewire.stats()["grpc_fused_recvs"] - before
            say("TRAINS", "fused" if calls >= steps else "partly" if calls > 0 else "singly")
            said, before, steps = time.monotonic(), before + calls, 0
"""


def test_a_server_that_comes_back_without_the_plugin(tasks):
    cluster = tasks(RECOVERS, "grpc", TEST_FUSE="1")
    servers = [cluster.start("ps", index) for index in range(2)]
    worker = cluster.start("worker")
    cluster.read_until(worker, "TRAINS fused", 60)
    for index in range(2):
        servers[index].kill()
        servers[index].wait()
        servers[index] = cluster.start("ps", index, **STOCK)
    cluster.read_until(worker, "TRAINS singly", 60)
    for index in range(2):
        servers[index].kill()
        servers[index].wait()
        servers[index] = cluster.start("ps", index)
    cluster.read_until(worker, "TRAINS fused", 60)
