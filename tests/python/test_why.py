# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""`fusewire why`: the verdict on stalled jobs, from what their tasks say, and on real ones."""

import json
import os
import signal
import subprocess
import sys

import pytest
from conftest import run_to_end
from processes import wait_until

from fusewire.inspect import seeing, why

MEMBERS = {"ps:0": "h:1", "ps:1": "h:2", "worker:0": "h:3", "worker:1": "h:4"}
S = 10**9


def operation(kind, task, peer, name, age_s, landed=False):
    age_ns = int(age_s * S)
    return {"kind": kind, "task": task, "peer": peer, "name": name, "step": 1, "age_ns": age_ns, "landed": landed}


def process(task, *operations, last_s=None, sessions=False):
    """One that answers. `last_s`: since its last step."""
    last = [] if last_s is None else [{"kind": "step", "task": task, "peer": "", "age_ns": int(last_s * S)}]
    lines = [{"kind": "session", "task": "", "peer": ""}] if sessions else []
    status = {
        "tasks": [{"task": task, "members": MEMBERS}],
        "now_ns": 1000 * S,
        "begun_ns": 900 * S,
        "open": list(operations),
        "last": last,
        "lines": lines,
    }
    return seeing.Process(seeing.Place("127.0.0.1", 1, 7), status)


def silent(task, state):
    return seeing.Process(seeing.Place("127.0.0.1", 2, 8, 9, (task,), MEMBERS), None, state)


STEP = operation("session", "", "", "Session.run", 9)


def test_a_stopped_task_is_named_by_the_tasks_that_wait_for_others():
    verdict = why.judge(
        [
            process("ps:0", operation("receive", "ps:0", "worker:0", "gradients", 8)),
            silent("ps:1", "stopped"),
            process("worker:0", STEP, operation("receive", "worker:0", "ps:1", "weights", 9)),
            process("worker:1", STEP, operation("receive", "worker:1", "ps:0", "token", 7)),
        ],
        2 * S,
    )
    assert (verdict.stands, verdict.cause, verdict.task) == (True, "silent", "ps:1")
    assert verdict.sentence == (
        "ps:1 is stopped: it gets no processor time until it is continued (SIGCONT), and ps:0, worker:0 and worker:1 "
        "wait for it."
    )
    assert "worker:0 has waited 9.0 s for the tensor weights of ps:1" in verdict.evidence


def test_a_dead_task_is_named_even_if_no_task_waits_any_more():
    verdict = why.judge([silent("ps:1", "dead"), process("worker:0", last_s=9), process("worker:1", last_s=9)], 2 * S)
    assert (verdict.cause, verdict.task) == ("silent", "ps:1")
    assert "ended without closing" in verdict.sentence
    assert verdict.tasks["ps:0"] == "elsewhere"
    assert "not asked, as nothing here names their status port: ps:0" in verdict.evidence


def test_a_dead_task_that_keeps_snapshots_is_waited_for():
    waiting = process("worker:0", STEP, operation("call", "worker:0", "ps:1", "its return", 9))
    verdict = why.judge([silent("ps:1", "dead"), waiting], 2 * S)
    assert (verdict.cause, verdict.task) == ("silent", "ps:1")
    assert verdict.sentence.endswith("once it is started again, or adopted, the steps that wait for it go on.")
    assert "worker:0 has waited 9.0 s for ps:1 to come back from its snapshot" in verdict.evidence


def test_a_restarted_task_is_not_dead():
    verdict = why.judge([silent("ps:1", "dead"), process("ps:1"), process("worker:0", last_s=0.1)], 2 * S)
    assert not verdict.stands


def test_a_program_outside_of_its_steps_is_named():
    verdict = why.judge(
        [
            process("ps:0", operation("provide", "ps:0", "worker:0", "sync_token_q_Dequeue", 30), last_s=31),
            process("ps:1"),
            process("worker:0", STEP, operation("receive", "worker:0", "ps:0", "sync_token_q_Dequeue", 30)),
            process("worker:1", last_s=32, sessions=True),
        ],
        2 * S,
    )
    assert (verdict.cause, verdict.task) == ("idle", "worker:1")
    assert "its program has been elsewhere for 32.0 s" in verdict.sentence
    assert verdict.evidence[0] == "ps:0 has not produced sync_token_q_Dequeue for worker:0, asked 30.0 s ago"


def test_a_rank_that_is_missing_in_a_collective_is_named():
    reduce = [operation("collective", f"worker:{index}", "2 ranks", "reduce", 12) for index in range(2)]
    verdict = why.judge([process("worker:0", STEP, reduce[0]), process("worker:1", last_s=13)], 2 * S)
    assert (verdict.cause, verdict.task) == ("idle", "worker:1")
    verdict = why.judge([process("worker:0", STEP, reduce[0]), silent("worker:1", "stopped")], 2 * S)
    assert (verdict.cause, verdict.task) == ("silent", "worker:1")
    verdict = why.judge([process(f"worker:{index}", STEP, reduce[index]) for index in range(2)], 2 * S)
    assert (verdict.stands, verdict.cause) == (True, "slow")


RANKS = {f"rank:{rank}": f"127.0.0.1:{9000 + rank}" for rank in range(4)}
NAME = "all-reduce f32 1,024"


def rank(number, *late, age_s=12, name=NAME, place=17):
    """A rank that is in an operation and waits for `late`, or in none."""
    task = f"rank:{number}"
    whole = [operation("collective", task, "4 ranks", name, age_s)] if late else []
    waits = [operation("collective", task, f"rank:{other}", name, age_s) for other in late]
    status = {
        "pid": 100 + number,
        "tasks": [{"task": task, "protocol": "collective", "members": RANKS}],
        "now_ns": 1000 * S,
        "begun_ns": 900 * S,
        "open": [{**each, "step": place} for each in (*whole, *waits)],
        "last": [],
        "lines": [],
    }
    return seeing.Process(seeing.Place("127.0.0.1", 1, 7), status)


def silent_rank(number, state):
    return seeing.Process(seeing.Place("127.0.0.1", 2, 8, 9, (f"rank:{number}",), RANKS), None, state)


def test_an_idle_rank_is_named_by_the_ranks_that_wait_for_others():
    # As in a ring: each waits for the one before it.
    verdict = why.judge([rank(0, 3), rank(1, 0), rank(2), rank(3, 2)], 2 * S)
    assert (verdict.stands, verdict.cause, verdict.task) == (True, "idle", "rank:2")
    assert verdict.sentence == (
        "rank:2 is in no collective operation: its program has been elsewhere for 12.0 s, and rank:0, rank:1 and "
        "rank:3 wait for it in all-reduce f32 1,024 #17."
    )
    assert verdict.evidence[0] == "py-spy dump --pid 7 shows where rank:2 is"
    assert "rank:1 has waited 12.0 s in all-reduce f32 1,024 #17 for rank:0" in verdict.evidence


def test_all_ranks_that_have_not_come_are_named():
    verdict = why.judge([rank(0, 1, 3), rank(1), rank(2, 1, 3), rank(3)], 2 * S)
    assert verdict.task == "rank:3"
    assert "rank:0 and rank:2 wait for it" in verdict.sentence
    assert verdict.sentence.endswith("#17. rank:1 has not come either.")


def test_a_stopped_a_dead_and_an_absent_rank():
    for state in ("stopped", "dead"):
        verdict = why.judge([rank(0, 2), rank(1, 2), silent_rank(2, state), rank(3, 2)], 2 * S)
        assert (verdict.cause, verdict.task) == ("silent", "rank:2")
        assert "rank:0, rank:1 and rank:3 wait for it" in verdict.sentence
    verdict = why.judge([rank(0, 2), rank(1, 2), rank(3, 2)], 2 * S)
    assert (verdict.cause, verdict.task) == ("absent rank", "rank:2")
    assert "nothing here names its status port" in verdict.sentence


def test_a_rank_that_moves_data_is_slow_and_ranks_in_two_groups_are_a_circle():
    moves = rank(2, 2)
    moves.status["open"].pop()
    verdict = why.judge([rank(0, 2), rank(1, 2), moves, rank(3, 2)], 2 * S)
    assert (verdict.cause, verdict.task) == ("slow rank", "rank:2")
    verdict = why.judge([rank(0, 1, name="barrier in a"), rank(1, 0, name="barrier in b")], 2 * S)
    assert (verdict.cause, verdict.sentence) == ("circle", "rank:0 and rank:1 wait for each other.")
    assert "rank:0 has waited 12.0 s in barrier in a #17 for rank:1" in verdict.evidence


def test_ranks_that_wait_for_a_moment_do_not_stand():
    assert not why.judge([rank(0, 1, age_s=1), rank(1), rank(2), rank(3)], 2 * S).stands


def test_a_session_that_waits_for_a_task_that_is_not_there():
    create = operation("session", "", "", "Session.create", 40)
    verdict = why.judge([process("ps:0"), process("worker:0", create), process("worker:1", create)], 2 * S)
    assert (verdict.stands, verdict.cause, verdict.task) == (True, "absent", "ps:1")
    assert verdict.sentence == (
        "worker:0 has been creating a session for 40.0 s: TensorFlow waits until every task of the cluster has "
        "answered, and ps:1 is not here."
    )


def test_a_slow_server_is_named_with_what_it_owes():
    verdict = why.judge(
        [
            process("ps:0", operation("run_in", "ps:0", "worker:0", "table, weights", 5)),
            process("worker:0", STEP, operation("run_out", "worker:0", "ps:0", "table, weights", 5)),
        ],
        2 * S,
    )
    assert (verdict.cause, verdict.task) == ("slow", "ps:0")
    assert verdict.evidence[0] == "ps:0 runs its part of the graph table, weights for worker:0, asked 5.0 s ago"


def test_tasks_that_wait_for_each_other_are_a_circle():
    verdict = why.judge(
        [
            process("ps:0", operation("receive", "ps:0", "worker:0", "a", 5)),
            process("worker:0", operation("receive", "worker:0", "ps:0", "b", 5)),
        ],
        2 * S,
    )
    assert (verdict.stands, verdict.cause) == (True, "circle")
    assert verdict.sentence == "ps:0 and worker:0 wait for each other."


def test_short_waits_and_arriving_answers_do_not_count_as_waits():
    verdict = why.judge(
        [
            process("worker:0", STEP, operation("receive", "worker:0", "ps:0", "a", 1)),
            process("worker:1", STEP, operation("receive", "worker:1", "ps:0", "large", 9, landed=True)),
        ],
        2 * S,
    )
    assert not verdict.stands
    assert verdict.sentence == "No task waits for another longer than 2.0 s (2 asked)."


def test_nothing_to_ask_is_a_usage_error(tmp_path):
    # A user's folders are empty for a user with no processes of ours: here, one without any.
    done = run_to_end([sys.executable, "-m", "fusewire", "why", "nowhere"], tmp_path)
    assert done.status == 2
    assert "is not HOST:PORT" in done.error


# Each step of a worker needs the other's, as synchronous training does.
TOGETHER = """
with tf.device("/job:ps/task:1"):
    weights = tf1.get_variable("weights", [1000], initializer=tf1.zeros_initializer())
    more = tf1.assign_add(weights, tf.ones([1000]))
with tf.device("/job:ps/task:0"):
    tokens = [tf1.FIFOQueue(8, tf.int64, shared_name=f"tokens{i}") for i in range(2)]
give = tokens[1 - index].enqueue(tf.constant(1, tf.int64))
take = tokens[index].dequeue()
with tf.device(WORKER):
    result = tf.reduce_sum(more * 2.0) + tf.cast(take, tf.float32)
session = tf1.Session(server.target)
if index == 0:
    session.run(tf1.global_variables_initializer())
else:
    while session.run(tf1.report_uninitialized_variables()).size:
        time.sleep(0.05)
while True:
    while os.path.exists(f"sleep-{index}"):
        time.sleep(0.05)
    session.run(give)
    session.run(result)
    say("STEP")
"""


def ask_why(address):
    """Of the cluster in which a worker has this address; other jobs of this user may run beside it."""
    command = [sys.executable, "-m", "fusewire", "why", "--longer", "0.5", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (0, 1), done.stderr
    [cluster] = [each for each in json.loads(done.stdout)["clusters"] if each["members"].get("worker:0") == address]
    return cluster


def verdict_of(address, cause, task, words=""):
    """The verdict, once it is this one, with these words in its evidence."""
    verdict = {}

    def is_this():
        verdict.update(ask_why(address))
        return (verdict["cause"], verdict["task"]) == (cause, task) and words in " ".join(verdict["evidence"])

    wait_until(is_this, 20, lambda: f"not {cause} {task} but {json.dumps(verdict, indent=1)}")
    return verdict


@pytest.mark.once
@pytest.mark.parametrize("protocol", ["grpc++", "star_server"])
def test_a_real_job_that_stands(tasks, tmp_path, protocol, monkeypatch):
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    cluster = tasks(TOGETHER, protocol, workers=2, XDG_RUNTIME_DIR=str(runtime))
    servers = [cluster.start("ps", index) for index in range(2)]
    workers = [cluster.start("worker", index) for index in range(2)]
    for worker in workers:
        cluster.read_until(worker, "STEP", 60)
    started = {"ps": servers, "worker": workers}
    pids = {task.pid: f"{job}:{index}" for job, those in started.items() for index, task in enumerate(those)}
    places = [place for place in seeing.find([runtime / "fusewire"]) if place.pid in pids]
    assert {place.tasks for place in places} == {(name,) for name in pids.values()}
    address = places[0].members["worker:0"]

    (tmp_path / "sleep-1").touch()
    verdict = verdict_of(address, "idle", "worker:1")
    assert verdict["stands"]
    assert "worker:0" in verdict["sentence"]
    (tmp_path / "sleep-1").unlink()
    for worker in workers:
        cluster.read_until(worker, "STEP", 20)

    servers[1].send_signal(signal.SIGSTOP)
    verdict = verdict_of(address, "silent", "ps:1", "of ps:1")
    assert "is stopped" in verdict["sentence"]
    assert verdict["tasks"]["worker:0"] == "answers"
    servers[1].send_signal(signal.SIGCONT)
    for worker in workers:
        cluster.read_until(worker, "STEP", 20)

    os.kill(workers[1].pid, signal.SIGKILL)
    workers[1].wait(20)
    verdict = verdict_of(address, "silent", "worker:1")
    assert "is dead" in verdict["sentence"]
