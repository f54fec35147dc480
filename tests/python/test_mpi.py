# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""fusewire.mpi, mpi4py's words: one program over both, and what can't be done."""

import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import FUSEWIRE, ROOT, clean_environment, run_to_end

from fusewire import collective
from fusewire import mpi as MPI
from fusewire.mpi.buffers import buffer

pytestmark = pytest.mark.once
PROGRAM = ROOT / "tests/python/mpi_program.py"
LIMIT_S = 60.0


@pytest.mark.parametrize("ranks", [2, 3])
def test_the_program_over_fusewire(tmp_path, ranks):
    done = run_to_end([FUSEWIRE, "run", "--ranks", ranks, PROGRAM, "fusewire"], tmp_path, clean_environment(), LIMIT_S)
    assert done.ok().count("all is well") == ranks
    assert "warn" not in done.error


def test_the_program_over_mpi_itself(tmp_path):
    """So it asks for nothing that MPI does not do."""
    found = sorted(ROOT.glob(".venv-torch-*/lib/python3*/site-packages/mpi4py"))
    if not found or not shutil.which("mpirun.openmpi"):
        pytest.skip("mpi4py is not installed: tools/torch.sh")
    words = [
        "mpirun.openmpi",
        "--allow-run-as-root",
        "--oversubscribe",
        "-n",
        "3",
        found[0].parents[3] / "bin/python",
        PROGRAM,
        "mpi4py",
    ]
    done = run_to_end(words, tmp_path, clean_environment(), LIMIT_S)
    assert done.ok().count("all is well") == 3


DIES = """
import os, sys, time
import numpy as np
from fusewire import mpi as MPI
world = MPI.COMM_WORLD
world.Barrier()
if world.rank == 1:
    os.kill(os.getpid(), 9)
begun = time.monotonic()
try:
    world.Allreduce(MPI.IN_PLACE, np.ones(4))
except MPI.Exception as error:
    assert time.monotonic() - begun < 5
    assert "rank 1" in str(error), error
    print("told", flush=True)
"""


def test_a_dead_rank_is_named(tmp_path):
    (tmp_path / "dies.py").write_text(DIES)
    words = [FUSEWIRE, "run", "--ranks", 3, "--min-ranks", 2, "dies.py"]
    assert run_to_end(words, tmp_path, clean_environment(), LIMIT_S).out.count("told") == 2


WAITS = """
import sys
from fusewire import mpi as MPI
world = MPI.COMM_WORLD
world.timeout = 0.3
if world.rank == 0:
    try:
        world.recv(source=1)
    except MPI.Exception as error:
        print("told", error.code, flush=True)
world.timeout = None
world.Barrier()
"""


def test_a_wait_has_a_deadline(tmp_path):
    (tmp_path / "waits.py").write_text(WAITS)
    begun = time.monotonic()
    done = run_to_end([FUSEWIRE, "run", "--ranks", 2, "waits.py"], tmp_path, clean_environment(), LIMIT_S)
    assert "told timeout" in done.ok()
    assert time.monotonic() - begun < 20


def test_ways_to_name_memory():
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    assert buffer(array).flat.base is not None
    assert buffer([array, MPI.INT]).flat.tolist() == list(range(12))
    assert buffer([array, 5]).flat.tolist() == list(range(5))
    flat, counts = buffer([array, [2, 3], MPI.INT])
    assert (flat.tolist(), counts) == ([0, 1, 2, 3, 4], [2, 3])
    assert buffer([array, ([2, 3], [0, 2]), MPI.INT]).counts == [2, 3]
    buffer(array, writes=True).flat[0] = 7
    assert array[0, 0] == 7
    assert buffer(bytearray(b"abc"), writes=True).flat.tolist() == [97, 98, 99]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([np.zeros(4, np.int32), MPI.DOUBLE], "name the array's own type"),
        ([np.zeros(4), 5], "the count is 5, but the array has 4 elements"),
        ([np.zeros(4), [3, 3]], "need 6 elements, but the array has 4"),
        ([np.zeros(4), ([2, 2], [2, 0])], "other places are not supported"),
        (np.zeros((4, 4)).T, "not contiguous"),
        ("text", "not an array of numbers|read-only"),
        ({"a": 1}, "not an array of numbers: pass a NumPy array"),
    ],
)
def test_invalid_memory_is_reported(given, words):
    with pytest.raises(ValueError, match=words):
        buffer(given, writes=True)


@pytest.fixture
def world_of_one():
    yield  # COMM_SELF begins it
    collective.shutdown()


@pytest.mark.usefixtures("world_of_one")
def test_what_is_not_there_is_said():
    with pytest.raises(NotImplementedError, match="MAXLOC is not one for arrays"):
        MPI.COMM_SELF.Allreduce(np.ones(2), np.ones(2), op=MPI.MAXLOC)


def test_alone_a_program_needs_no_launcher(tmp_path):
    code = (
        "from fusewire import mpi as MPI; c = MPI.COMM_WORLD; print(c.size, c.allreduce(3)); c.send('x', 0, 1); "
        "print(c.recv(source=0, tag=1)); MPI.Finalize()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert done.stdout.split() == ["1", "3", "x"]
