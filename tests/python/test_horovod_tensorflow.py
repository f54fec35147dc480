# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""fusewire.horovod.tensorflow: what its words do, on ranks that `fusewire run --ranks` starts."""

import random
import sys
import textwrap

import pytest
from conftest import run_to_end

BEGIN = """
    import random, numpy as np, tensorflow as tf
    import fusewire.horovod.tensorflow as hvd
    tf.config.threading.set_inter_op_parallelism_threads(1)  # nobody may need a second one to go on
    tf.config.threading.set_intra_op_parallelism_threads(1)
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
"""


@pytest.fixture
def run_ranks(tmp_path):
    """run_ranks(program, ranks): the output lines of the ranks, sorted, without labels."""

    def run(text: str, ranks: int) -> list[str]:
        program = tmp_path / "program.py"
        program.write_text(textwrap.dedent(BEGIN) + textwrap.dedent(text), encoding="utf-8")
        command = [sys.executable, "-m", "fusewire", "run", "--ranks", ranks, "--timeout", 80, program]
        out = run_to_end(command, tmp_path).ok()
        return sorted(line.partition("said ")[2] for line in out.splitlines() if "said " in line)

    return run


def test_operations_agree_with_numpy(run_ranks):
    seed = random.randrange(10**6)
    print("seed", seed)
    said = run_ranks(
        f"seed = {seed}"
        + textwrap.dedent("""
    chance = random.Random(seed)  # the same at all ranks
    odd = hvd.ProcessSet([1, 2])
    hvd.add_process_set(odd)
    assert odd.included() == (rank > 0) and odd.size() == 2 and hvd.global_process_set.size() == 3
    numpy_of = {hvd.Sum: np.sum, hvd.Average: np.mean, hvd.Min: np.min, hvd.Max: np.max, hvd.Product: np.prod}

    def one():
        "A random operation, and what NumPy says that it gives at this rank."
        kind = chance.choice(["allreduce", "grouped", "allgather", "broadcast", "alltoall", "reducescatter", "sparse"])
        members, which = chance.choice([(range(3), hvd.global_process_set), ([1, 2], odd)])
        place = list(members).index(rank) if rank in members else None
        kept = np.random.default_rng(chance.randrange(10**6))
        type_ = chance.choice(["float32", "float64", "int32", "int64"])
        shape = [chance.randint(1, 5) for _ in range(chance.randint(1, 3))]
        all_of = [kept.integers(-9, 9, shape).astype(type_) for _ in members]
        name = chance.choice([None, f"name{chance.randrange(3)}"])
        how = {"process_set": which, "name": name}
        whole = type_.startswith("int")
        op = chance.choice([hvd.Sum, hvd.Min, hvd.Max, hvd.Product] + [hvd.Average] * (not whole))
        before = chance.choice([1.0, 0.5]) if op == hvd.Sum and not whole else 1.0
        reduced = numpy_of[op](np.stack(all_of), axis=0).astype(type_) * np.asarray(before, type_)
        mine = None if place is None else all_of[place]
        if kind == "allreduce":
            return place, lambda: [hvd.allreduce(mine, op=op, prescale_factor=before, **how)], [reduced]
        if kind == "grouped":
            both = lambda: hvd.grouped_allreduce([mine, mine[:1]], op=op, postscale_factor=before, **how)
            return place, both, [reduced, reduced[:1]]
        if kind == "broadcast":
            root = chance.choice(list(members))
            return place, lambda: [hvd.broadcast(mine, root, **how)], [all_of[list(members).index(root)]]
        if kind == "allgather":
            rows = [chance.randint(0, len(one)) for one in all_of]
            gathered = np.concatenate([one[:count] for one, count in zip(all_of, rows)])
            return place, lambda: [hvd.allgather(mine[: rows[place]], **how)], [gathered]
        if kind == "reducescatter":
            shares = np.array_split(reduced, len(members))
            scatter = lambda: [hvd.reducescatter(mine, op=op, prescale_factor=before, **how)]
            return place, scatter, None if place is None else [shares[place]]
        if kind == "alltoall":
            splits = [kept.multinomial(shape[0], [1 / len(members)] * len(members)) for _ in members]
            parts = [np.split(one, np.cumsum(count)[:-1]) for one, count in zip(all_of, splits)]
            exchange = lambda: list(hvd.alltoall(mine, splits[place], **how))
            to_me = [] if place is None else [part[place] for part in parts]
            return place, exchange, to_me and [np.concatenate(to_me), [count[place] for count in splits]]
        ids = [kept.integers(0, 4, shape[0]) for _ in members]
        total = np.zeros([4, *shape[1:]], type_)
        for these, values in zip(ids, all_of):
            np.add.at(total, these, values)
        table = lambda: [
            tf.convert_to_tensor(
                hvd.allreduce(tf.IndexedSlices(mine, ids[place], tf.constant([4, *shape[1:]])), op=hvd.Sum, **how)
            )
        ]
        return place, table, [total]

    programs = [one() for _ in range(120)]
    def run(step):
        return [call() for place, call, _ in programs[step::3] if place is not None]

    for step, runs in enumerate((run, tf.function(run), run)):  # eagerly, in a graph, eagerly
        expected = [want for place, _, want in programs[step::3] if place is not None]
        for got, want in zip(runs(step), expected, strict=True):
            for one, other in zip(got, want, strict=True):
                np.testing.assert_allclose(np.asarray(one), other, rtol=1e-5, atol=1e-5, err_msg=f"seed {seed}")
    assert hvd.remove_process_set(odd) and odd.process_set_id is None and not hvd.remove_process_set(odd)
    print("said agrees")
    """),
        3,
    )
    assert said == ["agrees"] * 3


def test_words_of_horovod(run_ranks):
    said = run_ranks(
        """
    import os, warnings
    # gradients
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]]) * (rank + 1)
    def gradient(call):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(call(x) * (rank + 1.0))
        return tape.gradient(loss, x).numpy().tolist()
    both = lambda value: [[value] * 2] * 2
    assert gradient(lambda x: hvd.allreduce(x, op=hvd.Sum)) == both(3.0)
    assert gradient(lambda x: hvd.allreduce(x, prescale_factor=0.5)) == both(0.75)
    assert gradient(lambda x: hvd.grouped_allreduce([x, x])[1]) == both(1.5)
    assert gradient(hvd.allgather) == both(1.5)
    assert gradient(lambda x: hvd.broadcast(x, 1)) == both(1.5 * rank)
    assert gradient(hvd.alltoall) == [[1.0, 1.0], [2.0, 2.0]]
    assert gradient(lambda x: hvd.alltoall(x, [1, 1])[0]) == [[1.0, 1.0], [2.0, 2.0]]
    assert gradient(lambda x: hvd.reducescatter(x, op=hvd.Sum)) == [[2.0, 2.0], [4.0, 4.0]]
    assert gradient(tf.function(hvd.alltoall)) == [[1.0, 1.0], [2.0, 2.0]]
    # the deprecated word, Adasum, what Horovod was built with
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        assert hvd.allreduce(tf.constant(1.0 + rank), average=False).numpy() == 3.0
    assert any(one.category is DeprecationWarning for one in heard)
    for wrong, how in ((NotImplementedError, {"op": hvd.Adasum}), (ValueError, {"op": hvd.Sum, "average": True})):
        try:
            hvd.allreduce(x, **how)
            raise SystemExit("not refused")
        except wrong:
            pass
    assert not hvd.mpi_built() and not hvd.gloo_enabled() and hvd.nccl_built() == 0 and hvd.is_homogeneous()
    assert (hvd.size_op().numpy(), hvd.rank_op().numpy(), hvd.process_set_included_op(7).numpy()) == (2, rank, -3)
    # objects, variables
    assert hvd.broadcast_object({"epoch": rank}, 1) == {"epoch": 1}
    assert hvd.allgather_object("x" * (rank + 1)) == ["x", "xx"]
    variable = tf.Variable([1.0 * rank, 2.0])
    hvd.broadcast_variables([variable], 1, inplace=True)
    assert variable.numpy().tolist() == [1.0, 2.0] and hvd.broadcast_([variable], 0)[0].numpy()[0] == 1.0
    # a rank that runs out of data takes part with zeros, in whatever the others do, twice
    for _ in range(2):
        for step in range(2 + 3 * rank):
            total = hvd.allreduce(tf.ones(3), op=hvd.Sum, name=f"step{step % 2}")
            rows, most = hvd.allgather(tf.ones([rank + 1, 2])), hvd.allreduce(tf.constant(-1.0), op=hvd.Max)
            half = hvd.allreduce(tf.ones(2, tf.bfloat16))
            table = hvd.allreduce(tf.IndexedSlices(tf.ones([1, 2]), [rank], [2, 2]), op=hvd.Sum)
            size_now = 2.0 if step < 2 else 1.0
            assert total.numpy().tolist() == [size_now] * 3 and most.numpy() == -1.0, (step, total, most)
            assert len(rows) == (3 if step < 2 else 2) and len(table.indices) == size_now
            assert tf.cast(half, tf.float32).numpy()[0] == size_now / 2
        assert hvd.join().numpy() == 1
    # a rank that has joined has nothing to send
    try:
        if rank == 1:
            hvd.join()
        else:
            hvd.broadcast(tf.ones(2), 1)
        raise SystemExit("not refused")
    except (hvd.HorovodInternalError, tf.errors.OpError) as error:
        assert "has called join()" in str(error), error
    print("said done")
    """,
        2,
    )
    assert said == ["done"] * 2


def test_tapes_and_optimizers_train_as_one(run_ranks):
    said = run_ranks(
        """
    x = np.random.default_rng(1).standard_normal((64, 4)).astype(np.float32)
    y = x @ np.array([[1.0], [-2.0], [3.0], [0.5]], np.float32)
    ids = np.random.default_rng(2).integers(0, 16, 64)
    mine = slice(rank * 64 // size, (rank + 1) * 64 // size)
    everything = slice(0, 64)

    def trained(part, wrap, apply=None, steps=10):
        weights, table = tf.Variable(tf.ones([4, 1])), tf.Variable(tf.zeros([16, 1]))
        @tf.function
        def step():
            with wrap(tf.GradientTape()) as tape:
                error = x[part] @ weights + tf.gather(table, ids[part]) - y[part]
                loss = tf.reduce_mean(error * error)
            pairs = list(zip(tape.gradient(loss, [weights, table]), [weights, table]))
            if apply is None:
                for gradient, variable in pairs:
                    variable.assign_sub(0.1 * tf.convert_to_tensor(gradient))
            else:
                apply.apply_gradients(pairs)
        for _ in range(steps):
            step()
        return np.concatenate([weights.numpy(), table.numpy()])

    alone = trained(everything, lambda tape: tape)
    for how in ({}, {"sparse_as_dense": True}, {"gradient_predivide_factor": 2.0}, {"groups": 2}):
        together = trained(mine, lambda tape: hvd.DistributedGradientTape(tape, **how))
        np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-5, err_msg=str(how))
    half = trained(mine, lambda tape: hvd.DistributedGradientTape(tape, compression=hvd.Compression.bf16))
    np.testing.assert_allclose(half, alone, rtol=0.1, atol=0.05)

    # an optimizer of Keras reduces; twice as many passes with half of the batch each are the same step
    sgd = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1))
    np.testing.assert_allclose(trained(mine, lambda tape: tape, sgd), alone, rtol=1e-4, atol=1e-5)
    how = {"backward_passes_per_step": 10, "average_aggregated_gradients": True, "sparse_as_dense": True}
    ten = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1), **how)
    once = trained(mine, lambda tape: tape, ten)  # ten times the same gradient: a single step
    assert int(ten.iterations) == 10 and np.abs(once - alone).max() > 0.1
    first = trained(everything, lambda tape: tape, steps=1)
    np.testing.assert_allclose(once, first, rtol=1e-4, atol=1e-5)

    # local variables stay on their rank, divided by the number of ranks
    own, common = tf.Variable([1.0]), tf.Variable([1.0])
    with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
        loss = tf.reduce_sum(own * (rank + 1.0) + common * (rank + 1.0))
    tape.register_local_source(own)
    [(_, gradient)], [(_, other)] = tape.get_local_and_global_gradients(loss, [own, common])
    assert gradient.numpy() == (rank + 1) / 2 and other.numpy() == 1.5 and isinstance(tape, tf.GradientTape)

    # batch normalization over the batches of all
    norm = hvd.SyncBatchNormalization()
    plain = tf.keras.layers.BatchNormalization()
    with tf.GradientTape() as tape:
        tape.watch(part := tf.constant(x[mine]))
        ours = norm(part, training=True)
        loss = tf.reduce_sum(ours * ours * ours)
    np.testing.assert_allclose(ours, plain(x, training=True)[mine], atol=1e-4)
    with tf.GradientTape() as of_all:
        of_all.watch(whole := tf.constant(x))
        loss_of_all = tf.reduce_sum(plain(whole, training=True) ** 3)
    expected = of_all.gradient(loss_of_all, whole)[mine]
    np.testing.assert_allclose(tape.gradient(loss, part), expected, rtol=1e-3, atol=1e-3)
    print("said trained")
    """,
        2,
    )
    assert said == ["trained"] * 2
