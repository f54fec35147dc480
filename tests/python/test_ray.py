# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""fusewire.ray on a local Ray of .venv-ray: the driver and its actors run there, the tasks in this environment."""

import json
import pathlib
import re
import sys
import textwrap

import pytest
from conftest import ROOT, clean_environment, run_to_end
from test_hosts import TRAIN
from test_live import BOTH, TELLS, run_on_terminal

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
def variables(tmp_path):
    """Those of a driver: fusewire without TensorFlow, as on a node that has it in another environment."""
    if not RAY.exists():
        pytest.skip("Ray is not installed: tools/deps.sh ray")
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages/fusewire").symlink_to(pathlib.Path(fusewire.__file__).parent)
    return {"PYTHONPATH": str(tmp_path / "packages"), "RAY_USAGE_STATS_ENABLED": "0"}


@pytest.fixture
def drive(tmp_path, variables):
    """drive(code) runs it as the driver of a Ray of its own; tasks run in the test's folder."""

    def run(code: str):
        (tmp_path / "driver.py").write_text(DRIVER + textwrap.dedent(code))
        return run_to_end([RAY, "driver.py", sys.executable], tmp_path, clean_environment(**variables), 150.0)

    return run


def test_a_cluster_trains(drive, tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    done = drive('fusewire.ray.run(["train.py"], ps=1, workers=2, protocol="star_server", python=python, timeout=120)')
    said = [json.loads(line.partition(" | ")[2]) for line in done.ok().splitlines()]
    assert sorted(one["worker"] for one in said) == [0, 1]
    assert all(one["lost"] < 0.5 and one["calls"] > 0 and one["secret"] == 64 for one in said)
    assert "1 ps, 2 workers over star_server, on 1 nodes of Ray" in done.error


PARTS = TRAIN.replace('("weights", [1000],', '("weights", [1000], partitioner=tf1.fixed_size_partitioner(4),')
PARTS = PARTS.replace("weights - 1.0", "tf.convert_to_tensor(weights) - 1.0")


def test_many_tasks_in_few_processes(drive, tmp_path):
    (tmp_path / "train.py").write_text(PARTS)
    done = drive(
        """
        told = {"protocol": "star_server", "python": python, "timeout": 120}
        fusewire.ray.run(["train.py"], ps=4, ps_processes=2, workers=2, **told)
        for more in ({"ps_processes": 5}, {"ps_processes": 0}, {"ps_processes": 2, "protocol": "grpc"}, {"ranks": 2}):
            try:
                fusewire.ray.run(["train.py"], **{"ps": 4, "ps_processes": 1, **more})
            except ValueError as error:
                print("REFUSED", error, flush=True)
        """
    )
    lines = done.ok().splitlines()
    said = [json.loads(line.partition(" | ")[2]) for line in lines if " | " in line]
    assert sorted(one["worker"] for one in said) == [0, 1]
    assert all(one["lost"] < 0.5 for one in said)
    assert "4 ps in 2 processes, 2 workers over star_server, on 1 nodes of Ray" in done.error
    assert "the process ps:1 serves ps:1, ps:3" in done.error
    refused = [line for line in lines if line.startswith("REFUSED")]
    for line, why in zip(
        refused,
        (
            "ps_processes=5 with 4 parameter servers",
            "ps_processes=0 with 4 parameter servers",
            "ps_processes=2: the protocol is grpc",
            "ps_processes with ranks",
        ),
        strict=True,
    ):
        assert why in line


def test_the_tasks_have_lines_on_the_drivers_terminal(tmp_path, variables):
    (tmp_path / "train.py").write_text(TELLS)
    run = 'fusewire.ray.run(["train.py"], ps=0, workers=2, python=python, timeout=120)'
    (tmp_path / "driver.py").write_text(DRIVER + run)
    code, seen, last = run_on_terminal(
        tmp_path, sys.executable, until=BOTH, then=(tmp_path / "go").touch, command=(RAY, "driver.py"), **variables
    )
    assert code == 0, last
    assert re.search(BOTH, seen)


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
            os.kill(parent(parent(parent(pids()[0]))), signal.SIGKILL)  # above the agent and its guard

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


RANK = """
import os, time
import numpy as np
import fusewire.collective.ray as backend
from ray.util import collective
from ray.util.collective.types import ReduceOp

@ray.remote(num_cpus=0)
class Rank:
    def __init__(self, rank, size, name="default"):
        self.rank, self.size, self.name = rank, size, name

    def join(self, meeting_s=30.0):
        backend.FusewireGroup.meeting_s = meeting_s
        backend.FusewireGroup.timeout_s = 20.0
        collective.init_collective_group(self.size, self.rank, "FUSEWIRE", self.name)
        return True

    def everything(self):
        rank, size, name = self.rank, self.size, self.name
        array = np.arange(6, dtype=np.float32).reshape(3, 2) + rank
        def total(of):
            return sum(np.arange(6, dtype=np.float32).reshape(3, 2) + one for one in of)
        summed = array.copy()
        collective.allreduce(summed, name)
        assert (summed == total(range(size))).all()
        most = array.copy()
        collective.allreduce(most, name, ReduceOp.MAX)
        assert (most == array - rank + size - 1).all()
        reduced = array.copy()
        collective.reduce(reduced, 1, name)
        assert (reduced == (total(range(size)) if rank == 1 else array)).all()
        sent = array.copy()
        collective.broadcast(sent, 2, name)
        assert (sent == array - rank + 2).all()
        gathered = [np.empty_like(array) for _ in range(size)]
        collective.allgather(gathered, array, name)
        assert all((one == array - rank + other).all() for other, one in enumerate(gathered))
        scattered = np.empty_like(array)
        collective.reducescatter(scattered, [array + 10 * to for to in range(size)], name)
        assert (scattered == total(range(size)) + 10 * rank * size).all()
        collective.barrier(name)
        ring = np.empty_like(array)
        if rank % 2:
            collective.recv(ring, (rank - 1) % size, name)
            collective.send(array, (rank + 1) % size, name)
        else:
            collective.send(array, (rank + 1) % size, name)
            collective.recv(ring, (rank - 1) % size, name)
        assert (ring == array - rank + (rank - 1) % size).all()
        try:
            collective.allgather(gathered, array[1:], name)
        except ValueError as error:
            return str(error)

    def reduce_beside_the_dead(self):
        if self.rank == 1:
            os._exit(9)
        began = time.monotonic()
        try:
            collective.allreduce(np.ones(4, np.float32), self.name)
        except fusewire.p2p.Error as error:
            return time.monotonic() - began, str(error)

    def leave(self):
        collective.destroy_collective_group(self.name)
        return os.getpid()

def ranks(size, name="default"):
    return [Rank.remote(rank, size, name) for rank in range(size)]

def all_of(actors, method, *arguments):
    return ray.get([getattr(actor, method).remote(*arguments) for actor in actors], timeout=60)
"""


def test_collectives_between_actors(drive):
    """Also again in the same actors, after they have left; and in others, after a group of this name has died."""
    done = drive(
        RANK
        + textwrap.dedent("""
        actors = ranks(3)
        for _ in range(2):
            all_of(actors, "join")
            words = all_of(actors, "everything")
            assert all("the tensor has 4 elements, but tensor" in one for one in words), words
            assert len(set(all_of(actors, "leave"))) == 3
        all_of(actors, "join")
        first, dead, last = [actor.reduce_beside_the_dead.remote() for actor in actors]
        for seconds, words in ray.get([first, last], timeout=60):
            assert seconds < 5 and "rank 1" in words, (seconds, words)
        for actor in actors:
            ray.kill(actor)
        others = ranks(3)
        all_of(others, "join")
        all_of(others, "everything")
        alone = Rank.remote(0, 2, "never")
        try:
            ray.get(alone.join.remote(1.0), timeout=60)
        except Exception as error:
            assert "rank 1 did not come within 1 s" in str(error), error
            print("DONE")
        """)
    )
    assert "DONE" in done.ok()
