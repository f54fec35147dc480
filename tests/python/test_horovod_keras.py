# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""fusewire.horovod.tensorflow.keras: models train as one, and go on after a rank has died."""

import sys
import textwrap

import pytest
from conftest import run_to_end

BEGIN = """
    import os, signal, numpy as np, tensorflow as tf
    import horovod.tensorflow.keras as hvd  # by FUSEWIRE_HOROVOD=1 or -m fusewire.horovod
    keras = tf.keras
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    x = np.random.default_rng(1).standard_normal((64, 4)).astype(np.float32)
    y = x @ np.array([[1.0], [-2.0], [3.0], [0.5]], np.float32)

    def model_of(seed):
        keras.utils.set_random_seed(seed)
        return keras.Sequential(
            [keras.Input((4,)), keras.layers.Dense(3, activation="tanh"), keras.layers.Dense(1, use_bias=False)]
        )

    def weights_of(model):
        return np.concatenate([weight.ravel() for weight in model.get_weights()])

    quiet = {"shuffle": False, "verbose": 0}
"""


@pytest.fixture
def run_ranks(tmp_path):
    """run_ranks(program, ranks, *options): the output lines of the ranks, sorted, without labels."""

    def run(text: str, ranks: int, *options: object) -> list[str]:
        program = tmp_path / "program.py"
        program.write_text(textwrap.dedent(BEGIN) + textwrap.dedent(text), encoding="utf-8")
        command = [sys.executable, "-m", "fusewire", "run", "--ranks", ranks, *options, "--timeout", 80]
        out = run_to_end([*command, "-m", "fusewire.horovod", program], tmp_path).ok()
        return sorted(line.partition("said ")[2] for line in out.splitlines() if "said " in line)

    return run


def test_a_model_trains_as_one(run_ranks, tmp_path):
    said = run_ranks(
        """
    mine = slice(rank * 64 // size, (rank + 1) * 64 // size)

    def fitted(model, part, batch, *callbacks, epochs=4):
        return model.fit(x[part], y[part], batch_size=batch, epochs=epochs, callbacks=callbacks, **quiet).history

    one = model_of(7)
    one.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse")
    expected = fitted(one, slice(0, 64), 64)

    model = model_of(7 + rank)
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.9)), "mse")
    model.set_weights(hvd.broadcast_object(model.get_weights(), 0))
    history = fitted(model, mine, 64 // size, hvd.callbacks.MetricAverageCallback())
    np.testing.assert_allclose(weights_of(model), weights_of(one), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(history["loss"], expected["loss"], rtol=1e-4)

    # from weights that differ: after the first batch, all have the root's
    other = model_of(70 + rank)
    other.compile(hvd.DistributedOptimizer(keras.optimizers.Adam(0.01)), "mse")
    start = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
    warm = hvd.callbacks.LearningRateWarmupCallback(0.01, warmup_epochs=2, steps_per_epoch=1)
    rates = fitted(other, mine, 64 // size, start, warm)["lr"]
    np.testing.assert_allclose(rates, [0.0075, 0.01, 0.01, 0.01], rtol=1e-5)
    everybody = hvd.allgather(weights_of(other)[None]).numpy()
    assert (everybody[0] == everybody[1]).all()

    # two passes of half a batch are one of the whole
    passes = model_of(7)
    passes.compile(
        hvd.DistributedOptimizer(
            keras.optimizers.SGD(0.1), backward_passes_per_step=2, average_aggregated_gradients=True
        ),
        "mse",
    )
    whole = model_of(7)
    whole.compile(keras.optimizers.SGD(0.1), "mse")
    fitted(whole, slice(0, 64), 64, epochs=3)
    fitted(passes, mine, 16, epochs=3)
    np.testing.assert_allclose(weights_of(passes), weights_of(whole), rtol=1e-4, atol=1e-5)

    # a saved model loads with and without
    path = f"model{rank}.keras"
    model.save(path)
    loaded = hvd.load_model(path)
    assert type(keras.models.load_model(path).optimizer) is keras.optimizers.SGD
    fitted(loaded, mine, 64 // size), fitted(model, mine, 64 // size)
    np.testing.assert_allclose(weights_of(loaded), weights_of(model), rtol=1e-5)
    print("said trained")
    """,
        2,
    )
    assert said == ["trained"] * 2


def test_training_goes_on_after_a_death(run_ranks):
    said = run_ranks(
        """
    model = model_of(7 + rank)
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.9)), "mse")
    state = hvd.elastic.KerasState(model, batch=0, epoch=0)
    sizes = []
    state.register_reset_callbacks([lambda: sizes.append(hvd.size())])

    class Dies(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if state.epoch == 3 and rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)

    @hvd.elastic.run
    def train(state):
        mine = slice(hvd.rank() * 64 // hvd.size(), (hvd.rank() + 1) * 64 // hvd.size())
        kept = [
            Dies(),
            hvd.elastic.UpdateEpochStateCallback(state),
            hvd.elastic.UpdateBatchStateCallback(state),
            hvd.elastic.CommitStateCallback(state, batches_per_commit=100),
        ]
        model.fit(x[mine], y[mine], batch_size=8, epochs=6 - state.epoch, callbacks=kept, **quiet)
        return state.epoch

    assert train(state) == 6 and sizes == [2] and hvd.size() == 2
    everybody = hvd.allgather(weights_of(model)[None]).numpy()
    assert len(everybody) == 2 and (everybody[0] == everybody[1]).all()
    print("said", f"{hvd.rank()} {model.evaluate(x, y, verbose=0) < 2}")
    """,
        3,
        "--min-ranks",
        2,
    )
    assert said == ["0 True", "1 True"]
