# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""No process is left behind when one of ours is killed: neither of this command here, nor of an agent over ssh.

Each of them is two processes. The one that was called, the guard, passes signals on, waits, and ends as the other one
does. The other one, the worker, is in a session of its own: a signal for the guard's whole group does not reach it.
Both are subreapers (prctl(2)), so processes that a task has left behind, also by setsid or a double fork, become
children of the worker; if it is gone, of the guard. If one of the two is killed, the other one kills all of these.
Tasks die with the worker in any case; what they have left behind survives only if both are killed at once.
"""

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Collection
from typing import NoReturn

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
KILL_S = 5.0  # until it is given up: a process may fork faster than we look, or be stuck in the kernel
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
OF_SIGNALS = 128  # an exit code is this and the number


def split() -> None:
    """Returns in the process that does the work. The one that called this is the guard, and ends here."""
    sys.stdout.flush()
    sys.stderr.flush()
    others = children()  # inherited from the program that became this process by exec
    become_subreaper()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signals = {signal.SIGCHLD, signal.SIGCONT, *PASSED_ON}
    if signal.getsignal(signal.SIGTSTP) is not signal.SIG_IGN:
        signals.add(signal.SIGTSTP)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    guard = os.getpid()
    worker = os.fork()
    if worker != 0:
        _guard(worker, signals, others)

    def check(*_: object) -> None:
        if os.getppid() != guard:
            kill_children()
            os._exit(OF_SIGNALS + signal.SIGKILL)

    os.setsid()
    become_subreaper()
    # The kernel sends it when the guard dies. Also to a process that is stopped, which then goes on.
    signal.signal(signal.SIGCONT, check)
    _prctl(PR_SET_PDEATHSIG, signal.SIGCONT)
    check()  # the guard may have died before that
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _guard(worker: int, signals: Collection[int], others: Collection[int]) -> NoReturn:
    code = None
    while code is None:
        number = signal.sigwait(signals)
        if number == signal.SIGCHLD:
            code = _reap(worker)
            continue
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGSTOP if number == signal.SIGTSTP else number)
        if number == signal.SIGTSTP:
            os.kill(os.getpid(), signal.SIGSTOP)
    if code < 0:
        kill_children(others)
        _die_by(-code)
        code = OF_SIGNALS - code
    os._exit(code)


def _reap(worker: int) -> int | None:
    """The worker's status as subprocess has it, if it has ended."""
    code = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == worker:
                code = os.waitstatus_to_exitcode(status)
    return code


def _die_by(number: int) -> None:
    """As the worker did, which may have left a core file. Returns if this is the first process of a container."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with contextlib.suppress(OSError):  # SIGKILL
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)


def kill_children(spared: Collection[int] = ()) -> None:
    """Kills all children but those that are spared. What they leave behind is ours then, and is killed, too."""
    left = set(spared)
    until = time.monotonic() + KILL_S
    while (pids := children() - left) and time.monotonic() < until:
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            except PermissionError:  # it runs as another user now
                left.add(pid)
        reaped = [pid for pid in pids if _is_reaped(pid)]
        if not reaped:
            time.sleep(0.001)


def _is_reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


def children() -> set[int]:
    """Of this process, also those that have ended and not been waited for."""
    found = set()
    try:  # while some of them end, others may be missing, but not all
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/children", encoding="ascii") as file:
                found |= {int(word) for word in file.read().split()}
    except OSError:  # a kernel without these files
        return _children_among_all()
    return found


def _children_among_all() -> set[int]:
    found = set()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with (
                contextlib.suppress(OSError),
                open(f"/proc/{entry.name}/stat", encoding="utf-8", errors="replace") as file,
            ):
                # pid (name) state ppid ...; the name may contain any character, including parentheses and spaces
                if int(file.read().rpartition(")")[2].split()[1]) == os.getpid():
                    found.add(int(entry.name))
    return found


def die_with(parent: int) -> None:
    """Called in a new process: the kernel kills it when its parent dies."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent died before prctl took effect
        os._exit(OF_SIGNALS + signal.SIGKILL)


def become_subreaper() -> None:
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    _LIBC.prctl(option, value, 0, 0, 0)


_LIBC = ctypes.CDLL(None, use_errno=True)
