# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""What libraries import from horovod.tensorflow.util."""

import tensorflow as tf


def _executing_eagerly() -> bool:
    return bool(tf.executing_eagerly())
