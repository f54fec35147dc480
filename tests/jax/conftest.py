# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Ranks as processes, for tests of fusewire.jax. Only they import jax: each needs its own collectives."""

import atexit
import multiprocessing
import os
import pathlib
import queue
import secrets
import signal
import time
import traceback
from collections.abc import Callable
from typing import Any

from processes import free_addresses

ROOT = pathlib.Path(__file__).resolve().parents[2]
_context = multiprocessing.get_context("fork")
BACKENDS = ("gloo", "fusewire")


def join(backend: str, rank: int, addresses: list[str], **how: Any) -> Any:
    """Imports jax, and makes this process a rank. Returns the module."""
    if backend == "gloo":
        import jax

        jax.config.update("jax_enable_x64", True)
        jax.distributed.initialize(addresses[0], len(addresses), rank, local_device_ids=[0])
        return jax
    os.environ["FUSEWIRE_RANK"], os.environ["FUSEWIRE_RANK_ADDRESSES"] = str(rank), ",".join(addresses)
    import fusewire.jax  # noqa: I001, before jax
    import jax

    jax.config.update("jax_enable_x64", True)
    fusewire.jax.initialize(**how)
    return jax


def _rank(function: Callable[..., Any], rank: int, addresses: list[str], results: Any, arguments: Any) -> None:
    try:
        results.put((rank, True, function(rank, addresses, *arguments)))
    except BaseException as error:
        results.put((rank, False, f"{type(error).__name__}: {error}\n{traceback.format_exc()}"))
    results.close()
    results.join_thread()
    atexit._run_exitfuncs()  # a process of multiprocessing ends without them, and JAX and Fusewire leave there


def run_ranks(
    function: Callable[..., Any],
    size: int,
    *arguments: Any,
    seconds: float = 60,
    killed: tuple[int, ...] = (),
) -> list[Any]:
    """Calls function(rank, addresses, *arguments) in a process for each rank; returns their results. `killed`: ranks
    that die, and have no result. A rank with a result has to end well; but if one was killed, JAX itself ends those
    that outlive rank 0."""
    os.environ["FUSEWIRE_SECRET"] = secrets.token_hex(16)
    addresses, results = free_addresses(size), _context.Queue()
    processes = [
        _context.Process(target=_rank, args=(function, rank, addresses, results, arguments), daemon=True)
        for rank in range(size)
    ]
    for process in processes:
        process.start()
    deadline = time.monotonic() + seconds
    found: dict[int, Any] = {}
    wanted = set(range(size)) - set(killed)
    try:
        while wanted - set(found):
            left = deadline - time.monotonic()
            late = sorted(wanted - set(found))
            assert left > 0, f"ranks {late} have no result after {seconds} s"
            try:
                rank, is_well, value = results.get(timeout=min(left, 0.5))
            except queue.Empty:
                ended = [rank for rank in late if not processes[rank].is_alive()]
                assert not ended or not results.empty(), f"ranks {ended} ended without a result"
                continue
            assert is_well, f"rank {rank}: {value}"
            found[rank] = value
        for rank in wanted:
            processes[rank].join(max(0.1, deadline - time.monotonic()))
            ended = processes[rank].exitcode
            assert ended == 0 or (killed and ended is not None), f"rank {rank} ended with {ended}"
    finally:
        for process in processes:
            if process.is_alive():
                os.kill(process.pid, signal.SIGKILL)
            process.join(10)
    return [found.get(rank) for rank in range(size)]
