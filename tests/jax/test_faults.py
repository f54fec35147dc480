# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""What goes wrong is an error in each process that is left, in time, and names the one at fault."""

import os
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
from conftest import join, run_ranks
from processes import free_addresses
from test_kinds import kinds, placed

SIZE = 3
IN_TIME_S = 5.0  # an error after a death is there within a second; this is for a busy machine


def program_of(jax: Any, kind: str) -> Any:
    mesh, along = jax.make_mesh((jax.process_count(),), ("x",)), jax.sharding.PartitionSpec("x")
    function = kinds(jax, jax.process_count())[kind]
    run = jax.jit(jax.shard_map(function, mesh=mesh, in_specs=along, out_specs=along, check_vma=False))
    part = placed(jax, mesh, jax.numpy.ones((1, 30_000), np.float32))
    return lambda: run(part).block_until_ready()


def dies(rank: int, addresses: list[str], kind: str) -> list[Any]:
    import fusewire.jax  # noqa: I001, before jax
    import jax

    jax.config.update("jax_enable_recoverability", True)  # JAX ends processes whose neighbour has died, otherwise
    join("fusewire", rank, addresses)
    run = program_of(jax, kind)
    for _ in range(3):
        run()
    if rank == SIZE - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    results = []
    for _ in range(3):
        began = time.monotonic()
        try:
            run()
        except Exception as error:  # a JaxRuntimeError, or a ValueError of the same text
            results.append((str(error), time.monotonic() - began))
    assert fusewire.jax.Error
    return results


@pytest.mark.parametrize("kind", ["psum", "all_gather", "ppermute ring", "all_to_all", "psum_scatter"])
def test_a_process_is_killed(kind):
    results = run_ranks(dies, SIZE, kind, killed=(SIZE - 1,))
    for found in results[:-1]:
        assert found, "no collective has failed"
        text, _ = found[-1]
        assert "rank 2" in text
        assert "has ended" in text
        assert "see: fusewire explain jax#errors" in text
        assert all(seconds < IN_TIME_S for _, seconds in found)


def comes_late(rank: int, addresses: list[str], kind: str) -> tuple[str, float]:
    jax = join("fusewire", rank, addresses, timeout=2)
    from jax._src import distributed

    run = program_of(jax, kind)
    run()
    began, said = time.monotonic(), ""
    if rank < SIZE - 1:
        try:
            run()
        except Exception as error:
            said = str(error)
    seconds = time.monotonic() - began
    distributed.global_state.client.wait_at_barrier("done", 60_000)
    return said, seconds


@pytest.mark.parametrize("kind", ["psum", "ppermute ring"])
def test_a_process_does_not_come(kind):
    results = run_ranks(comes_late, SIZE, kind)
    for said, seconds in results[:-1]:
        assert "timeout" in said
        assert 1.5 < seconds < 2 + IN_TIME_S
    assert "rank 2" in results[0][0]


def differs(rank: int, addresses: list[str]) -> str:
    jax = join("fusewire", rank, addresses, timeout=10)
    run = program_of(jax, "psum" if rank == 0 else "psum_scatter")
    try:
        run()
    except jax.errors.JaxRuntimeError as error:
        return str(error)
    return ""


def test_processes_call_different_collectives():
    for said in run_ranks(differs, 2):
        assert "invalid" in said
        assert "rank" in said


# ---- programs that can't begin ----


def said_by(program: str, **settings: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FUSEWIRE_")}
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, env=environment | settings, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def test_jax_was_imported_before():
    said = said_by("import jax, fusewire.jax")
    assert "ImportError: fusewire.jax was imported after jax" in said
    [path] = [word for line in said.splitlines() for word in line.split() if word.startswith("MPITRAMPOLINE_LIB=")]
    said = said_by("import jax, fusewire.jax; print('fine')", MPITRAMPOLINE_LIB=path.partition("=")[2])
    assert said == "fine\n"


def test_the_setting_is_not_passed_on():
    assert said_by("import os, fusewire.jax; print(os.environ.get('MPITRAMPOLINE_LIB'))") == "None\n"
    assert said_by("import os, fusewire.jax; print(os.environ['MPITRAMPOLINE_LIB'])", MPITRAMPOLINE_LIB="x") == "x\n"


def test_jax_has_its_devices_already():
    said = said_by("import fusewire.jax, jax; jax.devices(); fusewire.jax.initialize()", JAX_PLATFORMS="cpu")
    assert "RuntimeError: JAX has already looked for its devices" in said
    assert "see: fusewire explain jax#errors" in said


@pytest.mark.parametrize(
    "settings", [{"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}, {"JAX_NUM_CPU_DEVICES": "2"}]
)
def test_several_devices_in_a_process(settings):
    assert "ValueError: this process has 2 CPU devices" in said_by(
        "import fusewire.jax; fusewire.jax.initialize()", **settings
    )


def test_called_twice():
    [address] = free_addresses(1)
    said = said_by(f"import fusewire.jax as f; f.initialize({address!r}, 1, 0); f.initialize()")
    assert "RuntimeError: initialize() was already called in this process" in said


def test_no_rank_yet():
    assert "RuntimeError: this process is not a rank yet" in said_by("import fusewire.jax as f; f.prepare(None)")


def test_a_collective_without_a_group():
    """JAX is told to use the library, and the process is not a rank."""
    said = run_ranks(never_joins, 2)
    assert all("this process is not a rank of Fusewire's: call fusewire.jax.initialize()" in one for one in said)


def never_joins(rank: int, addresses: list[str]) -> str:
    import fusewire.jax  # noqa: I001, before jax
    import jax

    jax.config.update("jax_cpu_collectives_implementation", "mpi")
    jax.distributed.initialize(addresses[0], len(addresses), rank, local_device_ids=[0])
    assert fusewire.jax.Error
    try:
        program_of(jax, "psum")()
    except jax.errors.JaxRuntimeError as error:
        return str(error)
    return ""
