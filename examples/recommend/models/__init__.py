# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""One file for each model: build(columns, training) is the graph of one replica."""

from . import deepfm, dien, din, dlrm, two_tower

BUILD = {
    "dlrm": dlrm.build,
    "deepfm": deepfm.build,
    "din": din.build,
    "dien": dien.build,
    "two_tower": two_tower.build,
}
