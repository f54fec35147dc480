# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""What a program tells `fusewire run` of itself: lines on the pipe that the launcher has given to it.

serves      from now on, this task only serves
step N      how far the program is
"""

import contextlib
import os
import time

SERVES, STEP = b"serves", b"step"
STEP_EVERY_S = 0.1


class _Pipe:
    descriptor: int | None = None
    next_step_at = 0.0


def use_pipe(descriptor: int) -> None:
    """Called by the launcher's part of this process."""
    os.set_inheritable(descriptor, False)
    os.set_blocking(descriptor, False)
    _Pipe.descriptor = descriptor


def tell_serving() -> None:
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
