# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""`kill -9` of `fusewire run`, here and over ssh: nothing that a task has started is left, whichever process dies."""

import contextlib
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

import pytest
from conftest import DEADLINE_S, FUSEWIRE, clean_environment, process, run_to_end
from hosts import network
from processes import wait_until
from test_hosts import HostsRunner
from test_run import SERVE, START_S, Runner

__all__ = ["network"]  # a fixture
pytestmark = pytest.mark.once

# Each task leaves these running: a child, one that has left its group, and one whose parents are gone.
FAMILY = """
sleep 1000 &
setsid sleep 1000 &
(setsid sh -c 'sleep 1000 & exec sleep 1000' &)
mktemp readyXXXXXX >/dev/null
exec sleep 1000
"""
# Goes on in a new process all the time.
# For a minute at most: nothing finds it once a failed test has left it behind.
WANDERS = (
    "import os, time\nuntil = time.monotonic() + 60\nwhile time.monotonic() < until:\n"
    "    if os.fork():\n        os._exit(0)\n    time.sleep(0.001)\n"
)


class Family(Runner):
    """A run whose tasks have children of all kinds, and the two processes that each end of it consists of."""

    def guards(self, without: int = 0) -> dict[int, int]:
        """{guard: worker}: the parents of the parents of the tasks, and the parents."""
        found = {}
        for pid in self.processes():
            with contextlib.suppress(FileNotFoundError):  # it ends meanwhile
                worker = int(stat_of(pid)[1])
                guard = int(stat_of(worker)[1]) if worker else 0
                if guard and guard != without and all("fusewire" in words_of(one) for one in (worker, guard)):
                    found[guard] = worker
        return found


def words_of(pid: int) -> str:
    return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")


def stat_of(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on."""
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


class FamilyOnHosts(HostsRunner, Family):
    pass


@pytest.fixture
def run(tmp_path):
    runner = Family(tmp_path)
    yield runner
    runner.nothing_is_left()


@pytest.fixture
def run_on_hosts(tmp_path, network):
    runner = FamilyOnHosts(tmp_path, network)
    yield runner
    runner.nothing_is_left()


def kill(*pids: int) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("victim", ["guard", "worker"])
@pytest.mark.parametrize("stopped", [False, True])
def test_a_launcher_that_is_killed(run, victim, stopped):
    """Also one that was stopped before: it can't do anything itself."""
    with run.started("--ps", "1", "--workers", "2", script=FAMILY, until="ready") as launcher:
        [(guard, worker)] = run.guards().items()
        assert guard == launcher.pid
        if stopped:
            os.kill(worker, signal.SIGSTOP)
        kill(guard if victim == "guard" else worker)
        assert launcher.wait(DEADLINE_S) == -signal.SIGKILL
        run.nothing_is_left()


def test_all_of_a_launchers_group_is_killed(run):
    """As `timeout -s KILL` and shells do."""
    with run.started("--ps", "1", "--workers", "1", script=FAMILY, until="ready") as launcher:
        os.killpg(launcher.pid, signal.SIGKILL)
        launcher.wait(DEADLINE_S)
        run.nothing_is_left()


def test_both_processes_of_a_launcher_are_killed_at_once(run):
    """Then no process is left that could end what the tasks have left behind; the tasks themselves die."""
    script = FAMILY.replace("mktemp readyXXXXXX >/dev/null", "touch ready$$")
    with run.started("--ps", "0", "--workers", "2", script=script, until="ready") as launcher:
        [(guard, worker)] = run.guards().items()
        tasks = [int(path.name.removeprefix("ready")) for path in run.folder.glob("ready*")]
        os.kill(guard, signal.SIGSTOP)  # it sees nothing until it is dead
        kill(worker, guard)
        launcher.wait(DEADLINE_S)
        assert len(tasks) == 2
        wait_until(lambda: not set(tasks) & set(run.processes()), START_S, "the end of the tasks")
        while left := run.processes():
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    kill(pid)


@pytest.mark.parametrize("victims", ["guard here", "worker here", "guards there", "workers there", "guards", "workers"])
def test_processes_of_a_run_over_ssh_are_killed(run_on_hosts, victims):
    with run_on_hosts.started("--ps", "1", "--workers", "2", script=FAMILY, until="ready") as launcher:
        there = run_on_hosts.guards(without=launcher.pid)
        here = {launcher.pid: next(pid for pid in run_on_hosts.processes() if stat_of(pid)[1] == str(launcher.pid))}
        assert len(there) == 3
        if "there" not in victims.split():
            kill(*(here if "guard" in victims else here.values()))
        if "here" not in victims.split():
            kill(*(there if "guard" in victims else there.values()))
        wait_until(lambda: launcher.poll() is not None, START_S, "the end of the launcher")
        run_on_hosts.nothing_is_left()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_process_that_forks_all_the_time(run, how):
    """Each is gone when somebody has seen it."""
    script = f"({sys.executable} -c '{WANDERS}' &) ; mktemp readyXXXXXX >/dev/null; exec sleep 1000"
    with run.started("--ps", "0", "--workers", "1", script=script, until="ready") as launcher:
        launcher.send_signal(how)
        launcher.communicate(timeout=DEADLINE_S)
        run.nothing_is_left()


def test_a_process_of_the_callers_is_left_alone(run):
    """A shell may have started it before it became this command."""
    command = 'sleep 1000 & echo $!; exec "$@"'
    words = ["sh", "-c", command, "sh", *run.words("--ps", "0", script=FAMILY)]
    with process(words, run.folder, run.environment) as launcher:
        others = int(launcher.stdout.readline())
        run.wait_for_files("ready*")
        [worker] = run.guards().values()
        kill(worker)
        assert launcher.wait(DEADLINE_S) == -signal.SIGKILL
        wait_until(lambda: list(run.processes()) == [others], START_S, "the end of all but the others")
        kill(others)


def test_no_zombie_while_it_runs_and_none_after(run):
    script = SERVE + "test -e again || { touch again; setsid sleep 1000 & exit 7; }; touch ready; sleep 1000"
    words = run.words("--ps", "0", "--workers", "1", "--restarts", "1", script=script)
    with process(words, run.folder, run.environment) as launcher:
        run.wait_for_files("ready")
        assert [stat_of(pid)[0] for pid in run.processes()].count("Z") == 0
        launcher.send_signal(signal.SIGTERM)
        assert launcher.wait(DEADLINE_S) == 143


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -SEGV $$", 139), ("kill -9 $$", 137)]
)
def test_exit_codes_are_those_of_the_work(run, script, code):
    assert run("--ps", "0", script=script).status == code


def test_the_launcher_stops_and_continues_with_its_terminal(run):
    """Ctrl-Z reaches the guard alone."""
    script = "while :; do echo more; sleep 0.01; done"
    with process(run.words("--ps", "0", script=script), run.folder, run.environment) as launcher:
        launcher.stdout.readline()
        [worker] = run.guards().values()
        launcher.send_signal(signal.SIGTSTP)
        wait_until(lambda: stat_of(worker)[0] == stat_of(launcher.pid)[0] == "T", START_S, "both are stopped")
        launcher.send_signal(signal.SIGCONT)
        wait_until(lambda: stat_of(worker)[0] != "T", START_S, "the worker goes on")
        launcher.send_signal(signal.SIGTERM)
        launcher.communicate(timeout=DEADLINE_S)
    assert launcher.returncode == 143


SPLIT = """
import time
from fusewire.launch import guard, run
begun = time.monotonic()
guard.split()
print(time.monotonic() - begun)
"""


def test_two_processes_start_as_fast_as_one(tmp_path):
    """A fork of the launcher takes a few milliseconds of more than a hundred."""
    took = [float(run_to_end([sys.executable, "-c", SPLIT], tmp_path).ok()) for _ in range(9)]
    print(f"{1000 * min(took):.1f} ms")
    assert min(took) < 0.03
