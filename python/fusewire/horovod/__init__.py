# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Horovod's API over Fusewire: a program written for Horovod runs after a change of its import.

    import fusewire.horovod.tensorflow as hvd       # or .tensorflow.keras, .keras, .torch
    hvd.init()                                      # fusewire run --ranks 4 program.py

A program that must not change: `import fusewire.horovod.alias` before its imports, or FUSEWIRE_HOROVOD=1 and one
`import fusewire`. Neither TensorFlow nor torch is imported before the module named after it is. docs/horovod.md is the
contract.
"""

from fusewire.horovod.finder import install

__all__ = ["install"]

__version__ = "0.28.1"  # of Horovod, whose signatures these are
