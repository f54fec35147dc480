# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The loop of the launcher and of its agents: one thread that sleeps until something can be read, a signal arrives, or
a time is up."""

import contextlib
import os
import selectors
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

from fusewire.launch.guard import PASSED_ON

READ_BYTES = 1 << 16


def read(source: int) -> bytes | None:
    """What has arrived. None: nothing yet; no bytes: the end, also by an error."""
    try:
        return os.read(source, READ_BYTES)
    except BlockingIOError:
        return None
    except OSError:
        return b""


class Loop:
    """Calls a function for each descriptor that can be read. `signals` are those that have arrived."""

    def __init__(self) -> None:
        self.signals: list[int] = []
        self.on_signal: Callable[[int], None] = lambda number: None  # may interrupt a blocked write: must not print
        self._selector = selectors.DefaultSelector()

    def watch(self, file: Any, call: Callable[[], None], events: int = selectors.EVENT_READ) -> None:
        self._selector.register(file, events, call)

    def forget(self, file: Any) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(file)

    def turn(self, sleep_s: float | None) -> bool:
        """Waits up to sleep_s, and calls what is to be called. False if there was nothing."""
        ready = self._selector.select(sleep_s)
        for key, _ in ready:
            if key.fileobj in self._selector.get_map():  # an earlier call may have closed it
                key.data()
        return bool(ready)

    @contextlib.contextmanager
    def signals_handled(self) -> Iterator[None]:
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_read, False)
        os.set_blocking(wake_write, False)
        self.watch(wake_read, lambda: _drain(wake_read))
        is_main = threading.current_thread() is threading.main_thread()  # others get no signals
        before: dict[int, Any] = {}
        if is_main:
            before = {number: signal.signal(number, self._on_signal) for number in PASSED_ON}
            before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
            old_wakeup = signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        try:
            yield
        finally:
            if is_main:
                signal.set_wakeup_fd(old_wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)
            self._selector.close()
            os.close(wake_read)
            os.close(wake_write)

    def _on_signal(self, number: int, _: object) -> None:
        self.signals.append(number)
        self.on_signal(number)


def _drain(descriptor: int) -> None:
    with contextlib.suppress(BlockingIOError):
        os.read(descriptor, READ_BYTES)


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
