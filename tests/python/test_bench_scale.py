# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The crowd of the suite `scale` with a real parameter server: its steps are those of the recorded worker."""

import pathlib
import sys

import pytest
import tensorflow as tf
from conftest import ROOT

sys.path.append(str(ROOT / "bench"))

import ps.replay
from ps.measure import Window
from ps.replay import Crowd, replay
from ps.tasks import Shape, TaskError, running

PYTHON = pathlib.Path(sys.executable)
PROGRAM = ROOT / "build" / f"tf-{tf.__version__}" / "bin" / "bench_replay"
START_LIMIT_S = 150.0

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built"),
]


@pytest.mark.in_turn(1)
@pytest.mark.parametrize("protocol", ["star_server", "star_server_lite"])
def test_a_crowd_is_served(protocol):
    sample = replay(PYTHON, PROGRAM, protocol, Crowd(200, 0.0), Window(0.1, 1.0))
    assert sample["steps_per_s"] > 20
    assert 0 < sample["p50_ms"] <= sample["p99_ms"]
    assert sample["ps_cpu_ms_per_step"] > 0
    # A push and a pull, with the rows of 52 tables.
    assert 1 <= sample["calls_per_step"] <= 3
    assert sample["bytes_per_step"] > 100_000
    assert sample["ps_threads"] < 100


def test_every_step_of_the_crowd_reaches_the_server(tmp_path):
    record = tmp_path / "steps"
    variables = {"FUSEWIRE_STAR_RECORD": str(record)}
    with running(PYTHON, Shape("cluster"), "wdl26", "star_server", False, START_LIMIT_S, variables) as cluster:
        ps.replay.record_steps(cluster)
        [server], [worker] = cluster.servers, cluster.workers
        before = server.ask("counters", 60)["fusewire"]["star_runs_in"]
        window = Window(0.1, 0.5)
        sample = ps.replay.drive(PROGRAM, record, server, Crowd(3, 0.0), window)
        runs = server.ask("counters", 60)["fusewire"]["star_runs_in"] - before
        assert runs >= sample["steps_per_s"] * window.seconds * sample["calls_per_step"]
        # The worker's own session goes on, with variables that make sense.
        assert 0.2 < worker.ask("evaluate", 60)["auc"] < 1


def test_a_server_that_dies_ends_the_run_in_words(tmp_path, monkeypatch):
    record = tmp_path / "steps"
    variables = {"FUSEWIRE_STAR_RECORD": str(record)}
    monkeypatch.setattr(ps.replay, "REPLAY_LIMIT_S", 30.0)
    with running(PYTHON, Shape("cluster"), "wdl26", "star_server", False, START_LIMIT_S, variables) as cluster:
        ps.replay.record_steps(cluster)
        cluster.servers[0].close()
        with pytest.raises(TaskError, match=r"ps 0 .* ended with status -9"):
            ps.replay.drive(PROGRAM, record, cluster.servers[0], Crowd(3, 0.0), Window(0.1, 0.5))
