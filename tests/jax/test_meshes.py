# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Meshes with several axes, in any order, over all processes and over some of them."""

import itertools
from typing import Any

import numpy as np
from conftest import BACKENDS, join, run_ranks


def gathered(jax: Any, mesh: Any, axes: tuple[str, ...]) -> Any:
    """The indices of the devices along these axes, gathered, and their sum."""
    nothing = jax.sharding.PartitionSpec()

    def program() -> Any:
        here = sum(jax.lax.axis_index(name) * 10**place for place, name in enumerate(mesh.axis_names)) + 1.5
        return jax.lax.all_gather(here, axes), jax.lax.psum(here, axes)

    run = jax.jit(jax.shard_map(program, mesh=mesh, in_specs=(), out_specs=nothing, check_vma=False))
    return [np.asarray(one.addressable_data(0)).tolist() for one in run()]


def over_all(rank: int, addresses: list[str], backend: str) -> list[Any]:
    jax = join(backend, rank, addresses)
    devices = np.array(jax.devices())
    results = []
    for shape, names in (((2, 2), ("x", "y")), ((4, 1), ("x", "y")), ((4,), ("all",)), ((2, 1, 2), ("a", "b", "c"))):
        for order in (slice(None), slice(None, None, -1)):
            mesh = jax.sharding.Mesh(devices[order].reshape(shape), names)
            for count in range(1, len(names) + 1):
                results += [gathered(jax, mesh, axes) for axes in itertools.combinations(names, count)]
    # Two meshes of two processes each, which exist at the same time and do different things.
    half = jax.sharding.Mesh(devices[:2] if rank < 2 else devices[:1:-1], ("half",))
    results += [gathered(jax, half, ("half",)) for _ in range(3 + rank // 2)]
    return results


def test_axes_and_orders():
    wanted, found = (run_ranks(over_all, 4, backend, seconds=120) for backend in BACKENDS)
    assert found == wanted


def over_some(rank: int, addresses: list[str], backend: str) -> list[Any]:
    jax = join(backend, rank, addresses)
    devices = np.array(jax.devices())
    results = []
    for chosen in ([3, 1], [0, 1, 2], [2, 0]):
        mesh = jax.sharding.Mesh(devices[chosen], ("some",))
        if rank not in chosen:
            continue
        if backend == "fusewire":
            import fusewire.jax

            fusewire.jax.prepare(mesh)
        results.append(gathered(jax, mesh, ("some",)))
    four = jax.sharding.Mesh(devices.reshape(2, 2), ("x", "y"))
    if backend == "fusewire":
        fusewire.jax.prepare(four)  # of all processes: it may be called, too
    return [*results, gathered(jax, four, ("y",)), gathered(jax, four, ("x", "y"))]


def test_some_of_the_processes():
    wanted, found = (run_ranks(over_some, 4, backend) for backend in BACKENDS)
    assert found == wanted


def unprepared(rank: int, addresses: list[str]) -> str:
    jax = join("fusewire", rank, addresses, timeout=2)
    from jax._src import distributed

    mesh, said = jax.sharding.Mesh(np.array(jax.devices())[:2], ("some",)), ""
    if rank < 2:
        try:
            gathered(jax, mesh, ("some",))
        except jax.errors.JaxRuntimeError as error:
            said = str(error)
    distributed.global_state.client.wait_at_barrier("done", 60_000)  # rank 2 stays, and does not come
    return said


def test_some_of_the_processes_unprepared():
    said = run_ranks(unprepared, 3)
    for text in said[:2]:
        assert "timeout: rank 2 (world:2) did not come" in text
        assert "call fusewire.jax.prepare(mesh) in these first" in text
