# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""monitored_barrier: every rank reports to rank 0, which then tells all of them which ranks are missing.

rank r -> 0   a byte
0 -> rank r   a byte for each rank: 1 if it did not come
"""

import ctypes
import time
from typing import Any

from fusewire._native import UNTIL_SIGNAL, library
from fusewire.torch.errors import TIMEOUT, error_of, last_error
from fusewire.torch.messages import Mail

_MILLISECOND = 1_000_000
_ANSWER_S = 2.0  # that rank 0 takes to answer, once it knows


def monitored_barrier(mail: Mail, rank: int, size: int, number: int, timeout_ns: int, wait_all: bool) -> None:
    """`number`: of this barrier in its group, the same at all ranks."""
    if size == 1:
        return
    tag = mail.tag(number, ours=True)
    if rank == 0:
        _of_root(mail, size, tag, timeout_ns, wait_all)
    else:
        _of_other(mail, rank, size, tag, timeout_ns)


def _of_root(mail: Mail, size: int, tag: int, timeout_ns: int, wait_all: bool) -> None:
    if timeout_ns < _MILLISECOND:
        raise error_of(
            TIMEOUT, "timeout: Rank 0 timed out in monitoredBarrier at once: its timeout is 0; pass a longer one"
        )
    deadline = time.monotonic() + timeout_ns * 1e-9
    bytes_ = (ctypes.c_uint8 * size)()
    receives = {
        other: mail.receive(other, tag, ctypes.addressof(bytes_) + other, 1, timeout_ns) for other in range(1, size)
    }
    absent: dict[int, Any] = {}
    for other, op in receives.items():
        if absent and not wait_all:
            library.fusewire_op_cancel(op)
        code = _end_of(op)
        if code is not None and (wait_all or not absent):
            absent[other] = code
    answer = (ctypes.c_uint8 * size)(*(1 if other in absent else 0 for other in range(size)))
    left_ns = max(int((deadline - time.monotonic()) * 1e9), int(_ANSWER_S * 1e9))
    sends = [
        mail.send(other, tag, ctypes.addressof(answer), size, left_ns)
        for other in range(1, size)
        if other not in absent
    ]
    for op in sends:
        _end_of(op)
    if absent:
        raise error_of(
            TIMEOUT, f"timeout: [Rank 0]: {_failed(sorted(absent), timeout_ns)}: {next(iter(absent.values()))}"
        )


def _of_other(mail: Mail, rank: int, size: int, tag: int, timeout_ns: int) -> None:
    byte, answer = ctypes.c_uint8(1), (ctypes.c_uint8 * size)()
    # Rank 0 answers after its own deadline, which may begin later.
    receive = mail.receive(0, tag, ctypes.addressof(answer), size, timeout_ns + int(_ANSWER_S * 1e9))
    _end_of(mail.send(0, tag, ctypes.addressof(byte), 1, timeout_ns))
    error = _end_of(receive)
    absent = [other for other in range(size) if answer[other]]
    if error is not None:
        why = f"{error}; look at rank 0, whose own error names the ranks that did not come"
    elif absent:
        why = _failed(absent, timeout_ns)
    else:
        return
    raise error_of(
        TIMEOUT,
        f"timeout: Rank {rank} successfully reached monitoredBarrier, but received errors while waiting for "
        f"send/recv from rank 0: {why}",
    )


def _failed(absent: list[int], timeout_ns: int) -> str:
    who = f"Rank {absent[0]}" if len(absent) == 1 else "Ranks " + ", ".join(map(str, absent))
    return f"{who} failed to pass monitoredBarrier in {timeout_ns // _MILLISECOND} ms"


def _end_of(op: int) -> Any:
    """Waits for it, and frees it. The error, or None."""
    try:
        while not library.fusewire_op_wait(op, UNTIL_SIGNAL):
            pass  # a signal's handler may run here, and raise
        code = library.fusewire_op_result(op)
        return last_error(code) if code else None
    finally:
        library.fusewire_op_free(op)
