# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Taps on the gRPC ports of all tasks: under TLS they hear no tensor, whichever way TensorFlow moves it."""

import contextlib
import json
import pathlib
import re
import sys
import time

import pytest
from certificates import Certificates
from conftest import clean_environment, process
from hostile import Tap
from processes import free_addresses, wait_until

pytestmark = pytest.mark.once

MARK = "words that a tensor carries to another task; "

# Each task reads its own part of TF_CONFIG, and TEST_PROTOCOL. `text` is what must not be heard: an argument, not a
# constant, of what TensorFlow sends as the program.
PROLOGUE = f"""
import json, os, sys, time
os.environ["GRPC_FAIL_FAST"] = "use_caller"
import fusewire
import numpy as np
import tensorflow as tf
protocol = os.environ["TEST_PROTOCOL"]
config = json.loads(os.environ["TF_CONFIG"])
cluster, job, index = config["cluster"], config["task"]["type"], config["task"]["index"]
text = np.frombuffer(({MARK!r} * 400).encode(), np.uint8)

def say_heard(said):
    assert np.asarray(said).tobytes() == text.tobytes()

def done():
    print("done", flush=True)
    time.sleep(1000)  # the others may still need this task
"""

SESSION = """
tf1 = tf.compat.v1
tf1.disable_eager_execution()
server = tf1.train.Server(cluster, job_name=job, task_index=index, protocol=protocol)
if job != "chief":
    server.join()
with tf.device("/job:worker/task:0"):
    kept = tf1.get_variable("kept", [len(text)], tf.uint8, initializer=tf1.zeros_initializer())
with tf.device("/job:chief/task:0"):
    given = tf1.placeholder(tf.uint8, [len(text)])
    sent = given + np.uint8(0)
with tf.device("/job:worker/task:0"):
    stored = tf1.assign(kept, sent)
with tf.device("/job:worker/task:1"):
    back = kept + np.uint8(0)
with tf1.Session(server.target) as session:
    session.run(kept.initializer)
    session.run(stored.op, {given: text})
    say_heard(session.run(back))
done()
"""

# The workers serve; the chief goes on, with eager operations.
EAGER_CHIEF = """
if job != "chief":
    tf.distribute.Server(cluster, job_name=job, task_index=index, protocol=protocol).join()
spec = tf.train.ClusterSpec(cluster)
tf.config.experimental_connect_to_cluster(spec, job_name=job, task_index=index, protocol=protocol)
first, second = "/job:worker/task:0/device:CPU:0", "/job:worker/task:1/device:CPU:0"
here = tf.constant(text)
"""

# Copies in all directions, arguments of functions, what they capture, and their results.
EAGER = (
    EAGER_CHIEF
    + """
words = tf.constant(text.tobytes())
with tf.device(first):
    there = tf.identity(here)
    kept = tf.Variable(here)
    word = tf.identity(words)
with tf.device(second):
    further = tf.identity(there)
    joined = tf.strings.join([word, words])

@tf.function
def both(given):
    with tf.device(first):
        one = tf.bitwise.bitwise_xor(given, here)
        kept.assign(given)
    with tf.device(second):
        return tf.bitwise.bitwise_xor(one, kept), one

@tf.function
def on_a_worker(given):
    with tf.device(second):
        return given + tf.cast(0, tf.uint8), tf.bitwise.bitwise_xor(here, given)

say_heard(further.numpy())
say_heard(both(here)[0].numpy())
with tf.device(first):
    say_heard(on_a_worker(here)[0].numpy())
say_heard(kept.numpy())
assert joined.numpy() == 2 * text.tobytes()
done()
"""
)

PARAMETER_SERVERS = """
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer=protocol)
if job != "chief":
    tf.distribute.Server(resolver.cluster_spec(), job_name=job, task_index=index, protocol=protocol).join()
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    kept = tf.Variable(tf.constant(text))
captured = tf.constant(text)

@tf.function
def step(given, batches):
    kept.assign(given)
    return tf.bitwise.bitwise_xor(tf.bitwise.bitwise_xor(kept, captured), next(batches))

batches = tf.data.Dataset.from_tensors(text).repeat()
batches = iter(coordinator.create_per_worker_dataset(batches))
results = [coordinator.schedule(step, args=(tf.constant(text), batches)) for _ in range(8)]
coordinator.join()
for result in results:
    say_heard(result.fetch())
say_heard(kept.numpy())
say_heard(coordinator.schedule(tf.function(lambda: tf.identity(kept))).fetch())
done()
"""

MIRRORED = """
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer=protocol)
ring = tf.distribute.experimental.CommunicationOptions(
    implementation=tf.distribute.experimental.CommunicationImplementation.RING)
strategy = tf.distribute.MultiWorkerMirroredStrategy(resolver, communication_options=ring)
numbers = tf.constant(text.view(np.int32) if job == "chief" else np.zeros(len(text) // 4, np.int32))
with strategy.scope():
    kept = tf.Variable(numbers)  # the chief's is everybody's

@tf.function
def step(numbers):
    def replica(each):
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, each + 0)
    return strategy.run(replica, args=(numbers,))

say_heard(step(numbers))
say_heard(kept.numpy())
gathered = strategy.gather(numbers[tf.newaxis, :], axis=0).numpy()
say_heard(gathered[0])
done()
"""


def said_by_chief(folder: pathlib.Path) -> str:
    path = folder / "chief-0.out"
    return path.read_text() if path.exists() else ""


class Tapped:
    """A cluster whose tasks reach each other's gRPC ports through taps."""

    def __init__(self, cluster: dict[str, int], protocol: str, settings: dict[str, str]):
        self._protocol = protocol
        self._settings = settings
        free = iter(free_addresses(sum(cluster.values())))
        self._own = {job: [next(free) for _ in range(count)] for job, count in cluster.items()}
        self.taps = {
            address: Tap(("127.0.0.1", int(address.rpartition(":")[2])), patience_s=60)
            for addresses in self._own.values()
            for address in addresses
        }

    def run(self, program: str, folder: pathlib.Path, limit_s: float = 90.0) -> str:
        """Until the chief is done, or a task has ended before; returns what the tasks said to stderr."""
        path = folder / "program.py"
        path.write_text(PROLOGUE + program)
        with contextlib.ExitStack() as stack:
            running = []
            for job, addresses in self._own.items():
                for index in range(len(addresses)):
                    command = ["bash", "-c", f"exec {sys.executable} {path} > {job}-{index}.out 2> {job}-{index}.err"]
                    running.append(stack.enter_context(process(command, folder, self._environment(job, index))))
            with contextlib.suppress(AssertionError):  # what they say is judged
                wait_until(
                    lambda: "done" in said_by_chief(folder) or any(task.poll() is not None for task in running),
                    limit_s,
                    "the end of the steps",
                )
        return "".join(one.read_text() for one in sorted(folder.glob("*.err")))

    def _environment(self, job: str, index: int) -> dict[str, str]:
        cluster = {
            each: [
                address if (each, i) == (job, index) else f"127.0.0.1:{self.taps[address].port}"
                for i, address in enumerate(addresses)
            ]
            for each, addresses in self._own.items()
        }
        config = {"cluster": cluster, "task": {"type": job, "index": index}}
        return clean_environment(
            TF_CONFIG=json.dumps(config),
            TEST_PROTOCOL=self._protocol,
            FUSEWIRE_TRANSPORT="tcp",
            CUDA_VISIBLE_DEVICES="",
            **self._settings,
        )

    def heard(self) -> bytes:
        return b"".join(bytes(tap.heard) for tap in self.taps.values())


PROGRAMS = {
    "session": (SESSION, {"chief": 1, "worker": 2}),
    "eager": (EAGER, {"chief": 1, "worker": 2}),
    "parameter servers": (PARAMETER_SERVERS, {"chief": 1, "worker": 2, "ps": 2}),
    "mirrored": (MIRRORED, {"chief": 1, "worker": 1}),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_tap_on_the_grpc_ports_hears_tensors_only_without_tls(tmp_path, name):
    program, cluster = PROGRAMS[name]
    protected = Certificates(tmp_path / "certificates").settings("task")
    for protocol, settings in (("grpc", {}), ("grpc++", protected)):
        folder = tmp_path / protocol
        folder.mkdir()
        tapped = Tapped(cluster, protocol, settings)
        errors = tapped.run(program, folder)
        assert "done" in said_by_chief(folder), errors[-6000:]
        heard = tapped.heard()
        assert len(heard) > 2000  # they hear the sessions and contexts
        print(f"{name} over {protocol}: {len(heard)} bytes, the words {heard.count(MARK.encode())} times")
        assert (MARK.encode() in heard) is not bool(settings)


# What TensorFlow can put only into its messages: packed tensors, and results of functions that it does not inline.
REFUSED = (
    EAGER_CHIEF
    + """
from tensorflow.python.eager import context

def packed():
    @tf.function
    def unpacked(given):
        with tf.device(first):
            return tf.identity(given)
    with tf.device(first):
        return unpacked(context.context().pack_eager_tensors([here, here])).numpy()[0]

def nested():
    @tf.function(experimental_attributes={"_noinline": True})
    def inner(given):
        with tf.device(second):
            return tf.reverse(tf.bitwise.bitwise_xor(given, tf.zeros_like(given)), [0])
    @tf.function
    def outer(given):
        with tf.device(first):
            given = tf.identity(given)
        return tf.reverse(inner(given), [0])
    return outer(here).numpy()

for run in packed, nested:
    try:
        say_heard(run())
        print(run.__name__, "went through", flush=True)
    except tf.errors.FailedPreconditionError as error:
        print(run.__name__, "refused", error, flush=True)
done()
"""
)


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_what_can_go_only_over_grpc_is_refused_under_tls(tmp_path, is_encrypted):
    settings = Certificates(tmp_path / "certificates").settings("task") if is_encrypted else {}
    tapped = Tapped({"chief": 1, "worker": 2}, "grpc++", settings)
    errors = tapped.run(REFUSED, tmp_path)
    said = said_by_chief(tmp_path)
    for name, words in ("packed", "send a packed tensor"), ("nested", "send back the results of"):
        if is_encrypted:
            assert re.search(f"^{name} refused .*{words}.*FUSEWIRE_TLS_CERT.*next: ", said, re.M | re.S), said + errors
        else:
            assert f"{name} went through" in said, said + errors
    assert (MARK.encode() in tapped.heard()) is not is_encrypted


def test_a_variable_that_would_send_tensors_over_grpc_has_no_effect(tmp_path):
    settings = Certificates(tmp_path / "certificates").settings("task")
    program, cluster = PROGRAMS["eager"]
    settings["TF_EAGER_REMOTE_USE_SEND_TENSOR_RPC"] = "1"
    tapped = Tapped(cluster, "grpc++", settings)
    errors = tapped.run(program, tmp_path)
    assert "done" in said_by_chief(tmp_path), errors[-6000:]
    assert MARK.encode() not in tapped.heard()
    assert re.search('TF_EAGER_REMOTE_USE_SEND_TENSOR_RPC is "1", but FUSEWIRE_TLS_CERT is set: 0 is used', errors)


# With TensorFlow's own protocol, the chief has no data port.
STOCK_CHIEF = (
    """
if job == "chief":
    protocol = "grpc"
"""
    + EAGER_CHIEF
    + """
from tensorflow.python.eager import context

def to_worker():
    with tf.device(first):
        tf.identity(here)
    context.async_wait()

@tf.function
def made():
    return tf.cast(tf.random.uniform([100], maxval=1, dtype=tf.int32), tf.uint8) + tf.cast(97, tf.uint8)

def from_worker():
    with tf.device(first):
        there = made()
    return there.numpy().tobytes()

for run in from_worker, to_worker:
    try:
        print(run.__name__, "went through", run(), flush=True)
    except (tf.errors.FailedPreconditionError, tf.errors.InvalidArgumentError) as error:
        print(run.__name__, "refused", error, flush=True)
done()
"""
)


def test_a_chief_without_a_data_port_gets_and_gives_nothing_under_tls(tmp_path):
    settings = Certificates(tmp_path / "certificates").settings("task")
    tapped = Tapped({"chief": 1, "worker": 1}, "grpc++", settings)
    errors = tapped.run(STOCK_CHIEF, tmp_path)
    said = said_by_chief(tmp_path)
    assert "from_worker refused" in said, said + errors
    assert "a task without a data port asks for a tensor over gRPC" in said, said + errors
    assert "to_worker refused" in said, said + errors
    assert 'its protocol is "grpc"' in errors
    heard = tapped.heard()
    assert MARK.encode() not in heard
    assert b"a" * 100 not in heard
