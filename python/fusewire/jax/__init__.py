# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""JAX's collectives on CPUs over Fusewire, with the jax and jaxlib from PyPI.

    import fusewire.jax                     # before jax
    import jax

    fusewire.jax.initialize()               # in place of jax.distributed.initialize(), with the same arguments

XLA reaches its collectives "mpi" through a library that it loads at the first import of jax; this module brings one.
docs/jax.md is the page for users. Neither TensorFlow nor torch is loaded.
"""

from fusewire.jax import library  # imports jax: before the modules that do
from fusewire.jax.ranks import initialize, prepare, shutdown
from fusewire.p2p import Error

__all__ = ["Error", "initialize", "library", "prepare", "shutdown"]
