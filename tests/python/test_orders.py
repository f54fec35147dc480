# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""`fusewire move`, `drain` and `balance`, given to processes that answer as those of parameter servers do."""

import json
import random

import pytest
from fakes import KEPT, SECRET, Cluster, RefusedError
from processes import free_addresses

from fusewire import balance
from fusewire.balance import GAIN_MIN, Load
from fusewire.inspect import answers, inquiry, seeing, serving

pytestmark = pytest.mark.once


@pytest.fixture
def cluster():
    """cluster(ps, processes) -> Cluster"""
    made = []

    def make(ps, processes, workers=0):
        made.append(Cluster(ps, processes, workers))
        return made[-1]

    yield make
    for each in made:
        each.stop()


@pytest.fixture
def command(fusewire_command):
    """command(cluster, *words) -> Done, with the secret and an address of the cluster."""

    def run(cluster, *words, secret=SECRET, named=True, **environment):
        more = ["--cluster", cluster.members["ps:0"]] if named else []
        return fusewire_command(*words, *more, FUSEWIRE_SECRET=secret, **environment)

    return run


# ---- move ----


def test_a_task_moves_to_the_process_that_is_named(cluster, command):
    own = cluster(4, 2)
    first, second = own.processes
    out = command(own, "move", "ps:3", "--to", "ps:0").ok().splitlines()
    assert out[0] == (
        f"moving ps:3 (1.0 MiB) from the process of ps:1 at {own.members['ps:1']} to the process of ps:0 at "
        f"{own.members['ps:0']}, which serves ps:0, ps:2; steps go on, and wait for 1 s at most"
    )
    assert out[1].startswith("ps:3 is served by the process of ps:0, at ")
    assert first.orders == ["move ps:3 1000"]
    # It is found where it is now, and a process is found by whatever it serves.
    command(own, "move", "ps:2", "--to", own.members["ps:1"], "--max-pause", "0.25").ok()
    assert second.orders == ["move ps:2 250"]
    assert set(first.serves), set(second.serves) == ({"ps:0", "ps:3"}, {"ps:1", "ps:2"})
    command(own, "move", "ps:0", "--to", "ps:2").ok()
    assert set(second.serves) == {"ps:0", "ps:1", "ps:2"}


def test_a_process_that_serves_nothing_yet_takes_a_task(cluster, command):
    own = cluster(2, 1)
    [fresh] = free_addresses(1)
    other = own.add([], {"ps:1": fresh})
    assert "which serves nothing" in command(own, "move", "ps:1", "--to", fresh).ok()
    assert list(other.serves) == ["ps:1"]


def test_what_is_not_moved_is_said(cluster, command):
    own = cluster(4, 2, workers=1)
    own.processes[1].serves["ps:1"]["epoch"] = 0
    own.refuses["ps:3"] = "it holds the FIFOQueueV2 q, which can't be copied"
    for words, why, code in (
        (["ps:9", "--to", "ps:0"], "the cluster has no task ps:9: ps:0, ps:1, ps:2, ps:3, worker:0", 1),
        (["ps:2", "--to", "ps:0"], "serves ps:2 already", 1),
        (["ps:2", "--to", "ps:9"], "the cluster has no task ps:9", 1),
        (["ps:2", "--to", "127.0.0.1:1"], "127.0.0.1:1: 127.0.0.1 refuses: no process listens", 1),
        (["ps:1", "--to", "ps:0"], "ps:1 keeps no snapshots, so it can't be moved", 1),
        (["ps:3", "--to", "ps:0"], "holds the FIFOQueueV2 q, which can't be copied; ", 1),
        (["ps:2", "--to", "ps:1", "--max-pause", "0.001"], "steps would stand still for 12 ms, and 1 ms", 1),
        (["ps", "--to", "ps:0"], "'ps' is not a task", 2),
        (["ps:2", "--to", "ps"], "'ps' is not a process", 2),
        (["ps:2", "--to", "ps:1", "--max-pause", "0"], "0 is not a duration", 2),
        (["ps:2", "--to", "ps:1", "--max-pause", "3601"], "is too long", 2),
    ):
        done = command(own, "move", *words)
        assert (done.status, why in done.error) == (code, True), (words, done)
    done = command(own, "move", "ps:2", "--to", "ps:1", secret="another secret of the tests")
    assert "the proof is wrong" in done.error
    assert f"ps:2 is served by the process of ps:0 at {own.members['ps:0']}, epoch 1" in done.error
    assert "orders need the cluster's secret" in command(own, "move", "ps:2", "--to", "ps:1", secret="").error
    done = command(own, "move", "ps:2", "--to", "ps:1", "--cluster", "127.0.0.1:1", named=False)
    assert "no process answers that says what it serves; 127.0.0.1:1: " in done.error
    for process in own.processes:
        process.tells = False
    done = command(own, "move", "ps:2", "--to", "ps:1")
    assert "it has a Fusewire that is too old to say what it serves" in done.error
    for process, tasks in zip(own.processes, ({"ps:0", "ps:2"}, {"ps:1", "ps:3"}), strict=True):
        assert set(process.serves) == tasks


def test_a_process_that_dies_during_a_move(cluster, command):
    own = cluster(4, 2)

    def die(_, target):
        target.stop()
        raise RefusedError("it is dead")

    own.before_move = die
    done = command(own, "move", "ps:3", "--to", "ps:0", "--cluster", ",".join(own.members.values()), named=False)
    assert done.status == 1
    assert "the connection to it is lost" in done.error
    assert f"ps:3 is served by the process of ps:1 at {own.members['ps:1']}, epoch 1" in done.error


def test_of_two_that_say_they_serve_a_task_the_later_epoch_counts(cluster):
    own = cluster(2, 2)
    own.processes[1].serves["ps:0"] = {**KEPT, "epoch": 7}
    look = serving.look([own.members["ps:0"]])
    assert look.server_of("ps:0").name == "ps:1"
    assert [sorted(process.serves) for process in look.processes] == [[], ["ps:0", "ps:1"]]


# ---- drain ----


def test_a_process_is_drained(cluster, command):
    own = cluster(6, 3)
    out = command(own, "drain", "ps:4").ok()
    assert out.startswith(f"draining the process of ps:1 at {own.members['ps:1']}: ps:1, ps:4 (2.0 MiB) go to ")
    assert "ps:1 is served by" in out and "ps:4 is served by" in out
    assert [len(process.serves) for process in own.processes] == [3, 0, 3]
    assert own.processes[1].orders == ["drain 1000"]
    # Its address is enough.
    assert "serves nothing" in command(own, "drain", own.members["ps:1"], named=False).ok()
    assert own.processes[1].orders == ["drain 1000"]


def test_the_process_of_this_pod_is_drained(cluster, command):
    own = cluster(2, 2, workers=1)
    of_job = {job: [own.members[name] for name in own.members if name.startswith(job)] for job in ("ps", "worker")}

    def config(job, index):
        return json.dumps({"cluster": of_job, "task": {"type": job, "index": index}})

    assert command(own, "drain", named=False, TF_CONFIG=config("worker", 0)).ok() == "worker:0 serves no parameters\n"
    command(own, "drain", named=False, TF_CONFIG=config("ps", 1)).ok()
    assert [len(process.serves) for process in own.processes] == [2, 0]
    # Its task is elsewhere by now, and it is this process that is asked.
    assert "serves nothing" in command(own, "drain", named=False, TF_CONFIG=config("ps", 1)).ok()
    assert "TF_CONFIG names no task" in command(own, "drain", TF_CONFIG="{}").error


def test_what_is_left_after_a_drain_is_said(cluster, command):
    own = cluster(4, 2)
    own.refuses["ps:3"] = "it holds a queue"
    done = command(own, "drain", "ps:1")
    assert done.status == 1
    assert "it holds a queue" in done.error
    assert f"the process of ps:1 at {own.members['ps:1']} serves ps:3 now" in done.error
    alone = cluster(2, 1)
    assert "no other process takes ps:0, ps:1" in command(alone, "drain", "ps:0").error


# ---- balance ----


def test_a_busy_process_gives_to_one_that_is_idle(cluster, command):
    own = cluster(6, 2)
    for index in (0, 2, 4):
        own.holder(f"ps:{index}").serves[f"ps:{index}"]["bytes"] = 10 << 20
    out = command(own, "balance", "--dry-run", "--over", "0.01", secret="").ok()
    where = [f"{name} at {own.members[name]}" for name in ("ps:0", "ps:1")]
    assert f"{where[0]} has 91 % of the load: ps:0, ps:2, ps:4" in out
    assert [line.split()[0] for line in out.splitlines()[2:]] == ["task", "ps:0"]
    assert own.processes[1].orders == []
    out = command(own, "balance", "--over", "0.01").ok()
    assert "ps:0 is served by the process of ps:1" in out
    assert own.processes[1].orders == ["move ps:0 1000"]
    own.processes[0].stop()
    done = command(own, "balance", "--over", "0.01", "--cluster", own.members["ps:1"], named=False)
    assert "nothing to move" in done.ok()
    assert f"nobody who answers serves ps:2, ps:4; {own.members['ps:0']}: 127.0.0.1 refuses" in done.error


def test_the_first_move_that_fails_ends_it(cluster, command):
    own = cluster(8, 1)
    own.add([], dict(zip(["ps:7"], free_addresses(1), strict=True)))
    own.refuses["ps:1"] = "it holds a queue"
    places = ",".join(process.addresses[process.name] for process in own.processes)
    done = command(own, "balance", "--over", "0.01", "--cluster", places, named=False)
    assert done.status == 1
    assert "it holds a queue" in done.error
    assert "done: 1 of 4 moves; not done: ps:1, ps:2, ps:3" in done.error


SEEDS = 300


def cluster_of(seed):
    """{process: tasks} of any sizes, some of them pinned."""
    rng = random.Random(seed)
    spread = rng.choice([lambda: 1.0, rng.random, lambda: rng.paretovariate(1), lambda: 0.0])
    processes = {f"p{number}": [] for number in range(rng.randint(1, 9))}
    sizes = [spread() for _ in range(rng.randint(0, 40))]
    for index, size in enumerate(sizes):
        task = Load(f"ps:{index}", size / (sum(sizes) or 1), rng.randrange(1 << 30), rng.random() < 0.1)
        processes[rng.choice(list(processes))].append(task)
    return processes


def total(tasks):
    return sum(task.load for task in tasks)


@pytest.mark.parametrize("seed", range(0, SEEDS, 50))
def test_a_plan_is_never_worse_and_each_move_gains(seed):
    moved = 0
    for each in range(seed, seed + 50):
        has = cluster_of(each)
        names = sorted(task.task for tasks in has.values() for task in tasks)
        most = max(map(total, has.values()))
        moves = balance.plan(has)
        moved += len(moves)
        assert len(moves) <= 10 * len(names), each
        for move in moves:
            largest = max(map(total, has.values()))
            [task] = [task for task in has[move.source] if task.task == move.task]
            assert not task.pinned
            before = total(has[move.source])
            has[move.source].remove(task)
            has[move.target].append(task)
            after = max(total(has[move.source]), total(has[move.target]))
            assert before - after > GAIN_MIN * largest - 1e-9, each
            assert max(map(total, has.values())) <= largest + 1e-9, each
        assert sorted(task.task for tasks in has.values() for task in tasks) == names
        assert max(map(total, has.values())) <= most + 1e-9
        assert balance.plan(has) == [], each
    assert moved > 20


def test_equal_tasks_are_spread_evenly():
    tasks = [Load(f"ps:{index}", 1 / 16, 1) for index in range(16)]
    moves = balance.plan({"a": tasks[::2], "b": tasks[1::2], "c": [], "d": []})
    counts = {name: sum(move.target == name for move in moves) for name in "abcd"}
    assert counts == {"a": 0, "b": 0, "c": 4, "d": 4}


def test_loads_come_from_time_and_bytes():
    def served(**ms):
        return {task: serving.Served(task, 1, 100, busy) for task, busy in ms.items()}

    found = balance.loads(served(a=1000, b=500), served(a=1300, b=600))
    assert {name: round(each.load, 3) for name, each in found.items()} == {"a": 0.625, "b": 0.375}
    # Made anew between the two looks; and nothing is done.
    assert round(balance.loads(served(a=1000, b=500), served(a=10, b=530))["a"].load, 3) == 0.375
    assert balance.loads(served(a=5, b=5), served(a=5, b=5))["a"].load == 0.5
    nothing = {task: serving.Served(task, 0, 0, 0) for task in "abcd"}
    assert balance.loads(nothing, nothing)["a"] == Load("a", 0.25, 0, pinned=True)


def test_clusters_that_share_an_address_are_one():
    assert serving.joined([["a:1", "b:2"], ["c:3"], ["b:2", "d:4"], ["d:4", "c:3"]]) == [["c:3", "a:1", "b:2", "d:4"]]
    assert serving.joined([["a:1"], ["b:2"], ["a:1"]]) == [["b:2"], ["a:1"]]


def test_an_answer_that_lies():
    for lie in ({"serves": [{"task": "ps:0"}]}, {"serves": 3}, {"process": 1}, {"serves": [[]] * 300}):
        with pytest.raises(answers.AnswerError):
            answers.read(json.dumps({"task": "ps:0", **lie}), answers.ABOUT)


def test_an_order_may_take_as_long_as_its_bytes():
    assert serving.limit_s(0) == inquiry.ORDER_S
    assert serving.limit_s(10 << 30) > 500


def test_a_process_that_came_later_is_of_the_cluster():
    """It has addresses of its own for its tasks; those of the others are the same."""

    def seen(task, **members):
        named = {name.replace("_", ":"): address for name, address in members.items()}
        return seeing.Process(seeing.Place("h", 1, 1, 1, (task,), named), None)

    first = seen("ps:0", ps_0="a:1", ps_1="a:2", worker_0="a:3")
    later = seen("ps:1", ps_0="a:1", ps_1="a:9", worker_0="a:3")
    other = seen("ps:0", ps_0="b:1", worker_0="a:3x")
    ranks = [seen("rank:0"), seen("rank:1")]
    found = seeing.clusters([first, other, *ranks, later])
    assert sorted(map(len, found)) == [1, 2, 2]
    assert [first, later] in found
