# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The programs of examples/on_torch, started by torchrun: over fusewire their losses are those over gloo."""

import os
import re
import subprocess
import sys

import pytest
import torch
from conftest import ROOT


def losses_of(program: str, backend: str, path: str = "") -> list[str]:
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    words += [ROOT / "examples/on_torch" / program, "--backend", backend, "--steps", "8"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, "PYTHONFAULTHANDLER": "1"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=100, check=False)
    said = done.stderr.split("torch/distributed/elastic/")[0]  # what follows is torchrun's: that a rank failed
    # A thread of gloo's may free a tensor while Python ends, which aborts the process after its last step.
    assert done.returncode == 0 or backend == "gloo", f"{backend}: {done.stdout}{said[-4000:]}"
    return re.findall(r"^step \d+: loss ([\d.]+)$", done.stdout, re.MULTILINE)


def test_dlrm_with_divided_tables():
    losses = losses_of("dlrm.py", "fusewire")
    assert len(losses) == 8
    assert losses == losses_of("dlrm.py", "gloo")


@pytest.mark.skipif(not torch.__version__.startswith("2.14."), reason="fbgemm-gpu-cpu 1.9 is for PyTorch 2.14")
@pytest.mark.timeout(220)
def test_torchrec():
    found = list(ROOT.glob(".venv-partners/lib/python3*/site-packages/torchrec"))
    if not found:
        pytest.skip("TorchRec is not installed: tools/deps.sh partners")
    losses = losses_of("torchrec_dlrm.py", "fusewire", str(found[0].parent))
    assert len(losses) == 8
    assert losses == losses_of("torchrec_dlrm.py", "gloo", str(found[0].parent))
