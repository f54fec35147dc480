# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Runs a program that imports Horovod, unchanged, over Fusewire.

    fusewire run --ranks 4 -m fusewire.horovod train.py argument...

Also: -m fusewire.horovod -m module argument...
"""

import os
import runpy
import sys

from fusewire.horovod.finder import install


def main() -> None:
    words = sys.argv[1:]
    is_module = words[:1] == ["-m"]
    if is_module:
        words = words[1:]
    if not words:
        sys.exit("no program is given. Fix: fusewire run --ranks 4 -m fusewire.horovod train.py")
    install(os.environ.get("FUSEWIRE_HOROVOD", "").lower() == "force")
    sys.argv = words
    if is_module:
        sys.path[0] = os.getcwd()
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(words[0]))
        runpy.run_path(words[0], run_name="__main__")


main()
