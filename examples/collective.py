# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Ranks fit a line together, each to points of its own: fusewire run --ranks 4 examples/collective.py"""

import numpy as np

import fusewire.collective as fw

fw.init()
rank, size = fw.rank(), fw.size()

random = np.random.default_rng(rank)
x = random.uniform(-1, 1, 1000)
y = 3 * x - 1 + random.normal(0, 0.1, 1000)

# All begin with what rank 0 has drawn.
weights = random.normal(size=2)
fw.broadcast(weights, 0, out=weights)

for _ in range(200):
    wrong = weights[0] * x + weights[1] - y
    gradient = np.array([np.mean(wrong * x), np.mean(wrong)])
    weights -= 0.5 * fw.allreduce(gradient)

# Every rank has the same line: none differs from that of rank 0 by more than rounding.
apart = fw.allreduce(np.abs(weights - fw.broadcast(weights, 0)), fw.Max)
points = fw.allreduce(np.array([len(x)]), fw.Sum)[0]
if rank == 0:
    print(f"{size} ranks, {points} points: y = {weights[0]:.1f} x + {weights[1]:.1f}, apart by {apart.max():.0f}")
fw.shutdown()
