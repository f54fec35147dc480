# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The faults of a cluster: each is a generator that causes the fault, waits, and reverts it.

It yields the number of seconds that the run continues before the next line; it draws from the run's seed.
"""

import random
import signal
import time
from collections.abc import Callable, Iterator

from machine import PEER_TIMEOUT_S, Machine, Task

Fault = Callable[[Machine, random.Random], tuple[str, Iterator[float]]]


def kill_server(machine: Machine, draw: random.Random) -> tuple[str, Iterator[float]]:
    server = draw.choice(machine.living_servers or machine.servers)
    if machine.adopts:
        return _kill_for_good(machine, server, draw)
    return _kill(server, draw)


def kill_worker(machine: Machine, draw: random.Random) -> tuple[str, Iterator[float]]:
    return _kill(draw.choice(machine.workers[1:] or machine.workers), draw)


def kill_chief(machine: Machine, draw: random.Random) -> tuple[str, Iterator[float]]:
    return _kill(machine.workers[0], draw)


def _kill(task: Task, draw: random.Random) -> tuple[str, Iterator[float]]:
    away = draw.choice([0.0, 0.5, 3.0])

    def work() -> Iterator[float]:
        task.may_die = "kill"
        task.kill()
        yield away
        task.start()
        task.may_die = ""

    return f"{task.name} killed, started again after {away} s", work()


def _kill_for_good(machine: Machine, server: Task, draw: random.Random) -> tuple[str, Iterator[float]]:
    """Others take over what it has served. The last one is started again, with those that were killed before it."""
    away, names = draw.choice([0.0, 0.5, 3.0]), ", ".join(task.name for task in server.serves)
    is_last = len(machine.living_servers) < 2

    def work() -> Iterator[float]:
        server.may_die = "kill"
        server.kill()
        yield away
        if is_last:
            machine.start_again(server)
        else:
            machine.hand_over(server)

    then = "started again, as it was the last," if is_last else "adopted by others"
    return f"{server.name} killed, and {names} {then} after {away} s", work()


def freeze(machine: Machine, draw: random.Random) -> tuple[str, Iterator[float]]:
    """For longer than the timeout of a silent peer. Others take over what it has served; then it wakes."""
    living = machine.living_servers or machine.servers
    server, wakes = draw.choice(living), draw.choice([0.5, 3.0, 8.0])
    names = ", ".join(task.name for task in server.serves)
    is_last = len(living) < 2

    def work() -> Iterator[float]:
        began = time.monotonic()
        server.send(signal.SIGSTOP)
        yield PEER_TIMEOUT_S + 1.0
        if machine.adopts:
            server.may_die = "kill"
            if is_last:
                server.kill(began)
                machine.start_again(server)
                return
            server.note_end(began)
            machine.hand_over(server)
        yield wakes
        server.send(signal.SIGCONT)
        yield 3.0
        if machine.adopts:  # it serves nothing any more
            server.kill()

    then = f"and awake {wakes} s later"
    if machine.adopts:
        then = "ended and started again, as it was the last" if is_last else f"{names} adopted by others, {then}"
    return f"{server.name} frozen for {PEER_TIMEOUT_S + 1.0:g} s, {then}", work()


def stop(machine: Machine, draw: random.Random) -> tuple[str, Iterator[float]]:
    task, still = draw.choice(machine.tasks), draw.choice([1.0, 3.0, 8.0])

    def work() -> Iterator[float]:
        task.send(signal.SIGSTOP)
        yield still
        task.send(signal.SIGCONT)

    return f"{task.name} stopped for {still} s", work()


def slow_reader(machine: Machine, draw: random.Random) -> tuple[str, Iterator[float]]:
    """A process that runs a tenth of the time: data sent to it accumulates."""
    task = draw.choice(machine.tasks)

    def work() -> Iterator[float]:
        for _ in range(10):
            task.send(signal.SIGSTOP)
            yield 0.45
            task.send(signal.SIGCONT)
            yield 0.05

    return f"{task.name} runs a tenth of the time for 5 s", work()


def narrow(machine: Machine, draw: random.Random) -> tuple[str, Iterator[float]]:
    task = draw.choice(machine.tasks)

    def work() -> Iterator[float]:
        task.link.limit_rate("1mbit")
        yield 6.0
        task.link.limit_rate(None)

    return f"what goes to {task.name} passes 1 Mbit/s for 6 s", work()


def partition(machine: Machine, draw: random.Random) -> tuple[str, Iterator[float]]:
    server, worker, long = draw.choice(machine.servers), draw.choice(machine.workers), draw.choice([2.0, 8.0, 12.0])

    def work() -> Iterator[float]:
        machine.cut(server, worker)
        machine.cut(worker, server)
        yield long
        machine.restore(server, worker)
        machine.restore(worker, server)

    return f"nothing passes between {server.name} and {worker.name} for {long} s", work()


def one_way(machine: Machine, draw: random.Random) -> tuple[str, Iterator[float]]:
    pair = [draw.choice(machine.servers), draw.choice(machine.workers)]
    draw.shuffle(pair)
    long = draw.choice([2.0, 8.0, 12.0])

    def work() -> Iterator[float]:
        machine.cut(*pair)
        yield long
        machine.restore(*pair)

    return f"nothing passes from {pair[0].name} to {pair[1].name} for {long} s", work()


def reset(machine: Machine, draw: random.Random) -> tuple[str, Iterator[float]]:
    task = draw.choice(machine.tasks)

    def work() -> Iterator[float]:
        machine.reset_connections(task)
        yield 0.0

    return f"the connections of {task.name} reset", work()


def full_disk(machine: Machine, draw: random.Random) -> tuple[str, Iterator[float]]:
    def work() -> Iterator[float]:
        for task in machine.workers:
            task.may_die = "full disk"
        filler = machine.fill_disk()
        yield 5.0
        filler.unlink()
        for task in machine.workers:
            task.may_die = ""

    return "the disk of the checkpoints full for 5 s", work()


def no_descriptors(machine: Machine, draw: random.Random) -> tuple[str, Iterator[float]]:
    task = draw.choice(machine.tasks)
    also = machine.apart and draw.random() < 0.5

    def work() -> Iterator[float]:
        task.may_die = "descriptors"
        task.limit("nofile", task.descriptors() if task.alive() else 64)
        if also:
            machine.reset_connections(task)
        yield 5.0
        task.limit("nofile", None)
        yield 1.0
        task.may_die = ""

    return f"{task.name} without a free descriptor for 5 s" + (", its connections reset" if also else ""), work()


def no_threads(machine: Machine, draw: random.Random) -> tuple[str, Iterator[float]]:
    task = draw.choice(machine.tasks)

    def work() -> Iterator[float]:
        task.may_die = "threads"
        task.limit("nproc", 1)
        yield 5.0
        task.limit("nproc", None)
        yield 1.0
        task.may_die = ""

    return f"{task.name} may start no thread for 5 s", work()


def clock(machine: Machine, draw: random.Random) -> tuple[str, Iterator[float]]:
    task, seconds = draw.choice(machine.tasks), draw.choice([-3600, 3600, -5, 5])

    def work() -> Iterator[float]:
        machine.set_clock(task, seconds)
        yield 4.0
        machine.set_clock(task, 0)

    return f"the clock of {task.name} {seconds:+d} s, and back after 4 s", work()


ALL: dict[str, Fault] = {
    "kill-server": kill_server,
    "kill-worker": kill_worker,
    "kill-chief": kill_chief,
    "stop": stop,
    "freeze": freeze,
    "slow-reader": slow_reader,
    "clock": clock,
    "descriptors": no_descriptors,
    "partition": partition,
    "one-way": one_way,
    "narrow": narrow,
    "reset": reset,
    "full-disk": full_disk,
    "threads": no_threads,
}
APART = ("partition", "one-way", "narrow", "reset", "full-disk", "threads")  # need namespaces, mounts, another user


def possible(machine: Machine) -> list[str]:
    return [name for name in ALL if (machine.apart or name not in APART) and (machine.clock or name != "clock")]
