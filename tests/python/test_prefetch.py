# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The next batch's rows, pulled while this one computes: what a step sees, and that no update is lost."""

import json

import pytest

PROTOCOLS = ("grpc", "grpc++", "star_server", "star_server_lite")

# Batches whose ids come back after five steps: a step sees all updates of its rows, and learns the same as without.
FAR_APART = """
ROWS, STEPS = 40, 30
def minimize(optimizer, loss, var_list):
    return optimizer.minimize(loss, var_list=var_list)
def build(ahead):
    data = tf1.data.Dataset.range(1000)
    data = data.map(lambda step: {"ids": (step % 5) * 8 + tf.range(8, dtype=tf.int64), "step": step})
    with tf1.device(WORKER):
        batch = tf1.data.make_one_shot_iterator(data).get_next()
    with tf1.device(place):
        table = tf1.get_variable(f"table_{ahead}", [ROWS, 4], initializer=tf1.random_normal_initializer(seed=1))
        weight = tf1.get_variable(f"weight_{ahead}", [4, 1], initializer=tf1.random_normal_initializer(seed=2))
    optimizer = tf1.train.AdagradOptimizer(0.1)
    with tf1.device(WORKER):
        if ahead:
            next = fusewire.prefetch(batch, lambda batch: [(table, batch["ids"])])
            batch, [rows] = next.batch, next.rows
        else:
            rows = tf.nn.embedding_lookup(table, batch["ids"])
        loss = tf.reduce_mean(tf.square(tf.matmul(rows, weight) - 1.0))
        variables = [table, weight]
        train = (next.minimize if ahead else minimize)(optimizer, loss, var_list=variables)
    return batch["step"], loss, train, [next.hook()] if ahead else []
with tf1.device(place):
    tf1.train.get_or_create_global_step()
kinds = {"plain": build(False), "ahead": build(True)}
for kind, (step, loss, train, hooks) in kinds.items():
    with tf1.train.MonitoredTrainingSession(server.target, hooks=hooks) as session:
        seen = [session.run([step, loss, train])[:2] for _ in range(STEPS)]
    say(kind, json.dumps([[int(number), float(value)] for number, value in seen]))
say_stats("star_runs_out")
done()
"""


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_rows_of_the_next_batch_are_those_of_a_plain_training(run_cluster, protocol):
    output = run_cluster(FAR_APART, protocol)
    plain, ahead = (json.loads(line.partition(" ")[2]) for line in output.said)
    assert [number for number, _ in ahead] == list(range(30))
    assert ahead == plain
    assert plain[-1][1] < 0.5 * plain[0][1]


# Each step adds 1 to the one row that all look up, and to a variable: a step sees all updates but those of the step
# before it. What it computes takes long enough that its calls are not held until the end.
CLOSE = """
with tf1.device(place):
    options = {{"initializer": tf1.zeros_initializer(), "use_resource": {resource}}}
    table = tf1.get_variable("table", [3, 2], **options)
    whole = tf1.get_variable("whole", [2], **options)
with tf1.device(WORKER):
    batch = tf1.data.make_one_shot_iterator(tf1.data.Dataset.range(100).map(lambda step: [1, 1])).get_next()
    ahead = fusewire.prefetch(tf.cast(batch, tf.int64), lambda ids: [(table, ids)], [whole])
    [rows], [value] = ahead.rows, ahead.values
    zero = tf.stop_gradient(tf.reduce_sum(tf.matmul(*2 * [tf.fill([300, 300], 0.0 * value[0])])))
    loss = zero - 0.5 * tf.reduce_sum(rows) - tf.reduce_sum(value)
    train = ahead.minimize(tf1.train.GradientDescentOptimizer(1.0), loss)
for attempt in range(2):
    with tf1.Session(server.target) as session:
        session.run(tf1.global_variables_initializer())
        ahead.fill(session)
        seen = [session.run([rows, value, train])[:2] for _ in range(20)]
        say(json.dumps([float(rows[0][0]) for rows, _ in seen]))
        say(json.dumps([float(value[0]) for _, value in seen]))
        say(json.dumps([one.tolist() for one in session.run([table, whole])]))
say_stats("star_runs_out")
done()
"""
STEPS_OF_CLOSE = 2 * 20


@pytest.mark.parametrize("resource", [True, False])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_a_step_sees_is_one_step_old_and_no_update_is_lost(run_cluster, protocol, resource):
    output = run_cluster(CLOSE.format(resource=resource), protocol, FUSEWIRE_WORKER_LIST="always")
    lines = [json.loads(line) for line in output.said if line.startswith("[")]
    assert len(lines) == 6
    for *both, (table, whole) in (lines[:3], lines[3:]):  # a session finds nothing of the one before it
        assert table == [[0, 0], [20, 20], [0, 0]]
        assert whole == [20, 20]
        for seen in both:
            assert seen[0] == 0
            assert all(step - 1 <= value <= step for step, value in enumerate(seen)), seen
    if protocol.startswith("star"):  # a pull and a push
        assert 2 * STEPS_OF_CLOSE <= output.stats["star_runs_out"] <= 2 * STEPS_OF_CLOSE + 20


def test_what_does_not_fit_is_refused():
    import tensorflow as tf

    import fusewire

    tf1 = tf.compat.v1
    with tf.Graph().as_default():
        table = tf1.get_variable("table", [3, 2])
        ids = tf1.placeholder(tf.int64, [4])
        with pytest.raises(TypeError, match="a lookup is of a variable, not of"):
            fusewire.prefetch(ids, lambda ids: [([table, table], ids)])
        with pytest.raises(TypeError, match="what is read ahead is a variable, not"):
            fusewire.prefetch(ids, lambda ids: [(table, ids)], [[table]])
        with pytest.raises(ValueError, match="looked up or read as a whole, not both"):
            fusewire.prefetch(ids, lambda ids: [(table, ids)], [table])
        with pytest.raises(TypeError, match="a batch is of dense tensors"):
            fusewire.prefetch((ids, tf1.sparse_placeholder(tf.float32)), lambda batch: [(table, batch[0])])
        ahead = fusewire.prefetch(ids, lambda ids: [(table, ids)])
        loss = tf.reduce_sum(ahead.rows[0])
        step = tf1.train.get_or_create_global_step()
        synced = tf1.train.SyncReplicasOptimizer(tf1.train.GradientDescentOptimizer(1.0), 2, 2)
        with pytest.raises(ValueError, match="can't be one of SyncReplicasOptimizer"):
            ahead.minimize(synced, loss, step)
