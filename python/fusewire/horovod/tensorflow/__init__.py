# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""horovod.tensorflow, over Fusewire.

import fusewire.horovod.tensorflow as hvd       # fusewire run --ranks 4 program.py
hvd.init()
with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
    loss = ...
optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
"""

from fusewire.horovod.common.basics import (
    ccl_built,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rank,
    rocm_built,
    shutdown,
    size,
    start_timeline,
    stop_timeline,
)
from fusewire.horovod.common.exceptions import HorovodInternalError
from fusewire.horovod.common.ops import Adasum, Average, Max, Min, Product, Sum, handle_average_backwards_compatibility
from fusewire.horovod.common.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from fusewire.horovod.tensorflow import elastic
from fusewire.horovod.tensorflow.compression import Compression
from fusewire.horovod.tensorflow.functions import (
    BroadcastGlobalVariablesHook,
    allgather_object,
    broadcast_global_variables,
    broadcast_object,
    broadcast_object_fn,
    broadcast_variables,
)
from fusewire.horovod.tensorflow.mpi_ops import (
    allgather,
    allreduce,
    alltoall,
    broadcast,
    broadcast_,
    grouped_allgather,
    grouped_allreduce,
    grouped_reducescatter,
    join,
    local_rank_op,
    local_size_op,
    process_set_included_op,
    rank_op,
    reducescatter,
    size_op,
)
from fusewire.horovod.tensorflow.optimizer import DistributedOptimizer
from fusewire.horovod.tensorflow.sync_batch_norm import SyncBatchNormalization
from fusewire.horovod.tensorflow.tape import DistributedGradientTape, PartialDistributedGradientTape
from fusewire.horovod.tensorflow.util import _executing_eagerly  # noqa: F401, libraries call it

__all__ = [
    "Adasum",
    "Average",
    "BroadcastGlobalVariablesHook",
    "Compression",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "HorovodInternalError",
    "Max",
    "Min",
    "PartialDistributedGradientTape",
    "ProcessSet",
    "Product",
    "Sum",
    "SyncBatchNormalization",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "alltoall",
    "broadcast",
    "broadcast_",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_object_fn",
    "broadcast_variables",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "elastic",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_reducescatter",
    "handle_average_backwards_compatibility",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_rank_op",
    "local_size",
    "local_size_op",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "process_set_included_op",
    "rank",
    "rank_op",
    "reducescatter",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "size_op",
    "start_timeline",
    "stop_timeline",
]
