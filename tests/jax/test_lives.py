# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Ways to meet, and to end."""

import os
from typing import Any

import numpy as np
import pytest
from conftest import run_ranks
from test_faults import program_of


def total(jax: Any) -> float:
    run = program_of(jax, "psum")
    return float(np.asarray(run().addressable_data(0)).sum())


def by_arguments(rank: int, addresses: list[str], was_before: bool) -> Any:
    import fusewire.jax  # before jax
    import jax

    for name in ("FUSEWIRE_RANK", "FUSEWIRE_RANK_ADDRESSES", "FUSEWIRE_SECRET"):
        os.environ.pop(name, None)
    given = (addresses[0], len(addresses), rank)
    if was_before:
        jax.distributed.initialize(*given, local_device_ids=[0])
        fusewire.jax.initialize()
    else:
        fusewire.jax.initialize(*given, local_device_ids=[0])
    return total(jax), jax.config.jax_cpu_collectives_implementation


@pytest.mark.parametrize("was_before", [False, True])
def test_through_jaxs_coordinator(was_before):
    assert run_ranks(by_arguments, 3, was_before) == [(90_000.0, "mpi")] * 3


def beside_collectives(rank: int, addresses: list[str]) -> Any:
    """The program has a group of its own, and JAX's operations are not among its own."""
    os.environ["FUSEWIRE_RANK"], os.environ["FUSEWIRE_RANK_ADDRESSES"] = str(rank), ",".join(addresses)
    import fusewire.collective as fw
    import fusewire.jax
    import jax

    fw.init()
    fusewire.jax.initialize()
    totals = []
    for _ in range(5):
        totals += [float(fw.allreduce(np.ones(3, np.float32), op=fw.Sum)[0]), total(jax)]
    fusewire.jax.shutdown()
    totals.append(float(fw.allreduce(np.ones(3, np.float32), op=fw.Sum)[0]))
    fw.shutdown()
    return totals


def test_beside_the_programs_own_group():
    assert run_ranks(beside_collectives, 2) == [[2.0, 60_000.0] * 5 + [2.0]] * 2


def ends_at_once(rank: int, addresses: list[str]) -> str:
    """Nobody waits for the last computation, which the other process needs."""
    from conftest import join

    jax = join("fusewire", rank, addresses)
    mesh, along = jax.make_mesh((len(addresses),), ("x",)), jax.sharding.PartitionSpec("x")

    def program(array: Any) -> Any:
        for _ in range(20):
            array = jax.lax.psum(array, "x") / len(addresses)
        return array

    run = jax.jit(jax.shard_map(program, mesh=mesh, in_specs=along, out_specs=along, check_vma=False))
    from test_kinds import placed

    last = run(placed(jax, mesh, jax.numpy.ones((1, 1_000_000), np.float32)))
    if rank == 0:
        ends_at_once.kept = last  # type: ignore[attr-defined]  # alive at exit, and not waited for
        return "1.0"
    return str(float(np.asarray(last.addressable_data(0)).mean()))


def test_the_last_computation_is_done_for_the_others():
    assert run_ranks(ends_at_once, 2) == ["1.0", "1.0"]


def after_shutdown(rank: int, addresses: list[str]) -> str:
    from conftest import join

    jax = join("fusewire", rank, addresses)
    run = program_of(jax, "psum")
    run()
    import fusewire.jax

    fusewire.jax.shutdown()
    fusewire.jax.shutdown()
    try:
        run()
    except jax.errors.JaxRuntimeError as error:
        return str(error)
    return ""


def test_after_shutdown():
    assert all("is not a rank of Fusewire's" in said for said in run_ranks(after_shutdown, 2))
