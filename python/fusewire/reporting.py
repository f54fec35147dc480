# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""What a program tells `fusewire run` about itself: lines on the pipe that the launcher has given to it. A program that
the launcher's own part does not run finds it in its environment, as DESCRIPTOR:INODE.

serves      from now on, this task only serves
step N      how far the program is
"""

import contextlib
import os
import stat
import time

SERVES, STEP = b"serves", b"step"
STEP_EVERY_S = 0.1
VARIABLE = "_FUSEWIRE_TELLS"


class _Pipe:
    descriptor: int | None = None
    next_step_at = 0.0


def name_of(descriptor: int) -> str:
    return f"{descriptor}:{os.fstat(descriptor).st_ino}"


def _find_pipe() -> None:
    """A child of the program inherits the variable, and perhaps another file under that number."""
    name = os.environ.get(VARIABLE, "")
    with contextlib.suppress(OSError, ValueError):
        descriptor = int(name.partition(":")[0])
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode) and name_of(descriptor) == name:
            use_pipe(descriptor)


def use_pipe(descriptor: int) -> None:
    """Called by the launcher's part of this process."""
    os.set_inheritable(descriptor, False)
    os.set_blocking(descriptor, False)
    _Pipe.descriptor = descriptor


def is_launched() -> bool:
    return _Pipe.descriptor is not None


def report_serving() -> None:
    if _Pipe.descriptor is not None:
        with contextlib.suppress(OSError):
            os.set_blocking(_Pipe.descriptor, True)  # the launcher has to learn it
            os.write(_Pipe.descriptor, SERVES + b"\n")


def progress(step: int) -> None:
    """Shows how far the program is, in its line of `fusewire run`. It may be called in each step: it never waits, and
    most calls do nothing, as do all outside of `fusewire run`."""
    if _Pipe.descriptor is None:
        return
    now = time.monotonic()
    if now >= _Pipe.next_step_at:
        _Pipe.next_step_at = now + STEP_EVERY_S
        with contextlib.suppress(OSError):  # nobody reads now, or any more
            os.write(_Pipe.descriptor, b"%s %d\n" % (STEP, int(step)))


_find_pipe()
