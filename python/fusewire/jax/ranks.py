# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""This process as a rank of a JAX program: joining, the communicators of a mesh, leaving."""

import atexit
import contextlib
import ctypes
import itertools
import os
import re
import socket
import sys
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax._src import distributed, xla_bridge

from fusewire import _native, collective, machine
from fusewire._native import KINDS, nanoseconds
from fusewire.collective import Group
from fusewire.jax.bootstrap import join
from fusewire.jax.library import library
from fusewire.p2p import Endpoint
from fusewire.pages import with_page

_DEVICES = re.compile(r"--xla_force_host_platform_device_count=(\d+)")
_FAREWELL_S = 10.0  # for processes that end at the same time
_LAST_KEY = 1  # of the last operation: XLA's have none
_INITIALIZATION_S = 300  # as jax.distributed.initialize has it


class _Rank:
    """What the library has been given, until it leaves."""

    def __init__(self, group: Group, endpoint: Endpoint, members: Sequence[tuple[str, str]], timeout: float | None):
        count = len(members)
        names = (ctypes.c_char_p * count)(*(name.encode() for name, _ in members))
        addresses = (ctypes.c_char_p * count)(*(address.encode() for _, address in members))
        self.group, self.endpoint = group, endpoint
        limit = 0 if timeout is None else nanoseconds(timeout)
        library.fusewire_mpi_join(endpoint._handle, group._handle, names, addresses, limit)
        # Before the group is freed. At exit that is after JAX's own end, see library.py.
        self.end: weakref.finalize[..., Any] = group._owns(self, _leave, group._handle)
        atexit.register(_end_failed)  # before JAX's own end


_rank: _Rank | None = None


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    *,
    timeout: float | None = None,
    **options: Any,
) -> None:
    """Makes this process a rank, and Fusewire the way of JAX's collectives on CPUs. Call it before the first use of a
    device.

    The arguments are those of jax.distributed.initialize(), which is called with them unless it was before. Without
    any, they come from `fusewire run --ranks N`, or are found as JAX finds them. `timeout`: seconds that a collective
    may take, from its first rank to its last; None: 60.
    """
    global _rank
    if _rank is not None:
        raise RuntimeError("initialize() was already called in this process: call shutdown() first")
    _check_devices()
    jax.config.update("jax_cpu_collectives_implementation", "mpi")
    given = (coordinator_address, num_processes, process_id)
    if distributed.global_state.client is None and given == (None, None, None) and _has_addresses():
        _rank = _Rank(*_join_by_environment(options), timeout)
        return
    if distributed.global_state.client is None:
        jax.distributed.initialize(*given, **options)
    state = distributed.global_state
    limit_s = float(options.get("initialization_timeout", _INITIALIZATION_S))
    endpoint, group, members = join(
        state.client, state.process_id, state.num_processes, state.coordinator_address or "", limit_s
    )
    _rank = _Rank(group, endpoint, members, timeout)


def _check_devices() -> None:
    if xla_bridge.backends_are_initialized():
        raise RuntimeError(
            with_page(
                "JAX has already looked for its devices, and chosen its collectives: call fusewire.jax.initialize() "
                "before any computation, jax.devices() or jax.device_put()",
                "jax",
            )
        )
    forced = _DEVICES.findall(os.environ.get("XLA_FLAGS", ""))
    count = max(int(jax.config.jax_num_cpu_devices), int(forced[-1]) if forced else 1)
    if count > 1:
        raise ValueError(
            with_page(
                f"this process has {count} CPU devices, and XLA's collectives of this kind serve one in each process: "
                "start a process for each device, without jax_num_cpu_devices and "
                "--xla_force_host_platform_device_count",
                "jax",
            )
        )


# ---- joining by the environment of `fusewire run` ----


def _has_addresses() -> bool:
    return bool(os.environ.get("FUSEWIRE_RANK_ADDRESSES")) or collective.is_initialized()


def _join_by_environment(options: dict[str, Any]) -> tuple[Group, Endpoint, list[tuple[str, str]]]:
    """JAX's coordinator is at rank 0; a second group of the same ranks tells the others where."""
    if not collective.is_initialized():
        collective.init()
    group = collective.sibling("jax")
    rank, members = group.rank(), collective.members()
    here = machine.host_and_port(members[0][1])
    host = here[0] if here else machine.loopback()
    with _bound(host) if rank == 0 else contextlib.nullcontext() as bound:
        port = group.broadcast_object(bound.getsockname()[1] if bound else None, 0)
    if bound:
        options = {"coordinator_bind_address": machine.at_port(_bindable(host), port), **options}
    jax.distributed.initialize(machine.at_port(host, port), len(members), rank, **{"local_device_ids": [0], **options})
    return group, collective.endpoint(), members


def _bound(host: str) -> socket.socket:
    """A socket at a free port, which JAX's coordinator takes."""
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((_bindable(host), 0))
    return bound


def _bindable(host: str) -> str:
    """Behind NAT, the address of this rank is that of the gateway."""
    if machine.may_bind(host):
        return host
    return "::" if ":" in host else "0.0.0.0"


# ---- the communicators of a mesh ----


def prepare(mesh: Any) -> None:
    """Makes the communicators of a mesh: one for each choice of its axes. All processes of the mesh call it, at the
    same time.

    For a mesh over some of the processes it has to be the first use of the mesh: XLA asks all processes otherwise. For
    one over all of them it may be left out.
    """
    if _rank is None:
        raise RuntimeError("this process is not a rank yet: call fusewire.jax.initialize() first")
    places = np.argwhere(np.vectorize(lambda device: device.process_index)(mesh.devices) == jax.process_index())
    if len(places) == 0:
        return
    for axes in _choices(mesh):
        others = tuple(
            slice(None) if name in axes else int(place) for name, place in zip(mesh.axis_names, places[0], strict=True)
        )
        ranks = [device.process_index for device in np.asarray(mesh.devices[others]).ravel()]
        numbers = (ctypes.c_int * len(ranks))(*ranks)
        library.fusewire_mpi_expect(numbers, len(ranks))
        try:
            jax.block_until_ready(_touch(mesh, axes)())
        finally:
            library.fusewire_mpi_expect(None, 0)


def _choices(mesh: Any) -> Iterator[tuple[str, ...]]:
    """The sets of axes along which there is more than one device."""
    wide = [name for name in mesh.axis_names if mesh.shape[name] > 1]
    for count in range(1, len(wide) + 1):
        yield from itertools.combinations(wide, count)


def _touch(mesh: Any, axes: tuple[str, ...]) -> Any:
    nothing = jax.sharding.PartitionSpec()
    return jax.jit(
        jax.shard_map(
            lambda: jax.lax.psum(jax.lax.axis_index(axes[0]), axes),
            mesh=mesh,
            in_specs=(),
            out_specs=nothing,
            check_vma=False,
        )
    )


# ---- leaving ----


def shutdown() -> None:
    """This process leaves, once its computations have ended and all processes have come to this point: programs that
    just end need no call. Collectives fail from now on."""
    with contextlib.suppress(Exception):
        for array in jax.live_arrays("cpu") if xla_bridge.backends_are_initialized() else ():
            array.block_until_ready()
    _end()


def _end() -> None:
    global _rank
    if _rank is None:
        return
    last, _rank = _rank, None
    atexit.unregister(_end_failed)
    last.end()
    last.group.close()
    if not collective.is_initialized() or collective.endpoint() is not last.endpoint:
        last.endpoint.close()


def _end_failed() -> None:
    """After an exception that ends the program, the others learn at once that this process is gone: JAX would have it
    wait for them, and they wait for it."""
    if _has_failed():
        _end()


def _has_failed() -> bool:
    return getattr(sys, "last_value", None) is not None


def _leave(group: int) -> None:
    """Other processes may still need this one's part of a computation that is under way, so it waits for them."""
    if not _has_failed():
        numbers = KINDS.index("barrier"), 0, 0, 0, _LAST_KEY, nanoseconds(_FAREWELL_S)
        _native.Calls(group).run_at(*numbers, False, (), (), (), ())  # an error: they have gone already
    library.fusewire_mpi_leave()
