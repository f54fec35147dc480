# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Clusters whose parameter servers are processes of their own, between which their tasks move while a program runs."""

import collections
import contextlib
import itertools
import os
import pathlib
import random
import re
import threading
from collections.abc import Iterator

import tensorflow as tf
from cluster import Tasks
from processes import wait_until

from fusewire.inspect import inquiry, serving

SECRET = "a secret of the random programs"
SETTINGS = {
    "FUSEWIRE_SECRET": SECRET,
    "FUSEWIRE_SNAPSHOT_EVERY": "0.2",
    "FUSEWIRE_RECOVERY": "60",
}
SENDS_AND_RECEIVES = re.compile(r"/tensorflow\.WorkerService/(RunGraph|RecvTensor)")
CANT_BE_COPIED = "which can't be copied"
MAX_PAUSE_MS = 2000
STARTS_S = 60
PAUSE_S = 0.03  # the mean time between two moves
WORKERS = 2
SERVERS = 2


class MovingCluster:
    """Two parameter servers in two processes, and two workers in this one. Other servers take their place once a
    program has left something that can't be moved."""

    numbers = itertools.count()

    def __init__(self, protocol: str) -> None:
        self._protocol = protocol
        self._processes: Tasks | None = None
        self.counts: collections.Counter = collections.Counter()  # of moves, by what came of them
        self._start()

    def target(self, worker: int) -> str:
        return self._workers[worker].target

    def may_end(self, error: Exception) -> bool:
        """Whether a move may end a step with it: over grpc++, and in what stays with send and receive."""
        return self._protocol == "grpc++" or SENDS_AND_RECEIVES.search(str(error)) is not None

    def _start(self) -> None:
        if self._processes is not None:
            self._processes.end()
        folder = pathlib.Path.cwd() / str(next(self.numbers))
        folder.mkdir()
        settings = {**SETTINGS, "FUSEWIRE_SNAPSHOTS": str(folder / "snapshots")}
        self._processes = Tasks(folder, "", self._protocol, WORKERS, settings)
        self._servers = [self._processes.start("ps", index) for index in range(SERVERS)]
        os.environ.update(settings)
        tasks = {
            job: [self._processes.address(job, index) for index in range(count)]
            for job, count in (("ps", SERVERS), ("worker", WORKERS))
        }
        self._workers = [
            tf.compat.v1.train.Server(tasks, "worker", index, protocol=self._protocol) for index in range(WORKERS)
        ]
        self._addresses = tasks["ps"]
        self._at = [0, 1]  # which process serves each task
        self._is_stuck = False  # a server holds what can't be copied
        wait_until(self._is_served, STARTS_S, "both parameter servers are up")

    @contextlib.contextmanager
    def moves(self, seed: int) -> Iterator["Mover"]:
        """Meanwhile, tasks move, at points that the seed draws."""
        if self._is_stuck:
            self._start()
        mover = Mover(self, seed)
        try:
            yield mover
        finally:
            mover.end()

    def _is_served(self) -> bool:
        look = serving.look(self._addresses)
        return not look.silent and not look.unserved()

    def last_words(self) -> str:
        assert self._processes
        return self._processes.errors()

    def move(self, task: int) -> None:
        """To the other process. Raises NoAnswerError if that one does not answer."""
        to = 1 - self._at[task]
        try:
            inquiry.give_order(self._addresses[to], f"move ps:{task} {MAX_PAUSE_MS}", SECRET)
            self.counts["made"] += 1
            self._at[task] = to
        except inquiry.OrderError as error:
            self._is_stuck |= CANT_BE_COPIED in str(error)
            self.counts["not made: " + re.sub(r"\b[a-z]?\d+\S*", "N", str(error))] += 1
            look = serving.look(self._addresses)
            server = look.server_of(f"ps:{task}")
            assert server, f"nobody serves ps:{task}: {look.why_silent()}"
            self._at[task] = self._addresses.index(server.address)


class Mover:
    """Moves tasks between steps, or at any time, as the seed says."""

    def __init__(self, cluster: MovingCluster, seed: int) -> None:
        self._cluster, self._draw = cluster, random.Random(seed)
        self._at_any_time = self._draw.random() < 0.6
        self._ended = threading.Event()
        self._failed: Exception | None = None
        self._thread = threading.Thread(target=self._work)
        if self._at_any_time:
            self._thread.start()

    def between_steps(self) -> None:
        while not self._at_any_time and self._draw.random() < 0.5:
            self._move()

    def end(self) -> None:
        """When it returns, nothing moves any more."""
        self._ended.set()
        if self._at_any_time:
            self._thread.join()
        if self._failed:
            raise RuntimeError(f"{self._failed}\n{self._cluster.last_words()}") from self._failed

    def _work(self) -> None:
        try:
            while not self._ended.wait(self._draw.expovariate(1 / PAUSE_S)):
                self._move()
        except (inquiry.NoAnswerError, AssertionError) as error:
            self._failed = error

    def _move(self) -> None:
        self._cluster.move(self._draw.randrange(SERVERS))
