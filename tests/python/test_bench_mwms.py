# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The suite `mwms` with real workers: every case's model trains, with the same results over both protocols."""

import pathlib
import sys

import pytest
from conftest import ROOT

sys.path.append(str(ROOT / "bench"))

from mwms.measure import measure
from ps.measure import Window

pytestmark = pytest.mark.once
PYTHON = pathlib.Path(sys.executable)


@pytest.mark.parametrize("protocol", ["grpc", "grpc++"])
def test_workers_train(protocol):
    sample = measure(PYTHON, protocol, "dense1_n2", Window(0.01, 0.02))
    assert sample["steps_per_s"] > 1
    assert sample["cpu_ms_per_step"] > 0
    assert 0 < sample["loss"] < 100
