# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The program of examples/on_jax, started by fusewire run: over Fusewire its losses are those over gloo."""

import re
import subprocess
import sys

from conftest import BACKENDS, ROOT


def losses_of(collectives: str) -> list[str]:
    words = [sys.executable, "-m", "fusewire", "run", "--ranks", "2", ROOT / "examples/on_jax/train.py"]
    words += ["--collectives", collectives, "--steps", "40"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return re.findall(r"step \d+: loss ([\d.]+)$", done.stdout, re.MULTILINE)


def test_training():
    wanted, found = (losses_of(one) for one in BACKENDS)
    assert len(found) == 4
    assert found == wanted
    assert float(found[-1]) < float(found[0])
