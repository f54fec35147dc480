# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Runs programs over every protocol, in clusters of one process: two parameter servers and two workers for each.

A line of JSON comes in for each program (program.py), and a line goes out with what differed from stock gRPC. Run by
judging.py, which notices when it dies or hangs.
"""

import contextlib
import json
import os
import sys
import traceback

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_NUM_INTRAOP_THREADS"] = "1"  # a sum must not depend on how many threads share it
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np
import tensorflow as tf
from cluster import free_addresses
from program import Program, Statement, Step

import fusewire

tf1 = tf.compat.v1
STOCK = "grpc"
RUNS = ("grpc++", "grpc++ fused", "star_server", "star_server_lite")
LIMIT_MS = 60_000


class Cluster:
    def __init__(self, protocol: str) -> None:
        addresses = free_addresses(4)
        tasks = {"ps": addresses[:2], "worker": addresses[2:]}
        self.servers = [tf1.train.Server(tasks, job, index, protocol=protocol) for job in tasks for index in range(2)]

    def target(self, worker: int) -> str:
        return self.servers[2 + worker].target


def canonical(value) -> list:
    """Equal for equal bits; any NaN is a NaN."""
    array = np.asarray(value)
    if array.dtype == object:
        return ["text", list(array.shape), [str(each) for each in array.ravel()]]
    if np.issubdtype(array.dtype, np.floating):
        array = np.where(np.isnan(array), np.array(np.nan, array.dtype), array)
    return [str(array.dtype), list(array.shape), np.ascontiguousarray(array).tobytes().hex()]


def fed(feeds: dict, seed: int) -> dict:
    draw = np.random.RandomState(seed)
    return {x: draw.standard_normal(x.shape.as_list()).astype(np.float32) for x in feeds.values()}


class Runner:
    """One program over one protocol."""

    def __init__(self, names: dict, feeds: dict, cluster: Cluster, config) -> None:
        self.names, self.feeds, self.cluster = names, feeds, cluster
        self.sessions = [tf1.Session(cluster.target(worker), config=config) for worker in range(2)]
        self.callables: dict = {}

    def run(self, program: Program) -> list:
        seen = []
        try:
            self.sessions[0].run(self.names["initial"])
            for step in program.steps:
                seen.append([canonical(value) for value in self.take(step)])
        except tf.errors.OpError as error:
            # What else this step did is anybody's guess: the program ends here.
            seen.append(["error", type(error).__name__])
        finally:
            for session in self.sessions:
                with contextlib.suppress(tf.errors.OpError):
                    session.close()
            tf1.Session.reset(self.cluster.target(0))
        return seen

    def take(self, step: Step) -> list:
        session = self.sessions[step.worker]
        fetches = [self.names[name] for name in step.fetches]
        feed = fed(self.feeds, step.feed)
        if step.how == "callable":
            key = (step.worker, step.fetches)
            if key not in self.callables:
                self.callables[key] = session.make_callable(fetches, feed_list=list(feed))
            return self.callables[key](*feed.values())
        if step.how == "partial" and len(fetches) > 1:
            handle = session.partial_run_setup(fetches, list(feed))
            return [*session.partial_run(handle, fetches[:1], feed), *session.partial_run(handle, fetches[1:])]
        options = None
        if step.how == "traced":
            options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
        elif step.how == "limited":
            options = tf1.RunOptions(timeout_in_ms=LIMIT_MS)
        return session.run(fetches, feed, options=options, run_metadata=tf1.RunMetadata() if options else None)


def first_difference(expected: list, got: list) -> str:
    for number, (one, other) in enumerate(zip(expected, got, strict=False)):
        if one != other:
            return f"step {number}: {json.dumps(one)[:300]} over grpc, {json.dumps(other)[:300]}"
    return f"{len(expected)} steps over grpc, {len(got)}"


def judge(program: Program, clusters: dict, plant: str) -> dict:
    """`plant`: a kind of statement whose programs are said to differ, for the tester's own test."""
    names: dict = {}
    with tf.Graph().as_default():
        exec(compile(program.text(), f"seed {program.seed}", "exec"), names)
        names["initial"] = [tf1.global_variables_initializer(), tf1.tables_initializer()]
        feeds = {each.name: names[each.name] for each in program.statements if each.kind == "feed"}

        def run(protocol: str) -> list:
            config = fusewire.ConfigProto(tensor_fuse=True) if protocol.endswith(" fused") else None
            return Runner(names, feeds, clusters[protocol.split()[0]], config).run(program)

        expected = run(STOCK)
        if run(STOCK) != expected:
            return {"discarded": True}
        result = {"differs": {}, "ends": "error" if expected and expected[-1][0] == "error" else "ok"}
        for protocol in RUNS:
            got = run(protocol)
            if plant and protocol == "star_server" and any(each.kind == plant for each in program.statements):
                got = [*got, ["planted"]]
            if got != expected:
                result["differs"][protocol] = first_difference(expected, got)
    return result


def main() -> None:
    tf1.disable_eager_execution()
    clusters = {protocol: Cluster(protocol) for protocol in (STOCK, "grpc++", "star_server", "star_server_lite")}
    print("READY", flush=True)
    for line in sys.stdin:
        told = json.loads(line)
        statements = tuple(
            Statement(**{**each, "uses": tuple(each["uses"]), "after": tuple(each["after"])})
            for each in told["statements"]
        )
        steps = tuple(Step(**{**each, "fetches": tuple(each["fetches"])}) for each in told["steps"])
        try:
            result = judge(Program(told["seed"], statements, steps), clusters, os.environ.get("TEST_PLANT", ""))
        except Exception:
            result = {"broken": traceback.format_exc()[-2000:]}
        print("RESULT", json.dumps(result), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
