# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Data-parallel training with JAX on CPUs: fusewire run --ranks 2 train.py

Each process has its part of every batch, and XLA adds up the slopes of all processes, over Fusewire.
With --collectives gloo it does so over JAX's own, for comparison.
"""

import argparse  # noqa: I001, fusewire.jax comes before jax
import itertools
import os
import time

import fusewire.jax
import jax
import numpy as np
from jax import numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

WIDTHS = (32, 256, 256, 1)


def first_weights():
    random = np.random.default_rng(1)
    return [random.normal(0, a**-0.5, (a, b)).astype(np.float32) for a, b in itertools.pairwise(WIDTHS)]


def batch_of(step, rank, rows):
    random = np.random.default_rng((step, rank))
    inputs = random.normal(size=(rows, WIDTHS[0])).astype(np.float32)
    return inputs, np.tanh(inputs[:, :4].sum(axis=1, keepdims=True))


def loss_of(weights, inputs, targets):
    for weight in weights[:-1]:
        inputs = jnp.tanh(inputs @ weight)
    return jnp.mean((inputs @ weights[-1] - targets) ** 2)


@jax.jit
def train(weights, inputs, targets):
    loss, slopes = jax.value_and_grad(loss_of)(weights, inputs, targets)
    return loss, [weight - 0.1 * slope for weight, slope in zip(weights, slopes, strict=True)]


def join(collectives):
    if collectives == "fusewire":
        fusewire.jax.initialize()  # in place of jax.distributed.initialize()
        return
    addresses = os.environ["FUSEWIRE_RANK_ADDRESSES"].split(",")
    jax.distributed.initialize(addresses[0], len(addresses), int(os.environ["FUSEWIRE_RANK"]), local_device_ids=[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--collectives", choices=("fusewire", "gloo"), default="fusewire")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rows", type=int, default=64, help="of a batch, in each process")
    options = parser.parse_args()

    join(options.collectives)
    mesh = Mesh(np.array(jax.devices()), ("data",))
    everywhere, divided = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec("data"))
    weights = [jax.make_array_from_process_local_data(everywhere, weight) for weight in first_weights()]
    began = time.monotonic()
    for step in range(options.steps):
        batch = batch_of(step, jax.process_index(), options.rows)
        loss, weights = train(weights, *(jax.make_array_from_process_local_data(divided, part) for part in batch))
        if step % 10 == 9 and jax.process_index() == 0:
            print(f"step {step + 1}: loss {loss:.6f}", flush=True)
    if jax.process_index() == 0:
        print(f"{options.steps / (time.monotonic() - began):.0f} steps/s over {options.collectives}", flush=True)


if __name__ == "__main__":
    main()
