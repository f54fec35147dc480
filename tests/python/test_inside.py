# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""`fusewire run --inside`: one process for each task, started by the real mpirun, or with srun's and Kubernetes'
variables, on one host and on three (hosts.py)."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest
from conftest import DEADLINE_S, FUSEWIRE, run_to_end
from hosts import network
from processes import free_addresses, wait_until
from test_run import SERVE, SHOW, Runner

from fusewire.launch.launchers import found_kind, node_names, rank_info

__all__ = ["network"]  # a fixture
pytestmark = pytest.mark.once
SLURM = {"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0"}


@pytest.fixture
def run(tmp_path):
    runner = Runner(tmp_path)
    yield runner
    runner.nothing_is_left()


def slurm(rank, size, nodes="127.0.0.1", **more):
    """What srun sets, each test's with a job of its own."""
    return {
        "SLURM_JOB_ID": str(os.getpid()),
        "SLURM_STEP_ID": str(next(STEPS)) if rank == 0 else str(STEPS.now),
        "SLURM_PROCID": str(rank),
        "SLURM_STEP_NUM_TASKS": str(size),
        "SLURM_STEP_NODELIST": nodes,
        **more,
    }


class Steps:
    now = 0

    def __next__(self):
        self.now += 1
        return self.now


STEPS = Steps()


class Job:
    """The processes of a job, as srun starts them."""

    def __init__(self, run, size, *options, script, where=None, nodes="127.0.0.1", **more):
        self.processes = []
        for rank in range(size):
            words = [FUSEWIRE, "run", "--inside", "auto", *options, "--", "sh", "-c", script]
            words = where[rank].words(*words) if where else words
            environment = {**run.environment, **slurm(rank, size, nodes), **more.get(f"rank{rank}", {})}
            pipe = subprocess.PIPE
            self.processes.append(
                subprocess.Popen(
                    [str(word) for word in words], cwd=run.folder, env=environment, stdout=pipe, stderr=pipe, text=True
                )
            )

    def end(self):
        """[(exit code, stdout, stderr)] of the ranks"""
        try:
            said = [one.communicate(timeout=DEADLINE_S) for one in self.processes]
        finally:
            for one in self.processes:
                one.kill()
        return [(one.returncode, *words) for one, words in zip(self.processes, said, strict=True)]


def clusters(ended):
    return {
        label.strip(): json.loads(text)
        for _, out, _ in ended
        for label, _, text in [out.strip().partition("|")]
        if text
    }


def test_srun_on_three_hosts(run, network):
    """Its list of nodes is in brackets. The server ends when the workers are done."""
    options = ["--ps", "1", "--protocol", "star_server"]
    ended = Job(
        run,
        4,
        *options,
        script=f"{SHOW}; {SERVE}sleep 1",
        where=[*network.hosts, network.hosts[1]],
        nodes="10.77.0.[2-4]",
    ).end()
    assert [code for code, _, _ in ended] == [0, 0, 0, 0], ended
    found = clusters(ended)
    assert sorted(found) == ["ps:0", "worker:0", "worker:1", "worker:2"]
    cluster = found["worker:0"]["cluster"]
    assert all(config["cluster"] == cluster and config["rpc_layer"] == "star_server" for config in found.values())
    hosts_of = [address.partition(":")[0] for tasks in cluster.values() for address in tasks]
    assert hosts_of == ["10.77.0.2", "10.77.0.3", "10.77.0.4", "10.77.0.3"]


def test_a_process_serves_several_tasks(run):
    """Each tells a port for each of them."""
    show = SHOW.replace("echo ", 'echo "$FUSEWIRE_TASKS;"')
    ended = Job(run, 3, "--ps", "5", "--ps-processes", "2", script=f"{show}; {SERVE}sleep 1").end()
    assert [code for code, _, _ in ended] == [0, 0, 0], ended
    said = [out.strip().partition(" | ")[2].partition(";") for _, out, _ in ended]
    assert [tasks for tasks, _, _ in said] == ["ps:0,ps:2,ps:4", "ps:1,ps:3", ""]
    [text] = {json.dumps(json.loads(config)["cluster"]) for _, _, config in said}
    addresses = [address for tasks in json.loads(text).values() for address in tasks]
    assert len(set(addresses)) == len(addresses) == 6


def test_processes_that_disagree_about_their_tasks_are_named(run):
    started = []
    for rank, ps in enumerate(["4", "2", "4"]):
        words = [FUSEWIRE, "run", "--inside", "auto", "--ps", ps, "--ps-processes", "2", "true"]
        environment = {**run.environment, **slurm(rank, 3)}
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(words, cwd=run.folder, env=environment, stdout=pipe, stderr=pipe, text=True))
    errors = [one.communicate(timeout=DEADLINE_S)[1] for one in started]
    assert started[0].returncode == 126
    assert "rank 0: rank 1 has 1 ports for the 2 tasks that it is to serve. Fix: " in errors[0]


def test_a_process_that_its_launcher_takes_away_drains_first(run):
    """It has longer than without --drain, ends with 0, and the others go on."""
    script = (
        'case "$TF_CONFIG" in *\'"ps", "index": 1}\'*) trap "sleep 6; touch drained; exit 0" TERM; touch up;; esac; '
        "until [ -e enough ]; do sleep 0.1; done"
    )
    options = ["--ps", "2", "--snapshots", "kept", "--restarts", "1", "--drain", "20"]
    job = Job(run, 3, *options, script=script)
    wait_until((run.folder / "up").exists, 30, "the server is up")
    job.processes[1].send_signal(signal.SIGTERM)
    assert job.processes[1].wait(20) == 0
    assert (run.folder / "drained").exists()
    (run.folder / "enough").touch()
    ended = job.end()
    assert [code for code, _, _ in ended] == [0, 0, 0], ended
    assert "ps:1 has ended: other processes serve what it had" in ended[0][2]
    assert "failed" not in ended[0][2]


def test_a_failure_ends_all_processes(run):
    ended = Job(
        run, 3, "--ps", "1", script=SERVE + 'case "$TF_CONFIG" in *\'"index": 1}\'*) exit 7;; esac; exec sleep 1000'
    ).end()
    assert [code for code, _, _ in ended] == [7, 0, 7], ended
    assert "worker:1 failed first: exit code 7" in ended[0][2]


def test_a_task_is_started_again_in_its_process(run):
    script = SERVE + "test -e again && exec echo worked; touch again; exit 7"
    ended = Job(run, 2, "--ps", "1", "--restarts", "1", script=script).end()
    assert [code for code, _, _ in ended] == [0, 0], ended
    assert ended[1][1] == "worker:0 | worked\n"


@pytest.mark.parametrize("victim", [0, 1])
def test_a_process_that_is_killed_ends_the_job(run, victim):
    job = Job(run, 3, "--ps", "1", script="touch ready$$; exec sleep 1000")
    run.wait_for_files("ready*", 3)
    job.processes[victim].kill()
    ended = job.end()
    if victim == 0:
        assert [code for code, _, _ in ended] == [-9, 255, 255], ended
        assert "rank 1 (worker:0): rank 0 has closed the connection. Fix: " in ended[1][2]
    else:
        assert [code for code, _, _ in ended] == [255, -9, 0], ended
        assert "worker:0 failed first: the host is lost: its process has ended" in ended[0][2]


def test_scancel_gives_tasks_time(run):
    script = 'trap "echo had time; exit 0" TERM; touch ready$$; while :; do sleep 0.1; done'
    job = Job(run, 2, "--ps", "0", script=script)
    run.wait_for_files("ready*", 2)
    for one in job.processes:
        one.send_signal(signal.SIGTERM)
    ended = job.end()
    assert [out for _, out, _ in ended] == ["worker:0 | had time\n", "worker:1 | had time\n"], ended
    codes = [code for code, _, _ in ended]
    assert codes[0] == 143
    assert codes[1] in (0, 143)  # it may be gone nearly when its own signal comes


def test_a_process_that_does_not_come_is_named(run):
    job = Job(run, 1, "--ps", "0", "--host-timeout", "1", script="true", rank0={"SLURM_STEP_NUM_TASKS": "3"})
    [(code, _, error)] = job.end()
    assert code == 126
    assert "rank 0: of 3 processes, 2 have not come within 1 s: rank 1, 2. Fix: " in error


def test_rank_0_that_does_not_come_is_named(run):
    [(code, _, error)] = Job(run, 1, "--ps", "0", "--host-timeout", "1", script="true", rank0=slurm(1, 2)).end()
    assert code == 126
    assert re.search(r"rank 1: rank 0 is not reached at 127.0.0.1:\d+ for 1 s: .*refused. Fix: ", error)


@pytest.mark.parametrize(
    ("secrets", "codes"), [(["one", "one"], [0, 0]), (["one", "another"], [126, 126]), (["one", ""], [126, 126])]
)
def test_both_ends_know_the_secret(run, secrets, codes):
    each = {f"rank{rank}": {"FUSEWIRE_SECRET": 8 * secret} for rank, secret in enumerate(secrets)}
    ended = Job(run, 2, "--ps", "0", "--host-timeout", "2", script="true", **each).end()
    assert [code for code, _, _ in ended] == codes, ended
    for _, _, told in ended:
        assert ("it does not know the secret. Fix: set the same FUSEWIRE_SECRET" in told) == (codes != [0, 0])


def test_rank_0_that_does_not_know_the_secret_is_refused(run):
    ended = Job(run, 2, "--ps", "0", "--host-timeout", "2", script="true", rank1={"FUSEWIRE_SECRET": 16 * "b"}).end()
    assert ended[1][0] == 126
    assert "rank 1: rank 0 does not know the secret. Fix: " in ended[1][2]


MPIRUNS = {
    "Open MPI": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"],
    "MPICH": ["mpirun.mpich"],
}


@pytest.mark.parametrize("kind", MPIRUNS)
def test_mpirun(run, kind):
    mpirun = MPIRUNS[kind]
    if shutil.which(mpirun[0]) is None:
        pytest.skip(f"{kind} is not installed: tools/deps.sh tensorflow")
    words = [*mpirun, "-n", "3", FUSEWIRE, "run", "--inside", "auto", "--ps", "1", "sh", "-c", SERVE + SHOW]
    done = run_to_end(words, run.folder, {**run.environment, "NO_COLOR": "1"})
    found = {
        label.strip(): json.loads(text) for label, _, text in (line.partition("|") for line in done.ok().splitlines())
    }
    assert sorted(found) == ["worker:0", "worker:1"]
    assert {job: len(tasks) for job, tasks in found["worker:0"]["cluster"].items()} == {"ps": 1, "worker": 2}


def test_many_launchers_in_one_job_are_noticed(fusewire_command):
    done = fusewire_command("run", "--ps", "0", "true", OMPI_COMM_WORLD_SIZE="4")
    assert "another launcher has started 4 processes (OMPI_COMM_WORLD_SIZE)" in done.error
    assert "Fix: --inside auto" in done.error
    done.ok()


def test_ranks_of_a_group(run):
    (run.folder / "rank.py").write_text(
        "import numpy as np\nimport fusewire.collective as fw\nfw.init()\n"
        "print(fw.rank(), fw.allreduce(np.ones(10, np.float32), fw.Sum, timeout=30).sum(), flush=True)\n"
    )
    ended = Job(run, 3, "--ranks", "3", script=f"exec {sys.executable} rank.py").end()
    assert [out for _, out, _ in ended] == [f"rank:{rank} | {rank} 30.0\n" for rank in range(3)], ended


def test_a_job_of_kubernetes(run):
    port = free_addresses(1)[0].rpartition(":")[2]
    variables = {"WORLD_SIZE": "1", "JOB_COMPLETION_INDEX": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": port}
    command = [FUSEWIRE, "run", "--inside", "auto", "--ps", "0", "sh", "-c", SHOW]
    done = run_to_end(command, run.folder, {**run.environment, **variables})
    assert json.loads(done.ok().partition("|")[2])["task"] == {"type": "worker", "index": 0}


def test_a_launcher_that_sets_tf_config(run):
    config = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}
    command = [
        FUSEWIRE,
        "run",
        "--inside",
        "auto",
        "--protocol",
        "grpc++",
        "sh",
        "-c",
        f'{SHOW}; echo "$FUSEWIRE_PROTOCOL"; exit 5',
    ]
    done = run_to_end(command, run.folder, {**run.environment, "TF_CONFIG": json.dumps(config)})
    [first, second] = done.out.splitlines()
    assert (done.status, json.loads(first), second) == (5, {**config, "rpc_layer": "grpc++"}, "grpc++")
    assert "this is worker:1, of 2 tasks" in done.error


@pytest.mark.parametrize(
    ("options", "variables", "told"),
    [
        (["auto"], {}, "no launcher is found in the environment"),
        (["slurm"], {}, "SLURM_PROCID is not set. Fix: "),
        (["slurm"], {**slurm(0, 2), "SLURM_PROCID": "x"}, "SLURM_PROCID=x is not a whole number"),
        (["slurm"], slurm(2, 2), "slurm says that this process is rank 2 of 2"),
        (["slurm"], slurm(0, 2, "a[3-1]"), "SLURM_STEP_NODELIST=a[3-1] is not a list of nodes: '3-1' is not a range"),
        (
            ["slurm", "--ps", "3"],
            slurm(0, 2),
            "slurm has started 2 processes, which is not the number of tasks of 3 ps",
        ),
        (["slurm", "--workers", "5"], slurm(0, 2), "not the number of tasks of 1 ps, 5 workers. Fix: "),
        (["slurm", "--ranks", "3"], slurm(0, 2), "not the number of tasks of 3 ranks. Fix: "),
        (["slurm", "--hosts", "a"], slurm(0, 2), "--inside with --hosts: "),
        (["slurm", "--ranks", "2", "--ps", "1"], slurm(0, 2), "--ranks with --ps: "),
        (
            ["tf", "--workers", "2"],
            {"TF_CONFIG": "{}"},
            "--inside with --workers: TF_CONFIG says what is to run. Fix: ",
        ),
        (["slurm", "--meet", "a:b"], slurm(0, 2), "--meet a:b is not an address. Fix: "),
        (
            ["mpi"],
            {"PMI_RANK": "0", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "2"},
            "on which host rank 0 is. Fix: --meet HOST",
        ),
        (["tf"], {"TF_CONFIG": "{"}, "TF_CONFIG does not describe a task of a cluster: JSONDecodeError"),
        (["tf"], {"TF_CONFIG": '{"cluster": []}'}, "TF_CONFIG does not describe a task of a cluster: KeyError 'task'"),
    ],
)
def test_what_makes_no_sense(fusewire_command, options, variables, told):
    kind, *more = options
    done = fusewire_command("run", "--inside", kind, *more, "true", **variables)
    assert done.status == 2, done.error
    assert told in done.error


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a", "a"),
        ("a,b.example", "a b.example"),
        ("n[1-3,7,09-11],x", "n1 n2 n3 n7 n09 n10 n11 x"),
        ("rack[1-2]-n[01-02]", "rack1-n01 rack1-n02 rack2-n01 rack2-n02"),
        ("a[5]b", "a5b"),
        ("[1-2]", "1 2"),
    ],
)
def test_lists_of_nodes(text, names):
    assert list(node_names(text)) == names.split()


@pytest.mark.parametrize(
    "text", ["a[1", "a]1", "a[]", "a[x]", "a[2-1]", "a[1-2-3]", "a[1-99999999]", "a[[1]]", "a[1],]"]
)
def test_a_malformed_list_of_nodes(text):
    with pytest.raises(ValueError):
        list(node_names(text))


def test_which_launcher():
    mpi = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
    assert found_kind({**mpi, **slurm(0, 2)}) == "mpi"
    assert rank_info("mpi", {**mpi, "PMIX_NAMESPACE": "5"}, None) == rank_info(
        "mpi", {**mpi, "PMIX_NAMESPACE": "5"}, "127.0.0.1"
    )
    pet = {"PET_NODE_RANK": "3", "PET_NNODES": "4", "PET_MASTER_ADDR": "t-0.t", "PET_MASTER_PORT": "29500"}
    assert found_kind(pet) == "kubernetes"
    info = rank_info("kubernetes", pet, None)
    assert (info.rank, info.size, info.host, info.port) == (3, 4, "t-0.t", 29500)
    assert rank_info("kubernetes", pet, "[fd00::1]:7").host == "fd00::1"
    one, other = (rank_info("slurm", {**slurm(0, 2), **SLURM, "SLURM_STEP_ID": step}, None) for step in "12")
    assert (one.port != other.port, 10000 <= one.port < 30000) == (True, True)
