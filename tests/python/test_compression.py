# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Fewer bytes between workers and parameter servers: what is exact changes no bit; and what is refused."""

import json
import re

import numpy as np
import pytest

# Two tables, whose ids repeat, and a dense layer; one optimizer adds up repeated ids' gradients, the other does not.
# Each kind of session begins anew, and says its losses and the bytes that a step has sent and received.
TRAIN = """
import contextlib, socket, struct

def traffic():
    "Bytes that this process has sent and received over the TCP connections that it has."
    total = 0
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if not os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(descriptor))) as one:
                info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 136)
                total += sum(struct.unpack_from("QQ", info, 120))
    return total

KINDS = {"plain": {}, "unique": {"unique_ids": True}, "bf16": {"compression": "bf16"},
         "both": {"unique_ids": True, "compression": "bf16"},
         "int8": {"unique_ids": True, "compression": "int8"},
         "deep": {"compression": "bf16", "compressed_tables": "deep/"},
         "stale": {"staleness": 3}, "small": {"staleness": 3, "compression": "int8"}}
with tf1.device(place):
    deep = tf1.get_variable("deep/table", [50, 16], initializer=tf1.random_normal_initializer(seed=1))
    wide = tf1.get_variable("wide/table", [50, 16], initializer=tf1.random_normal_initializer(seed=2))
    weights = tf1.get_variable("dense/weights", [32, 1], initializer=tf1.random_normal_initializer(seed=3))
with tf1.device(WORKER):
    ids = tf1.placeholder(tf.int64, [None, 3])
    label = tf1.placeholder(tf.float32, [None, 1])
    rows = [tf.reduce_sum(tf.nn.embedding_lookup(table, ids), 1) for table in (deep, wide)]
    loss = tf.reduce_mean(tf.square(tf.matmul(tf.concat(rows, 1), weights) - label))
    steps = [
        tf1.train.AdagradOptimizer(0.1).minimize(loss, var_list=[deep, weights]),
        tf1.train.GradientDescentOptimizer(0.01).minimize(loss, var_list=[wide]),
    ]
    initial = tf1.global_variables_initializer()
for kind, options in KINDS.items():
    random = np.random.default_rng(3)
    losses = []
    with tf1.Session(server.target, config=tf1.ConfigProto(**options)) as session:
        session.run(initial)
        for step in range(30):
            if step == 5:
                before = traffic()
            feed = {ids: np.minimum(random.zipf(1.3, (64, 3)) - 1, 49), label: random.random((64, 1))}
            losses.append(float(session.run([loss, *steps], feed)[0]))
        say(kind, json.dumps({"losses": losses, "bytes": traffic() - before}))
done()
"""


@pytest.mark.parametrize("protocol", ["grpc", "grpc++", "star_server", "star_server_lite"])
def test_fewer_bytes_and_the_same_training(run_cluster, protocol):
    said = run_cluster(TRAIN, protocol, FUSEWIRE_TRANSPORT="tcp").said
    kinds = {kind: json.loads(rest) for kind, _, rest in (line.partition(" ") for line in said)}
    plain = kinds["plain"]["losses"]
    assert plain[-1] < 0.7 * plain[0]
    assert kinds["unique"]["losses"] == plain
    for kind in ("bf16", "both", "int8", "deep"):
        assert kinds[kind]["losses"] != plain
        np.testing.assert_allclose(kinds[kind]["losses"], plain, rtol=0.1)
    size = {kind: kinds[kind]["bytes"] / kinds["plain"]["bytes"] for kind in kinds}
    assert size["int8"] < 0.9 * size["both"]
    # Their losses are others: in each step, a batch uses most rows of these small tables.
    assert size["stale"] < 0.95 * size["unique"] and size["small"] < 0.97 * size["int8"]
    assert size["unique"] < 0.7 and size["bf16"] < 0.65 and size["both"] < 0.4 and size["bf16"] < size["deep"] < 0.9


REFUSAL = """
def say_refusal(**options):
    try:
        with tf1.Session(server.target, config=tf1.ConfigProto(**options)) as session:
            session.run(tf1.global_variables_initializer())
        say("no error")
    except tf.errors.InvalidArgumentError as error:
        say(json.dumps(error.message))

"""
REFUSED = (
    REFUSAL
    + """
with tf1.device(place):
    table = tf1.get_variable("deep/table", [50, 16])
    counts = tf1.get_variable("counts", [50], dtype=tf.int32, initializer=tf1.zeros_initializer())
for tables in ("deep,wide", "counts"):
    say_refusal(compression="bf16", compressed_tables=tables)
done()
"""
)


def test_tables_that_do_not_fit_are_refused(run_cluster):
    missing, integers = (json.loads(line) for line in run_cluster(REFUSED, "star_server").said)
    assert re.search(r'names "wide", and the graph has no variable .* Give the beginning', missing)
    assert re.search(r'names "counts", which holds int32; compression is for float tables', integers)


# Each step adds 1 to each row of both tables, after it has looked some of them up.
STALE = """
with tf1.device(place):
    deep, wide = (tf1.get_variable(name, [50, 8], initializer=tf1.zeros_initializer()) for name in ("deep", "wide"))
with tf1.device(WORKER):
    ids = tf1.placeholder(tf.int64, [None])
    rows = [tf.nn.embedding_lookup(table, ids)[:, 0] for table in (deep, wide)]
with tf1.control_dependencies(rows):
    more = [tf1.assign_add(table, tf.ones([50, 8])) for table in (deep, wide)]
options = tf1.ConfigProto(staleness=2, compressed_tables="deep")
with tf1.Session(server.target, config=options) as session:
    session.run(tf1.global_variables_initializer())
    for wanted in ([1, 1, 2], [2, 3], [1, 2, 3], [1, 3], [], [3, 1]):
        got = session.run([rows, more], {ids: wanted})[0]
        say(json.dumps([values.tolist() for values in got]))
done()
"""


@pytest.mark.parametrize("protocol", ["grpc", "star_server"])
def test_a_row_is_used_again_for_as_many_steps_as_asked(run_cluster, protocol):
    deep, wide = zip(*(json.loads(line) for line in run_cluster(STALE, protocol).said), strict=True)
    assert deep == ([0, 0, 0], [0, 1], [0, 0, 1], [3, 1], [], [5, 3])
    assert wide == ([0, 0, 0], [1, 1], [2, 2, 2], [3, 3], [], [5, 5])


GATHERED = (
    REFUSAL
    + """
with tf1.device(place):
    table = tf1.get_variable("table", [50, 16])
    step = tf1.train.get_or_create_global_step()
with tf1.device(WORKER):
    loss = tf.reduce_sum(tf.nn.embedding_lookup(table, [3, 4]))
    optimizer = tf1.train.SyncReplicasOptimizer(tf1.train.GradientDescentOptimizer(0.1), 1)
    train = optimizer.minimize(loss, global_step=step)
say_refusal(staleness=2)
done()
"""
)


def test_stale_rows_are_refused_where_gradients_are_gathered(run_cluster):
    (said,) = (json.loads(line) for line in run_cluster(GATHERED, "star_server").said)
    assert re.search(r"staleness=2, and the graph has .*AccumulatorApplyGradient .* Leave out staleness", said)


def test_options_are_checked_where_they_are_given():
    import fusewire

    with pytest.raises(ValueError, match="compression must be one of 'off', 'bf16', 'int8', not 'int4'"):
        fusewire.ConfigProto(compression="int4")
    with pytest.raises(TypeError, match="unique_ids must be True or False, not 'yes'"):
        fusewire.ConfigProto(unique_ids="yes")
    with pytest.raises(TypeError, match="compressed_tables must be a text"):
        fusewire.ConfigProto(compressed_tables=["deep/"])
    for staleness in (-1, True, 1.5):
        with pytest.raises(TypeError, match="staleness must be a number of steps, 0 or more"):
            fusewire.ConfigProto(staleness=staleness)
    assert fusewire.ConfigProto(staleness=4).staleness == 4
    config = fusewire.ConfigProto(compression="bf16")
    assert (config.compression, config.unique_ids, config.compressed_tables) == ("bf16", False, "")
