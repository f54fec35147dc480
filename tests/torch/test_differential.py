# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Random operations over fusewire and over gloo: the same inputs must give the same results at every rank."""

import datetime
import os
import random

import pytest
import torch
import torch.distributed as dist
from conftest import join, run_ranks

from fusewire.torch import bootstrap

OPERATIONS = 60  # of a run
SEEDS = int(os.environ.get("TEST_TORCH_SEEDS", "3"))  # of each number of ranks
TIMEOUT = datetime.timedelta(seconds=30)
INTEGERS = [torch.int8, torch.uint8, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
MOVED = [*INTEGERS, *FLOATS]
ODD = [torch.complex64, torch.bool, torch.float8_e4m3fn, torch.float8_e5m2]  # gloo moves none of them


def tensor_of(chance, dtype, shape, rank):
    """A tensor of that shape; often it isn't contiguous, which gloo gets wrong and so never gets. Its values are small,
    so sums are exact."""
    tensor = _tensor_of(chance, dtype, shape, rank)
    return tensor.contiguous() if dist.get_backend() == "gloo" else tensor


def _tensor_of(chance, dtype, shape, rank):
    values = torch.Generator().manual_seed(chance.randrange(1 << 30) + rank)
    layout = chance.choice(("plain", "plain", "plain", "transposed", "strided", "offset"))
    wide = shape
    if layout == "transposed" and len(shape) > 1:
        wide = (*shape[:-2], shape[-1], shape[-2])
    elif layout == "strided" and shape:
        wide = (*shape[:-1], shape[-1] * 2)
    elif layout == "offset" and shape:
        wide = (shape[0] + 3, *shape[1:])
    whole = torch.randint(0 if dtype == torch.uint8 else -4, 5, wide, generator=values).to(dtype)
    if dtype.is_complex:
        whole = whole + 1j * torch.randint(-4, 5, wide, generator=values)
    if layout == "transposed" and len(shape) > 1:
        return whole.transpose(-1, -2)
    if layout == "strided" and shape:
        return whole[..., ::2]
    if layout == "offset" and shape:
        return whole[3:]
    return whole


def shape_of(chance):
    dims = chance.choice((0, 1, 1, 2, 2, 3))
    return tuple(chance.choice((1, 2, 3, 5, 8, 33, 130)) for _ in range(dims))


class Run:
    """One random operation at a time; the choices are the same at all ranks and with every backend."""

    def __init__(self, backend, rank, size, seed):
        self.chance, self.rank, self.size, self.seed = random.Random(seed), rank, size, seed
        self.groups = [dist.group.WORLD]
        layouts = random.Random(seed + 1)
        for _ in range(2):
            members = sorted(layouts.sample(range(size), layouts.randint(2, size)))
            self.groups.append(dist.new_group(members, backend=backend, timeout=TIMEOUT))

    def step(self):
        chance = random.Random(self.chance.randrange(1 << 30))
        name = chance.choice([one for one in dir(self) if one.startswith("do_")])
        group = chance.choice(self.groups)
        is_async = chance.random() < 0.3
        if group is dist.GroupMember.NON_GROUP_MEMBER or dist.get_rank(group) < 0:
            return name, None
        tensors, work = getattr(self, name)(chance, group, dist.get_rank(group), dist.get_world_size(group), is_async)
        if is_async and work is not None:
            for one in work if isinstance(work, list) else [work]:
                one.wait()
        return name, [one.clone() for one in tensors]

    def reducible(self, chance):
        dtype = chance.choice([*INTEGERS, *FLOATS])
        ops = [dist.ReduceOp.SUM, dist.ReduceOp.MIN, dist.ReduceOp.MAX, dist.ReduceOp.PRODUCT]
        if not dtype.is_floating_point:
            ops += [dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR]
        return dtype, chance.choice(ops)

    def do_all_reduce(self, chance, group, rank, size, is_async):
        dtype, op = self.reducible(chance)
        tensor = tensor_of(chance, dtype, shape_of(chance), rank)
        return [tensor], dist.all_reduce(tensor, op, group=group, async_op=is_async)

    def do_all_reduce_of_bools(self, chance, group, rank, size, is_async):
        tensor = tensor_of(chance, torch.int8, (17,), rank) > 0
        op = chance.choice((dist.ReduceOp.BAND, dist.ReduceOp.BOR))
        if dist.get_backend(group) == "gloo":  # which has no operators for bool
            as_bytes = tensor.to(torch.uint8)
            dist.all_reduce(as_bytes, op, group=group)
            return [as_bytes.bool()], None
        return [tensor], dist.all_reduce(tensor, op, group=group, async_op=is_async)

    def do_all_reduce_of_complex(self, chance, group, rank, size, is_async):
        tensor = tensor_of(chance, torch.complex64, shape_of(chance), rank).contiguous()
        return [tensor], dist.all_reduce(tensor, group=group, async_op=is_async)

    def do_broadcast(self, chance, group, rank, size, is_async):
        tensor = tensor_of(chance, chance.choice(MOVED), shape_of(chance), rank)
        root = dist.get_global_rank(group, chance.randrange(size))
        return [tensor], dist.broadcast(tensor, root, group=group, async_op=is_async)

    def do_reduce(self, chance, group, rank, size, is_async):
        dtype, op = self.reducible(chance)
        tensor = tensor_of(chance, dtype, shape_of(chance), rank)
        root = chance.randrange(size)
        work = dist.reduce(tensor, dist.get_global_rank(group, root), op, group=group, async_op=is_async)
        return [tensor] if rank == root else [], work

    def do_all_gather(self, chance, group, rank, size, is_async):
        dtype, shape = chance.choice(MOVED), shape_of(chance)
        tensor = tensor_of(chance, dtype, shape, rank)
        outputs = [torch.zeros(shape, dtype=dtype) for _ in range(size)]
        return outputs, dist.all_gather(outputs, tensor, group=group, async_op=is_async)

    def do_all_gather_into_tensor(self, chance, group, rank, size, is_async):
        dtype, shape = chance.choice(MOVED), (chance.randint(1, 40), 3)
        tensor = tensor_of(chance, dtype, shape, rank).contiguous()
        output = torch.zeros((shape[0] * size, 3), dtype=dtype)
        return [output], dist.all_gather_into_tensor(output, tensor, group=group, async_op=is_async)

    def do_gather(self, chance, group, rank, size, is_async):
        dtype, shape = chance.choice(MOVED), shape_of(chance)
        tensor, root = tensor_of(chance, dtype, shape, rank), chance.randrange(size)
        outputs = [torch.zeros(shape, dtype=dtype) for _ in range(size)] if rank == root else None
        work = dist.gather(tensor, outputs, dist.get_global_rank(group, root), group=group, async_op=is_async)
        return outputs or [], work

    def do_scatter(self, chance, group, rank, size, is_async):
        dtype, shape, root = chance.choice(MOVED), shape_of(chance), chance.randrange(size)
        inputs = [tensor_of(chance, dtype, shape, one) for one in range(size)]
        output = torch.zeros(shape, dtype=dtype)
        work = dist.scatter(
            output, inputs if rank == root else None, dist.get_global_rank(group, root), group=group, async_op=is_async
        )
        return [output], work

    def do_reduce_scatter(self, chance, group, rank, size, is_async):
        dtype, shape = chance.choice([*INTEGERS, *FLOATS]), shape_of(chance)
        inputs = [tensor_of(chance, dtype, shape, rank + 7 * one) for one in range(size)]
        output = torch.zeros(shape, dtype=dtype)
        return [output], dist.reduce_scatter(output, inputs, group=group, async_op=is_async)

    def do_reduce_scatter_tensor(self, chance, group, rank, size, is_async):
        dtype, rows = chance.choice([*INTEGERS, *FLOATS]), chance.randint(1, 40)
        tensor = tensor_of(chance, dtype, (rows * size, 3), rank).contiguous()
        output = torch.zeros((rows, 3), dtype=dtype)
        return [output], dist.reduce_scatter_tensor(output, tensor, group=group, async_op=is_async)

    def do_all_to_all_single(self, chance, group, rank, size, is_async):
        dtype = chance.choice(MOVED)
        table = [[chance.randrange(5) for _ in range(size)] for _ in range(size)]
        tensor = tensor_of(chance, dtype, (sum(table[rank]), 3), rank).contiguous()
        received = [row[rank] for row in table]
        output = torch.zeros((sum(received), 3), dtype=dtype)
        work = dist.all_to_all_single(output, tensor, received, table[rank], group=group, async_op=is_async)
        return [output], work

    def do_moves_of_odd_types(self, chance, group, rank, size, is_async):
        """Over gloo as bytes."""
        dtype, root = chance.choice(ODD), chance.randrange(size)
        numbers = [tensor_of(chance, torch.float32, (6,), one).contiguous() for one in range(size + 1)]
        inputs = [one.to(dtype) for one in numbers]
        gathered = [torch.zeros_like(inputs[0]) for _ in range(size)]
        moved, scattered, sent = inputs[rank].clone(), torch.zeros_like(inputs[0]), inputs[size].clone()

        def seen(one):
            return one.view(torch.uint8) if dist.get_backend(group) == "gloo" else one

        top = dist.get_global_rank(group, root)
        dist.all_gather([seen(one) for one in gathered], seen(moved), group=group)
        dist.broadcast(seen(sent), top, group=group)
        dist.scatter(seen(scattered), [seen(one) for one in inputs[:size]] if rank == root else None, top, group=group)
        dist.gather(seen(moved), [seen(one) for one in gathered] if rank == root else None, top, group=group)
        return [one.view(torch.uint8) for one in (*gathered, sent, scattered)], None

    def do_send_and_receive(self, chance, group, rank, size, is_async):
        """Around a ring, with tags, several at a time."""
        dtype, tags = chance.choice(MOVED), chance.sample(range(1000), 3)
        shapes = [shape_of(chance) for _ in tags]
        if size < 2:
            return [], None
        right, left = (rank + 1) % size, (rank - 1) % size
        outputs = [torch.zeros(shape, dtype=dtype) for shape in shapes]
        works = []
        for place in chance.sample(range(len(tags)), len(tags)):
            tensor = tensor_of(chance, dtype, shapes[place], rank).contiguous()
            works.append(dist.isend(tensor, group=group, group_dst=right, tag=tags[place]))
        for place in range(len(tags)):
            works.append(dist.irecv(outputs[place], group=group, group_src=left, tag=tags[place]))
        for work in works:
            work.wait()
        return outputs, None

    def do_objects(self, chance, group, rank, size, is_async):
        mine = {"rank": rank, "list": list(range(chance.randrange(50)))}
        objects = [None] * size
        dist.all_gather_object(objects, mine, group=group)
        return [torch.tensor([len(one["list"]) for one in objects])], None

    def do_coalesced(self, chance, group, rank, size, is_async):
        tensors = [tensor_of(chance, torch.float32, shape_of(chance), rank).contiguous() for _ in range(3)]
        if dist.get_backend(group) == "gloo":
            for tensor in tensors:
                dist.all_reduce(tensor, group=group)
            return tensors, None
        with dist._coalescing_manager(group=group, async_ops=is_async) as works:
            for tensor in tensors:
                dist.all_reduce(tensor, group=group)
        return tensors, works if is_async else None

    def do_sparse(self, chance, group, rank, size, is_async):
        rows = sorted(chance.sample(range(50), 9)[rank % 5 :])
        values = tensor_of(chance, torch.float32, (len(rows), 4), rank).contiguous()
        tensor = torch.sparse_coo_tensor(torch.tensor([rows]), values, (50, 4))
        work = dist.all_reduce(tensor, group=group, async_op=is_async)
        if work is not None:
            work.wait()
        return [tensor.to_dense()], None


def results_of(rank, size, folder, backend, seed, hosts):
    if hosts > 1:  # that share nothing but the network
        bootstrap.machine.host_identity = lambda: f"host {rank % hosts}"
        os.environ["FUSEWIRE_BIND"] = "127.0.0.1"
    join(backend, rank, size, folder, timeout=TIMEOUT)
    run = Run(backend, rank, size, seed)
    results = [run.step() for _ in range(OPERATIONS)]
    dist.barrier()
    dist.destroy_process_group()
    return [
        (name, None if tensors is None else [one.resolve_conj().contiguous() for one in tensors])
        for name, tensors in results
    ]


@pytest.mark.parametrize(("size", "hosts"), [(2, 1), (3, 1), (4, 1), (3, 3), (4, 2)])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_operations_as_over_gloo(size, hosts, seed):
    seed = 1000 * size + seed
    ours = run_ranks(results_of, size, "fusewire", seed, hosts, seconds=120)
    theirs = run_ranks(results_of, size, "gloo", seed, 1, seconds=120)
    compare(ours, theirs, seed)


def compare(ours, theirs, seed):
    for rank, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        for step, ((name, tensors), (_, wanted)) in enumerate(zip(mine, other, strict=True)):
            where = f"seed {seed}, rank {rank}, step {step}: {name}"
            assert (tensors is None) == (wanted is None), where
            for got, want in zip(tensors or (), wanted or (), strict=True):
                torch.testing.assert_close(got, want, msg=lambda words, where=where: f"{where}: {words}")
