# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""backend="fusewire" for torch.distributed.

    torch.distributed.init_process_group("fusewire")         also "cpu:fusewire,cuda:nccl"

torch finds it by its entry point. It needs torch 2.14: before that, no Python class can be a backend. docs/torch.md is
the page for users. Neither TensorFlow nor the plug-in is loaded.
"""

from fusewire.pages import needs

with needs("torch"):
    import torch
    import torch.distributed as dist

if torch.__version__ < (2, 14):
    raise ImportError(
        f'backend="fusewire" needs PyTorch 2.14 or newer, and this is {torch.__version__}, whose backends can\'t be '
        "Python classes: install a newer one (see: fusewire explain torch#versions)"
    )

from fusewire.torch import backend, compiling, work
from fusewire.torch.backend import NAME, FusewireBackend
from fusewire.torch.dumps import write as dump_flight_recorder
from fusewire.torch.errors import FusewireError, FusewireNetworkError
from fusewire.torch.replacing import replace_gloo, replace_if_set

__all__ = [
    "FusewireBackend",
    "FusewireError",
    "FusewireNetworkError",
    "dump_flight_recorder",
    "register",
    "replace_gloo",
]


def register() -> None:
    """Makes the backend known to torch.distributed. Importing this module does it; may be repeated."""
    if NAME.upper() not in dist.Backend._plugins:
        backend.register_as(NAME, backend.create)
        work.patch_torch()
        backend.patch_torch()
        compiling.leave_alone()


register()
replace_if_set()
