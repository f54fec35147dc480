# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The soak in short: tests/soak/run.py trains under a few faults, each once, with a seed that it prints."""

import os
import subprocess
import sys

import pytest
from conftest import ROOT, clean_environment

pytestmark = pytest.mark.once


@pytest.mark.timeout(400)
def test_training_survives_faults(tmp_path):
    folder = tmp_path / "run"
    words = [sys.executable, ROOT / "tests/soak/run.py", "--minutes", "0.4", "--out", folder]
    words += ["--protocol", "star_server", "--faults", "kill-server,stop,partition,descriptors"]
    ended = subprocess.run(
        words,
        cwd=tmp_path,
        env=clean_environment(PATH=os.environ["PATH"]),
        capture_output=True,
        text=True,
        timeout=390,
        check=False,
    )
    errors = "".join(path.read_text()[-2000:] for path in folder.glob("*.err"))
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}\n{errors}"
    assert "what must not be: 0" in ended.stdout
