# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""`fusewire scale`: jobs whose parameter servers answer as real ones do, and move what is nothing but files."""

import contextlib
import json
import os
import pathlib
import random
import re
import signal
import socket
import stat
import threading

import pytest
from cluster import PROLOGUE
from conftest import FUSEWIRE, clean_environment, run_to_end
from fakes import SECRET
from processes import free_ports, process, wait_until

from fusewire.inspect import seeing
from fusewire.launch import control
from fusewire.launch.control import Control, ControlError
from fusewire.launch.loop import Loop
from fusewire.launch.scaling import shares

pytestmark = pytest.mark.once
FAKES = pathlib.Path(__file__).with_name("fakes.py")


# ---- who takes what ----


def test_a_further_process_takes_its_own_share():
    two = {"ps:0": list(range(0, 16, 2)), "ps:1": list(range(1, 16, 2))}
    assert shares(two, 4, {0, 1}) == [[2, 6, 10, 14], [3, 7, 11, 15]]
    assert shares({"ps:0": list(range(5))}, 2, {0}) == [[1, 3]]
    assert shares({"ps:0": list(range(4))}, 4, {0}) == [[1], [2], [3]]
    # After processes have left, tasks are anywhere.
    assert shares({"ps:0": [0, 2, 4, 6, 3, 7], "ps:1": [1, 5]}, 3, {0, 1}) == [[2, 3]]


@pytest.mark.parametrize("seed", range(200))
def test_shares_are_even(seed):
    rng = random.Random(seed)
    tasks, count = rng.randint(1, 40), rng.randint(1, 6)
    count = min(count, tasks)
    serves = {f"p{number}": [] for number in range(count)}
    for task in range(tasks):
        serves[rng.choice(list(serves))].append(task)
    wanted = rng.randint(count, tasks)
    names = set(rng.sample(range(tasks), count))
    found = shares(serves, wanted, names)
    taken = [task for share in found for task in share]
    assert len(found) == wanted - count
    assert len(set(taken)) == len(taken)
    assert all(tasks // wanted <= len(share) <= -(-tasks // wanted) for share in found)
    for own in serves.values():
        left = [task for task in own if task not in taken]
        assert len(left) >= min(len(own), tasks // wanted)


# ---- the socket ----


@pytest.fixture
def runtime(tmp_path, monkeypatch):
    """The folder of this user's sockets, with a name that is longer than a socket's may be."""
    folder = tmp_path / ("long" * 30)
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.setattr(seeing, "folders", lambda: [folder / "fusewire"])
    return folder


@pytest.fixture
def controlled(runtime):
    """controlled(take) -> the path of a socket whose requests `take` gets."""
    loop, ended = Loop(), threading.Event()
    opened = []

    def turn():
        while not ended.is_set():
            loop.turn(0.02)

    def start(take):
        opened.append(Control(loop, take))
        threading.Thread(target=turn, daemon=True).start()
        [path] = control.launchers()
        return path

    yield start
    ended.set()
    for each in opened:
        each.close()
    assert control.launchers() == []


def test_a_request_and_its_lines(controlled, monkeypatch):
    monkeypatch.setattr(control, "WAIT_S", 0.05)
    ended = threading.Event()

    def take(request):
        request.say("first \x1b[2J")
        threading.Thread(target=lambda: (ended.wait(20), request.done(f"did {' '.join(request.words)}"))).start()

    path = controlled(take)
    assert stat.S_IMODE(path.lstat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    said = []
    threading.Timer(0.3, ended.set).start()
    assert control.ask(path, "scale 4", said.append) == "did scale 4"
    assert said == [r"first \x1b[2J"]


def test_an_error_is_said(controlled):
    path = controlled(lambda request: request.fail("it is busy"))
    with pytest.raises(ControlError, match="it is busy"):
        control.ask(path, "scale 4")


def test_a_launcher_that_says_nothing(controlled, monkeypatch):
    path = controlled(lambda request: None)
    monkeypatch.setattr(control, "SILENCE_S", 0.2)
    with pytest.raises(ControlError, match=r"it has said nothing for 0\.2 s"):
        control.ask(path, "about")


@contextlib.contextmanager
def dialled(path):
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(20)
            line.connect(f"/proc/self/fd/{folder}/{path.name}")
            yield line
    finally:
        os.close(folder)


def test_another_user_is_not_heard(controlled, monkeypatch):
    path = controlled(lambda request: request.done("taken"))
    monkeypatch.setattr(control, "_user_of", lambda line: os.geteuid() + 1)
    with dialled(path) as line:
        assert is_closed(line)


def is_closed(line):
    try:
        return line.recv(100) == b""
    except ConnectionError:
        return True


def test_requests_have_an_end_in_bytes_and_time(controlled, monkeypatch):
    monkeypatch.setattr(control, "REQUEST_S", 0.3)
    path = controlled(lambda request: request.done("taken"))
    for sent in (b"scale 4", b"x" * 199 + b"y" * 50, b"x" * 300 + b"\n", b""):
        with dialled(path) as line:
            line.sendall(sent)
            assert is_closed(line)
    with contextlib.ExitStack() as stack:  # no more than so many at once
        lines = [stack.enter_context(dialled(path)) for _ in range(control.CONNECTIONS_MAX + 1)]
        assert is_closed(lines[-1])
    wait_until(lambda: control.ask(path, "about") == "taken", 10, "the others have ended")


def test_what_a_launcher_has_left_behind_is_removed(runtime, monkeypatch):
    folder = runtime / "fusewire"
    folder.mkdir(mode=0o700)
    monkeypatch.chdir(folder)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind("run-1.sock")
    (folder / "run-2.sock").write_text("no socket")
    [path] = control.launchers()
    with pytest.raises(FileNotFoundError):
        control.ask(path, "about")
    assert control.launchers() == []
    folder.chmod(0o755)  # others could have put something there
    with socket.socket(socket.AF_UNIX) as other:
        other.bind("run-3.sock")
        assert control.launchers() == []
        with pytest.raises(PermissionError):
            Control(Loop(), lambda request: None)


# ---- jobs ----


class JobUnderTest:
    def __init__(self, folder, started):
        self.folder, self.started = folder, started

    @property
    def errors(self):
        return (self.folder / "errors").read_text()

    @property
    def output(self):
        return (self.folder / "output").read_text()

    def wait_for(self, words, count=1):
        wait_until(lambda: len(re.findall(words, self.errors + self.output)) >= count, 30, lambda: self.errors)

    def scale(self, processes, *more):
        words = [FUSEWIRE, "scale", "--ps-processes", processes, *more]
        return run_to_end(words, self.folder, clean_environment(XDG_RUNTIME_DIR=str(self.folder / "runtime")))

    def owners(self):
        """{task: the process that serves it}"""
        return {path.name: path.read_text().split()[0] for path in (self.folder / "kept").glob("ps_?")}

    def end(self):
        (self.folder / "enough").touch()
        assert self.started.wait(30) == 0, self.errors


@pytest.fixture
def job(tmp_path):
    """job(*words, NAME=value...) -> JobUnderTest, whose processes serve."""
    (tmp_path / "runtime").mkdir(mode=0o700)
    (tmp_path / "kept").mkdir()
    with contextlib.ExitStack() as stack:

        def start(*words, processes=2, ps=4, **environment):
            given = clean_environment(XDG_RUNTIME_DIR=str(tmp_path / "runtime"), **environment)
            of_ps = ["--ps", ps, "--ps-processes", processes, "--snapshots", "kept", "--restarts", "2"]
            command = [FUSEWIRE, "run", *of_ps, *words, "--timeout", "60", FAKES]
            errors = stack.enter_context((tmp_path / "errors").open("w"))
            (tmp_path / "output").touch()
            shell = ["sh", "-c", 'exec "$@" >output', "sh", *command]
            started = stack.enter_context(process(shell, tmp_path, given, errors))
            made = JobUnderTest(tmp_path, started)
            made.wait_for(r"\| SERVES ps", processes)
            return made

        yield start


def test_a_job_grows_and_shrinks(job):
    own = job()
    assert len(set(own.owners().values())) == 2
    out = own.scale(4).ok().splitlines()
    assert out[0] == "ps:2 is started, and takes ps:2"
    assert out[1].startswith("ps:2 serves ps:2, after ")
    assert out[-1] == "4 processes: ps:0 serves ps:0; ps:1 serves ps:1; ps:2 serves ps:2; ps:3 serves ps:3"
    assert len(set(own.owners().values())) == 4
    out = own.scale(1).ok().splitlines()
    assert out[-1] == "1 process: ps:0 serves ps:0, ps:1, ps:2, ps:3"
    assert [line for line in out if "ended" in line] == [
        f"ps:{index} has ended: it serves nothing any more" for index in (3, 2, 1)
    ]
    assert len(set(own.owners().values())) == 1
    out = own.scale(2).ok().splitlines()
    assert out[-1] == "2 processes: ps:0 serves ps:0, ps:2; ps:1 serves ps:1, ps:3"
    assert own.scale(2).ok().splitlines() == [out[-1]]
    own.end()
    assert "failed" not in own.errors
    assert own.errors.count("has left the job: ") == 3


@pytest.mark.parametrize("drains", [[], ["--drain", "5"]])
def test_a_process_that_leaves_is_not_started_again(job, drains):
    own = job(*drains, processes=4)
    own.scale(3).ok()
    how = "exit code 0" if drains else r"ended by signal 15 \(SIGTERM\)"
    assert re.search(f"ps:3 has left the job: {how} after", own.errors)
    own.end()
    assert "starting it again" not in own.errors


def test_what_is_not_done_is_said(job):
    own = job("--log-dir", "logs", FAKE_STAYS="ps:2")
    assert "--ps-processes 5: the job has 4 parameter servers" in own.scale(5).error
    assert "--ps-processes 0: the job has 4" in own.scale(0).error
    assert "several" not in own.scale(2).error
    done = own.scale(2, "--job", "1")
    assert (done.status, "no such job runs here: --job " in done.error) == (2, True)
    done = own.scale(1)
    assert done.status == 0
    # It can't go to the process that is asked for.
    (own.folder / "enough").touch()
    own.started.wait(30)
    done = own.scale(2)
    assert (done.status, "no job runs here that can be scaled" in done.error) == (2, True)


def test_a_task_that_stays_keeps_its_process(job):
    own = job(processes=4, FAKE_STAYS="ps:2")
    done = own.scale(1)
    assert done.status == 1
    assert "ps:2 holds the FIFOQueueV2 q, which can't be copied" in done.error
    assert "there are 3 processes: ps:0 serves ps:0, ps:3; ps:1 serves ps:1; ps:2 serves ps:2" in done.error
    own.end()


def test_two_commands_at_once(job):
    own = job(ps=4, processes=1)
    results = []
    threads = [threading.Thread(target=lambda: results.append(own.scale(4))) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(done.status for done in results) == [0, 1], results
    assert any("it is changing already, to 4 processes" in done.error for done in results)
    assert "4 processes: " in own.scale(4).ok()
    own.end()


def test_a_process_that_dies_while_its_tasks_move(job):
    own = job(ps=8, FAKE_DIES_AT="ps:6")
    done = own.scale(4)
    assert done.status == 1
    assert "ps:2 has failed while its tasks were moving: " in done.error
    own.wait_for("ps:2 failed: ended by signal 9")
    # It is started again, and goes on.
    own.wait_for(r"\| SERVES ps:2 ps:2 ps:6")
    assert "4 processes: " in own.scale(4).ok()
    own.end()


def test_a_launcher_that_dies(job):
    own = job()
    own.started.send_signal(signal.SIGKILL)
    own.started.wait(30)
    done = wait_until(lambda: own.scale(3), 10, "an answer")
    assert done.status == 2
    assert "no job runs here that can be scaled" in done.error


def test_the_job_ends_meanwhile(job):
    own = job(FAKE_SLOW="1")
    thread_done = []
    thread = threading.Thread(target=lambda: thread_done.append(own.scale(4)))
    thread.start()
    own.wait_for("is one more process")
    own.end()
    thread.join()
    assert thread_done[0].status == 1
    assert "Traceback" not in thread_done[0].error


def test_when_the_last_process_fails_it_serves_all_that_others_had(job):
    own = job()
    own.scale(1).ok()
    [pid] = set(own.owners().values())
    os.kill(int(pid), signal.SIGKILL)
    own.wait_for(r"\| SERVES ps:0 ps:0 ps:2 ps:1 ps:3")
    assert own.scale(1).ok().strip() == "1 process: ps:0 serves ps:0, ps:1, ps:2, ps:3"
    own.end()


def test_others_adopt_what_has_come_to_a_process_that_fails(job):
    own = job(processes=3, ps=6)
    own.scale(2).ok()  # ps:2 and ps:5 go to the others
    pid = own.owners()["ps_1"]
    os.kill(int(pid), signal.SIGKILL)
    own.wait_for(r"\| SERVES ps:1 ps:1 ps:4")
    wait_until(lambda: own.scale(2).status == 0, 20, lambda: own.errors)
    own.end()
    assert re.search(r"ps:[25] is served by the process of ps:0", own.errors)


def test_nobody_drains_when_the_whole_job_ends(job):
    own = job("--drain", "20")
    own.end()
    assert "ENDS" not in own.output


def test_a_drained_process_is_not_a_failure(job):
    own = job("--drain", "20", FAKE_DRAINS="1")
    pid = own.owners()["ps_1"]
    for task in ("ps_1", "ps_3"):  # another one has taken it
        (own.folder / "kept" / task).write_text(f"{own.owners()['ps_0']} 9")
    os.kill(int(pid), signal.SIGTERM)
    own.wait_for("ps:1 has ended: other processes serve what it had")
    own.end()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--drain", "5", "--", "true"], "--drain without --snapshots: "),
        (["--drain", "-1", "--", "true"], "-1 is not a duration"),
    ],
)
def test_what_makes_no_sense(fusewire_command, words, told):
    done = fusewire_command("run", *words)
    assert (done.status, told in done.error) == (2, True)


def test_when_processes_drain(fusewire_command):
    show = ["--", "sh", "-c", 'echo "drain ${FUSEWIRE_DRAIN-unset}"; sleep 0.2']
    kept = ["--snapshots", "kept", "--restarts", "1"]
    for words, environment, shown in (
        ([], {}, "unset"),
        (kept, {}, "unset"),
        ([*kept, "--on-loss", "adopt"], {}, "20"),
        ([*kept, "--on-loss", "adopt", "--drain", "0"], {}, "0"),
        ([*kept, "--on-loss", "adopt"], {"FUSEWIRE_DRAIN": "7"}, "7"),
        ([*kept, "--drain", "2.5"], {}, "2.5"),
    ):
        assert f"drain {shown}\n" in fusewire_command("run", *words, *show, **environment).ok()


# ---- one more worker, started by hand ----

GUEST = """
with tf.device("/job:ps/task:0"):
    count = tf1.get_variable("count", [], tf.int64, tf1.zeros_initializer(), use_resource=True)
with tf.device(WORKER):
    counted = tf.identity(tf1.assign_add(count, 1))
steps = 0
with tf1.train.MonitoredTrainingSession(server.target, is_chief=index == 0) as session:
    while steps < 50 or (index == 0 and not os.path.exists("guest-has-left")):
        steps += 1
        got = session.run(counted)
        if steps == 50:
            say("TRAINS")
    if index == 0:
        say("TOGETHER", session.run(count) - steps)
done()
"""


@pytest.mark.parametrize("protocol", ["star_server", "star_server_lite"])
def test_one_more_worker_joins_and_leaves(tmp_path, protocol):
    """As docs/elastic.md#growing-and-shrinking says it."""
    (tmp_path / "train.py").write_text(PROLOGUE + GUEST)
    base = next(port for port in iter(lambda: free_ports(1)[0], None) if is_free(port + 1))
    [guest] = free_ports(1)
    shared = {"FUSEWIRE_SECRET": SECRET, "TEST_PROTOCOL": protocol, "CUDA_VISIBLE_DEVICES": ""}
    words = ["run", "--port-base", base, "--ps", 1, "--workers", 1, "--timeout", 80, "train.py"]
    with process([FUSEWIRE, *words], tmp_path, clean_environment(**shared)) as job:
        cluster = {"ps": [f"127.0.0.1:{base}"], "worker": [f"127.0.0.1:{base + 1}", f"127.0.0.1:{guest}"]}
        config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 1}})
        told = clean_environment(**shared, TF_CONFIG=config)
        assert job.stdout.readline() == "worker:0 | TRAINS\n"
        out = run_to_end([FUSEWIRE, "run", "--inside", "tf", "train.py"], tmp_path, told).ok()
        assert out == "TRAINS\n"
        (tmp_path / "guest-has-left").touch()
        out, errors = job.communicate(timeout=60)
        assert job.returncode == 0, errors
        assert "TOGETHER 50" in out


def is_free(port):
    with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
        return True
    return False
