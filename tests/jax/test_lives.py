# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Ways to meet, and to end."""

import contextlib
import os
import subprocess
import sys
import time
from typing import Any

import lab
import numpy as np
import pytest
from conftest import join, run_ranks
from processes import free_addresses, process
from test_faults import program_of
from test_kinds import placed


def total(jax: Any) -> float:
    run = program_of(jax, "psum")
    return float(np.asarray(run().addressable_data(0)).sum())


def by_arguments(rank: int, addresses: list[str], was_before: bool) -> Any:
    import fusewire.jax  # noqa: I001, before jax
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
    import fusewire.collective as fw  # noqa: I001, before jax
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
    """No process waits for the last computation, which the other process needs."""
    jax = join("fusewire", rank, addresses)
    mesh, along = jax.make_mesh((len(addresses),), ("x",)), jax.sharding.PartitionSpec("x")

    def program(array: Any) -> Any:
        for _ in range(20):
            array = jax.lax.psum(array, "x") / len(addresses)
        return array

    run = jax.jit(jax.shard_map(program, mesh=mesh, in_specs=along, out_specs=along, check_vma=False))
    last = run(placed(jax, mesh, jax.numpy.ones((1, 1_000_000), np.float32)))
    if rank == 0:
        ends_at_once.kept = last  # type: ignore[attr-defined]  # alive at exit, and not waited for
        return "1.0"
    return str(float(np.asarray(last.addressable_data(0)).mean()))


def test_the_last_computation_is_done_for_the_others():
    assert run_ranks(ends_at_once, 2) == ["1.0", "1.0"]


def after_shutdown(rank: int, addresses: list[str]) -> str:
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


HOST = """
import sys

import fusewire.jax  # before jax
import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec

fusewire.jax.initialize("10.77.0.2:5501", 2, int(sys.argv[1]), local_device_ids=[0])
mesh = Mesh(np.array(jax.devices()), ("x",))


def program():
    one = jax.lax.axis_index("x") + 1
    return jax.lax.psum(one, "x"), jax.lax.ppermute(one, "x", [(0, 1), (1, 0)])


run = jax.shard_map(program, mesh=mesh, in_specs=(), out_specs=PartitionSpec(), check_vma=False)
found = [int(one.addressable_data(0)) for one in jax.jit(run)()]
sys.stdout.write(f"{found} at {fusewire.jax.ranks._rank.endpoint.address}\\n")
"""


@pytest.mark.skipif(bool(lab.why_not()), reason=lab.why_not())
def test_processes_on_two_hosts(tmp_path):
    """No setting names an address."""
    path = tmp_path / "program.py"
    path.write_text(HOST)
    with lab.Lab(2) as made, contextlib.ExitStack() as stack:
        ranks = [
            stack.enter_context(process(host.words(sys.executable, path, rank), stderr=subprocess.STDOUT))
            for rank, host in enumerate(made.hosts)
        ]
        for rank, found in zip(ranks, ("[3, 2] at 10.77.0.2:", "[3, 1] at 10.77.0.3:"), strict=True):
            said, _ = rank.communicate(timeout=90)
            assert rank.returncode == 0, said
            assert found in said


FAILS = """
import fusewire.jax  # before jax
import jax, sys

fusewire.jax.initialize()
from jax.sharding import Mesh, PartitionSpec

mesh = Mesh(jax.devices(), ("x",))
run = jax.jit(jax.shard_map(lambda: jax.lax.psum(jax.lax.axis_index("x"), "x"), mesh=mesh, in_specs=(),
                            out_specs=PartitionSpec(), check_vma=False))
run().block_until_ready()
if jax.process_index() == 1:
    raise ValueError("it has failed")
try:
    for _ in range(3):
        run().block_until_ready()
except jax.errors.JaxRuntimeError as error:
    print(f"rank 0 was told: {error}", flush=True)
"""


def test_a_program_that_fails_leaves_before_jax_waits_for_the_others(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(FAILS)
    named = {"FUSEWIRE_RANK_ADDRESSES": ",".join(free_addresses(2)), "FUSEWIRE_SECRET": "s" * 32}
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        ranks = [
            stack.enter_context(
                process(
                    [sys.executable, path], None, os.environ | named | {"FUSEWIRE_RANK": str(rank)}, subprocess.STDOUT
                )
            )
            for rank in range(2)
        ]
        outs = [rank.communicate(timeout=60)[0] for rank in ranks]
    assert "ValueError: it has failed" in outs[1]
    assert "rank 1 (world:1) has left the group" in outs[0]
    assert time.monotonic() - began < 30  # and not the minute that a collective may take
