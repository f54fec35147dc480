# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Programs that ask for gloo and know nothing of fusewire, over fusewire. There, gloo is given a network interface that
does not exist, so it can't make a group."""

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

SAY = """
import sys

def say(*words):
    sys.stdout.write(" ".join(["said", *map(str, words)]) + "\\n")  # one write, which no other rank's cuts in two
    sys.stdout.flush()

"""

COLLECTIVES = """
    import datetime
    import torch, torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh

    def sum_of(group):
        tensor = torch.full((3,), float(dist.get_rank() + 1))
        dist.all_reduce(tensor, group=group)
        return tensor[0].item()

    def backend_of(group):
        return type(group._get_backend(torch.device("cpu"))).__name__

    dist.init_process_group(*sys.argv[1:])
    world = dist.distributed_c10d._get_default_group()
    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("rows", "columns"))
    groups = [
        world,
        dist.new_group([0, 1]),
        dist.new_group([0, 1], backend="gloo", timeout=datetime.timedelta(seconds=20)),
        dist.new_group([0, 1], backend="cpu:gloo", pg_options=dist.ProcessGroupGloo._Options()),
        dist.new_subgroups(1)[0],
        world.split_group([0, 1], group_name="split"),
        mesh.get_group("rows"),
        mesh.get_group("columns"),
    ]
    sums = [sum_of(group) for group in groups]
    alone = float(dist.get_rank() + 1)
    assert sums == [3.0, 3.0, 3.0, 3.0, alone, 3.0, 3.0, alone], sums
    names = sorted({backend_of(group) for group in groups})
    say(*names, dist.get_backend(groups[2]), world.name(), dist.get_backend_config())
    groups.clear()  # the split one is torch's no more: gloo aborts if it is there when the process ends
    del world, mesh
    dist.destroy_process_group()
"""


def said_by(path: pathlib.Path, text: str, *arguments: str, over_fusewire: bool = True, **more: str) -> list[str]:
    """What two ranks of the program say, sorted. torchrun starts them."""
    program = path / "program.py"
    program.write_text(SAY + textwrap.dedent(text))
    words = ["--standalone", "--nproc-per-node", "2", *(["-m", "fusewire.torch"] if over_fusewire else [])]
    return started(path, "-m", "torch.distributed.run", *words, str(program), *arguments, **more)


def started(path: pathlib.Path, *words: str, **more: str) -> list[str]:
    is_ours = "fusewire.torch" in words or "FUSEWIRE_TORCH_REPLACES" in more
    interface = "none0" if is_ours else "lo"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": interface, **more}
    done = subprocess.run(
        [sys.executable, *words], env=environment, cwd=path, capture_output=True, text=True, timeout=100, check=False
    )
    # PyTorch's gloo may abort at a process's exit on a busy machine, after all has been said.
    is_gloos_own = not is_ours and "terminate called without an active exception" in done.stderr
    assert done.returncode == 0 or is_gloos_own, done.stdout + done.stderr[-6000:]
    return sorted(line.removeprefix("said ") for line in done.stdout.splitlines() if line.startswith("said "))


@pytest.mark.parametrize("backend", [["gloo"], []], ids=["named", "unnamed"])
def test_groups_of_gloo(tmp_path: pathlib.Path, backend: list[str]) -> None:
    assert said_by(tmp_path, COLLECTIVES, *backend) == ["FusewireBackend gloo gloo cpu:gloo"] * 2


def test_other_devices_keep_their_backends(tmp_path: pathlib.Path) -> None:
    said = said_by(
        tmp_path,
        """
        import torch, torch.distributed as dist
        try:
            dist.init_process_group("cpu:gloo,cuda:nccl")
        except (ValueError, RuntimeError) as error:
            say(error)  # of NCCL, where there is no GPU; from PyTorch 2.15 on it is a RuntimeError
        else:
            say(type(dist.distributed_c10d._get_default_group()._get_backend(torch.device("cuda"))).__name__)
        """,
    )
    assert len(said) == 2
    assert all("nccl" in one.lower() for one in said), said


def test_without_us_it_is_gloo(tmp_path: pathlib.Path) -> None:
    said = said_by(tmp_path, COLLECTIVES, "gloo", over_fusewire=False)
    assert said == ["ProcessGroupGloo gloo gloo cpu:gloo,cuda:gloo"] * 2


@pytest.mark.parametrize("line", ["import fusewire.torch", "import fusewire", "import torch, fusewire.p2p"])
def test_environment_of_a_program_that_imports_us(tmp_path: pathlib.Path, line: str) -> None:
    program = f"{line}\n" + textwrap.dedent(COLLECTIVES)
    said = said_by(tmp_path, program, "gloo", over_fusewire=False, FUSEWIRE_TORCH_REPLACES="gloo")
    assert said == ["FusewireBackend gloo gloo cpu:gloo"] * 2


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_ranks_that_the_program_starts(tmp_path: pathlib.Path, method: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        SAY
        + textwrap.dedent("""
        import multiprocessing
        import torch, torch.distributed as dist

        def rank_of(rank, folder):
            dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
            tensor = torch.ones(2)
            dist.all_reduce(tensor)
            group = dist.distributed_c10d._get_default_group()
            say(type(group._get_backend(torch.device("cpu"))).__name__, tensor[0].item())
            dist.destroy_process_group()

        if __name__ == "__main__":
            context = multiprocessing.get_context(sys.argv[1])
            ranks = [context.Process(target=rank_of, args=(rank, sys.argv[2])) for rank in range(2)]
            for rank in ranks:
                rank.start()
            for rank in ranks:
                rank.join()
            sys.exit(sum(rank.exitcode for rank in ranks))
        """)
    )
    said = started(tmp_path, "-m", "fusewire.torch", str(program), method, str(tmp_path))
    assert said == ["FusewireBackend 2.0"] * 2


def test_ddp_log_and_dumps(tmp_path: pathlib.Path) -> None:
    said = said_by(
        tmp_path,
        """
        import pickle
        import torch, torch.distributed as dist
        from torch._C._distributed_c10d import _dump_fr_trace
        dist.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
        model(torch.ones(4)).sum().backward()
        entries = pickle.loads(_dump_fr_trace(backend="gloo"))["entries"]
        say(model._get_ddp_logging_data()["backend_name"], len(entries) > 0)
        dist.destroy_process_group()
        """,
    )
    assert said == ["custom True"] * 2


def test_program_sees_what_python_would_give_it(tmp_path: pathlib.Path) -> None:
    (tmp_path / "beside.py").write_text("word = 'beside'\n")
    (tmp_path / "elsewhere").mkdir()
    program = tmp_path / "program.py"
    program.write_text("import sys, beside\nprint('said', __name__, beside.word, sys.argv[1:], sys.path[0])\n")
    for words in ([str(program)], ["-m", "program"]):
        where = tmp_path if words[0] == "-m" else tmp_path / "elsewhere"
        stock = started(where, *words, "a", "-b")
        assert stock == [f"__main__ beside ['a', '-b'] {tmp_path}"]
        assert started(where, "-m", "fusewire.torch", *words, "a", "-b") == stock


@pytest.mark.parametrize(
    ("code", "value", "error"),
    [
        ("import fusewire.torch", "mpi", 'FUSEWIRE_TORCH_REPLACES is "mpi", but only gloo can be replaced'),
        ("import fusewire, torch", "mpi", 'FUSEWIRE_TORCH_REPLACES is "mpi", but only gloo can be replaced'),
        (
            "import torch.distributed as dist; dist.init_process_group('gloo', init_method='file:///dev/shm/{}', "
            "rank=0, world_size=1); import fusewire.torch",
            "gloo",
            "fusewire can't replace gloo any more: this process has a process group of gloo already",
        ),
    ],
)
def test_errors(tmp_path: pathlib.Path, code: str, value: str, error: str) -> None:
    code = code.replace("/dev/shm/{}", str(tmp_path / "meet"))
    environment = {**os.environ, "FUSEWIRE_TORCH_REPLACES": value}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert error in done.stderr


def test_no_program() -> None:
    done = subprocess.run([sys.executable, "-m", "fusewire.torch"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("no program is given. Fix: torchrun")
