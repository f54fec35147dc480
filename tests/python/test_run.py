# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""`fusewire run` with shell commands as tasks: what it starts, prints, passes on, and leaves behind (nothing)."""

import contextlib
import json
import os
import pathlib
import pty
import re
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator

import pytest
from conftest import DEADLINE_S, FUSEWIRE, Done, clean_environment, process, run_to_end
from lab import Host, why_not
from processes import wait_until

from fusewire import machine
from fusewire.launch.job import pause_s
from fusewire.launch.plan import Shape, free_ports

pytestmark = pytest.mark.once
HOST = machine.loopback()
START_S = 30.0
MARK = "RUN_TEST_MARK"  # in the environment of every process that a test starts


class Runner:
    """Runs the command with a shell script as its program, and checks that no process is left behind."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.mark = uuid.uuid4().hex
        self.environment = clean_environment(**{MARK: self.mark})

    def words(self, *options: str, script: str) -> list[object]:
        return [FUSEWIRE, "run", *options, "--", "sh", "-c", script]

    def __call__(self, *options: str, script: str) -> Done:
        return run_to_end(self.words(*options, script=script), self.folder, self.environment)

    @contextlib.contextmanager
    def started(self, *options: str, script: str, until: str) -> Iterator["subprocess.Popen[str]"]:
        """Waits until each task has created a file with this prefix."""
        tasks = sum(int(options[options.index(name) + 1]) for name in ("--ps", "--workers"))
        with process(self.words(*options, script=script), self.folder, self.environment) as launcher:
            self.wait_for_files(f"{until}*", tasks)
            yield launcher

    def wait_for_files(self, pattern: str, count: int = 1) -> None:
        wait_until(lambda: len(list(self.folder.glob(pattern))) >= count, START_S, f"{count} files {pattern}")

    def processes(self) -> dict[int, str]:
        """{pid: command line} of processes with our mark in their environment."""
        found = {}
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"{MARK}={self.mark}".encode() in (folder / "environ").read_bytes():
                    found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        return found

    def survivors(self) -> list[str]:
        return list(self.processes().values())

    def nothing_is_left(self) -> None:
        wait_until(lambda: not self.survivors(), START_S, lambda: f"still there: {self.survivors()}")


@pytest.fixture
def run(tmp_path: pathlib.Path) -> Iterator[Runner]:
    runner = Runner(tmp_path)
    yield runner
    assert runner.survivors() == []


def configs(done: Done) -> dict[str, dict[str, object]]:
    """{label: TF_CONFIG} of the tasks, which print it."""
    lines = [line.partition("|") for line in done.ok().splitlines()]
    return {label.strip(): json.loads(text) for label, _, text in lines}


SHOW = 'echo "$TF_CONFIG"'
# A ps serves for ever; what other tasks do follows.
SERVE = 'case "$TF_CONFIG" in *\'"type": "ps"\'*) exec sleep 1000 ;; esac; '


def test_every_task_gets_its_place(run):
    found = configs(run("--ps", "2", "--workers", "2", "--chief", "--evaluator", script=SHOW + "; sleep 1"))
    assert set(found) == {"ps:0", "ps:1", "chief", "worker:0", "worker:1", "evaluator"}
    cluster = found["chief"]["cluster"]
    assert {job: len(tasks) for job, tasks in cluster.items()} == {"ps": 2, "chief": 1, "worker": 2}
    addresses = [address for tasks in cluster.values() for address in tasks]
    assert len(set(addresses)) == 5
    assert all(re.fullmatch(rf"{HOST}:\d+", address) for address in addresses)
    for label, config in found.items():
        job, _, index = label.partition(":")
        assert config == {"cluster": cluster, "task": {"type": job, "index": int(index or 0)}}


def test_ranks_get_their_places(run):
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    show = " ".join(f"${name}" for name in (*names, "FUSEWIRE_RANK", "FUSEWIRE_RANK_ADDRESSES"))
    run.environment |= {"RANK": "7", "MASTER_PORT": "1"}  # of a launcher around this one
    base = 20000 + os.getpid() % 10000
    out = run("--ranks", "2", "--port-base", str(base), script=f"echo {show}").ok().splitlines()
    addresses = f"{HOST}:{base},{HOST}:{base + 1}"
    for rank, line in enumerate(sorted(out)):
        assert line == f"rank:{rank} | {rank} 2 {rank} 2 {HOST} {base + 2} {rank} {addresses}"


def test_protocol_reaches_the_task(run):
    done = run("--ps", "0", "--protocol", "grpc++", script='echo "$TF_CONFIG"; echo "\\"$FUSEWIRE_PROTOCOL\\""')
    [first, second] = [json.loads(line.partition("|")[2]) for line in done.ok().splitlines()]
    assert (first["rpc_layer"], second) == ("grpc++", "grpc++")


def test_protocol_of_the_environment_is_the_default(run):
    run.environment["FUSEWIRE_PROTOCOL"] = "grpc++"
    assert configs(run("--ps", "0", script=SHOW))["worker:0"]["rpc_layer"] == "grpc++"


def test_lines_are_whole(run):
    word = "x" * 40
    script = f"for i in $(seq 300); do printf '{word}'; printf ' {word}\\n'; done"
    out = run("--ps", "0", "--workers", "3", script=script).ok().splitlines()
    assert sorted(out) == sorted(f"worker:{index} | {word} {word}" for index in range(3) for _ in range(300))


def test_labels_stand_in_a_column(run):
    out = run("--ps", "0", "--workers", "1", "--evaluator", script="echo hello").ok()
    assert sorted(out.splitlines()) == ["evaluator | hello", "worker:0  | hello"]


def test_streams_stay_apart_and_bytes_stay_bytes(run):
    command = run.words("--ps", "0", script="printf '\\377\\n'; echo low >&2; printf 'no end'")
    done = subprocess.run(command, env=run.environment, capture_output=True, timeout=DEADLINE_S, check=True)
    assert done.stdout == b"worker:0 | \xff\nworker:0 | no end\n"
    assert b"worker:0 | low\n" in done.stderr


def test_a_progress_bar_shows_where_it_ended(run):
    assert run("--ps", "0", script="printf '10%%\\r50%%\\r100%%\\r\\n'").ok() == "worker:0 | 100%\n"


def test_a_line_without_end_is_shown_in_pieces(run):
    out = run("--ps", "0", script="head -c 200000 /dev/zero | tr '\\0' y").ok()
    assert out.count("y") == 200000
    assert out.count("worker:0 | ") == out.count("\n") > 1


def test_nothing_is_lost_where_python_does_not_buffer(run):
    """Every ending task interrupts a write of another task's output."""
    run.environment["PYTHONUNBUFFERED"] = "1"
    script = "head -c 300000 /dev/zero | tr '\\0' y"
    for _ in range(5):
        assert run("--ps", "0", "--workers", "4", script=script).ok().count("y") == 1200000


def test_ps_is_ended_when_the_workers_are_done(run):
    done = run("--ps", "2", "--workers", "2", script=SERVE + "echo worked")
    assert done.ok().count("worked") == 2
    assert "done in" in done.error


def test_failure_ends_the_others_and_comes_last(run):
    script = (
        SERVE + 'case "$TF_CONFIG" in *\'"index": 1}\'*) echo about to; echo why >&2; exit 7 ;; esac; exec sleep 1000'
    )
    done = run("--ps", "1", "--workers", "3", script=script)
    assert done.status == 7
    *_, heading, first, second, last = done.error.splitlines()
    assert heading == "fusewire run: the last lines of worker:1:"
    assert sorted([first, second]) == ["    about to", "    why"]
    assert re.fullmatch(
        r"fusewire run: worker:1 failed first: exit code 7 after \d+\.\d s \(see: fusewire explain \S+\)", last
    )


def test_ps_that_fails_is_a_failure_too(run):
    script = 'case "$TF_CONFIG" in *\'"type": "ps"\'*) exit 3 ;; esac; exec sleep 1000'
    done = run("--ps", "1", "--workers", "1", script=script)
    assert (done.status, "ps:0 failed first: exit code 3" in done.error) == (3, True)


@pytest.mark.parametrize(("name", "code"), [("SEGV", 139), ("KILL", 137), ("ABRT", 134)])
def test_task_that_is_ended_by_a_signal(run, name, code):
    done = run("--ps", "0", script=f"kill -{name} $$")
    assert done.status == code
    assert f"(SIG{name})" in done.error.splitlines()[-1]


def test_timeout(run):
    done = run("--ps", "1", "--workers", "1", "--timeout", "0.5", script=SERVE + "echo waiting for it; exec sleep 1000")
    assert done.status == 124
    assert "still running: ps:0, worker:0" in done.error
    assert "    waiting for it\n" in done.error
    assert "Fix: raise --timeout" in done.error.splitlines()[-1]


# Each task leaves these running: a child, and a child that has left its group.
FAMILY = "sleep 1000 & setsid sleep 1000 & "


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signal_ends_the_whole_tree(run, number, code):
    script = FAMILY + "touch ready$$; wait"
    with run.started("--ps", "1", "--workers", "2", script=script, until="ready") as launcher:
        assert len(run.survivors()) >= 10
        launcher.send_signal(number)
        _, error = launcher.communicate(timeout=DEADLINE_S)
    assert launcher.returncode == code
    assert f"ended by {number.name}" in error.splitlines()[-1]
    run.nothing_is_left()


def test_signal_is_passed_on(run):
    script = 'trap "echo had time; exit 0" TERM; touch ready$$; while :; do sleep 0.1; done'
    with run.started("--ps", "0", "--workers", "1", script=script, until="ready") as launcher:
        launcher.send_signal(signal.SIGTERM)
        out, _ = launcher.communicate(timeout=DEADLINE_S)
    assert "worker:0 | had time" in out


def test_second_signal_kills(run):
    script = 'trap "touch heard$$" TERM; touch ready$$; while :; do sleep 0.1; done'
    with run.started("--ps", "0", "--workers", "2", "--grace", "1000", script=script, until="ready") as launcher:
        launcher.send_signal(signal.SIGTERM)
        run.wait_for_files("heard*", 2)
        assert launcher.poll() is None
        launcher.send_signal(signal.SIGTERM)
        launcher.communicate(timeout=DEADLINE_S)
    assert launcher.returncode == 143


def test_a_task_that_does_not_end_when_asked_is_killed(run):
    script = SERVE + "exit 0"
    stubborn = 'trap "" TERM; ' + script.replace("exec sleep 1000", "while :; do sleep 0.1; done")
    begun = time.monotonic()
    run("--ps", "1", "--workers", "1", "--grace", "0.5", script=stubborn).ok()
    assert time.monotonic() - begun < 30


def test_tasks_die_with_the_launcher(run):
    script = 'trap "" TERM HUP; touch ready$$; while :; do sleep 0.1; done'
    with run.started("--ps", "1", "--workers", "1", script=script, until="ready") as launcher:
        launcher.kill()
        launcher.wait(timeout=DEADLINE_S)
        run.nothing_is_left()


def test_what_a_task_leaves_behind_is_ended(run):
    assert run("--ps", "0", script="setsid sleep 1000 & echo gone").ok() == "worker:0 | gone\n"


def test_reader_that_goes_away(run):
    command = run.words("--ps", "1", "--workers", "1", script="while :; do echo more; done")
    with process(command, run.folder, run.environment) as launcher:
        assert "more" in launcher.stdout.readline()
        launcher.stdout.close()
        assert launcher.wait(timeout=DEADLINE_S) == 141
        assert "Traceback" not in launcher.stderr.read()


def test_colours_on_a_terminal_only(run):
    master, slave = pty.openpty()
    command = run.words("--ps", "0", "--workers", "2", script="echo hello")
    with subprocess.Popen(command, env={**run.environment, "TERM": "xterm"}, stdout=slave, stderr=slave) as launcher:
        assert launcher.wait(timeout=DEADLINE_S) == 0
    os.close(slave)
    shown = b""
    while select.select([master], [], [], 0)[0]:
        try:
            shown += os.read(master, 65536)
        except OSError:  # the other end is closed, and all is read
            break
    os.close(master)
    labels = set(re.findall(rb"\033\[\d+mworker:\d \|\033\[0m hello", shown))
    assert len({label[: label.index(b"w")] for label in labels}) == 2  # each its own colour
    assert "\033" not in run("--ps", "0", script="echo hello").ok()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "no program is given. Fix: "),
        (["--"], "no program is given. Fix: "),
        (["--ps", "0", "--workers", "0", "true"], "the cluster has no tasks. Fix: "),
        (["absent.py"], "there is no file absent.py. Fix: "),
        (["absent-command"], "no command absent-command. Fix: "),
        (["python3", "-u"], "python3 -u: no program is given. Fix: "),
        (["--ps", "-1", "true"], "-1 is negative"),
        (["--timeout", "0", "true"], "more than 0"),
        (["--protocol", "grpc+-", "true"], "invalid choice"),
        (["--ranks", "2", "--restarts", "1", "true"], "does not take back a rank that has died. Fix: "),
        (["--snapshots", "s", "true"], "--snapshots without --restarts: a parameter server that has failed would not"),
        (["--snapshot-every", "3", "true"], "--snapshot-every without --snapshots. Fix: "),
        (["--ranks", "2", "--snapshots", "s", "true"], "--ranks with --snapshots: ranks hold no variables"),
        (["--log-dir", "/dev/null/logs", "true"], "--log-dir /dev/null/logs can't be used: "),
        (["--hosts", "a", "--hostfile", "b", "true"], "--hosts with --hostfile: both name the hosts. Fix: "),
        (["--ranks", "2", "--ps", "3", "true"], "--ranks with --ps: a group has ranks alone. Fix: "),
        (["--chief", "--ranks", "2", "true"], "--ranks with --chief: a group has ranks alone. Fix: "),
        (["--ranks", "2", "--protocol", "grpc++", "true"], "--ranks with --protocol: a group has ranks alone. Fix: "),
        (["--python", "python3", "true"], "--python has no effect without --hosts. Fix: leave it out, or add --hosts"),
        (["--meet", "a", "true"], "--meet has no effect without --inside. Fix: "),
        (["--host-timeout", "3", "true"], "--host-timeout has no effect without --hosts. Fix: "),
        (["--ps", "two", "true"], "'two' is not a whole number"),
        (["--timeout", "soon", "true"], "'soon' is not a number of seconds"),
        (["--ps", "2", "--ps-processes", "3", "true"], "more parameter servers: --ps 12"),
        (["--wrokers", "2", "true"], "unknown: --wrokers (did you mean --workers?)"),
        (["--log-dri=x", "true"], "unknown: --log-dri=x (did you mean --log-dir?)"),
        (["--protocol", "grpc+", "true"], "(did you mean grpc++?)"),
        (["--hosts", "-oProxyCommand=x", "true"], "expected one argument"),
        (["--hosts=-oProxyCommand=x", "true"], "'-oProxyCommand=x' is not a host. Fix: "),
        (["--env", "ABSENT", "true"], "--env ABSENT: this variable is not set here. Fix: "),
        (["--port-base", "70000", "true"], "70000 is not a port"),
    ],
)
def test_what_cannot_be_run(fusewire_command, words, told):
    done = fusewire_command("run", *words)
    assert done.status == 2
    assert told in done.error


@pytest.mark.parametrize("words", [["--protocol", "grpc++"], ["--protocol=grpc++"]])
def test_a_protocol_behind_the_program_is_said_to_be_the_programs(fusewire_command, words):
    told = (
        "--protocol grpc++ is given to the program. Fix: if it is meant for this command, it comes before the program"
    )
    assert told in fusewire_command("run", "true", *words).error
    assert told not in fusewire_command("run", "true", *words, FUSEWIRE_PROTOCOL="grpc++").error
    done = fusewire_command("run", "true", "--protocol", "tcp")
    assert "is given to the program" not in done.error
    assert "1 ps, 1 worker over the protocol of the program (--protocol names another), on this machine" in done.error


def test_a_mistyped_command_is_told(fusewire_command):
    done = fusewire_command("rnu", "true")
    assert done.status == 2
    assert "(did you mean run?)" in done.error


def test_program_that_cannot_be_started(run):
    program = run.folder / "program"
    program.write_bytes(b"\x7fELF no program")
    program.chmod(0o755)
    done = run_to_end([FUSEWIRE, "run", "--workers", "2", program], run.folder, run.environment)
    assert done.status == 126
    assert f"{program} can't be started: [Errno 8]" in done.error


def test_misspelt_setting_is_named(fusewire_command):
    done = fusewire_command("run", "--ps", "0", "true", FUSEWIRE_PEER_TIMEOUTS="3")
    assert "FUSEWIRE_PEER_TIMEOUTS (did you mean FUSEWIRE_PEER_TIMEOUT?)" in done.error


def test_ports_are_held_and_can_be_served_at():
    with free_ports(2) as ports:
        with pytest.raises(OSError, match="in use"), socket.socket() as stranger:
            stranger.bind((HOST, ports[0]))
        with socket.socket() as server, socket.socket() as client:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind((HOST, ports[1]))
            server.listen()
            client.connect((HOST, ports[1]))


def test_shape_in_words():
    assert str(Shape(2, 1, True, True)) == "2 ps, a chief, 1 worker, an evaluator"
    assert str(Shape(0, 2)) == "2 workers"


# In a network of two ports, one of which somebody has at another address: gRPC's servers listen at every address.
TWO_PORTS = """
import pathlib, socket
pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").write_text("40000 40001")
from fusewire.launch.plan import free_ports
with socket.socket() as other:
    other.bind(("127.0.0.2", 40001))
    for _ in range(20):
        with free_ports(1) as ports, socket.socket() as server:
            assert ports == [40000], ports
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(("", ports[0]))
"""


def test_ports_are_free_at_every_address(tmp_path):
    if reason := why_not():
        pytest.skip(reason)
    host = Host()
    try:
        run_to_end(host.words(sys.executable, "-c", TWO_PORTS), tmp_path).ok()
    finally:
        host.kill()


# Fails until it has been started often enough; the count is in a file.
FAIL_UNTIL = (
    'echo x >>count$NAME; test $(wc -l <count$NAME) -gt $TIMES || { echo "fails"; kill -SEGV $$; }; echo worked'
)


def test_a_task_that_dies_is_started_again(run):
    script = SERVE + f"NAME=w TIMES=2; {FAIL_UNTIL}"
    done = run("--ps", "1", "--workers", "1", "--restarts", "3", "--log-dir", "logs", script=script)
    assert done.ok().splitlines() == ["worker:0 | fails", "worker:0 | fails", "worker:0 | worked"]
    how = r"worker:0 failed: ended by signal 11 \(SIGSEGV\) after \d\.\d s"
    said = how + "; starting it again in {} s, for the {} of 3 times"
    assert re.search(said.format("0.5", "1st"), done.error)
    assert re.search(said.format("1", "2nd"), done.error)
    *_, of_ps, of_worker, last = done.error.splitlines()
    assert re.fullmatch(r"fusewire run: ps:0     ended when asked, after .* s, logs/ps-0.log", of_ps)
    assert re.fullmatch(r"fusewire run: worker:0 exit code 0 .*, started 3 times, logs/worker-0.2.log", of_worker)
    assert "done in" in last
    logs = {path.name: path.read_text() for path in (run.folder / "logs").iterdir()}
    fails = {"worker-0.log": "fails\n", "worker-0.1.log": "fails\n"}
    assert logs == {"ps-0.log": "", **fails, "worker-0.2.log": "worked\n"}


def test_a_server_that_dies_is_started_again_where_it_was(run):
    """The worker waits for the second start of the server, which has the same address and is ended at the end."""
    script = (
        'case "$TF_CONFIG" in *\'"type": "ps"\'*) echo "$TF_CONFIG" >>ps; test $(wc -l <ps) -gt 1 || exit 9; '
        "exec sleep 1000 ;; esac; until test $(wc -l <ps) -gt 1; do sleep 0.05; done"
    )
    done = run("--ps", "1", "--workers", "1", "--restarts", "1", script=script)
    done.ok()
    [first, second] = (run.folder / "ps").read_text().splitlines()
    assert first == second
    assert "ps:0 failed: exit code 9" in done.error


def test_the_only_task_is_started_again(run):
    done = run("--ps", "0", "--restarts", "1", script="test -e again && echo worked || { touch again; exit 5; }")
    assert done.ok() == "worker:0 | worked\n"


def test_a_task_that_dies_too_often_is_a_failure(run):
    script = SERVE + "exit 5"
    done = run("--ps", "1", "--workers", "1", "--restarts", "1", script=script)
    assert done.status == 5
    assert "worker:0 failed: exit code 5 after 0.0 s, after 2 starts; ending the others" in done.error
    assert "worker:0 failed first: exit code 5" in done.error.splitlines()[-1]


def test_a_signal_ends_a_task_that_waits_for_its_restart(run):
    script = SERVE + "touch ready$$; test -e again || { touch again; exit 5; }; touch ready-again$$; exit 5"
    with process(run.words("--ps", "1", "--restarts", "9", script=script), run.folder, run.environment) as launcher:
        run.wait_for_files("ready-again*")
        launcher.send_signal(signal.SIGTERM)
        launcher.communicate(timeout=DEADLINE_S)
    assert launcher.returncode == 143


def test_pauses_grow():
    pauses = [pause_s(starts, 1.0) for starts in range(1, 10)]
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    assert pause_s(9, 3600.0) == 0.5


def test_logs_of_an_earlier_run_are_removed_and_nothing_else(run):
    folder = run.folder / "logs"
    folder.mkdir()
    for name in ("worker-3.2.log", "ps-0.log", "mine.log", "worker-0.log.old"):
        (folder / name).write_text("old")
    run("--ps", "0", "--log-dir", "logs", script="printf 'a\\nb'; echo c >&2").ok()
    assert {path.name for path in folder.iterdir()} == {"worker-0.log", "mine.log", "worker-0.log.old"}
    assert sorted((folder / "worker-0.log").read_text().splitlines()) == ["a", "b", "c"]


def test_a_disk_that_is_full_is_said_once(run):
    """The folder of the logs is a file system of one page."""
    (run.folder / "logs").mkdir()
    inner = " ".join(shlex.quote(str(word)) for word in run.words("--ps", "0", "--log-dir", "logs", script="seq 9999"))
    script = f"mount -t tmpfs -o size=4k tmpfs logs && exec {inner}"
    if run_to_end(["unshare", "--mount", "true"], run.folder).status != 0:
        pytest.skip("only root may mount a file system")
    done = run_to_end(["unshare", "--mount", "sh", "-c", script], run.folder, run.environment)
    assert len(done.ok().splitlines()) == 9999
    assert done.error.count("logs/worker-0.log can't be written: No space left on device. Fix: ") == 1


def test_a_secret_for_each_run_unless_there_is_one(run):
    show = 'echo "${FUSEWIRE_SECRET-unset}"'
    made = [run("--ps", "0", "--workers", "2", script=show).ok().split() for _ in range(2)]
    values = {words[2] for words in made} | {words[5] for words in made}
    assert len(values) == 2
    assert all(re.fullmatch("[0-9a-f]{64}", value) for value in values)
    run.environment["FUSEWIRE_SECRET"] = "mine, mine, mine"
    assert run("--ps", "0", script=show).ok() == "worker:0 | mine, mine, mine\n"
    run.environment["FUSEWIRE_SECRET"] = ""
    assert run("--ps", "0", script=show).ok() == "worker:0 | \n"


def test_variables_and_ports_that_are_given(run):
    run.environment["MINE"] = "here"
    base = 20000 + os.getpid() % 10000
    options = ["--ps", "1", "--workers", "1", "--env", "MINE=there", "--env", "OTHER=", "--port-base", str(base)]
    done = run(*options, script=f'{SHOW}; echo "$MINE,${{OTHER-unset}}" >&2; sleep 1')
    cluster = configs(done)["worker:0"]["cluster"]
    assert cluster == {"ps": [f"{HOST}:{base}"], "worker": [f"{HOST}:{base + 1}"]}
    assert done.error.count("| there,\n") == 2
