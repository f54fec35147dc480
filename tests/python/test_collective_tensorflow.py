# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""fusewire.collective.tensorflow and .keras: ranks that `fusewire run --ranks` starts train one model."""

import sys
import textwrap

import pytest
from conftest import ROOT, run_to_end

BEGIN = """
    import numpy as np, tensorflow as tf
    import fusewire.collective.tensorflow as fw
    tf.config.threading.set_inter_op_parallelism_threads(1)  # nobody may need a second one to go on
    tf.config.threading.set_intra_op_parallelism_threads(1)
    fw.init()
    rank, size = fw.rank(), fw.size()
"""


@pytest.fixture
def run_ranks(tmp_path):
    """run_ranks(program, ranks): the output lines of the ranks, sorted, without labels."""

    def run(text: str, ranks: int = 2) -> list[str]:
        program = tmp_path / "program.py"
        program.write_text(textwrap.dedent(BEGIN) + textwrap.dedent(text) + "\nfw.shutdown()\n", encoding="utf-8")
        command = [sys.executable, "-m", "fusewire", "run", "--ranks", ranks, "--timeout", 80, program]
        out = run_to_end(command, tmp_path).ok()
        return sorted(line.partition("said ")[2] for line in out.splitlines() if "said " in line)

    return run


def test_tensors_eager_and_in_functions(run_ranks):
    said = run_ranks(
        """
        def all_of_them(x, rows):
            return (
                fw.allreduce(x),
                fw.allreduce(x, fw.Max),
                fw.broadcast(x, 1),
                fw.allgather(rows),
                fw.alltoall(tf.range(2 * size) + 10 * rank),
                fw.grouped_allreduce([x, tf.cast(x, tf.int64)], fw.Sum)[1],
                fw.allreduce(tf.IndexedSlices(tf.ones([2, 1]), tf.constant([rank, 7]), tf.constant([9, 1])), fw.Sum),
            )

        for run in (all_of_them, tf.function(all_of_them)):
            x = tf.constant([1.0, 2.0]) * (rank + 1)
            mean, most, root, rows, exchanged, total, table = run(x, tf.fill([rank + 1, 2], rank))
            assert mean.numpy().tolist() == [1.5, 3.0], mean
            assert most.numpy().tolist() == [2.0, 4.0], most
            assert root.numpy().tolist() == [2.0, 4.0], root
            assert rows.numpy().tolist() == [[0, 0], [1, 1], [1, 1]], rows
            assert exchanged.numpy().tolist() == [2 * rank, 2 * rank + 1, 10 + 2 * rank, 11 + 2 * rank], exchanged
            assert total.numpy().tolist() == [3, 6] and total.dtype == tf.int64
            assert tf.convert_to_tensor(table).numpy()[:, 0].tolist() == [1, 1, 0, 0, 0, 0, 0, 2, 0], table
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(fw.allreduce(x) * (rank + 1))
        assert tape.gradient(loss, x).numpy().tolist() == [1.5, 1.5]
        assert fw.broadcast_object({"epoch": 7 + rank}, 0) == {"epoch": 7}
        print("said", rank)
        """
    )
    assert said == ["0", "1"]


# A model whose batch is shared out learns what one rank learns from all of it.
PROBLEM = """
    x = np.random.default_rng(1).standard_normal((64, 4)).astype(np.float32)
    y = x @ np.array([[1.0], [-2.0], [3.0], [0.5]], np.float32)
    mine = slice(rank * 64 // size, (rank + 1) * 64 // size)
"""


def test_a_tape_trains_as_one(run_ranks):
    program = (
        PROBLEM
        + """
    ids = np.random.default_rng(2).integers(0, 16, 64)
    tf.random.set_seed(rank)
    weights, table = tf.Variable(tf.random.normal([4, 1])), tf.Variable(tf.random.normal([16, 1]))
    fw.broadcast_variables([weights, table], 0)
    weights.assign(weights * 0 + 0.1), table.assign(table * 0)

    @tf.function
    def step():
        with fw.DistributedGradientTape(tf.GradientTape()) as tape:
            error = x[mine] @ weights + tf.gather(table, ids[mine]) - y[mine]
            loss = tf.reduce_mean(error * error)
        for gradient, variable in zip(tape.gradient(loss, [weights, table]), [weights, table]):
            variable.assign_sub(0.1 * tf.convert_to_tensor(gradient))

    for _ in range(20):
        step()
    print("said", " ".join(f"{value:.4f}" for value in [*weights.numpy()[:, 0], *table.numpy()[:3, 0]]))
    """
    )
    one = run_ranks(program, 1)
    two = run_ranks(program, 2)
    assert two == one * 2


def test_keras_trains_as_one(run_ranks):
    program = (
        PROBLEM
        + """
    import fusewire.collective.keras as fk
    keras = tf.keras
    keras.utils.set_random_seed(3 + rank)  # not the same: the root's variables count
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, use_bias=False)])
    model.compile(fk.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.5)), "mse")
    start = fk.callbacks.BroadcastGlobalVariablesCallback(0)
    history = model.fit(
        x[mine], y[mine], batch_size=64 // size, epochs=1, shuffle=False, verbose=0, callbacks=[start]
    )
    first = fw.allgather(tf.convert_to_tensor(model.weights[0])[None])
    assert (first[0].numpy() == first[-1].numpy()).all(), first
    history = model.fit(
        x[mine], y[mine], batch_size=64 // size, epochs=30, shuffle=False, verbose=0,
        callbacks=[fk.callbacks.MetricAverageCallback()],
    )
    last = fw.allgather(tf.convert_to_tensor(model.weights[0])[None])
    assert (last[0].numpy() == last[-1].numpy()).all(), last
    assert type(model.optimizer).__name__ == "SGD"
    print("said", f"{history.history['loss'][-1]:.5f}", history.history["loss"][-1] < 0.05)
    """
    )
    said = run_ranks(program, 2)
    assert said[0] == said[1]
    assert said[0].endswith("True")


def test_graphs_of_version_1(run_ranks):
    said = run_ranks(
        PROBLEM
        + """
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        start = v1.constant_initializer(float(rank))
        weights = v1.get_variable("weights", [4, 1], initializer=start, use_resource=True)
        loss = tf.reduce_mean((tf.constant(x[mine]) @ weights - y[mine]) ** 2)
        train = fw.DistributedOptimizer(v1.train.GradientDescentOptimizer(0.1)).minimize(loss)
        everybody = [fw.allreduce(tf.constant(float(one)), fw.Sum) for one in range(8)]
        session.run(v1.global_variables_initializer())
        session.run(fw.broadcast_variables([weights], 0))
        assert session.run(weights)[0, 0] == 0
        for _ in range(300):
            session.run(train)
        assert session.run(everybody) == [float(size * one) for one in range(8)]
        print("said", " ".join(f"{value:.3f}" for value in session.run(weights)[:, 0]))
    """
    )
    assert said[0] == said[1]
    assert said[0] == "1.000 -2.000 3.000 0.500"


def test_a_hook_lets_sessions_of_version_1_begin_with_the_roots_variables(run_ranks):
    said = run_ranks(
        PROBLEM
        + """
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        fed = v1.placeholder(tf.float32, [None, 4])
        start = v1.constant_initializer(float(rank))
        weights = v1.get_variable("weights", [4, 1], initializer=start, use_resource=True)
        seen = v1.get_variable("seen", [2], tf.bool, v1.constant_initializer(rank == 1), use_resource=True)
        steps = v1.train.get_or_create_global_step()
        loss = tf.reduce_mean((fed @ weights - tf.constant(y[mine])) ** 2)
        optimizer = fw.DistributedOptimizer(v1.train.MomentumOptimizer(0.1, 0.5), compression=fw.Compression.bf16)
        train = optimizer.minimize(loss, global_step=steps)
        hooks = [fw.BroadcastGlobalVariablesHook(1), v1.train.StopAtStepHook(100)]
        with v1.train.MonitoredTrainingSession(hooks=hooks) as session:
            assert session.run(weights)[0, 0] == 1 and session.run(seen).all()
            while not session.should_stop():
                _, last = session.run([train, weights], {fed: x[mine]})
        there = np.abs(last[:, 0] - [1, -2, 3, 0.5]).max() < 0.02
        print("said", " ".join(f"{value:.3f}" for value in last[:, 0]), there)
    """
    )
    assert said[0] == said[1]
    assert said[0].endswith("True")


@pytest.mark.parametrize("compression", ["none", "fp16", "bf16"])
def test_gradients_travel_smaller(run_ranks, compression):
    said = run_ranks(
        f"""
    how = fw.Compression.{compression}
    """
        + """
    table = tf.IndexedSlices(tf.fill([1, 2], 1.0 + 2.0**-12), tf.constant([3]), tf.constant([9, 2]))
    gradients = [tf.fill([3], 1.0 + 2.0**-12), None, tf.constant([1, 2]), table]
    dense, none, whole, rows = fw.reduce_gradients(gradients, fw.Sum, compression=how)
    assert none is None and whole.numpy().tolist() == [2, 4]
    assert dense.dtype == rows.values.dtype == tf.float32
    exact = 2.0 + 2.0**-11 if how is None else 2.0
    print("said", (dense.numpy() == exact).all() and (rows.values.numpy() == exact).all(), dense.numpy())
    """
    )
    assert [line.split()[0] for line in said] == ["True"] * 2, said


def test_the_example_trains_one_model(tmp_path):
    command = [sys.executable, "-m", "fusewire", "run", "--ranks", 2, "--timeout", 80]
    out = run_to_end([*command, ROOT / "examples/collective_keras.py"], tmp_path).ok()
    assert "2 ranks, 321 weights, apart by 0" in out
