# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The benchmark's clusters, with real servers: its counts are correct, and every case runs."""

import pathlib
import re
import sys
import time

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import ps.tasks
from processes import wait_until
from ps.measure import Window, measure, start_training, stop_training
from ps.tasks import Shape, running

pytestmark = pytest.mark.once
PYTHON = pathlib.Path(sys.executable)
START_LIMIT_S = 150.0
CALL = b"RECV_STATUS_ON_CLIENT"  # Once for each call that gRPC's trace shows.


@pytest.mark.in_turn(1)
@pytest.mark.parametrize(("model", "servers"), [("wdl26", 1), ("swarm", 2)])
def test_calls_are_as_many_as_grpc_itself_traces(model, servers, monkeypatch):
    monkeypatch.setenv("GRPC_VERBOSITY", "DEBUG")
    monkeypatch.setenv("GRPC_TRACE", "api")
    steps = 50
    with running(PYTHON, Shape("cluster", servers), model, "grpc", False, START_LIMIT_S) as cluster:
        counted = cluster.workers[0].ask("calls", 60)["calls"]
        before = calls_traced(cluster)
        start_training(cluster, steps)
        wait_for_steps(cluster, steps)
        stop_training(cluster)
        assert calls_traced(cluster) - before == counted * steps


def calls_traced(cluster: ps.tasks.Cluster) -> int:
    """The counts once they no longer change: the last calls of a step end after it."""
    counts = [-1, -2]
    deadline = time.monotonic() + 30
    while counts[-1] != counts[-2]:
        assert time.monotonic() < deadline, counts
        time.sleep(0.5)
        counts.append(sum(len(re.findall(CALL, task.log.read_bytes())) for task in cluster.tasks))
    return counts[-1]


def wait_for_steps(cluster: ps.tasks.Cluster, steps: int) -> None:
    wait_until(lambda: cluster.workers[0].ask("look", 60)["steps"] >= steps, 90, f"{steps} steps")


# Each case, and each program, at least once.
RUNS = [
    ("grpc", "dense64_1x1"),
    ("grpc++", "dense64_1x1"),
    ("grpc++", "swarm_4"),
    ("grpc++fuse", "wdl26_2x2"),
    ("star_server", "wdl26_1x1"),
    ("star_server_lite", "swarm_4"),
]


@pytest.mark.in_turn(2)
@pytest.mark.parametrize(("program", "case"), RUNS)
def test_case_runs(program, case):
    sample = measure(PYTHON, program, case, Window(0.1, 1.0))
    assert sample["steps_per_s"] > 0
    assert 0 < sample["p50_ms"] <= sample["p99_ms"]
    assert 0 < sample["ps_cpu_ms_per_step"] < sample["cpu_ms_per_step"]
    assert 0 < sample["rpcs_per_step"] <= sample["messages_per_step"] / 2
    assert sample["bytes_per_step"] > (128 * 2**20 if case.startswith("dense64") else 1000)


@pytest.mark.parametrize("program", ["server", "session"])
def test_ceiling_sends_nothing(program):
    sample = measure(PYTHON, program, "wdl26_1x1", Window(0.1, 1.0))
    assert sample["steps_per_s"] > 0
    assert sample["bytes_per_step"] == 0
