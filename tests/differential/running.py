# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Runs programs over every protocol, in clusters of one process: two parameter servers and two workers for each. Where
servers move, they are processes of their own (moving.py).

Reads a line of JSON for each program (program.py), and prints a line with the differences from stock gRPC. Run by
judging.py, which detects crashes and hangs.
"""

import collections
import concurrent.futures
import contextlib
import hashlib
import itertools
import json
import os
import random
import sys
import time
import traceback

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_NUM_INTRAOP_THREADS"] = "1"  # a sum must not depend on the number of threads
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np
import tensorflow as tf
from processes import free_addresses, free_ports, wait_until
from program import STOCK, Program, Step, told
from resetting import Relay
from tensorflow.core.protobuf import config_pb2

import fusewire

tf1 = tf.compat.v1
RUNS = ("grpc++", "grpc++ fused", "star_server", "star_server unique", "star_server_lite")
STOCK_AGAIN = 4  # runs over stock, where something differs: does it differ from itself?
OURS_AGAIN = 2
LIMIT_MS = 60_000
# For a step that would wait forever. TensorFlow loses a cancel that arrives before the graph is registered.
SHORT_MS = 2000
CUTS = 3  # of each step, where limits are drawn
RESET_BYTES = 3000  # the least of a connection, after which it is reset; the most is 256 times as much
LOST = (["error", "UnavailableError"], ["error", "AbortedError"])
# TensorFlow can't build the gradient of a nested loop of version 1 under a control dependency, nor that of a gradient.
CANNOT_BUILD = ("self.GetControlPivot().op", "Second-order gradient for while loops not supported")
GOES_ON_S = 10
SHOWN_BYTES = 1024  # of a value; a larger one is shown by a digest


class Cluster:
    def __init__(self, protocol: str, has_resets: bool = False) -> None:
        self.counts: collections.Counter = collections.Counter()  # of moves, of which it makes none
        addresses = free_addresses(4)
        self.tasks = {"ps": addresses[:2], "worker": addresses[2:]}
        self.servers = [self.server(protocol, "ps", index, has_resets) for index in range(2)]
        self.servers += [self.server(protocol, "worker", index) for index in range(2)]

    def server(self, protocol: str, job: str, index: int, has_resets: bool = False):
        with contextlib.ExitStack() as stack:
            if has_resets:
                stack.enter_context(behind_a_relay())
            return tf1.train.Server(self.tasks, job, index, protocol=protocol)

    def target(self, worker: int) -> str:
        return self.servers[2 + worker].target

    @contextlib.contextmanager
    def moves(self, seed: int):
        """See MovingCluster."""
        yield None


@contextlib.contextmanager
def behind_a_relay():
    """A server that is made meanwhile is reached through a relay that resets its connections."""
    [port] = free_ports(1)
    relay = Relay(port, lambda: round(RESET_BYTES * 2 ** random.uniform(0, 8)))
    place = {"FUSEWIRE_PORTS": str(port), "FUSEWIRE_ADVERTISE": f"127.0.0.1:{relay.port}"}
    os.environ.update(place)
    yield
    for name in place:
        del os.environ[name]


def canonical(value) -> list:
    """A text that is equal for equal bits; all NaNs are equal."""
    if value is None:  # of an operation
        return []
    if isinstance(value, tuple) and not isinstance(value, np.ndarray):  # of SparseTensor and the like
        return [canonical(each) for each in value]
    array = np.asarray(value)
    if array.dtype == object:
        return ["text", list(array.shape), [str(each) for each in array.ravel()]]
    if array.dtype.kind in "fc" or array.dtype.name == "bfloat16":
        array = np.where(np.isnan(array), np.array(np.nan, array.dtype), array)
    data = np.ascontiguousarray(array).tobytes()
    if len(data) > SHOWN_BYTES:
        return [str(array.dtype), list(array.shape), hashlib.sha256(data).hexdigest()]
    return [str(array.dtype), list(array.shape), data.hex()]


def fed(feeds: dict, seed: int) -> dict:
    draw = np.random.RandomState(seed)
    values = {}
    for x in feeds.values():
        shape = x.shape.as_list()
        if x.dtype == tf.int64:
            values[x] = draw.randint(0, 4, shape)
        elif x.dtype == tf.string:
            values[x] = np.array(["ab\0c" * draw.randint(0, 90) for _ in range(*shape)], object)
        else:
            values[x] = draw.standard_normal(shape).astype(np.float32)
    return values


OPTIONS = {
    "traced": {"trace_level": tf1.RunOptions.FULL_TRACE},
    "traced in software": {"trace_level": tf1.RunOptions.SOFTWARE_TRACE},
    "limited": {"timeout_in_ms": LIMIT_MS},
    "cut short": {"timeout_in_ms": SHORT_MS},
    "partitions shown": {"output_partition_graphs": True},
    "allocations reported": {"report_tensor_allocations_upon_oom": True},
}


class Runner:
    """One program over one protocol."""

    def __init__(self, names: dict, feeds: dict, cluster: Cluster, config) -> None:
        self.names, self.feeds, self.cluster = names, feeds, cluster
        self.config, self.isolated = config, config.isolate_session_state
        self.sessions: list = []
        self.callables: dict = {}
        self.why = ""  # it has ended with an error, in words

    def run(self, program: Program) -> list:
        seen: list = []
        with self.cluster.moves(program.seed) as mover:
            self.sessions = [tf1.Session(self.cluster.target(worker), config=self.config) for worker in range(2)]
            try:
                self.initialize()
                for _, group in itertools.groupby(enumerate(program.steps), self.at_once):
                    if mover:
                        mover.between_steps()
                    steps = [step for _, step in group]
                    with concurrent.futures.ThreadPoolExecutor(len(steps)) as pool:
                        for values in pool.map(self.take, steps) if len(steps) > 1 else map(self.take, steps):
                            seen.append([canonical(value) for value in values])
            except tf.errors.OpError as error:
                # The other effects of this step are unknown: the program ends here.
                seen.append(["error", type(error).__name__])
                self.why = str(error)
                if mover and seen[-1] in LOST and not self.cluster.may_end(error):
                    seen[-1].append("may not be lost")
        try:
            if mover and seen and seen[-1] in LOST:
                wait_until(self.goes_on, GOES_ON_S, "the session goes on after its last move")
        finally:
            self.close()
        return seen

    @staticmethod
    def at_once(numbered: tuple[int, Step]):
        number, step = numbered
        return "together" if step.how == "together" else number

    def run_cut(self, program: Program) -> None:
        """Runs each step several times, each time with a limit that may pass at any point. It only has to end."""
        limits = random.Random(program.seed)
        self.sessions = [tf1.Session(self.cluster.target(worker), config=self.config) for worker in range(2)]
        try:
            if limits.random() < 0.7:  # otherwise steps fail, too
                with contextlib.suppress(tf.errors.OpError):
                    self.initialize()
            for step in program.steps:
                for _ in range(CUTS):
                    limit = max(1, round(2 ** limits.uniform(0, 7)))
                    with contextlib.suppress(tf.errors.OpError):
                        self.run_step(step, tf1.RunOptions(timeout_in_ms=limit))
            with contextlib.suppress(tf.errors.OpError):
                self.initialize()
        finally:
            self.close()

    def goes_on(self) -> bool:
        try:
            self.initialize()
        except tf.errors.UnavailableError:
            return False
        return True

    def initialize(self) -> None:
        for session in self.sessions if self.isolated else self.sessions[:1]:
            session.run(self.names["initial"])

    def run_step(self, step: Step, options) -> None:
        fetches = [self.names[name] for name in step.fetches]
        self.sessions[step.worker].run(fetches, fed(self.feeds, step.feed), options=options)

    def close(self) -> None:
        for session in self.sessions:
            with contextlib.suppress(tf.errors.OpError):
                session.close()
        tf1.Session.reset(self.cluster.target(0))

    def take(self, step: Step) -> list:
        session = self.sessions[step.worker]
        fetches = [self.names[name] for name in step.fetches]
        feed = fed(self.feeds, step.feed)
        if step.how == "callable" or step.how == "callable with options":
            key = (step.worker, step.fetches, step.how)
            if key not in self.callables:
                self.callables[key] = self.callable(session, fetches, list(feed), step.how)
            return self.callables[key](*feed.values())
        if step.how == "partial" and len(fetches) > 1:
            handle = session.partial_run_setup(fetches, list(feed))
            return [*session.partial_run(handle, fetches[:1], feed), *session.partial_run(handle, fetches[1:])]
        if step.how == "with an operation" and all(isinstance(each, tf.Tensor) for each in fetches):
            fetches.append(fetches[0].op)
        if step.how not in OPTIONS:
            return session.run(fetches, feed)
        return session.run(fetches, feed, options=tf1.RunOptions(**OPTIONS[step.how]), run_metadata=tf1.RunMetadata())

    def callable(self, session, fetches: list, feeds: list, how: str):
        if how == "callable" or not all(isinstance(each, tf.Tensor) for each in fetches):
            return session.make_callable(fetches, feed_list=feeds)
        wanted = config_pb2.CallableOptions(
            feed=[x.name for x in feeds],
            fetch=[each.name for each in fetches],
            run_options=config_pb2.RunOptions(timeout_in_ms=LIMIT_MS),
        )
        return session._make_callable_from_options(wanted)


def first_difference(expected: list, got: list) -> str:
    for number, (one, other) in enumerate(zip(expected, got, strict=False)):
        if one != other:
            place = next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), 0)
            if "error" not in (one[0], other[0]):
                one, other = one[place], other[place]
            return f"step {number}, fetch {place}: {json.dumps(one)[:300]} over grpc, {json.dumps(other)[:300]}"
    return f"{len(expected)} steps over grpc, {len(got)}"


class Judge:
    def __init__(self, clusters: dict, plant: str, mode: str) -> None:
        """`plant`: a kind of statement whose programs are reported to differ, to test this program."""
        self.clusters, self.plant, self.mode = clusters, plant, mode
        self.took: collections.Counter = collections.Counter()  # seconds
        self.why: dict[str, str] = {}  # by protocol, of the last error

    @contextlib.contextmanager
    def clock(self, what: str):
        begun = time.monotonic()
        yield
        self.took[what] += time.monotonic() - begun

    def judge(self, program: Program, runs: tuple[str, ...]) -> dict:
        names: dict = {}
        with tf.Graph().as_default():
            with self.clock("building"):
                exec(compile(program.text(), f"seed {program.seed}", "exec"), names)
                names["initial"] = [tf1.global_variables_initializer(), tf1.tables_initializer()]
                feeds = {each.name: names[each.name] for each in program.statements if each.kind == "feed"}
            planted = self.plant and any(each.kind == self.plant for each in program.statements)

            def runner(protocol: str) -> Runner:
                print("OVER", protocol, flush=True)  # so that a protocol that hangs or crashes is known
                config = tf1.ConfigProto()
                config.CopyFrom(names["config"])
                if protocol.endswith(" fused"):
                    fusewire.set_options(config, tensor_fuse=True)
                if protocol.endswith(" unique"):
                    fusewire.set_options(config, unique_ids=True)
                return Runner(names, feeds, self.clusters[protocol.split()[0]], config)

            def run(protocol: str) -> list:
                with self.clock(protocol):
                    running = runner(protocol)
                    got = running.run(program)
                    self.why[protocol] = running.why
                return [*got, ["planted"]] if planted and protocol == "star_server" else got

            if self.mode != "cut":
                return self.compare(run, runs)
            # Stock is left out: a limit that passes while a step is being prepared makes it hang.
            for protocol in runs:
                with self.clock(protocol):
                    runner(protocol).run_cut(program)
            return {"differs": {}, "ends": "cut"}

    def compare(self, run, runs: tuple[str, ...]) -> dict:
        expected = run(STOCK)
        got = {protocol: run(protocol) for protocol in runs}
        why = dict(self.why)
        result: dict = {"differs": {}, "ends": "error" if expected and expected[-1][0] == "error" else "ok"}
        if self.mode in ("resets", "moves"):
            for protocol, each in got.items():
                # What the lost step has done is unknown: what the program has seen before must be right.
                if each and each[-1] in LOST and each[:-1] == expected[: len(each) - 1]:
                    result["ends"] = "lost"
                    got[protocol] = expected
        if all(each == expected for each in got.values()):
            return result
        # Only now check that stock agrees with itself.
        for _ in range(STOCK_AGAIN):
            if (again := run(STOCK)) != expected:
                return {"discarded": first_difference(expected, again)}
        for protocol, each in got.items():
            if each != expected:
                again = sum(run(protocol) != expected for _ in range(OURS_AGAIN))
                words = first_difference(expected, each)
                words += f"; again in {again} of {OURS_AGAIN} runs"
                result["differs"][protocol] = f"{words}; {why[protocol]}" if why[protocol] else words
        return result


def main() -> None:
    tf1.disable_eager_execution()
    mode = sys.argv[1]
    has_resets = mode == "resets"
    if has_resets:
        os.environ["FUSEWIRE_TRANSPORT"] = "tcp"
    all_runs = RUNS[2:] if has_resets else RUNS
    protocols = dict.fromkeys(run.split()[0] for run in all_runs)
    if mode == "moves":
        from moving import MovingCluster

        ours = {each: MovingCluster(each) for each in protocols}
    else:
        ours = {each: Cluster(each, has_resets) for each in protocols}
    clusters = {STOCK: Cluster(STOCK), **ours}
    judge = Judge(clusters, os.environ.get("TEST_PLANT", ""), mode)
    print("READY", flush=True)
    for line in sys.stdin:
        words = json.loads(line)
        try:
            result = judge.judge(told(words["program"]), tuple(words["runs"] or all_runs))
        except Exception:
            trace = traceback.format_exc()[-12000:]
            result = {"discarded" if any(words in trace for words in CANNOT_BUILD) else "broken": trace}
        moves: collections.Counter = collections.Counter()
        for cluster in ours.values():
            moves.update(cluster.counts)
            cluster.counts.clear()
        print("RESULT", json.dumps({**result, "took": judge.took, "moves": moves}), flush=True)
        judge.took.clear()
    os._exit(0)


if __name__ == "__main__":
    main()
