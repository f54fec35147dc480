# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Ranks train one Keras model, each on data of its own: fusewire run --ranks 2 examples/collective_keras.py"""

import numpy as np
import tensorflow as tf

import fusewire.collective.keras as fw

fw.init()
tf.keras.utils.set_random_seed(fw.rank())
model = tf.keras.Sequential(
    [tf.keras.Input((8,)), tf.keras.layers.Dense(32, activation="relu"), tf.keras.layers.Dense(1)]
)
model.compile(fw.DistributedOptimizer(tf.keras.optimizers.Adam(0.005 * fw.size())), "mse")

x = np.random.default_rng(fw.rank()).uniform(-1, 1, (4096, 8)).astype(np.float32)
y = np.abs(x).sum(1, keepdims=True)
model.fit(
    x,
    y,
    batch_size=64,
    epochs=5,
    verbose=2 if fw.rank() == 0 else 0,
    callbacks=[fw.callbacks.BroadcastGlobalVariablesCallback(0), fw.callbacks.MetricAverageCallback()],
)

# All ranks have the same model.
mine = np.concatenate([weight.numpy().ravel() for weight in model.trainable_variables])
apart = fw.allreduce(np.abs(mine - fw.broadcast(mine, 0).numpy()).max(), fw.Max)
if fw.rank() == 0:
    print(f"{fw.size()} ranks, {model.count_params()} weights, apart by {float(apart):.0f}")
fw.shutdown()
