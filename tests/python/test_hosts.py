# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""`fusewire run --hosts`: three hosts with an sshd each, as network namespaces (hosts.py)."""

import contextlib
import json
import os
import pathlib
import re
import signal
import time
import uuid

import pytest
from conftest import DEADLINE_S, FUSEWIRE, clean_environment, process, run_to_end
from hosts import Network, network
from processes import wait_until
from test_run import MARK, SERVE, SHOW, Runner, configs

import fusewire

pytestmark = pytest.mark.once
__all__ = ["network"]  # a fixture
HOST_TIMEOUT_S = "6"


class HostsRunner(Runner):
    """Runs the command on the launcher's machine of a network."""

    def __init__(self, folder: pathlib.Path, network: Network):
        super().__init__(folder)
        self.network = network
        self.where = ["--hosts", network.names]

    def words(self, *options: str, script: str) -> list[object]:
        return self.network.command(*self.where, "--env", MARK, *options, "--", "sh", "-c", script)


@pytest.fixture
def run(tmp_path, network):
    runner = HostsRunner(tmp_path, network)
    yield runner
    runner.nothing_is_left()


# Trains for a few steps; says at the end what went over the data ports, and whether they ask for a secret.
TRAIN = """
import json, os, time
import fusewire
import tensorflow as tf
tf1 = tf.compat.v1
tf1.disable_eager_execution()
config = json.loads(os.environ["TF_CONFIG"])
cluster, job, index = config["cluster"], config["task"]["type"], config["task"]["index"]
server = tf1.train.Server(cluster, job_name=job, task_index=index)
if job == "ps":
    server.join()
with tf1.device(tf1.train.replica_device_setter(cluster=cluster, worker_device=f"/job:worker/task:{index}")):
    weights = tf1.get_variable("weights", [1000], initializer=tf1.zeros_initializer())
    loss = tf.reduce_mean(tf.square(weights - 1.0))
    step = tf1.train.get_or_create_global_step()
    train = tf1.train.GradientDescentOptimizer(100.0).minimize(loss, global_step=step)
    unknown = tf1.report_uninitialized_variables()
filters = tf1.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{index}"])  # waits for no other worker
with tf1.Session(server.target, config=filters) as session:
    if index == 0:
        session.run(tf1.global_variables_initializer())
    while session.run(unknown).size:
        time.sleep(0.05)
    for _ in range(20):
        lost = session.run([loss, train])[0]
calls, secret = fusewire.stats()["calls_out"], len(os.environ.get("FUSEWIRE_SECRET", ""))
print(json.dumps({"worker": index, "lost": float(lost), "calls": calls, "secret": secret}), flush=True)
os._exit(0)
"""


def test_a_cluster_trains_on_three_hosts(network, tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    options = ["--hosts", network.names, "--ps", "1", "--workers", "2", "--protocol", "star_server", "--timeout", "60"]
    done = run_to_end(network.command(*options, "train.py"), tmp_path, clean_environment(CUDA_VISIBLE_DEVICES=""))
    said = [json.loads(line.partition(" | ")[2]) for line in done.ok().splitlines()]
    assert sorted(one["worker"] for one in said) == [0, 1]
    assert all(one["lost"] < 0.5 and one["calls"] > 0 and one["secret"] == 64 for one in said)
    for address, task in zip(network.addresses, ("ps:0", "worker:0", "worker:1"), strict=True):
        assert f"fusewire run: {address}: {task}\n" in done.error


def task_of(job: str, index: int, secret: str) -> int:
    """The process of this task on its host."""
    wanted = f'"task": {{"type": "{job}", "index": {index}}}'
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            environment = (folder / "environ").read_bytes().decode(errors="replace")
            if secret in environment and wanted in environment and b"train.py" in (folder / "cmdline").read_bytes():
                return int(folder.name)
    raise AssertionError(f"{job}:{index} has no process")


def test_a_job_of_three_hosts_is_examined_while_it_runs(network, tmp_path):
    """doctor --cluster, top, why and trace on the launcher's machine; then one task is stopped."""
    forever = TRAIN.replace("for _ in range(20):", "while True:")
    assert forever != TRAIN
    (tmp_path / "train.py").write_text(forever)
    secret = "hush" + uuid.uuid4().hex
    environment = clean_environment(CUDA_VISIBLE_DEVICES="", FUSEWIRE_SECRET=secret)
    status = [f"{address}:9477" for address in network.addresses]

    def ask(*words: object) -> tuple[int, str]:
        done = run_to_end(network.launcher.words(FUSEWIRE, *words), tmp_path, environment)
        assert done.status in (0, 1), done.error
        return done.status, done.out

    def until(looks_right, *words: object):
        said = {}

        def is_right():
            said.update(json.loads(ask(*words)[1]))
            return looks_right(said)

        wait_until(is_right, 60, lambda: json.dumps(said, indent=1))
        return said

    options = ["--hosts", network.names, "--ps", "2", "--workers", "1", "--port-base", "7000"]
    options += ["--protocol", "star_server", "--env", "FUSEWIRE_STATUS=0.0.0.0:9477", "train.py"]
    with process(network.command(*options), tmp_path, environment):
        doctor = ["doctor", "--cluster", f"{network.addresses[0]}:7000", "--json"]
        report = until(lambda said: said["ok"] and len(said["ways"]) == 6, *doctor)
        assert {peer["task"]: peer["address"] for peer in report["peers"]} == {
            task: f"{address}:7000"
            for task, address in zip(("ps:0", "ps:1", "worker:0"), network.addresses, strict=True)
        }
        assert {way["wire"] for way in report["ways"]} == {"tcp"}

        def steps(said):
            [cluster] = said["clusters"]
            return any(task["task"] == "worker:0" and task["steps_per_s"] > 0 for task in cluster["tasks"])

        until(steps, "top", "--json", *status)
        assert ask("trace", "--seconds", "1", "-o", "trace.json", *status)[0] == 0
        events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
        named = {event["args"]["name"] for event in events if event["name"] == "process_name"}
        assert {name.split()[0] for name in named} == {"ps:0", "ps:1", "worker:0"}

        stopped = task_of("ps", 1, secret)
        os.kill(stopped, signal.SIGSTOP)
        try:
            verdict = until(lambda said: said["clusters"][0]["task"] == "ps:1", "why", "--json", *status)
            assert verdict["clusters"][0]["stands"]
            report = json.loads(ask(*doctor)[1])
            assert {peer["task"] or peer["address"]: peer["state"] for peer in report["peers"]} == {
                "ps:0": "ok",
                f"{network.addresses[1]}:7000": "silent",
                "worker:0": "ok",
            }
        finally:
            os.kill(stopped, signal.SIGCONT)


def test_tasks_are_spread_and_know_each_others_addresses(run, network):
    done = run(
        "--ps", "2", "--workers", "3", "--evaluator", script=f'{SHOW}; pwd >&2; sleep 1; test -n "$FUSEWIRE_SECRET"'
    )
    found = configs(done)
    hosts_of = {
        job: [address.partition(":")[0] for address in tasks] for job, tasks in found["worker:0"]["cluster"].items()
    }
    one, two, three = network.addresses
    assert hosts_of == {"ps": [one, two], "worker": [three, one, two]}
    assert all(config["cluster"] == found["worker:0"]["cluster"] for config in found.values())
    assert done.error.count(f"| {run.folder}\n") == 6


def test_hostfile_slots_and_ports(run, network):
    one, two, _ = network.addresses
    file = run.folder / "hostfile"
    file.write_text(f"# two hosts\n{one} slots=3\nroot@{two} address=other.example # another name\n")
    run.where = ["--hostfile", str(file)]
    found = configs(run("--ps", "1", "--workers", "3", "--port-base", "7000", script=SHOW + "; sleep 1"))
    assert found["worker:0"]["cluster"] == {
        "ps": [f"{one}:7000"],
        "worker": [f"{one}:7001", f"{one}:7002", "other.example:7000"],
    }


def test_hosts_with_ipv6_addresses(run, network):
    if not pathlib.Path("/proc/net/if_inet6").exists():
        pytest.skip("this machine has no IPv6")
    run.where = ["--hosts", ",".join(f"[{address}]:2" for address in network.addresses6)]
    found = configs(run("--ps", "1", "--workers", "1", "--port-base", "7000", script=SHOW + "; sleep 1"))
    one, two, _ = network.addresses6
    assert found["worker:0"]["cluster"] == {"ps": [f"[{one}]:7000"], "worker": [f"[{two}]:7000"]}


def test_ranks_know_their_hosts_and_where_they_meet(run, network):
    run.where = ["--hosts", f"{network.addresses[0]}:2,{network.addresses[1]}"]
    script = 'echo "$RANK $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR $MASTER_PORT"'
    lines = sorted(run("--ranks", "3", "--port-base", "7000", script=script).ok().splitlines())
    places = ["0 0 2", "1 1 2", "2 0 1"]
    assert lines == [f"rank:{rank} | {place} {network.addresses[0]} 7002" for rank, place in enumerate(places)]


@pytest.mark.slow
def test_ranks_of_three_hosts(network, tmp_path):
    (tmp_path / "rank.py").write_text(
        "import numpy as np\nimport fusewire.collective as fw\nfw.init()\n"
        "print(fw.rank(), fw.allreduce(np.ones(1000, np.float32), fw.Sum, timeout=30).sum(), flush=True)\n"
    )
    done = run_to_end(network.command("--hosts", network.names, "--ranks", "3", "rank.py"), tmp_path)
    assert sorted(done.ok().splitlines()) == [f"rank:{one} | {one} 3000.0" for one in range(3)]


def test_variables_go_along_and_the_secret_is_in_no_command_line(run):
    run.environment |= {"FUSEWIRE_SECRET": "hush" + uuid.uuid4().hex, "FUSEWIRE_LOG": "info", "MINE": "yes", "NOT": "1"}
    script = 'echo "$FUSEWIRE_SECRET $FUSEWIRE_LOG $MINE $OTHER $NOT."; mktemp readyXXXXXX >/dev/null; exec sleep 1000'
    options = ["--ps", "0", "--workers", "3", "--env", "MINE", "--env", "OTHER=a b"]
    with run.started(*options, script=script, until="ready") as launcher:
        told = [launcher.stdout.readline() for _ in range(3)]
        secret = run.environment["FUSEWIRE_SECRET"]
        assert sorted(told) == [f"worker:{index} | {secret} info yes a b .\n" for index in range(3)]
        lines = [path.read_bytes() for path in pathlib.Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
        assert any(b"fusewire.launch.agent" in line for line in lines)
        assert not any(secret.encode() in line for line in lines)
        launcher.send_signal(signal.SIGTERM)
        launcher.communicate(timeout=DEADLINE_S)
    assert launcher.returncode == 143


def test_exit_code_and_last_lines_of_another_host(run):
    fails = 'case "$TF_CONFIG" in *\'"index": 1}\'*) echo about to; echo why >&2; exit 7 ;; esac; exec sleep 1000'
    done = run("--ps", "1", "--workers", "2", script=SERVE + fails)
    assert done.status == 7
    *_, heading, first, second, last = done.error.splitlines()
    assert heading == "fusewire run: the last lines of worker:1:"
    assert sorted([first, second]) == ["    about to", "    why"]
    assert "worker:1 failed first: exit code 7" in last


@pytest.mark.slow
def test_much_output_of_all_hosts_is_whole(run):
    done = run("--ps", "0", "--workers", "3", script="seq 30000 | sed s/^/abcdefghijklmnopqrstuvwxyz/")
    assert len(set(done.ok().splitlines())) == 90000


def test_a_task_that_is_killed_on_its_host(run):
    with run.started(
        "--ps", "1", "--workers", "2", script="mktemp pidXXXXXX >/dev/null; exec sleep 1000", until="pid"
    ) as launcher:
        victim = next(pid for pid, words in run.processes().items() if words.startswith("sleep"))
        os.kill(victim, signal.SIGKILL)
        _, error = launcher.communicate(timeout=DEADLINE_S)
    assert launcher.returncode == 137
    assert "(SIGKILL)" in error.splitlines()[-1]


@pytest.mark.slow
def test_a_task_of_another_host_is_started_again(run):
    script = SERVE + 'test -e again || { touch again; kill -KILL $$; }; echo "$TF_CONFIG"'
    done = run("--ps", "1", "--workers", "1", "--restarts", "1", "--log-dir", "logs", script=script)
    assert "worker:0 failed: ended by signal 9 (SIGKILL)" in done.error
    assert (run.folder / "logs/worker-0.1.log").read_text() == done.ok().removeprefix("worker:0 | ")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_tasks_die_with_the_launcher(run, number, code):
    script = "sleep 1000 & setsid sleep 1000 & mktemp readyXXXXXX >/dev/null; wait"
    with run.started("--ps", "1", "--workers", "2", script=script, until="ready") as launcher:
        assert len(run.survivors()) >= 9
        launcher.send_signal(number)
        launcher.wait(timeout=DEADLINE_S)
        assert launcher.returncode == code
        run.nothing_is_left()


def test_a_connection_that_breaks(run, network):
    with run.started(
        "--ps", "1", "--workers", "2", script="mktemp readyXXXXXX >/dev/null; exec sleep 1000", until="ready"
    ) as launcher:
        [victim] = [pid for pid, words in run.processes().items() if words.startswith("ssh ") and ".4 exec" in words]
        os.kill(victim, signal.SIGKILL)
        _, error = launcher.communicate(timeout=DEADLINE_S)
        run.nothing_is_left()
    assert launcher.returncode == 255
    assert "worker:1 failed first: the host is lost: the connection has ended: " in error.splitlines()[-1]


@pytest.mark.slow
def test_a_cable_that_is_pulled(run, network):
    """Both ends give up: the launcher says which host is lost, and the tasks there die."""
    options = ["--ps", "1", "--workers", "2", "--host-timeout", HOST_TIMEOUT_S]
    with run.started(*options, script="mktemp readyXXXXXX >/dev/null; exec sleep 1000", until="ready") as launcher:
        network.cut(2)
        try:
            _, error = launcher.communicate(timeout=DEADLINE_S)
            run.nothing_is_left()
        finally:
            network.cut(2, False)
    assert launcher.returncode == 255
    assert re.search(r"worker:1 failed first: the host is lost: .* for 6 s. Fix: ", error.splitlines()[-1])


@pytest.mark.slow
def test_a_terminal_that_blocks_kills_nothing(run):
    """The launcher can't print for longer than the limit of silence."""
    options = ["--ps", "0", "--workers", "3", "--host-timeout", HOST_TIMEOUT_S]
    command = run.words(*options, script="seq 200000; echo end")
    with process(command, run.folder, run.environment) as launcher:
        assert launcher.stdout.readline()
        until = time.monotonic() + 2 * float(HOST_TIMEOUT_S)  # the terminal's pause, not a wait for something
        while time.monotonic() < until:
            time.sleep(0.1)
            assert launcher.poll() is None
        out, error = launcher.communicate(timeout=DEADLINE_S)
    assert (launcher.returncode, out.count("| end\n")) == (0, 3), error


@pytest.mark.parametrize(
    ("where", "options", "told"),
    [
        ("absent.example", [], r"host absent.example: .*resolve.*Fix: check the name"),
        ("{0},10.77.0.99", ["--host-timeout", "2"], r"host 10.77.0.99: .*Fix: check that the host is up"),
        ("{0}", ["--ssh", "{ssh:1}"], r"host {0}: .*Connection refused. Fix: start sshd"),
        ("{0}", ["--ssh", "ssh -F none -p 4022 -o StrictHostKeyChecking=yes"], r"host {0}: Host key verification"),
        ("absent@{0}", [], r"host {0}: .*Permission denied.*Fix: run `ssh-copy-id absent@{0}`"),
        ("{0}", ["--python", "/absent/python"], r"host {0}: there is no /absent/python there. Fix: .*--python"),
        ("{0}", ["--python", "/etc/passwd"], r"host {0}: /etc/passwd can't be executed there. Fix: "),
        ("{0}", ["--python", "/usr/bin/python3"], r"host {0}: /usr/bin/python3 has no fusewire .* there. Fix: install"),
        ("{0}", ["--python", "/bin/echo"], r"host {0}: ssh ended with exit code 0.*Fix: try"),
        ("{0}", ["--python", "{noise}"], r"host {0}: its agent sends invalid frames: .*begins with"),
        ("{0}", ["--port-base", "4022"], r"host {0}: port 4022 can't be reserved: .*Fix: choose another --port-base"),
        ("{0}", ["--ssh", "absent-ssh"], r"there is no command absent-ssh. Fix: apt-get install openssh-client"),
    ],
)
def test_hosts_that_cannot_be_used(network, tmp_path, where, options, told):
    one = network.addresses[0]
    noise = tmp_path / "noise"
    noise.write_text("#!/bin/sh\nwhile :; do echo noise; done\n")
    noise.chmod(0o755)
    options = [option.replace("{ssh:1}", network.ssh(1)).replace("{noise}", str(noise)) for option in options]
    done = run_to_end(network.command("--hosts", where.format(one), *options, "true"), tmp_path)
    assert done.status == 126, done.error
    assert re.search(told.format(one), done.error), done.error
    assert "Traceback" not in done.error


@contextlib.contextmanager
def other_files(host, source: str | pathlib.Path, place: pathlib.Path):
    """Mounts something else at a place of this host, and of no other."""
    how = ["-t", "tmpfs"] if source == "tmpfs" else ["--bind"]
    host.run("mount", *how, source, place)
    try:
        yield
    finally:
        host.run("umount", "--lazy", place)  # what ran there may still be ending


PACKAGE = pathlib.Path(fusewire.__file__).resolve().parent


@pytest.mark.parametrize("what", ["no program", "no folder", "another version"])
def test_hosts_that_have_something_else(network, tmp_path, what):
    folder = tmp_path / "of/program"
    folder.mkdir(parents=True)
    (folder / "train.py").write_text("")
    (tmp_path / "version.py").write_text("VERSION = '9.9.9'\n")
    source, place, told = {
        "no program": ("tmpfs", folder, "there is no file train.py. Fix: check its name and the working directory"),
        "no folder": ("tmpfs", folder.parent, f"the working directory {folder} can't be entered: No such file"),
        "another version": (tmp_path / "version.py", PACKAGE / "version.py", "fusewire 9.9.9 is installed there, but"),
    }[what]
    with other_files(network.hosts[1], source, place):
        done = run_to_end(network.command("--hosts", network.addresses[1], "--ps", "0", "train.py"), folder)
    assert done.status == 126
    assert f"host {network.addresses[1]}: {told}" in done.error


def test_a_host_whose_shell_greets(run, network):
    greets = pathlib.Path("~/.bashrc").expanduser()
    if not greets.exists():
        pytest.skip("the shell of this user reads no ~/.bashrc")
    (run.folder / "rc").write_text("echo welcome\n")
    run.where = ["--hosts", network.addresses[1]]
    with other_files(network.hosts[1], run.folder / "rc", greets):
        assert run("--ps", "0", script="echo trained").ok() == "worker:0 | trained\n"
