# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""hvd.callbacks of horovod.keras."""

from fusewire.horovod.tensorflow.keras.callbacks import *
