# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Parameter servers move from process to process while a worker trains: nothing is lost, and its session goes on."""

import os
import random
import re
import signal
import threading
import time
from pathlib import Path

import pytest
from cluster import PROLOGUE
from conftest import FUSEWIRE, run_to_end
from processes import clean_environment, process, wait_until
from test_adopting import visit
from test_returns import EVERY_S, PARTIAL, TRAIN, follow, kill, training  # noqa: F401  (a fixture)

from fusewire.inspect import inquiry, serving

SECRET = "a secret of the tests of moving"
STAR = ["star_server", "star_server_lite"]
# A queue on the second server, which can't be copied; a large variable, each row of which every step writes.
QUEUE = """
with tf.device("/job:ps/task:1"):
    queue_size = tf1.FIFOQueue(10, tf.int64, [[]]).size()
"""
LARGE = """
with tf.device("/job:ps/task:1"):
    large = tf1.get_variable("large", [10_000_000], initializer=tf1.zeros_initializer(), use_resource=True)
    with tf.control_dependencies([tf1.assign_add(large, tf.ones_like(large))]):
        counted = [tf.identity(each) for each in counted]
"""


def with_graph(more: str, run: str = "") -> str:
    """The program of the training, with this in its graph."""
    head, mark, tail = TRAIN.partition("\nclass Sessions")
    tail = tail.replace('    say("TRAINS")\n', f'{run}    say("TRAINS")\n')
    return head + more + mark + tail


def order(cluster, to: int, words: str, secret: str = SECRET) -> str:
    return inquiry.give_order(cluster.address("ps", to), words, secret)


def serves(cluster) -> dict[str, set[str]]:
    """{process by the task at whose address it answers: what it serves}"""
    found = {}
    for index in range(2):
        address = cluster.address("ps", index)
        look = serving.look([address], crawls=False)
        if address in look.at:
            found[f"ps:{index}"] = set(look.at[address].serves)
    return found


def loses_nothing(cluster, worker) -> None:
    assert follow(cluster, worker) == []


def end(cluster, worker, tmp_path) -> None:
    (tmp_path / "enough").touch()
    cluster.read_until(worker, "DONE", 60)


def test_what_processes_tell(training, tmp_path):  # noqa: F811
    cluster, _, worker = training("star_server", FUSEWIRE_SECRET=SECRET)
    follow(cluster, worker)

    def served():
        return [
            task
            for process in serving.look([cluster.address("worker", 0)]).processes
            for task in process.serves.values()
        ]

    # What a task holds is counted when its first snapshot is written.
    wait_until(lambda: all(task.bytes >= 8 for task in served()), 30, "both tasks have written a snapshot")
    look = serving.look([cluster.address("worker", 0)])
    assert [process.name for process in look.processes] == ["ps:0", "ps:1"]
    assert len({process.id for process in look.processes}) == 2
    for process_ in look.processes:
        [task] = process_.serves.values()
        assert (task.task, task.epoch) == (process_.name, 1)
    before = look.processes[0].serves["ps:0"].busy_ms
    wait_until(
        lambda: serving.look([cluster.address("ps", 0)]).server_of("ps:0").serves["ps:0"].busy_ms > before,
        30,
        "the time of parts grows",
    )
    end(cluster, worker, tmp_path)


@pytest.mark.parametrize("protocol", STAR)
def test_a_task_moves_and_nothing_is_lost(training, tmp_path, fusewire_command, protocol):  # noqa: F811
    cluster, servers, worker = training(protocol, FUSEWIRE_SECRET=SECRET)
    loses_nothing(cluster, worker)
    words = ["move", "ps:1", "--to", "ps:0", "--cluster", cluster.address("ps", 0)]
    out = fusewire_command(*words, FUSEWIRE_SECRET=SECRET).ok()
    assert re.search(r"ps:1 is served by the process of ps:0, at .*, epoch 2: .* steps stood still for \d+ ms", out)
    loses_nothing(cluster, worker)
    assert serves(cluster) == {"ps:0": {"ps:0", "ps:1"}, "ps:1": set()}
    visit(cluster, tmp_path)
    # There and back again, both of them.
    for task, to in (("ps:1", 1), ("ps:0", 1), ("ps:0", 0), ("ps:1", 0), ("ps:1", 1)):
        print(order(cluster, to, f"move {task} 1000"))
        loses_nothing(cluster, worker)
    assert serves(cluster) == {"ps:0": {"ps:0"}, "ps:1": {"ps:1"}}
    # The snapshots go on where the task is: a kill afterwards loses no more than their interval.
    order(cluster, 0, "move ps:1 1000")
    kill(servers[1])
    loses_nothing(cluster, worker)
    time.sleep(3 * EVERY_S)
    kill(servers[0])
    cluster.start("ps", 0, FUSEWIRE_TASKS="ps:0,ps:1")
    for _, _, _, age in follow(cluster, worker):
        assert float(age) < EVERY_S + 2
    end(cluster, worker, tmp_path)


def test_a_process_is_drained_by_an_order(training, tmp_path, fusewire_command):  # noqa: F811
    cluster, servers, worker = training("star_server", FUSEWIRE_SECRET=SECRET)
    loses_nothing(cluster, worker)
    words = ["drain", "ps:1", "--cluster", cluster.address("ps", 0)]
    out = fusewire_command(*words, FUSEWIRE_SECRET=SECRET).ok()
    assert "ps:1 is served " in out
    loses_nothing(cluster, worker)
    assert serves(cluster) == {"ps:0": {"ps:0", "ps:1"}, "ps:1": set()}
    words[1] = cluster.address("ps", 1)
    assert "serves nothing" in fusewire_command(*words, FUSEWIRE_SECRET=SECRET).ok()
    kill(servers[1])
    loses_nothing(cluster, worker)
    visit(cluster, tmp_path)
    # Nobody is left who could take them.
    with pytest.raises(inquiry.OrderError):
        order(cluster, 0, "drain 1000")
    loses_nothing(cluster, worker)
    end(cluster, worker, tmp_path)


@pytest.mark.parametrize("protocol", STAR)
def test_sigterm_drains_a_process_and_it_ends_with_0(training, tmp_path, protocol):  # noqa: F811
    cluster, servers, worker = training(protocol, FUSEWIRE_SECRET=SECRET, FUSEWIRE_DRAIN="20")
    loses_nothing(cluster, worker)
    servers[1].send_signal(signal.SIGTERM)
    assert servers[1].wait(30) == 0
    loses_nothing(cluster, worker)
    assert serves(cluster) == {"ps:0": {"ps:0", "ps:1"}}
    visit(cluster, tmp_path)
    # The last one has nobody to give to: SIGTERM ends it.
    servers[0].send_signal(signal.SIGTERM)
    assert servers[0].wait(30) == -signal.SIGTERM


def test_without_the_setting_sigterm_ends_it(training, tmp_path):  # noqa: F811
    cluster, servers, worker = training("star_server", FUSEWIRE_SECRET=SECRET)
    loses_nothing(cluster, worker)
    servers[1].send_signal(signal.SIGTERM)
    assert servers[1].wait(10) == -signal.SIGTERM


@pytest.mark.parametrize("moves", [False, True])
def test_a_server_that_starts_beside_another(training, tmp_path, moves):  # noqa: F811
    """It leaves the task where it is, or takes it, while training goes on."""
    cluster, _, worker = training("star_server", FUSEWIRE_SECRET=SECRET)
    loses_nothing(cluster, worker)
    order(cluster, 0, "move ps:1 1000")
    _, fresh = cluster.start_elsewhere("ps", 1, FUSEWIRE_ON_SERVED="move" if moves else "leave")
    wanted = {"ps:1"} if moves else set()

    def at_fresh():
        look = serving.look([fresh], crawls=False)
        return fresh in look.at and set(look.at[fresh].serves) == wanted

    wait_until(at_fresh, 60, "it serves what it should")
    loses_nothing(cluster, worker)
    assert ("ps:1" in serves(cluster)["ps:0"]) != moves
    if not moves:  # it takes orders
        inquiry.give_order(fresh, "move ps:1 1000", SECRET)
        loses_nothing(cluster, worker)
        assert serves(cluster)["ps:0"] == {"ps:0"}
    end(cluster, worker, tmp_path)


def test_a_move_that_is_refused(training, tmp_path, fusewire_command):  # noqa: F811
    cluster, _, worker = training("star_server", FUSEWIRE_SECRET=SECRET)
    loses_nothing(cluster, worker)
    for words in ("move ps:0 1000", "move ps:7 1000", "move worker:0 1000", "move ps:1", "move ps:1 x", "drain"):
        with pytest.raises(inquiry.OrderError):
            order(cluster, 0, words)
    with pytest.raises(inquiry.OrderError, match="the proof is wrong"):
        order(cluster, 0, "move ps:1 1000", "another secret of the tests")
    with pytest.raises(inquiry.OrderError, match="the proof is wrong"):
        order(cluster, 0, "drain 1000", "another secret of the tests")
    words = ["move", "ps:1", "--to", "ps:1", "--cluster", cluster.address("ps", 0)]
    assert "serves ps:1 already" in fusewire_command(*words, FUSEWIRE_SECRET=SECRET).error
    assert serves(cluster) == {"ps:0": {"ps:0"}, "ps:1": {"ps:1"}}
    loses_nothing(cluster, worker)
    end(cluster, worker, tmp_path)


def test_a_task_with_a_queue_stays(training, tmp_path, fusewire_command):  # noqa: F811
    program = with_graph(QUEUE, run="    session.run(queue_size)\n")
    cluster, _, worker = training("star_server", program, FUSEWIRE_SECRET=SECRET)
    loses_nothing(cluster, worker)
    words = ["move", "ps:1", "--to", "ps:0", "--cluster", cluster.address("ps", 0)]
    done = fusewire_command(*words, FUSEWIRE_SECRET=SECRET)
    assert done.status == 1
    assert re.search("queue|Queue|can't be moved", done.error)
    with pytest.raises(inquiry.OrderError, match="ps:1"):
        order(cluster, 1, "drain 1000")
    assert serves(cluster) == {"ps:0": {"ps:0"}, "ps:1": {"ps:1"}}
    loses_nothing(cluster, worker)
    end(cluster, worker, tmp_path)


@pytest.mark.parametrize("protocol", ["grpc++", "star_server"])
def test_a_task_with_a_partial_run_stays_until_that_has_ended(training, tmp_path, protocol):  # noqa: F811
    cluster, _, worker = training(protocol, PARTIAL, FUSEWIRE_SECRET=SECRET)
    cluster.read_until(worker, "BEGUN", 30)
    for task in range(2):
        with pytest.raises(inquiry.OrderError, match="a partial_run has begun here"):
            order(cluster, 1 - task, f"move ps:{task} 1000")
    (tmp_path / "second").touch()
    assert cluster.read_until(worker, "ENDED", 60) == ["ENDED 30"]
    for task in range(2):
        order(cluster, 1 - task, f"move ps:{task} 1000")
    end(cluster, worker, tmp_path)


# Variables of a session alone, which a worker of grpc++ registers as a graph.
ISOLATED = """
config = tf1.ConfigProto(isolate_session_state=True)
with tf1.Session(server.target, config=config) as alone:
    alone.run(tf1.global_variables_initializer())
    say("TRAINS")
    steps = 0
    while not os.path.exists("enough"):
        steps += 1
        assert alone.run(counted, {which: [steps % 500]}) == [steps, steps]
        if steps % 50 == 0:
            say("STEP", time.time())
say("DONE", steps)
done()
"""


@pytest.mark.parametrize("protocol", ["grpc++", "star_server"])
def test_a_task_with_a_session_of_its_own_variables_stays(training, tmp_path, protocol):  # noqa: F811
    program = TRAIN.partition("\nclass Sessions")[0] + ISOLATED
    cluster, _, worker = training(protocol, program, FUSEWIRE_SECRET=SECRET)
    with pytest.raises(inquiry.OrderError, match="session of its own"):
        order(cluster, 0, "move ps:1 1000")
    loses_nothing(cluster, worker)
    end(cluster, worker, tmp_path)


BEGIN = """
with tf1.Session(server.target) as first:
    first.run(tf1.global_variables_initializer())
say("TRAINS")
steps = 0
while not os.path.exists("enough"):
    with tf1.Session(server.target) as session:
        for _ in range(2):
            steps += 1
            assert session.run(counted, {which: [steps % 500]}) == [steps, steps]
    if steps % 50 == 0:
        say("STEP", time.time())
say("DONE", steps)
done()
"""


@pytest.mark.parametrize("protocol", STAR)
def test_sessions_begin_and_end_while_tasks_move(training, tmp_path, protocol):  # noqa: F811
    program = TRAIN.partition("\nclass Sessions")[0] + BEGIN
    cluster, _, worker = training(protocol, program, FUSEWIRE_SECRET=SECRET)
    at = [0, 1]
    for move in range(30):
        task = move % 2
        at[task] = 1 - at[task]
        order(cluster, at[task], f"move ps:{task} 1000")
    loses_nothing(cluster, worker)
    end(cluster, worker, tmp_path)


def test_a_move_that_would_take_too_long_is_not_begun(training, tmp_path):  # noqa: F811
    cluster, _, worker = training("star_server", with_graph(LARGE), FUSEWIRE_SECRET=SECRET)
    loses_nothing(cluster, worker)
    with pytest.raises(inquiry.OrderError, match=r"1 ms|pause|stand still"):
        order(cluster, 0, "move ps:1 1")
    assert serves(cluster) == {"ps:0": {"ps:0"}, "ps:1": {"ps:1"}}
    loses_nothing(cluster, worker)
    end(cluster, worker, tmp_path)


def test_a_process_forgets_what_a_task_that_has_left_held(training, tmp_path):  # noqa: F811
    cluster, servers, worker = training("star_server", with_graph(LARGE), FUSEWIRE_SECRET=SECRET)
    left = []
    for _ in range(12):
        order(cluster, 0, "move ps:1 30000")
        order(cluster, 1, "move ps:1 30000")
        left.append(int(Path(f"/proc/{servers[0].pid}/statm").read_text().split()[1]) * 4096)
    # The variable has 40 MB, and so has the constant with which its initializer fills it. The heap grows for a while.
    assert left[11] - left[7] < 120e6, left
    loses_nothing(cluster, worker)
    end(cluster, worker, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1], ids=["the taker", "the giver"])
@pytest.mark.parametrize("after_ms", [1, 20, 60, 150])
def test_a_process_dies_during_a_move(training, tmp_path, victim, after_ms):  # noqa: F811
    cluster, servers, worker = training("star_server", with_graph(LARGE), FUSEWIRE_SECRET=SECRET)
    loses_nothing(cluster, worker)
    time.sleep(3 * EVERY_S)
    said = []

    def move():
        try:
            said.append(order(cluster, 0, "move ps:1 30000"))
        except (inquiry.OrderError, inquiry.NoAnswerError) as error:
            said.append(str(error))

    thread = threading.Thread(target=move)
    thread.start()
    time.sleep(after_ms / 1e3)
    kill(servers[victim])
    thread.join()
    print(said)
    cluster.start("ps", victim)
    lost = follow(cluster, worker)
    assert all(float(age) < EVERY_S + 10 for *_, age in lost)
    if victim == 0:  # the giver has everything, unless the task had gone already
        assert all(int(ps) == 0 for _, ps, *_ in lost) or "is served by" in said[0]
    found = [tasks for tasks in serves(cluster).values() if "ps:1" in tasks]
    assert len(found) == 1
    end(cluster, worker, tmp_path)


# Each step adds one to a variable of each of eight servers. It ends when it has been told to; no step fails, and no
# count falls back.
COUNT = """
counts = []
for ps in range(8):
    with tf.device(f"/job:ps/task:{ps}"):
        counts.append(tf1.get_variable(f"count{ps}", [], tf.int64, tf1.zeros_initializer(), use_resource=ps % 2 == 0))
with tf.device(WORKER):
    counted = [tf.identity(tf1.assign_add(count, 1)) for count in counts]


class Sessions(tf1.train.SessionRunHook):
    made = 0

    def after_create_session(self, session, coord):
        Sessions.made += 1
        assert Sessions.made == 1, "a second session"


steps = 0
with tf1.train.MonitoredTrainingSession(server.target, is_chief=True, hooks=[Sessions()]) as session:
    say("TRAINS")
    while not os.path.exists("enough"):
        steps += 1
        assert [int(count) for count in session.run(counted)] == [steps] * 8
        if steps % 100 == 0:
            say("STEP", steps)
say("DONE", steps)
done()
"""


@pytest.mark.slow
@pytest.mark.parametrize("protocol", STAR)
def test_a_job_grows_and_shrinks_in_mid_training(tmp_path, protocol):
    (tmp_path / "program.py").write_text(PROLOGUE + COUNT)
    (tmp_path / "runtime").mkdir(mode=0o700)
    environment = clean_environment(
        TEST_PROTOCOL=protocol, CUDA_VISIBLE_DEVICES="", XDG_RUNTIME_DIR=str(tmp_path / "runtime")
    )
    words = ["--ps", "8", "--ps-processes", "2", "--snapshots", "kept", "--snapshot-every", "0.5", "--restarts", "1"]
    shell = ["sh", "-c", 'exec "$@" >output 2>errors', "sh", FUSEWIRE, "run", *words, "--timeout", "160", "program.py"]
    (tmp_path / "output").touch()

    def steps() -> int:
        return len(re.findall(r"STEP \d+", (tmp_path / "output").read_text()))

    def go_on() -> None:
        before = steps()
        wait_until(lambda: steps() > before + 1, 60, lambda: (tmp_path / "errors").read_text()[-3000:])

    def scale(processes: int) -> str:
        command = [FUSEWIRE, "scale", "--ps-processes", processes]
        return run_to_end(command, tmp_path, environment).ok().splitlines()[-1]

    with process(shell, tmp_path, environment) as job:
        go_on()
        grown = "; ".join(f"ps:{number} serves ps:{number}, ps:{number + 4}" for number in range(4))
        assert scale(4) == f"4 processes: {grown}"
        go_on()
        assert scale(1) == f"1 process: ps:0 serves {', '.join(f'ps:{task}' for task in range(8))}"
        go_on()
        assert scale(2).startswith("2 processes: ")
        go_on()
        (tmp_path / "enough").touch()
        assert job.wait(60) == 0, (tmp_path / "errors").read_text()[-3000:]
    assert "DONE" in (tmp_path / "output").read_text()
    assert " failed" not in (tmp_path / "errors").read_text()
    assert os.listdir(tmp_path / "runtime" / "fusewire") == []


EQUAL = (
    "import hashlib\n"
    + TRAIN.partition("\nclass Sessions")[0]
    + """
with tf1.Session(server.target) as session:
    session.run(tf1.global_variables_initializer())
    say("TRAINS")
    took = []
    for step in range(STEPS):
        begun = time.perf_counter()
        got = session.run(counted, {which: np.random.RandomState(step).randint(0, 500, 30)})
        took.append(time.perf_counter() - begun)
        assert got == [step + 1, step + 1], (got, step)
    values = b"".join(np.ascontiguousarray(session.run(each)).tobytes() for each in tf1.global_variables())
    say("SUM", hashlib.sha256(values).hexdigest())
    say("WAITED", *(round(1000 * each, 1) for each in sorted(took)[-100:]))
done()
"""
)


@pytest.mark.parametrize("protocol", STAR)
@pytest.mark.parametrize("moves", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_a_run_with_moves_is_bit_equal_to_one_without(training, tmp_path, protocol, moves):  # noqa: F811
    """Of one worker, at random points; the steps that have waited longest are printed."""
    steps, sums = 60 * moves, set()
    for count in (0, moves):
        folder = str(tmp_path / f"snapshots-{count}")
        program = EQUAL.replace("STEPS", str(steps))
        cluster, servers, worker = training(protocol, program, FUSEWIRE_SECRET=SECRET, FUSEWIRE_SNAPSHOTS=folder)
        chance, at = random.Random(protocol), [0, 1]
        for _ in range(count):
            task = chance.randrange(2)
            at[task] = 1 - at[task]
            print(order(cluster, at[task], f"move ps:{task} 1000"))
        *_, total = cluster.read_until(worker, "SUM", 120)
        print(cluster.read_until(worker, "WAITED", 10)[-1])
        sums.add(total)
        worker.wait(60)
        for server in servers:
            kill(server)
    assert len(sums) == 1
