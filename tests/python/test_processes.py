# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Programs that fork, start other programs, or are interrupted at any time."""

import concurrent.futures
import ctypes
import os
import platform
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

from fusewire import p2p
from fusewire.collective import Group, Sum

pytestmark = pytest.mark.once
LIMIT_S = 20.0
MESSAGES = 200


def joined(wire):
    a, b = p2p.Endpoint("a", wire=wire), p2p.Endpoint("b", wire=wire)
    return a, b, b.peer("a"), a.connect("b", b.address, LIMIT_S)


def exchange(a, b, to_a, to_b, tag, elements=1000):
    sent, got = np.full(elements, float(tag)), np.zeros(elements)
    receive = b.prepare_receive(to_a, tag, got).post(LIMIT_S)
    a.send(to_b, tag, sent, LIMIT_S)
    receive.wait()
    np.testing.assert_array_equal(got, sent)


def end_of(child):
    """The exit status of a forked child; a hang is a failure."""
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid != 0:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError("the forked child hangs")


def test_a_forked_child_that_ends_takes_nothing_with_it():
    """The child ends as Python does, with all finalizers: no peer gets a goodbye, no rank leaves its group."""
    code = textwrap.dedent(f"""
        import os, sys
        sys.path[:0] = {sys.path!r}
        import numpy as np
        import test_processes as t
        from fusewire import p2p
        from fusewire.collective.group import Group

        def all_reduce(groups):
            arrays = [np.ones(5), np.ones(5)]
            tickets = [group.allreduce_async(array, name="x", out=array) for group, array in zip(groups, arrays)]
            for ticket in tickets:
                ticket.wait()

        for wire in ("tcp", "shm"):
            a, b, to_a, to_b = t.joined(wire)
            t.exchange(a, b, to_a, to_b, 1)
            members = [("a", a.address), ("b", b.address)]
            groups = [Group.make(end, "g", members, rank) for rank, end in enumerate((a, b))]
            all_reduce(groups)
            posted = b.prepare_receive(to_a, 2, bytearray(8000)).post(t.LIMIT_S)
            child = os.fork()
            if child == 0:
                refused = 0
                for use in (lambda: a.send(to_b, 2, bytes(8)), posted.wait, groups[0].rank):
                    try:
                        use()
                    except p2p.Error as error:
                        refused += "forked from" in str(error)
                with p2p.Endpoint("c") as c, p2p.Endpoint("d") as d:  # its own are as good as any
                    t.exchange(c, d, d.peer("c"), c.connect("d", d.address, t.LIMIT_S), 3)
                sys.exit(refused)
            assert t.end_of(child) == 3
            a.send(to_b, 2, bytes(8000), t.LIMIT_S)
            posted.wait()
            for tag in range(3, 10):
                t.exchange(a, b, to_a, to_b, tag, 100000)
            assert to_b.up and to_a.up
            all_reduce(groups)
            for one in (*groups, a, b):
                one.close()
        print("well")
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "well\n"


@pytest.mark.parametrize("wire", ["auto", "tcp"])
def test_a_program_that_is_started_inherits_no_descriptor(wire):
    a, b, to_a, to_b = joined(wire)
    exchange(a, b, to_a, to_b, 1)
    code = """if True:
        import os
        for fd in os.listdir("/proc/self/fd"):
            if os.path.exists(f"/proc/self/fd/{fd}"):
                print(os.readlink(f"/proc/self/fd/{fd}"))
    """
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, close_fds=False, check=True)
    for ours in ("memfd:", "anon_inode:", "socket:"):
        assert ours not in done.stdout
    a.close()
    b.close()


@pytest.mark.parametrize("wire", ["shm", "tcp"])
def test_storms_of_signals_break_nothing(wire):
    """Handlers without SA_RESTART, on the thread that the kernel picks, a thousand times a second."""
    heard = [0]
    storm = [signal.SIGALRM, signal.SIGUSR1, signal.SIGCHLD]
    before = {number: signal.signal(number, lambda *_: heard.__setitem__(0, heard[0] + 1)) for number in storm}
    a, b, to_a, to_b = joined(wire)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        for tag in range(MESSAGES):
            exchange(a, b, to_a, to_b, tag, 200000 if tag % 20 == 0 else 100)
            os.kill(os.getpid(), signal.SIGUSR1)
            if tag % 50 == 0:
                subprocess.run(["true"], check=True)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
    assert heard[0] > MESSAGES
    a.close()
    b.close()


def storm_over_all_threads(until, number):
    """Sends the signal to each thread of the process in turn, including those that Python does not know."""
    tgkill = ctypes.CDLL(None).syscall
    while not until.wait(0.001):
        for thread in os.listdir("/proc/self/task"):
            tgkill(234, os.getpid(), int(thread), int(number))  # x86-64's number; a thread may have ended


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the number of the system call is another one")
@pytest.mark.parametrize("restarts", [True, False])
@pytest.mark.parametrize("arena", [True, False])
def test_storms_of_signals_break_no_collective(restarts, arena):
    """During futexes, polls and writes, also on our threads, with and without SA_RESTART."""
    heard = [0]
    before = signal.signal(signal.SIGUSR1, lambda *_: heard.__setitem__(0, heard[0] + 1))
    signal.siginterrupt(signal.SIGUSR1, not restarts)
    a, b, _, _ = joined("auto" if arena else "tcp")
    members = [("a", a.address), ("b", b.address)]
    groups = [Group.make(end, "g", members, rank, arena=arena) for rank, end in enumerate((a, b))]
    over = threading.Event()
    storm = threading.Thread(target=storm_over_all_threads, args=(over, signal.SIGUSR1))

    def work(group):
        for turn in range(MESSAGES // 2):
            array = np.full(200000 if turn % 20 == 0 else 100, float(turn))
            np.testing.assert_array_equal(group.allreduce(array, Sum), 2 * array)
            np.testing.assert_array_equal(group.broadcast(array, turn % 2), array)
            group.barrier()

    storm.start()
    try:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            running = [pool.submit(work, group) for group in groups]
            until = time.monotonic() + 3 * LIMIT_S
            while not all(one.done() for one in running) and time.monotonic() < until:
                time.sleep(0.001)  # the main thread runs the handlers
            for one in running:
                one.result(timeout=0)
    finally:
        over.set()
        storm.join()
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # those that are on their way
        signal.signal(signal.SIGUSR1, before)
        for one in (*groups, a, b):
            one.close()
    assert heard[0] > 0


class Told:
    """An object that runs code when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_nothing_is_unpickled_without_proof_of_the_secret(tmp_path):
    """Neither with the name of a rank nor with the name of the group; ranks trust each other."""
    here, members_of = tmp_path / "run", lambda *ends: [(end.name, end.address) for end in ends]
    a, b = p2p.Endpoint("a", secret="open sesame, open"), p2p.Endpoint("b", secret="open sesame, open")
    for secret in (None, "guessed, guessed"):
        with p2p.Endpoint("b", secret=secret) as stranger:
            group = Group.make(a, "g", members_of(a, stranger), 0)
            false = Group.make(stranger, "g", members_of(a, stranger), 1)
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                said = pool.submit(false.broadcast_object, Told(here), 1)
                with pytest.raises(p2p.Error, match=r"secret|refused|unavailable"):
                    group.broadcast_object(None, 1)
                with pytest.raises(p2p.Error):
                    said.result(timeout=LIMIT_S)
            group.close()
            false.close()
    assert not here.exists()
    # Of the cluster, and no rank.
    with p2p.Endpoint("c", secret="open sesame, open") as outsider, pytest.raises(p2p.Error, match="invalid"):
        Group.make(outsider, "g", members_of(a, b), 1)
    groups = [Group.make(end, "h", members_of(a, b), rank) for rank, end in enumerate((a, b))]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda group: group.broadcast_object("words", 1), groups)) == ["words"] * 2
        said = list(pool.map(lambda group: group.broadcast_object(Told(here), 1), groups, timeout=LIMIT_S))
    assert here.is_dir()
    assert said[0] is None
    for one in (*groups, a, b):
        one.close()


def test_a_peer_that_dies_sends_no_sigpipe():
    """Python ignores that signal; a program in C++ need not."""
    code = textwrap.dedent(f"""
        import os, signal, sys, time
        sys.path[:0] = {sys.path!r}
        from fusewire import p2p
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        for wire in ("tcp", "shm"):
            read, write = os.pipe()
            other = os.fork()
            if other == 0:
                end = p2p.Endpoint("b", wire=wire)
                to_a = end.peer("a")
                os.write(write, end.address.encode())
                end.receive(to_a, 1, bytearray(10))
                time.sleep(60)
            with p2p.Endpoint("a", wire=wire) as a:
                to_b = a.connect("b", os.read(read, 100).decode(), {LIMIT_S})
                a.send(to_b, 1, bytes(10), {LIMIT_S})
                sends = [a.prepare_send(to_b, 2, bytes(4000)).post({LIMIT_S}) for _ in range(50)]
                os.kill(other, signal.SIGKILL)
                os.waitpid(other, 0)
                ends = 0
                for send in sends + [a.prepare_send(to_b, 3, bytes(1000000)).post(1) for _ in range(5)]:
                    try:
                        send.wait()
                    except p2p.Error:
                        ends += 1
                assert ends >= 5, ends
        print("well")
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "well\n"
