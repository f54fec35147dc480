# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""A short soak: tests/soak/run.py trains under faults for a minute, with a seed that it prints."""

import json
import os
import re
import subprocess
import sys

import pytest
from conftest import ROOT, clean_environment
from processes import ci_turn

pytestmark = pytest.mark.once


# Those after which TensorFlow itself goes on: without descriptors its control port never accepts again, and it aborts
# where it can start no thread.
FAULTS = "kill-server,kill-worker,kill-chief,stop,slow-reader,clock,partition,one-way,narrow,reset,full-disk"


def soak(folder, *words) -> str:
    """What it says; --bound: other tests run beside it."""
    ended = subprocess.run(
        [sys.executable, ROOT / "tests/soak/run.py", "--out", folder / "run", "--bound", "150", *words],
        cwd=folder,
        env=clean_environment(PATH=os.environ["PATH"]),
        capture_output=True,
        text=True,
        timeout=590,
        check=False,
    )
    errors = "".join(path.read_text()[-2000:] for path in (folder / "run").glob("*.err"))
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}\n{errors}"
    assert "what must not be: 0" in ended.stdout
    return ended.stdout


TURN = ci_turn()


@pytest.mark.timeout(600)
def test_training_survives_faults(tmp_path):
    protocol = ("grpc++", "star_server", "star_server_lite")[TURN % 3]
    joins = ["--chief-joins"] if TURN % 2 else []
    soak(tmp_path, "--minutes", "1", "--protocol", protocol, "--faults", FAULTS, *joins)


@pytest.mark.timeout(600)
def test_with_snapshots_no_session_is_recreated_for_a_server(tmp_path):
    protocol = ("star_server", "star_server_lite")[TURN % 2]
    words = ["--minutes", "0.4", "--protocol", protocol, "--faults", "kill-server,kill-chief,reset", "--chief-joins"]
    said = soak(tmp_path, *words, "--snapshots", "1")
    assert "kill-server" in said  # each fault once before any is repeated


@pytest.mark.timeout(600)
def test_what_a_server_has_served_is_adopted(tmp_path):
    protocol = ("star_server_lite", "star_server")[TURN % 2]
    words = ["--minutes", "0.5", "--protocol", protocol, "--faults", "kill-server,freeze", "--chief-joins"]
    said = soak(tmp_path, *words, "--snapshots", "1", "--on-loss", "adopt")
    assert "adopted by others" in said
    assert "freeze" in said


@pytest.mark.timeout(200)
def test_a_fault_is_measured_for_the_scorecard(tmp_path):
    words = [
        sys.executable,
        ROOT / "tests/soak/scorecard.py",
        "--rows",
        "F1",
        "--protocols",
        "grpc++",
        "--out",
        tmp_path,
    ]
    ended = subprocess.run(
        words, env=clean_environment(PATH=os.environ["PATH"]), capture_output=True, text=True, timeout=190, check=False
    )
    if ended.returncode == 2 and "needs root" in ended.stderr:
        pytest.skip(ended.stderr.strip())
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    figures = json.loads((tmp_path / "scorecard.json").read_text())["F1"]["grpc++"]
    assert set(figures) == {"error after", "close()", "steps again after"}, figures
    assert all(re.fullmatch(r"\d+\.\d+ s", figure) for figure in figures.values()), figures


# Sessions that come and go on one server, each with a graph of its own; the leaks of each are counted at both ends.
COME_AND_GO = """
import re
def held():
    status = open("/proc/self/status").read()
    kib = int(re.search(r"RssAnon:\\s+(\\d+)", status)[1])
    threads = int(re.search(r"Threads:\\s+(\\d+)", status)[1])
    return kib, threads, len(os.listdir("/proc/self/fd"))

def once(number):
    with tf.Graph().as_default():
        with tf.device(PS):
            held = tf1.get_variable("held", [1000], initializer=tf1.zeros_initializer())
            more = tf1.assign_add(held, tf.ones([1000]))
        with tf.device(WORKER):
            result = tf.reduce_sum(more)
        with tf1.Session(server.target, config=session_config) as session:
            session.run(held.initializer)
            assert session.run(result) == 1000.0

for number in range(10):
    once(number)
kib, threads, descriptors = held()
began, done_before = time.monotonic(), 0
while done_before < 100 and (done_before < 10 or time.monotonic() - began < 20):  # fewer where it is slow
    once(done_before)
    done_before += 1
now = held()
say("GREW", now[0] - kib, now[1] - threads, now[2] - descriptors, done_before)
done()
"""


@pytest.mark.parametrize("protocol", ["grpc++", "star_server"])
def test_sessions_that_come_and_go_leave_nothing(run_cluster, protocol):
    said = run_cluster(COME_AND_GO, protocol).said
    kib, threads, descriptors, sessions = map(int, next(line for line in said if line.startswith("GREW")).split()[1:])
    assert threads <= 4  # a pool of TensorFlow's may have grown
    assert descriptors <= 4
    assert kib < 8 * 1024 + 100 * sessions  # what a graph of its own costs for good is less
