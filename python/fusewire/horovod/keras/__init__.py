# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""horovod.keras, over Fusewire: the same as horovod.tensorflow.keras, for Keras with TensorFlow."""

from fusewire.horovod.tensorflow.keras import *
