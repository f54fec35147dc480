# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""horovod.torch, over Fusewire.

import fusewire.horovod.torch as hvd            # fusewire run --ranks 4 program.py
hvd.init()
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
"""

from fusewire.horovod.common.basics import *
from fusewire.horovod.common.exceptions import *
from fusewire.horovod.common.ops import *
from fusewire.horovod.common.process_sets import *
from fusewire.horovod.torch import elastic as elastic
from fusewire.horovod.torch.compression import *
from fusewire.horovod.torch.functions import *
from fusewire.horovod.torch.mpi_ops import *
from fusewire.horovod.torch.optimizer import *
from fusewire.horovod.torch.sync_batch_norm import *
