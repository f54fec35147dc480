# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The short forms of tests/differential, with seeds of CI's turn; they must find, and shrink, a planted difference."""

import sys

import pytest
from conftest import ROOT, clean_environment, run_to_end

PLANT = "ragged"
JUDGING = ROOT / "tests/differential/judging.py"
COLLECTIVES = JUDGING.with_name("collectives.py")


# The first of these are always the same; the others are chosen by the commit.
@pytest.mark.parametrize("which", [pytest.param("--seeds=0:10", marks=pytest.mark.smoke), "--seconds=20"])
@pytest.mark.timeout(400)
def test_random_programs_are_what_grpc_makes_of_them(tmp_path, which):
    command = [sys.executable, JUDGING, which]
    done = run_to_end(command, tmp_path, clean_environment(CUDA_VISIBLE_DEVICES=""), 380)
    assert done.status == 0, done.out + done.error
    assert " same" in done.out


# While connections are reset, a lost step may end the program, if it has queues or is left to send and receive; what it
# has seen must be right.
@pytest.mark.parametrize(("mode", "outcome"), [("--cut", " ended"), ("--resets", " same")])
@pytest.mark.timeout(300)
def test_random_programs_while_limits_pass_or_connections_are_reset(tmp_path, mode, outcome):
    command = [sys.executable, JUDGING, mode, "--seconds", "15"]
    done = run_to_end(command, tmp_path, clean_environment(CUDA_VISIBLE_DEVICES=""), 280)
    assert done.status == 0, done.out + done.error
    assert outcome in done.out


# Parameter servers move while a program runs. A step over grpc++, or with sends and receives, may end the program.
@pytest.mark.parametrize("which", ["--seeds=0:6", "--seconds=20"])
@pytest.mark.timeout(300)
def test_random_programs_while_servers_move(tmp_path, which):
    command = [sys.executable, JUDGING, "--moves", which]
    done = run_to_end(command, tmp_path, clean_environment(CUDA_VISIBLE_DEVICES=""), 280)
    assert done.status == 0, done.out + done.error
    assert " same" in done.out
    assert " made\n" in done.out


@pytest.mark.once
@pytest.mark.timeout(400)
def test_a_difference_is_found_and_shrunk(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(JUDGING.parent)
    from making import make

    # One of few statements: what is to be shrunk is run again and again.
    programs = [program for program in map(make, range(100)) if any(each.kind == PLANT for each in program.statements)]
    seed = str(min(programs, key=lambda program: len(program.statements)).seed)
    environment = clean_environment(CUDA_VISIBLE_DEVICES="", TEST_PLANT=PLANT)
    done = run_to_end([sys.executable, JUDGING, "--seed", seed, "--reactors", "2"], tmp_path, environment, 380)
    assert done.status == 1, done.out + done.error
    smallest = done.out.split("its smallest form:\n")[1]
    assert f"again: python differential/judging.py --seed {seed} --reactors 2" in smallest
    # The planted error, and the operations that it needs.
    assert smallest.count("with tf.device") < 6
    assert smallest.count("# worker") == 1


@pytest.mark.once
def test_every_kind_of_program_is_drawn(tmp_path):
    done = run_to_end([sys.executable, JUDGING, "--census", "0:300"], tmp_path)
    counts = {line[7:]: int(line[:6]) for line in done.ok().splitlines()[1:]}
    assert len(counts) > 55
    assert all(counts.values()), done.out


@pytest.mark.once
@pytest.mark.smoke
@pytest.mark.timeout(200)
def test_random_collectives_are_what_numpy_makes_of_them(tmp_path):
    done = run_to_end([sys.executable, COLLECTIVES, "--seconds", "10"], tmp_path, deadline_s=180)
    assert done.status == 0, done.out + done.error
    assert " operations" in done.out


@pytest.mark.once
@pytest.mark.timeout(200)
def test_a_collective_that_differs_is_found_and_shrunk(tmp_path):
    environment = clean_environment(TEST_PLANT="alltoall")
    done = run_to_end([sys.executable, COLLECTIVES, "--seed", "1"], tmp_path, environment, 180)
    assert done.status == 1, done.out + done.error
    smallest, again = done.out.split("its smallest form:\n")[1].split("again: ")
    assert smallest.count("Operation(") == 1
    assert "kind='alltoall'" in smallest
    assert again.startswith("python differential/collectives.py --seed 1\n")
