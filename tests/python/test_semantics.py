# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Tensors sent between tasks over our protocols are the same as over stock gRPC, bit for bit."""

import pytest

STEPS = 200

# Sparse and dense, float32, one worker: every step depends on all before it.
DETERMINISTIC = f"""
with tf1.device(place):
    tf1.set_random_seed(7)
    tables = [tf1.get_variable(f"table{{i}}", [100, 8], initializer=tf1.random_normal_initializer(seed=i))
              for i in range(6)]
    kernel = tf1.get_variable("kernel", [48, 1], initializer=tf1.random_normal_initializer(seed=9))
    rows = tf1.placeholder(tf.int32, [6, 32])
    wide = tf.concat([tf.nn.embedding_lookup(table, rows[i]) for i, table in enumerate(tables)], axis=1)
    loss = tf.reduce_mean(tf.square(tf.matmul(wide, kernel) - 1.0))
    step = tf1.train.get_or_create_global_step()
    train = tf1.train.AdagradOptimizer(0.05).minimize(loss, global_step=step)
random = np.random.RandomState(3)
with tf1.train.MonitoredTrainingSession(server.target, config=session_config) as session:
    for _ in range({STEPS}):
        value, _ = session.run([loss, train], {{rows: random.randint(0, 100, (6, 32))}})
        say(np.float32(value).tobytes().hex())
say_stats("recvs", "recv_batches", "fused_recvs", "run_graphs", "fallback_grpc_calls", "star_runs_out")
done()
"""


def test_losses_are_the_same_bit_for_bit(run_cluster):
    grpc = run_cluster(DETERMINISTIC, "grpc", ps=2)
    assert len(grpc.said) == STEPS and len(set(grpc.said)) == STEPS
    ours = run_cluster(DETERMINISTIC, "grpc++", ps=2)
    assert ours.said == grpc.said
    assert ours.stats["fallback_grpc_calls"] == 0
    assert ours.stats["run_graphs"] >= 2 * STEPS
    assert ours.stats["recvs"] >= 8 * STEPS
    assert ours.stats["fused_recvs"] == 0
    fused = run_cluster(DETERMINISTIC, "grpc++", ps=2, fuse=True)
    assert fused.said == grpc.said
    assert fused.stats["fused_recvs"] >= 2 * STEPS
    for protocol in ("star_server", "star_server_lite"):
        star = run_cluster(DETERMINISTIC, protocol, ps=2)
        assert star.said == grpc.said
        # All that servers do in a step, they do in these.
        assert 4 * STEPS <= star.stats["star_runs_out"] < 6 * STEPS
        assert star.stats["recvs"] < STEPS


# Every type that a constant can have, through a parameter server and back.
TYPES = """
shapes = [(), (0,), (3,), (0, 4), (5, 300), (1, 2, 1, 3, 1, 2, 1, 2)]
names = ["float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
         "uint64", "bool", "complex64", "complex128"]
fetches, expected = [], []
random = np.random.RandomState(1)
for name in names:
    for shape in shapes:
        value = np.asarray(random.rand(*shape) * 100).astype(tf.dtypes.as_dtype(name).as_numpy_dtype)
        with tf.device(WORKER):
            there = tf.raw_ops.Identity(input=tf1.placeholder_with_default(value, shape))
        with tf.device(PS):
            back = tf.raw_ops.Identity(input=there)
        with tf.device(WORKER):
            fetches.append(tf.raw_ops.Identity(input=back))
        expected.append(value)
texts = np.array([b"", b"a", b"\\0" * 70000, "\\u00e4".encode()], dtype=object)
with tf.device(WORKER):
    there = tf.raw_ops.Identity(input=tf1.placeholder_with_default(texts, [4]))
with tf.device(PS):
    back = tf.raw_ops.Identity(input=there)
    listed = tf.raw_ops.TensorListFromTensor(tensor=tf.random.uniform([3, 2], seed=1) * 0 + 5,
                                             element_shape=tf.constant([2]))
    handle = tf1.get_variable("v", [3], use_resource=True, initializer=tf1.ones_initializer())
with tf.device(WORKER):
    fetches.append(tf.raw_ops.Identity(input=back))
    stacked = tf.raw_ops.TensorListStack(input_handle=listed, element_shape=tf.constant([2]), element_dtype=tf.float32)
options = tf1.ConfigProto()
options.graph_options.rewrite_options.disable_meta_optimizer = True
options.graph_options.optimizer_options.opt_level = tf1.OptimizerOptions.L0
with tf1.Session(server.target, config=options) as session:
    session.run(tf1.global_variables_initializer())
    results = session.run(fetches)
    for result, value in zip(results, expected + [texts]):
        assert result.dtype == value.dtype, (result.dtype, value.dtype)
        assert result.shape == value.shape, (result.shape, value.shape)
        assert (result == value).all(), value.dtype
    say(len(results), session.run(stacked).tolist(), session.run(handle).tolist())
say_stats("recvs", "fallback_grpc_calls")
done()
"""


@pytest.mark.parametrize("protocol", ["grpc", "grpc++", "star_server"])
def test_every_type_and_shape_arrives(run_cluster, protocol):
    output = run_cluster(TYPES, protocol)
    assert output.said == ["91 [[5.0, 5.0], [5.0, 5.0], [5.0, 5.0]] [1.0, 1.0, 1.0]"]
    if protocol == "grpc++":
        assert output.stats["recvs"] >= 90
        assert output.stats["fallback_grpc_calls"] == 0


# Branches that are not taken, loops that cross tasks in each turn, feeds that come in parts, callables.
CONTROL_FLOW = """
tf1.disable_control_flow_v2()
x = tf1.placeholder(tf.float32, [])
y = tf1.placeholder(tf.float32, [])
with tf.device(PS):
    weight = tf1.get_variable("weight", [], initializer=tf1.constant_initializer(3.0))
    doubled = weight * 2.0

def taken():
    with tf.device(PS):
        return tf.identity(doubled * x)

def not_taken():
    with tf.device(WORKER):
        return tf.identity(doubled - x)

with tf.device(WORKER):
    chosen = tf.cond(x > 0.0, taken, not_taken) + 1.0

def turn(count, total):
    with tf.device(PS):
        more = total + weight
    with tf.device(WORKER):
        return count + 1, more * 2.0

with tf.device(WORKER):
    _, looped = tf.while_loop(lambda count, total: count < 5, turn, [0, x])
with tf.device(PS):
    first = x * weight
    second = first + y
with tf.device(WORKER):
    first_here, second_here = tf.identity(first), tf.identity(second)
with tf1.Session(server.target, config=session_config) as session:
    session.run(tf1.global_variables_initializer())
    for value in (2.0, -2.0, 5.0, -7.0):
        say(session.run([chosen, looped], {x: value}))
    part = session.partial_run_setup([first_here, second_here], [x, y])
    say(session.partial_run(part, first_here, {x: 4.0}))
    say(session.partial_run(part, second_here, {y: 1.0}))
    call = session.make_callable([first_here, chosen], [x])
    say(call(3.0), call(-3.0))
done()
"""


def test_control_flow_and_partial_runs(run_cluster):
    grpc = run_cluster(CONTROL_FLOW, "grpc")
    assert len(grpc.said) == 7
    assert run_cluster(CONTROL_FLOW, "grpc++").said == grpc.said
    assert run_cluster(CONTROL_FLOW, "grpc++", fuse=True).said == grpc.said
    assert run_cluster(CONTROL_FLOW, "star_server").said == grpc.said


# Stock gRPC refuses or dies of it.
LARGE = """
with tf.device(PS):
    large = tf.fill([2200, 1024, 1024], tf.constant(7, tf.int8)) + tf.cast(tf1.placeholder_with_default(1, []), tf.int8)
with tf.device(WORKER):
    total = tf.reduce_sum(tf.cast(tf.reduce_max(large, axis=[1, 2]), tf.int64))
    size = tf.size(large, out_type=tf.int64)
with tf1.Session(server.target) as session:
    say([int(value) for value in session.run([total, size])])
done()
"""


@pytest.mark.once
@pytest.mark.parametrize("protocol", ["grpc++", pytest.param("star_server", marks=pytest.mark.slow)])
def test_a_tensor_of_more_than_two_gibibytes(run_cluster, protocol):
    assert run_cluster(LARGE, protocol).said == [f"[{2200 * 8}, {2200 << 20}]"]
