# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Beginnings and ends: ways to meet, groups that come and go, threads, forks, and programs that just end."""

import contextlib
import datetime
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import lab
import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from conftest import ROOT, join, run_ranks, tell, wait_for
from processes import free_ports, process

from fusewire.torch import bootstrap

TIMEOUT = datetime.timedelta(seconds=30)


TORCHRUN, FUSEWIRE_RUN = ("torch.distributed.run", "--standalone", "--nproc-per-node"), ("fusewire", "run", "--ranks")


def program(text, *, ranks=0, seconds=60, launcher=TORCHRUN, **environment):
    """Runs a program in a process of its own, or under a launcher. Returns its output."""
    command = [sys.executable]
    if ranks:
        command += ["-m", *launcher, str(ranks)]
    path = os.path.join(environment.pop("folder"), "program.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(textwrap.dedent(text))
    done = subprocess.run(
        [*command, path],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_torchrun_needs_no_import(tmp_path):
    output = program(
        """
        import sys, torch, torch.distributed as dist
        dist.init_process_group("fusewire")
        tensor = torch.tensor([dist.get_rank() + 1.0])
        dist.all_reduce(tensor)
        sys.stdout.write(f"sum {tensor.item()} {dist.get_backend()}\\n")
        dist.destroy_process_group()
        """,
        ranks=3,
        folder=str(tmp_path),
    )
    assert output.count("sum 6.0 fusewire") == 3


@pytest.mark.parametrize("backend", ["fusewire", "gloo"])
def test_under_fusewire_run(tmp_path, backend):
    """Any backend: the launcher sets what init_method="env://" reads."""
    output = program(
        f"""
        import torch, torch.distributed as dist
        dist.init_process_group({backend!r}, init_method="env://")
        tensor = torch.tensor([dist.get_node_local_rank() + 1.0])
        dist.all_reduce(tensor)
        print(f"sum {{tensor.item()}} {{dist.get_backend()}}")
        dist.destroy_process_group()
        """,
        ranks=3,
        launcher=FUSEWIRE_RUN,
        folder=str(tmp_path),
    )
    assert [f"rank:{rank} | sum 6.0 {backend}" in output for rank in range(3)] == [True] * 3


def test_the_quick_start_of_the_page(tmp_path):
    page = (ROOT / "docs/torch.md").read_text(encoding="utf-8")
    text = page.partition("```python\n")[2].partition("```")[0]
    output = program(text, ranks=2, folder=str(tmp_path))
    assert output.count("1., 1., 1., 1.") == 2


def test_the_import_loads_no_tensorflow(tmp_path):
    """Even where it is installed."""
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow" / "__init__.py").write_text("raise AssertionError('TensorFlow was imported')")
    output = program(
        """
        import sys
        import fusewire.torch
        mapped = open("/proc/self/maps").read()
        print("tensorflow" in sys.modules, "fusewire_tf" in mapped, "libfusewire" in mapped)
        """,
        folder=str(tmp_path),
        PYTHONPATH=str(tmp_path),
    )
    assert output.strip().endswith("False False True")


def meets(rank, size, folder, method):
    dist.init_process_group("cpu:fusewire,cuda:gloo", init_method=method, rank=rank, world_size=size, timeout=TIMEOUT)
    tensor = torch.ones(4)
    dist.all_reduce(tensor)
    dist.destroy_process_group()
    return tensor.tolist()


def test_tcp_and_beside_another_backend():
    assert run_ranks(meets, 2, f"tcp://127.0.0.1:{free_ports(1)[0]}") == [[2.0] * 4] * 2


def comes_back(rank, size, folder, kept):
    store = dist.FileStore(f"{folder}/store", size)
    sums = []
    for visit in range(4):
        if not kept:
            store = dist.FileStore(f"{folder}/store{visit}", size)
        dist.init_process_group("fusewire", store=store, rank=rank, world_size=size, timeout=TIMEOUT)
        tensor = torch.tensor([float(visit)])
        dist.all_reduce(tensor)
        sums.append(tensor.item())
        dist.destroy_process_group()
    return sums


@pytest.mark.parametrize("kept", [False, True])
def test_init_after_destroy(kept):
    """Also with the same Store, in which the first visit's addresses still are."""
    assert run_ranks(comes_back, 3, kept) == [[0.0, 3.0, 6.0, 9.0]] * 3


def opens_groups(rank, size, folder):
    join("fusewire", rank, size, folder, timeout=TIMEOUT)
    for turn in range(26):
        if turn == 6:  # by now, all have met all
            before = len(os.listdir("/proc/self/fd"))
        group = dist.new_group([turn % size, (turn + 1) % size], timeout=TIMEOUT)
        if dist.get_rank(group) >= 0:
            tensor = torch.ones(3)
            dist.all_reduce(tensor, group=group)
            assert tensor.tolist() == [2.0] * 3
            dist.destroy_process_group(group)
    dist.barrier()
    grown = len(os.listdir("/proc/self/fd")) - before
    dist.destroy_process_group()
    return grown


def test_groups_that_come_and_go_leave_nothing_behind():
    for grown in run_ranks(opens_groups, 3):
        assert grown < 5


def uses_threads(rank, size, folder):
    join("fusewire", rank, size, folder, timeout=TIMEOUT)
    groups = [dist.new_group(timeout=TIMEOUT) for _ in range(4)]
    errors = []

    def work(number):
        try:
            for turn in range(50):
                tensor = torch.full((turn * 97 + 1,), float(number))
                task = dist.all_reduce(tensor, group=groups[number], async_op=turn % 2 == 0)
                if task is not None:
                    task.wait()
                assert bool((tensor == number * size).all())
        except Exception as error:
            errors.append(repr(error))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    dist.destroy_process_group()
    return errors


def test_operations_of_several_threads_and_groups_at_once():
    assert run_ranks(uses_threads, 2) == [[], []]


def drops_works(rank, size, folder):
    join("fusewire", rank, size, folder, timeout=TIMEOUT)
    tensors = [torch.full((1000,), float(one)) for one in range(100)]
    for one in tensors[:-1]:
        dist.all_reduce(one, async_op=True)  # the Work is dropped
    dist.all_reduce(tensors[-1])  # in order: all others have ended before it
    ended = [one[0].item() for one in tensors]
    for one in range(100):
        dist.isend(torch.full((5000,), float(one)), (rank + 1) % size, tag=one)
    received = torch.zeros(5000)
    total = 0.0
    for one in reversed(range(100)):
        dist.recv(received, (rank - 1) % size, tag=one)
        total += received[-1].item()
    dist.destroy_process_group()
    return ended == [float(one * size) for one in range(100)], total


def test_operations_whose_work_is_dropped_go_on():
    assert run_ranks(drops_works, 2) == [(True, 4950.0)] * 2


def looks_at_works(rank, size, folder):
    join("fusewire", rank, size, folder, timeout=TIMEOUT)
    tensor = torch.zeros(3)
    if rank == 0:
        wait_for(folder, "looked")
        dist.send(torch.ones(3), 1, tag=4)
        dist.barrier()
        return None
    work = dist.irecv(tensor, tag=4)
    seen = [work.is_completed()]
    tell(folder, "looked")
    while not work.is_completed():
        time.sleep(0.01)
    seen += [work.is_completed(), work.is_success(), work.source_rank(), tensor.tolist(), work.exception()]
    dist.barrier()
    return seen


def test_a_work_tells_its_state():
    assert run_ranks(looks_at_works, 2)[1] == [False, True, True, 0, [1.0] * 3, None]


def follows_futures(rank, size, folder):
    join("fusewire", rank, size, folder, timeout=TIMEOUT)
    works = [dist.all_reduce(torch.full((10,), float(one)), async_op=True) for one in range(5)]
    futures = [work.get_future().then(lambda done: done.value()[0] * 2) for work in works]
    values = [future.wait()[0].item() for future in futures]
    dist.destroy_process_group()
    return values


def test_futures_follow_works():
    assert run_ranks(follows_futures, 2) == [[0.0, 4.0, 8.0, 12.0, 16.0]] * 2


def nests_futures(rank, size, folder):
    """What follows a future waits for another one of the same group, as some hooks of DDP do."""
    join("fusewire", rank, size, folder, timeout=TIMEOUT)
    lonely = dist.irecv(torch.zeros(1), (rank + 1) % size).get_future()  # never ends before the others

    def again(done):
        return dist.all_reduce(done.value()[0], async_op=True).get_future().wait()[0]

    # All of the first before any of the second, as every rank has to begin them in one order. Equal numbers: the two
    # threads that run again() may come in another order at the other rank.
    works = [dist.all_reduce(torch.ones(10), async_op=True) for _ in range(2)]
    futures = [work.get_future().then(again) for work in works]
    values = [future.wait()[0].item() for future in futures]
    is_first = not lonely.done()
    dist.barrier()
    dist.send(torch.ones(1), (rank + 1) % size)
    lonely.wait()
    dist.destroy_process_group()
    return values, is_first


def test_what_follows_a_future_may_wait_for_another_one():
    assert run_ranks(nests_futures, 2, seconds=40) == [([4.0, 4.0], True)] * 2


ENDS = """
    import torch, torch.distributed as dist
    dist.init_process_group("fusewire")
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    {last}
    print("ends")
"""


@pytest.mark.parametrize(
    "last",
    [
        "pass",
        "work = dist.irecv(torch.ones(3), (dist.get_rank() + 1) % 2)",
        "future = dist.irecv(torch.ones(3), (dist.get_rank() + 1) % 2).get_future()",
        "dist.barrier(); import gc; gc.collect()",
    ],
)
def test_a_program_may_end_without_destroy(last, tmp_path):
    began = time.monotonic()
    output = program(ENDS.format(last=last), ranks=2, folder=str(tmp_path))
    assert output.count("ends") == 2
    assert "Traceback" not in output
    assert time.monotonic() - began < 30


def uneven(rank, size, folder):
    join("fusewire", rank, size, folder, timeout=TIMEOUT)
    outputs = [torch.zeros(one + 1, 2) for one in range(size)]
    dist.all_gather(outputs, torch.full((rank + 1, 2), float(rank)))
    factor = dist._make_nccl_premul_sum(0.5)
    scaled = torch.full((4,), float(rank + 1))
    dist.all_reduce(scaled, factor)
    mean = torch.tensor([rank * 2, 7])
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    half = torch.full((3,), 1.0 + rank, dtype=torch.bfloat16)
    dist.all_reduce(half, dist.ReduceOp.AVG)
    flags = torch.tensor([rank == 0, False, True])
    dist.all_reduce(flags)
    dist.destroy_process_group()
    return [one.sum().item() for one in outputs], scaled.tolist(), mean.tolist(), half.tolist(), flags.tolist()


def test_what_gloo_lacks():
    wanted = ([0.0, 4.0, 12.0], [3.0] * 4, [2, 7], [2.0] * 3, [True, False, True])
    assert run_ranks(uneven, 3) == [wanted] * 3


def works_in_place(rank, size, folder, hosts, count):
    if hosts > 1:
        bootstrap.machine.host_identity = lambda: f"host {rank % hosts}"
        os.environ["FUSEWIRE_BIND"] = "127.0.0.1"
    join("fusewire", rank, size, folder, timeout=TIMEOUT)
    mine = slice(rank * count, (rank + 1) * count)
    whole = torch.zeros(count * size)
    whole[mine] = rank + 1
    dist.all_gather_into_tensor(whole, whole[mine])
    ends = whole.view(size, count)[:, [0, -1]].tolist()
    whole = torch.arange(count * size).float() + rank
    wanted = (torch.arange(count * size).float() * size + sum(range(size)))[mine]
    dist.reduce_scatter_tensor(whole[mine], whole)
    dist.destroy_process_group()
    return ends, torch.equal(whole[mine], wanted)


@pytest.mark.parametrize("hosts", [1, 3])
@pytest.mark.parametrize("count", [3, 1000, 200_000])
def test_a_part_of_the_larger_tensor_may_be_the_smaller_one(count, hosts):
    wanted = [[one + 1.0] * 2 for one in range(3)], True
    assert run_ranks(works_in_place, 3, hosts, count) == [wanted] * 3


def alone(rank, size, folder):
    join("fusewire", rank, size, folder, timeout=TIMEOUT)
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    dist.broadcast(tensor, 0)
    outputs = [torch.zeros(3)]
    dist.all_gather(outputs, tensor)
    dist.barrier()
    dist.monitored_barrier()
    dist.destroy_process_group()
    return outputs[0].tolist()


def test_a_group_of_one():
    assert run_ranks(alone, 1) == [[1.0] * 3]


def shrinks(rank, size, folder):
    join("fusewire", rank, size, folder, timeout=TIMEOUT)
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        while True:
            dist.all_reduce(torch.ones(3))
    except dist.DistNetworkError:
        pass
    dist.shrink_group([1])
    gc.collect()
    tensor = torch.tensor([float(dist.get_rank())])
    dist.all_reduce(tensor)
    received = torch.zeros(2)
    if dist.get_rank() == 0:
        dist.send(torch.ones(2), 1)
    elif dist.get_rank() == 1:
        dist.recv(received, 0)
    dist.destroy_process_group()
    return dist.is_initialized(), tensor.item(), received.tolist()


@pytest.mark.skipif(not hasattr(dist, "shrink_group"), reason="this torch has no shrink_group")
def test_shrink_after_a_death():
    results = run_ranks(shrinks, 4, killed=(1,))
    assert results[0] == (False, 3.0, [0.0, 0.0])
    assert results[2] == (False, 3.0, [1.0, 1.0])


def splits(rank, size, folder):
    join("fusewire", rank, size, folder, timeout=TIMEOUT)
    group = dist.split_group(split_ranks=[[0, 2], [1, 3]])
    gc.collect()
    tensor, received = torch.tensor([float(rank)]), torch.zeros(1)
    dist.all_reduce(tensor, group=group)
    if rank == 0:
        dist.send(torch.ones(1), 2, group=group)
    if rank == 2:
        dist.recv(received, 0, group=group)
    dist.destroy_process_group()
    return tensor.item(), received.item()


@pytest.mark.skipif(torch.__version__ < (2, 15), reason="this torch splits no groups without a GPU")
def test_split_group():
    assert run_ranks(splits, 4) == [(2.0, 0.0), (4.0, 0.0), (2.0, 1.0), (4.0, 0.0)]


def splits_of_a_group(rank, size, folder, debug):
    """By the functions of a ProcessGroup itself."""
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = debug
    dist.set_debug_level_from_env()
    join("fusewire", rank, size, folder, timeout=TIMEOUT)
    world = dist.group.WORLD
    alone = [world.split_group([one], group_name=f"alone {one}") for one in range(size)]
    first, second = (world.split_group([0, 1]) for _ in range(2))  # both have one name
    gc.collect()
    sums = []
    if rank < 2:
        # In another order at each rank.
        tensors = [torch.tensor([value + rank]) for value in (1.0, 10.0)]
        pairs = list(zip((first, second), tensors, strict=True))
        works = [group.allreduce(tensor) for group, tensor in (pairs if rank else reversed(pairs))]
        for work in works:
            work.wait()
        sums = [tensor.item() for tensor in tensors]
    return [group and (group.size(), group.group_name) for group in alone], first is None, sums


@pytest.mark.parametrize("debug", ["OFF", "DETAIL"])
def test_split_of_a_group(debug):
    results = run_ranks(splits_of_a_group, 3, debug)
    for rank, (alone, is_outside, sums) in enumerate(results):
        assert alone == [(1, f"alone {rank}") if one == rank else None for one in range(3)]
        assert is_outside == (rank == 2)
        assert sums == ([3.0, 21.0] if rank < 2 else [])


def merges(rank, size, folder):
    """Two groups of two become one of four, by a Store of its own."""
    half = f"{folder}/{rank // 2}"
    os.makedirs(half, exist_ok=True)
    join("fusewire", rank % 2, 2, half, timeout=TIMEOUT)
    store = dist.FileStore(f"{folder}/merge", size)
    timeout = datetime.timedelta(seconds=20)
    merged = dist.group.WORLD.merge_remote_group(store, size, timeout, "merged")
    gc.collect()
    tensor = torch.ones(1)
    merged.allreduce(tensor).wait()
    backend = merged._get_backend(torch.device("cpu"))
    backend.shutdown()
    half_sum = torch.ones(1)
    dist.all_reduce(half_sum)
    dist.destroy_process_group()
    facts = merged.rank(), merged.size(), merged.group_name, backend.options._timeout == timeout
    return *facts, tensor.item(), half_sum.item()


def test_merge_of_groups():
    assert sorted(run_ranks(merges, 4)) == [(rank, 4, "merged", True, 4.0, 2.0) for rank in range(4)]


def to_itself(rank, size, folder):
    join("fusewire", rank, size, folder, timeout=TIMEOUT)
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    first, second = torch.zeros(3), torch.zeros(3)
    early = backend.recv([first], rank, 5)
    sent = [dist.isend(torch.full((3,), value), rank, tag=5) for value in (1.0, 2.0)]
    late = backend.recv([second], rank, 5)
    for work in (early, *sent, late):
        work.wait()
    return first.tolist(), second.tolist()


def test_messages_of_a_rank_to_itself():
    assert run_ranks(to_itself, 2) == [([1.0] * 3, [2.0] * 3)] * 2


def gathers_into_one(rank, size, folder, debug):
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = debug
    dist.set_debug_level_from_env()
    join("fusewire", rank, size, folder, timeout=TIMEOUT)
    tensor, outputs = torch.full((2,), float(rank)), [torch.zeros(size * 2) for _ in range(3)]
    dist.gather_single(tensor, outputs[0] if rank == 1 else None, dst=1)
    for name, output in zip(("gather_single", "gather_into_tensor"), outputs[1:], strict=True):
        options = dist.GatherOptions()
        options.rootRank = 1
        getattr(dist.group.WORLD, name)(output, tensor, opts=options).wait()
    dist.destroy_process_group()
    return [output.tolist() for output in outputs]


@pytest.mark.parametrize("debug", ["OFF", "DETAIL"])
@pytest.mark.skipif(not hasattr(dist, "gather_single"), reason="this torch has no gather_single")
def test_gather_single(debug):
    results = run_ranks(gathers_into_one, 3, debug)
    assert results == [[[0.0] * 6] * 3, [[0.0, 0.0, 1.0, 1.0, 2.0, 2.0]] * 3, [[0.0] * 6] * 3]


def is_functional(rank, size, folder):
    join("fusewire", rank, size, folder, timeout=TIMEOUT)

    @torch.compile(backend="eager", fullgraph=True)
    def compiled(tensor):
        doubled = tensor * 2
        dist.all_reduce(doubled)
        return doubled + 1

    summed = functional.wait_tensor(functional.all_reduce(torch.ones(3), "sum", dist.group.WORLD))
    mean = functional.wait_tensor(functional.reduce_scatter_tensor(torch.ones(4), "avg", 0, dist.group.WORLD))
    return summed.tolist(), mean.tolist(), compiled(torch.ones(3)).tolist()


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_functional_collectives_and_compiled_programs():
    assert run_ranks(is_functional, 2) == [([2.0] * 3, [1.0] * 2, [5.0] * 3)] * 2


def breaks_its_graph(rank, size, folder):
    """Groups come and go, and operations of all kinds run between the graphs of a compiled function."""
    join("fusewire", rank, size, folder, timeout=TIMEOUT)

    @torch.compile(backend="eager")
    def compiled(tensor, group):
        torch._dynamo.graph_break()
        doubled = tensor * 2
        for _ in range(2):
            dist.all_reduce(doubled, group=group, async_op=True).wait()
        outputs = [torch.zeros(3) for _ in range(size)]
        dist.all_gather(outputs, doubled, group)
        if rank == 0:
            dist.send(doubled, 1, group=group)
        else:
            dist.recv(doubled, 0, group=group)
        dist.barrier(group)
        return sum(outputs) + 1

    results = [compiled(torch.ones(3), dist.new_group()).tolist() for _ in range(3)]
    files = {one.co_filename for one in torch._dynamo.utils.get_compilation_metrics()}
    dist.destroy_process_group()
    return results, sorted(name for name in files if name and "fusewire" in name)


def test_compiled_programs_leave_our_functions_alone():
    assert run_ranks(breaks_its_graph, 2) == [([[17.0] * 3] * 3, [])] * 2


def test_debug_level_detail(tmp_path):
    """torch then puts a wrapper around the backend, which compares the calls of all ranks over gloo."""
    output = program(
        """
        import sys, torch, torch.distributed as dist
        dist.init_process_group("fusewire")
        tensor = torch.ones(4)
        dist.all_reduce(tensor)
        outputs = [torch.zeros(4) for _ in range(2)]
        dist.all_gather(outputs, tensor)
        try:
            dist.all_reduce(torch.ones(4 + dist.get_rank()))
        except RuntimeError as error:
            sys.stdout.write(f"{'Detected mismatch' in str(error)} {outputs[1].tolist()}\\n")
        """,
        ranks=2,
        folder=str(tmp_path),
        TORCH_DISTRIBUTED_DEBUG="DETAIL",
    )
    assert output.count("True [2.0, 2.0, 2.0, 2.0]") == 2


HOST = """
    import os, sys, torch, torch.distributed as dist
    dist.init_process_group("fusewire", init_method="tcp://10.77.0.2:29511", rank=int(sys.argv[1]), world_size=2)
    tensor = torch.ones(100000) * (dist.get_rank() + 1)
    dist.all_reduce(tensor)
    received = torch.zeros(5)
    if dist.get_rank() == 0:
        dist.send(torch.ones(5), 1)
    else:
        dist.recv(received, 0)
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    sys.stdout.write(f"sum {tensor[-1].item()} {backend._member.endpoint.address}\\n")
    dist.destroy_process_group()
"""


@pytest.mark.skipif(bool(lab.why_not()), reason=lab.why_not())
def test_ranks_on_two_hosts(tmp_path):
    """No setting names an address."""
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(HOST))
    with lab.Lab(2) as made, contextlib.ExitStack() as stack:
        environment = {**os.environ, "MASTER_ADDR": made.hosts[0].address}
        ranks = [
            stack.enter_context(process(host.words(sys.executable, path, rank), None, environment, subprocess.STDOUT))
            for rank, host in enumerate(made.hosts)
        ]
        for rank, host in zip(ranks, made.hosts, strict=True):
            said, _ = rank.communicate(timeout=90)
            assert rank.returncode == 0, said
            assert f"sum 3.0 {host.address}:" in said
