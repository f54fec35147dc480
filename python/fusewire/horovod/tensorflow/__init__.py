# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""horovod.tensorflow, over Fusewire.

import fusewire.horovod.tensorflow as hvd       # fusewire run --ranks 4 program.py
hvd.init()
with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
    loss = ...
optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
"""

from fusewire.horovod.common.basics import *
from fusewire.horovod.common.exceptions import *
from fusewire.horovod.common.ops import *
from fusewire.horovod.common.process_sets import *
from fusewire.horovod.tensorflow import elastic as elastic
from fusewire.horovod.tensorflow.compression import *
from fusewire.horovod.tensorflow.functions import *
from fusewire.horovod.tensorflow.mpi_ops import *
from fusewire.horovod.tensorflow.optimizer import *
from fusewire.horovod.tensorflow.sync_batch_norm import *
from fusewire.horovod.tensorflow.tape import *
from fusewire.horovod.tensorflow.util import _executing_eagerly  # libraries call it
