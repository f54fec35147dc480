# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Runs a program that asks PyTorch for gloo, or for no backend on CPUs, unchanged over Fusewire.

    torchrun --nproc-per-node 4 -m fusewire.torch train.py argument...

Also: -m fusewire.torch -m module argument...
"""

import os
import sys

from fusewire.launch import program
from fusewire.torch import replacing


def main() -> None:
    words = sys.argv[1:]
    if words in ([], ["-m"], ["-c"]):
        sys.exit("no program is given. Fix: torchrun --nproc-per-node 4 -m fusewire.torch train.py")
    os.environ[replacing.VARIABLE] = replacing.GLOO  # for programs that this one starts
    replacing.replace_gloo()
    if sys.path[:1] == [os.getcwd()]:
        del sys.path[0]  # that of `python -m`; run() begins with the program's
    program.run(words)


if __name__ == "__main__":
    main()
