# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Trainings have the losses that they have over gloo."""

from typing import Any

import numpy as np
import pytest
from conftest import BACKENDS, join, run_ranks

STEPS, BATCH, WIDTH = 12, 16, 64


def losses_of(rank: int, addresses: list[str], backend: str, how: str) -> list[float]:
    """A network of two layers. `how`: the weights are everywhere ("data"), in parts at each process ("weights"), or the
    processes are a square of both ("both")."""
    jax = join(backend, rank, addresses)
    spec, named = jax.sharding.PartitionSpec, jax.sharding.NamedSharding
    size = len(addresses)
    shape = {"data": (size, 1), "weights": (1, size), "both": (2, size // 2)}[how]
    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(shape), ("data", "weights"))
    random = np.random.default_rng(1)
    host = {
        "first": random.normal(0, 0.1, (8, WIDTH)).astype(np.float32),
        "second": random.normal(0, 0.1, (WIDTH, 1)).astype(np.float32),
    }
    parts = {"first": spec(None, "weights"), "second": spec("weights", None)}
    put = {
        name: jax.make_array_from_callback(value.shape, named(mesh, parts[name]), value.__getitem__)
        for name, value in host.items()
    }

    def loss(weights: Any, inputs: Any, targets: Any) -> Any:
        hidden = jax.numpy.tanh(inputs @ weights["first"])
        return jax.numpy.mean((hidden @ weights["second"] - targets) ** 2)

    @jax.jit
    def step(weights: Any, inputs: Any, targets: Any) -> Any:
        value, slopes = jax.value_and_grad(loss)(weights, inputs, targets)
        return value, jax.tree.map(lambda weight, slope: weight - 0.1 * slope, weights, slopes)

    losses = []
    for number in range(STEPS):
        batch = np.random.default_rng(100 + number)
        inputs = batch.normal(size=(BATCH * size, 8)).astype(np.float32)
        targets = inputs[:, :2].sum(axis=1, keepdims=True)
        along = named(mesh, spec("data"))
        there = [jax.make_array_from_callback(one.shape, along, one.__getitem__) for one in (inputs, targets)]
        value, put = step(put, *there)
        losses.append(float(value))
    return losses


@pytest.mark.parametrize(("size", "how"), [(2, "data"), (2, "weights"), (4, "data"), (4, "both")])
def test_losses(size, how):
    wanted, found = (run_ranks(losses_of, size, backend, how) for backend in BACKENDS)
    assert all(one == found[0] for one in found)
    # Four addends have an order, which may differ.
    np.testing.assert_allclose(found[0], wanted[0], rtol=0 if size == 2 else 1e-5)
    assert found[0][-1] < found[0][0]
