# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""`fusewire run --inside slurm` under a real Slurm: a controller, and three nodes in namespaces (hosts.py)."""

import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess

import pytest
from conftest import DEADLINE_S, FUSEWIRE, ROOT, process, run_to_end
from hosts import network
from lab import NET
from processes import wait_until
from test_hosts import TRAIN
from test_run import MARK, SERVE, START_S, Runner

from fusewire.launch.guard import die_with

__all__ = ["network"]  # a fixture
LAUNCHER = f"{NET}.0.1"
pytestmark = [pytest.mark.once, pytest.mark.slow]
CONFIG = """
ClusterName=test
SlurmctldHost={host}({launcher})
SlurmUser=root
AuthInfo=socket={folder}/munge.socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/builtin
SelectType=select/cons_res
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/controller.log
SlurmdLogFile={folder}/%n.log
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
KillWait=5
{nodes}
PartitionName=all Nodes=node[1-3] Default=YES MaxTime=INFINITE State=UP
"""


class Slurm(Runner):
    """A Slurm of its own, in the network."""

    def __init__(self, folder: pathlib.Path, network, daemons: contextlib.ExitStack):
        super().__init__(folder)
        self.network = network
        own = folder / "slurm"
        names = [f"node{number}" for number in (1, 2, 3)]
        for name in ("state", *(f"spool-{name}" for name in names)):
            (own / name).mkdir(parents=True)
        nodes = zip(names, network.addresses, strict=True)
        lines = [f"NodeName={name} NodeAddr={address} CPUs=4 State=UNKNOWN" for name, address in nodes]
        (own / "slurm.conf").write_text(
            CONFIG.format(host=socket.gethostname(), launcher=LAUNCHER, folder=own, nodes="\n".join(lines))
        )
        (own / "munge.key").write_bytes(os.urandom(1024))
        (own / "munge.key").chmod(0o600)
        hosts = [f"{address} {name}" for name, address in zip(names, network.addresses, strict=True)]
        (own / "hosts").write_text(
            "\n".join(["127.0.0.1 localhost", f"{LAUNCHER} {socket.gethostname()}", *hosts]) + "\n"
        )
        path = f"{FUSEWIRE.parent}:{os.environ['PATH']}"
        self.environment |= {"SLURM_CONF": str(own / "slurm.conf"), MARK: self.mark, "PATH": path}
        munge = {name: own / f"munge.{name}" for name in ("key", "socket", "pid", "log", "seed")}
        files = [f"--{name}={munge[name]}" for name in ("socket",)]
        files += [f"--{option}-file={munge[option]}" for option in ("key", "pid", "log", "seed")]
        self._start(daemons, ["munged", "--foreground", "--force", *files])
        wait_until(munge["socket"].exists, START_S, "munge's socket")
        self._start(daemons, network.launcher.words("slurmctld", "-D"))
        for host, name in zip(network.hosts, names, strict=True):
            host.run("mount", "--bind", own / "hosts", "/etc/hosts")
            daemons.callback(host.run, "umount", "/etc/hosts")
            self._start(daemons, host.words("slurmd", "-D", "-N", name))
        wait_until(lambda: self.told("sinfo", "-h", "-t", "idle", "-o", "%D").strip() == "3", 60.0, "three idle nodes")

    def _start(self, daemons: contextlib.ExitStack, words: list[object]) -> None:
        environment = {name: value for name, value in self.environment.items() if name != MARK}
        parent = os.getpid()
        log = daemons.enter_context((self.folder / "daemons.log").open("ab"))
        daemon = subprocess.Popen(
            [str(word) for word in words],
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=lambda: die_with(parent),
        )
        daemons.callback(daemon.wait, DEADLINE_S)
        daemons.callback(daemon.terminate)

    def words(self, *command: object) -> list[object]:
        return self.network.launcher.words(*command)

    def told(self, *command: object) -> str:
        return run_to_end(self.words(*command), self.folder, self.environment).out

    def srun(self, *options: object, script: str):
        inside = [FUSEWIRE, "run", "--inside", "auto", "--ps", "1", "sh", "-c", script]
        return run_to_end(self.words("srun", *options, *inside), self.folder, self.environment)


@pytest.fixture(scope="module")
def slurm(network, tmp_path_factory):
    for command in ("munged", "slurmctld", "slurmd", "srun"):
        if shutil.which(command) is None:
            pytest.skip(f"Slurm is not installed, {command} is missing: tools/deps.sh slurm")
    with contextlib.ExitStack() as daemons:
        yield Slurm(tmp_path_factory.mktemp("slurm"), network, daemons)


def test_a_cluster_trains_on_three_nodes(slurm, network):
    """With the script of deploy/, which makes a secret."""
    (slurm.folder / "train.py").write_text(TRAIN)
    log = slurm.folder / "train.log"
    script = ROOT / "deploy/slurm/train.sbatch"
    options = ["--wait", "--nodes=3", "--ntasks=5", "--ntasks-per-node=2", f"--output={log}"]
    run_to_end(slurm.words("sbatch", *options, script, "train.py"), slurm.folder, slurm.environment)
    text = log.read_text()
    said = [json.loads(line.partition(" | ")[2]) for line in text.splitlines() if '"lost"' in line]
    assert sorted(one["worker"] for one in said) == [0, 1, 2], text
    assert all(one["lost"] < 0.5 and one["calls"] > 0 and one["secret"] == 64 for one in said)
    assert "2 ps, 3 workers over star_server, in 5 processes" in text
    assert "fusewire run: done in" in text


def test_where_its_processes_are(slurm, network):
    done = slurm.srun("-N", "3", "-n", "4", script=SERVE + 'echo "$TF_CONFIG"')
    cluster = json.loads(done.ok().splitlines()[0].partition("|")[2])["cluster"]
    assert {job: len(tasks) for job, tasks in cluster.items()} == {"ps": 1, "worker": 3}
    assert {address.partition(":")[0] for tasks in cluster.values() for address in tasks} == set(network.addresses)


def test_a_failure_is_the_exit_code_of_srun(slurm):
    script = SERVE + 'case "$TF_CONFIG" in *\'"index": 1}\'*) exit 7;; esac; exec sleep 1000'
    done = slurm.srun("-N", "3", "-n", "4", script=script)
    assert done.status == 7
    assert "worker:1 failed first: exit code 7" in done.error
    slurm.nothing_is_left()


def test_scancel_ends_everything(slurm):
    inside = [
        FUSEWIRE,
        "run",
        "--inside",
        "slurm",
        "--ps",
        "1",
        "sh",
        "-c",
        "touch ready$$-$SLURM_PROCID; exec sleep 1000",
    ]
    with process(slurm.words("srun", "-J", "victim", "-n", "3", *inside), slurm.folder, slurm.environment) as srun:
        wait_until(lambda: len(list(slurm.folder.glob("ready*"))) == 3, START_S, "three tasks are ready")
        slurm.told("scancel", "--name=victim")
        srun.communicate(timeout=DEADLINE_S)
        assert srun.returncode != 0
    slurm.nothing_is_left()
