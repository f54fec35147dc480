# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Ranks as processes, for tests of backend="fusewire"."""

import io
import multiprocessing
import os
import pathlib
import queue
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from typing import Any

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "python"))  # for kills.py: pytest does not start it

import torch
import torch.distributed as dist
from processes import wait_until

import fusewire.torch  # noqa: F401

ROOT = pathlib.Path(__file__).resolve().parents[2]
_context = multiprocessing.get_context("fork")  # the parent never makes a process group


class EndedError(Exception):
    """A rank that ended without a result."""


def packed(value: Any) -> bytes:
    """With its tensors' bytes: a queue would pass on file descriptors of a process that ends."""
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def _rank(function: Callable[..., Any], rank: int, size: int, folder: str, results: Any, arguments: Any) -> None:
    torch.set_num_threads(1)
    os.environ.setdefault("TORCH_FR_DUMP_TEMP_FILE", f"{folder}/flight-recorder-")
    try:
        results.put((rank, True, packed(function(rank, size, folder, *arguments))))
    except BaseException as error:
        results.put((rank, False, f"{type(error).__name__}: {error}\n{traceback.format_exc()}"))


def run_ranks(
    function: Callable[..., Any],
    size: int,
    *arguments: Any,
    seconds: float = 60,
    killed: tuple[int, ...] = (),
    fails: bool = False,
) -> list[Any]:
    """Calls function(rank, size, folder, *arguments) in a process for each rank; returns their results. `killed`: ranks
    that die, and have no result. `fails`: the errors are returned as text."""
    with tempfile.TemporaryDirectory(prefix="fusewire-torch-") as folder:
        results = _context.Queue()
        processes = [
            _context.Process(target=_rank, args=(function, rank, size, folder, results, arguments), daemon=True)
            for rank in range(size)
        ]
        for process in processes:
            process.start()
        deadline = time.monotonic() + seconds
        found: dict[int, Any] = {}
        wanted = set(range(size)) - set(killed)
        try:
            while wanted - set(found):
                try:
                    rank, is_well, value = results.get(timeout=0.2)
                except queue.Empty:
                    late = sorted(wanted - set(found))
                    for rank in late:
                        # A process does not end before its result is in the queue.
                        if not processes[rank].is_alive() and results.empty():
                            code = processes[rank].exitcode
                            raise EndedError(f"rank {rank} ended with {code} and no result") from None
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"ranks {late} have no result after {seconds} s") from None
                    continue
                if not is_well and not fails:
                    raise AssertionError(f"rank {rank}: {value}")
                found[rank] = torch.load(io.BytesIO(value), weights_only=False) if is_well else value
            for rank in wanted:
                processes[rank].join(max(0.1, deadline - time.monotonic()))
                assert processes[rank].exitcode == 0, f"rank {rank} ended with {processes[rank].exitcode}"
        finally:
            for process in processes:
                if process.is_alive():
                    os.kill(process.pid, signal.SIGKILL)
                process.join(10)
        return [found.get(rank) for rank in range(size)]


def join(backend: str, rank: int, size: int, folder: str, **how: Any) -> None:
    dist.init_process_group(
        backend, init_method=f"file://{folder}/{backend.replace(':', '-')}", rank=rank, world_size=size, **how
    )


def tell(folder: str, word: str) -> None:
    """To the ranks that wait for this word."""
    pathlib.Path(folder, f"told-{word}").touch()


def wait_for(folder: str, *words: str) -> None:
    told = [pathlib.Path(folder, f"told-{word}") for word in words]
    wait_until(lambda: all(path.exists() for path in told), 30, f"the other ranks tell {words}")


@pytest.fixture
def ranks() -> Callable[..., list[Any]]:
    return run_ranks
