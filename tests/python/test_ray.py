# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""fusewire.ray on a local Ray of .venv-ray: the driver and its actors run there, the tasks in this environment."""

import json
import pathlib
import sys
import textwrap

import pytest
from conftest import ROOT, clean_environment, run_to_end
from test_hosts import TRAIN

import fusewire

pytestmark = [pytest.mark.once, pytest.mark.slow]
RAY = ROOT / ".venv-ray/bin/python"
DRIVER = """
import json, os, sys, threading
import ray
import fusewire.ray
python = sys.argv[1]
ray.init(num_cpus=4, include_dashboard=False, logging_level="error", log_to_driver=False, object_store_memory=10**8)
"""


@pytest.fixture
def drive(tmp_path):
    """drive(code) runs it as the driver of a Ray of its own; tasks run in the test's folder."""
    if not RAY.exists():
        pytest.skip("Ray is not installed: tools/deps.sh ray")
    # Without TensorFlow, as on a node that has it in another environment.
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages/fusewire").symlink_to(pathlib.Path(fusewire.__file__).parent)

    def run(code: str):
        (tmp_path / "driver.py").write_text(DRIVER + textwrap.dedent(code))
        environment = clean_environment(PYTHONPATH=str(tmp_path / "packages"), RAY_USAGE_STATS_ENABLED="0")
        return run_to_end([RAY, "driver.py", sys.executable], tmp_path, environment, 150.0)

    return run


def test_a_cluster_trains(drive, tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    done = drive('fusewire.ray.run(["train.py"], ps=1, workers=2, protocol="star_server", python=python, timeout=120)')
    said = [json.loads(line.partition(" | ")[2]) for line in done.ok().splitlines()]
    assert sorted(one["worker"] for one in said) == [0, 1]
    assert all(one["lost"] < 0.5 and one["calls"] > 0 and one["secret"] == 64 for one in said)
    assert "1 ps, 2 workers over star_server, on 1 nodes of Ray" in done.error


def test_failures_and_restarts(drive, tmp_path):
    """One Ray for all of these, each of which is a run of its own."""
    done = drive(
        """
        def attempt(script, **more):
            try:
                fusewire.ray.run(["sh", "-c", script], ps=0, workers=2, **more)
                print("RESULT", 0, flush=True)
            except fusewire.ray.JobError as error:
                print("RESULT", error.code, error, flush=True)

        attempt('case "$TF_CONFIG" in *\\'"index": 1}\\'*) exit 7;; esac; exec sleep 1000')
        attempt('test -e again || { touch again; exit 3; }', restarts=2)
        attempt('exec sleep 1000', timeout=1.0)
        attempt('true', resources={"worker": {"CPU": 99}}, start_timeout=1.0)
        thread = threading.Thread(target=attempt, args=('echo "$MINE"',), kwargs={"environment": {"MINE": "yes"}})
        thread.start()
        thread.join()
        """
    )
    results = [line.removeprefix("RESULT ") for line in done.ok().splitlines() if line.startswith("RESULT")]
    assert [line.split()[0] for line in results] == ["7", "0", "124", "126", "0"], done
    assert "worker:1: exit code 7" in results[0]
    assert "Ray has not found room for" in results[3]
    assert done.out.count("| yes\n") == 2


def test_tasks_die_with_their_actor_and_with_the_driver(drive, tmp_path):
    done = drive(
        """
        import pathlib, signal, time

        def pids():
            return [int(path.name[5:]) for path in pathlib.Path().glob("ready*")]

        def parent(pid):
            return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

        def kill_an_actor():
            while len(pids()) < 2:
                time.sleep(0.1)
            os.kill(parent(parent(pids()[0])), signal.SIGKILL)

        threading.Thread(target=kill_an_actor).start()
        try:
            fusewire.ray.run(["sh", "-c", "touch ready$$; exec sleep 1000"], ps=0, workers=2)
        except fusewire.ray.JobError as error:
            print("RESULT", error.code, error, flush=True)
        until = time.monotonic() + 30
        while any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids()):
            assert time.monotonic() < until, "tasks are left"
            time.sleep(0.1)
        """
    )
    assert "RESULT 255" in done.ok()
    assert "its actor is gone" in done.out
