# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""TensorFlow's collective operations run on ours, with the same results as TensorFlow's, and fail as programs
expect."""

import re

import pytest

PROLOGUE = """
import concurrent.futures, json, os, signal, sys, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "1"
import fusewire
import numpy as np
import tensorflow as tf
from tensorflow.python.ops import collective_ops as ops
config = json.loads(os.environ["TF_CONFIG"])
index, size = config["task"]["index"], len(config["cluster"]["worker"])
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver(
    rpc_layer=os.environ.get(f"TEST_LAYER_OF_{index}") or os.environ["TEST_PROTOCOL"])
strategy = tf.distribute.MultiWorkerMirroredStrategy(resolver)

def say(*words):
    print(*words, flush=True)

def wait_for(*names):
    ends = time.monotonic() + 60
    while not all(map(os.path.exists, names)) and time.monotonic() < ends:
        time.sleep(0.01)

def wait_for_all(name):
    open(f"{name}-{index}", "w").close()
    wait_for(*[f"{name}-{each}" for each in range(size)])

def done():
    say("STATS", json.dumps({name: fusewire.stats().get(name, 0) for name in ("collectives", "calls_in")}))
    wait_for_all("done")
    os._exit(0)
"""

# Every kind, with operations that are started in another order at each worker.
KINDS = """
keys = iter(range(100, 10000))
random = np.random.default_rng(7)  # the same at all workers, who need not ask each other what to expect

def check(name, got, expected):
    if not np.allclose(np.asarray(got, np.float64), np.asarray(expected, np.float64), rtol=1e-2):
        say("WRONG", name, got, expected)

for dtype in (tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int32, tf.int64):
    for shape in ((), (1,), (5, 3), (257, 129)):
        inputs = [random.integers(1, 5, shape) for _ in range(size)]
        mine = tf.cast(tf.constant(inputs[index]), dtype)
        for merge, final, expected in (
            ("Add", "Id", sum(inputs)),
            ("Mul", "Id", np.prod(inputs, axis=0)),
            ("Max", "Id", np.max(inputs, axis=0)),
            ("Min", "Id", np.min(inputs, axis=0)),
            ("Add", "Div", np.asarray(sum(inputs)) // size if dtype.is_integer else np.asarray(sum(inputs)) / size),
        ):
            got = ops.all_reduce_v2(mine, size, 1, next(keys), merge, final)
            check((dtype.name, shape, merge, final), tf.cast(got, tf.float64).numpy(), expected)
        if dtype == tf.bfloat16:
            continue  # TensorFlow's operations only reduce these
        if shape:
            got = ops.all_gather_v2(mine, size, 1, next(keys))
            check((dtype.name, shape, "gather"), tf.cast(got, tf.float64).numpy(), np.concatenate(inputs))
        for root in range(size):
            key = next(keys)
            if index == root:
                got = ops.broadcast_send_v2(mine, size, 1, key)
            else:
                got = ops.broadcast_recv_v2(mine.shape, mine.dtype, size, 1, key)
            check((dtype.name, shape, "broadcast"), tf.cast(got, tf.float64).numpy(), inputs[root])

for root in range(size):
    mine, key = tf.constant([index == root, index != root, True]), next(keys)
    if index == root:
        got = ops.broadcast_send_v2(mine, size, 1, key)
    else:
        got = ops.broadcast_recv_v2(mine.shape, mine.dtype, size, 1, key)
    check(("bool", root, "broadcast"), got.numpy(), [True, False, True])

# Nothing orders these: each worker starts them as it likes.
def one(i, turn):
    got = ops.all_reduce_v2(tf.fill([1 + 9973 * i], float(index + i + turn)), size, 1, 20000 + i).numpy()
    if not (got == sum(each + i + turn for each in range(size))).all():
        say("WRONG", i, turn, got)

order = list(range(8)) if index % 2 == 0 else list(reversed(range(8)))
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    for turn in range(10):
        list(pool.map(lambda i: one(i, turn), order))
say("checked")
done()
"""


@pytest.mark.parametrize(
    ("protocol", "workers"),
    [("grpc", 2), pytest.param("grpc++", 2, marks=pytest.mark.smoke), ("grpc++", 3), ("star_server", 2)],
)
def test_every_kind_gives_what_it_should(run_cluster, protocol, workers):
    output = run_cluster(KINDS, protocol, ps=0, workers=workers, prologue=PROLOGUE)
    assert output.said == ["checked"] * workers
    assert (output.stats["collectives"] > 0) == (protocol != "grpc")


def test_a_group_with_one_that_speaks_grpc_only_is_tensorflows(run_cluster):
    output = run_cluster(KINDS, "grpc++", ps=0, workers=2, prologue=PROLOGUE, TEST_LAYER_OF_1="grpc")
    assert output.said == ["checked"] * 2
    assert output.stats["collectives"] == 0


def test_tasks_of_one_host_know_it(run_cluster):
    """Each member has asked all others; their lists must be the same."""
    output = run_cluster(KINDS, "grpc++", ps=0, workers=3, prologue=PROLOGUE, FUSEWIRE_LOG="info")
    assert output.said == ["checked"] * 3
    told = re.findall(r"task:(\d): 3 tasks run their collectives over our wire, (.*)", output.errors)
    assert sorted(told) == [("0", "on one host"), ("1", "on one host"), ("2", "on one host")]


DEATH = """
@tf.function
def step(value):
    return ops.all_reduce_v2(value, size, 1, 77)

step(tf.ones([10]))
wait_for_all("begun")
if index == 1:
    os.kill(os.getpid(), signal.SIGKILL)
begun = time.monotonic()
try:
    for _ in range(1000):
        step(tf.ones([1000000]))
    say("no error")
except tf.errors.OpError as error:
    took = time.monotonic() - begun
    say(type(error).__name__, "task:1" in str(error), took < 10)
sys.stdout.flush()
os._exit(0)
"""


def test_a_worker_that_dies_is_named(run_cluster):
    """The job fails, as its worker did; the survivors' output comes first."""
    with pytest.raises(AssertionError, match=r"signal 9|SIGKILL|137") as failed:
        run_cluster(DEATH, "grpc++", ps=0, workers=3, prologue=PROLOGUE)
    assert "no error" not in str(failed.value)


BROADCAST = """
def broadcast(turn):
    if index == 0:
        ops.broadcast_send_v2(tf.fill([100], float(turn)), size, 1, 500)
    elif not (ops.broadcast_recv_v2([100], tf.float32, size, 1, 500).numpy() == turn).all():
        say("WRONG", turn)

broadcast(0)
"""

# The root cannot have sent what no rank receives yet.
ROOT = """
if index == 0:
    broadcast(1)
    say("checked" if os.path.exists("begun") else "it did not wait")
else:
    time.sleep(0.5)
    open("begun", "w").close()
    broadcast(1)
    say("checked")
done()
"""


@pytest.mark.once
@pytest.mark.parametrize("protocol", ["grpc", "grpc++"])
def test_the_root_of_a_broadcast_waits_for_the_others(run_cluster, protocol):
    output = run_cluster(BROADCAST + ROOT, protocol, ps=0, workers=3, prologue=PROLOGUE)
    assert output.said == ["checked"] * 3


# Worker 1 is done.
END = """
if index != 1:
    begun = time.monotonic()
    try:
        ops.all_reduce_v2(tf.ones([100]), size, 1, 600)
        ops.all_reduce_v2(tf.ones([100]), size, 1, 600)
        say("no error")
    except tf.errors.OpError as error:
        say(type(error).__name__, "task:1) has left the group" in str(error), time.monotonic() - begun < 20)
    open(f"told-{index}", "w").close()
    wait_for("told-0", "told-2")  # the end of the one must not be what the other hears of
    os._exit(0)
ops.all_reduce_v2(tf.ones([100]), size, 1, 600)
"""


def test_a_worker_whose_program_ends_says_goodbye(run_cluster):
    """The program does nothing for that, and is not reported dead."""
    output = run_cluster(END, "grpc++", ps=0, workers=3, prologue=PROLOGUE)
    assert output.said == ["UnavailableError True True"] * 2
    assert "task:1) is lost" not in output.errors


# Worker 1 comes too late.
LATE = """
def all_reduce(timeout_s):
    ops.all_reduce_v2(tf.ones([100]), size, 1, 700, timeout=timeout_s)

all_reduce(0)  # none
if index == 1:
    wait_for("given-up")
try:
    all_reduce(1)
    say("no error")
except tf.errors.OpError as error:
    say(type(error).__name__, "timed out" in str(error))
open("given-up", "w").close()
done()
"""


@pytest.mark.once
@pytest.mark.parametrize("protocol", ["grpc", "grpc++"])
def test_all_workers_get_the_error_that_ended_their_collectives(run_cluster, protocol):
    output = run_cluster(LATE, protocol, ps=0, workers=2, prologue=PROLOGUE)
    assert output.said == ["DeadlineExceededError True"] * 2


# A strategy makes the collectives of its program again. Worker 1 aborts them in between, when nobody is in one.
AGAIN = """
from tensorflow.python.eager import context
from tensorflow.python.framework import errors

def all_reduce(turn):
    return float(tf.reduce_sum(ops.all_reduce_v2(tf.fill([1000], float(index + turn)), size, 1, 800)))

for turn in range(4):
    say(turn, all_reduce(turn))
    wait_for_all(f"reduced-{turn}")
    if index == 1 and turn % 2 == 0:
        context.context().abort_collective_ops(errors.UNAVAILABLE, "for a test")
        for _ in range(2):
            try:
                all_reduce(turn)
            except tf.errors.UnavailableError as error:
                say("aborted", "for a test" in str(error))
    wait_for_all(f"aborted-{turn}")
    strategy = tf.distribute.MultiWorkerMirroredStrategy(resolver)
    wait_for_all(f"renewed-{turn}")
    say(turn, float(strategy.reduce("SUM", strategy.run(lambda: tf.constant(1.0)), axis=None)))
done()
"""


@pytest.mark.parametrize("protocol", ["grpc", "grpc++"])
def test_collectives_that_start_again_work(run_cluster, protocol):
    output = run_cluster(AGAIN, protocol, ps=0, workers=2, prologue=PROLOGUE)
    sums = [f"{turn} {1000 * (1 + 2 * turn):.1f}" for turn in range(4)]
    both = [f"{turn} 2.0" for turn in range(4)]
    assert sorted(output.said) == sorted(2 * sums + 2 * both + 4 * ["aborted True"])
    assert (output.stats["collectives"] >= 8) == (protocol == "grpc++")
