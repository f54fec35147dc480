# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""For tests and benchmarks: programs in processes that are always ended, the ports they get, and waits for what they
do."""

import contextlib
import os
import pathlib
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from typing import IO, TypeVar

Found = TypeVar("Found")
# A test says what is set; what the machine has set must not get in.
OURS = ("FUSEWIRE_", "NETWORK_", "PS_", "WORKER_", "TF_")


def ci_turn() -> int:
    """Chosen by the commit, so that a commit always has the same run; 0 outside of CI."""
    return int(os.environ.get("CI_TURN") or 0)


def clean_environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return {**kept, "TF_CPP_MIN_LOG_LEVEL": "2", **more}


def wait_until(condition: Callable[[], Found], seconds: float, what: str | Callable[[], str]) -> Found:
    """The condition's value, once it is true. For what another process does: there is no event to wait for."""
    ends = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > ends:
            raise AssertionError(f"not within {seconds:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(0.02)
    return found


def free_ports(count: int) -> list[int]:
    """Ports that are free and stay free: the kernel does not assign them to connections and servers."""
    free: set[int] = set()
    while len(free) < count:
        with socket.socket() as trial, contextlib.suppress(OSError):
            trial.bind(("127.0.0.1", random.SystemRandom().randrange(10000, 32000)))
            free.add(trial.getsockname()[1])
    return list(free)


def free_addresses(count: int) -> list[str]:
    return [f"127.0.0.1:{port}" for port in free_ports(count)]


@contextlib.contextmanager
def process(
    command: list[object],
    cwd: pathlib.Path | None = None,
    environment: Mapping[str, str] | None = None,
    stderr: int | IO[str] = subprocess.PIPE,
) -> Iterator[subprocess.Popen[str]]:
    """A process in its own session, with a pipe for its output; the whole session is killed when the block ends."""
    with subprocess.Popen(
        [str(word) for word in command],
        cwd=cwd,
        env=dict(environment or clean_environment()),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        start_new_session=True,
    ) as started:
        try:
            yield started
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)
