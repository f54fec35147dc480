# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The plug-in's C++ tests, which tools/test.sh has built for the same TensorFlow; and the library's exported
symbols."""

import pathlib
import re
import subprocess

import pytest
import tensorflow as tf

import fusewire

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / f"build/tf-{tf.version.VERSION}/bin/fusewire_tf_tests"


def suites() -> list[str]:
    if not PROGRAM.exists():
        return ["is not built"]  # fails where it is run, and only there
    listed = subprocess.run([PROGRAM, "--gtest_list_tests"], capture_output=True, text=True, timeout=60, check=True)
    return re.findall(r"^(\w+)\.$", listed.stdout, re.MULTILINE)


@pytest.mark.parametrize("suite", suites())
def test_unit(suite):
    ended = subprocess.run(
        [PROGRAM, f"--gtest_filter={suite}.*"], capture_output=True, text=True, timeout=90, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert re.search(r"\[  PASSED  \] [1-9]", ended.stdout)


def test_library_shows_only_what_python_calls():
    library = next(pathlib.Path(fusewire.__file__).parent.glob(f"_lib/tf-{tf.version.VERSION}/*.so"))
    symbols = subprocess.run(["nm", "-D", library], capture_output=True, text=True, timeout=60, check=True).stdout
    shown = {line.split()[-1] for line in symbols.splitlines() if re.search(r" [A-TV-Z] ", line)}
    assert shown == {
        "fusewire_version",
        "fusewire_tensorflow_version",
        "fusewire_stats",
        "fusewire_hold_fusion",
        "fusewire_is_local",
        "fusewire_leave",
    }
    assert not re.search(r" U (SSL|EVP|inflate|hwloc)_", symbols)
