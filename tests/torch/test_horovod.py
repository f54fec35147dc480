# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""fusewire.horovod.torch, on ranks that `fusewire run --ranks` starts."""

import pathlib
import random
import subprocess
import sys
import textwrap
from collections.abc import Callable

import pytest

pytest.importorskip("torch")

BEGIN = """
    import os, random, signal, sys, warnings, numpy as np, torch
    import horovod.torch as hvd  # by -m fusewire.horovod
    torch.set_num_threads(1)
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    x = torch.from_numpy(np.random.default_rng(1).standard_normal((64, 4)).astype(np.float32))
    y = x @ torch.tensor([[1.0], [-2.0], [3.0], [0.5]])
"""


@pytest.fixture
def run_ranks(tmp_path: pathlib.Path) -> Callable[..., list[str]]:
    """run_ranks(program, ranks, *options): the output lines of the ranks, sorted, without labels."""

    def run(text: str, ranks: int, *options: object) -> list[str]:
        program = tmp_path / "program.py"
        program.write_text(textwrap.dedent(BEGIN) + textwrap.dedent(text), encoding="utf-8")
        command = [sys.executable, "-m", "fusewire", "run", "--ranks", ranks, *options, "--timeout", 60]
        words = [str(word) for word in [*command, "-m", "fusewire.horovod", program]]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=90, check=False)
        assert done.returncode == 0, f"--- stdout\n{done.stdout}\n--- stderr\n{done.stderr}"
        return sorted(line.partition("said ")[2] for line in done.stdout.splitlines() if "said " in line)

    return run


def test_operations_agree_with_numpy(run_ranks: Callable[..., list[str]]) -> None:
    seed = random.randrange(10**6)
    print("seed", seed)
    said = run_ranks(
        f"seed = {seed}"
        + textwrap.dedent("""
    assert "tensorflow" not in sys.modules
    chance = random.Random(seed)  # the same at all ranks
    odd = hvd.add_process_set([1, 2])
    numpy_of = {hvd.Sum: np.sum, hvd.Average: np.mean, hvd.Min: np.min, hvd.Max: np.max, hvd.Product: np.prod}
    for step in range(200):
        members, which = chance.choice([([0, 1, 2], hvd.global_process_set), ([1, 2], odd)])
        kept = np.random.default_rng(chance.randrange(10**6))
        type_ = chance.choice(["float32", "float64", "int32", "int64"])
        shape = [chance.randint(1, 5) for _ in range(chance.randint(1, 3))]
        all_of = [kept.integers(-9, 9, shape).astype(type_) for _ in members]
        how = {"process_set": which, "name": chance.choice([None, f"name{chance.randrange(3)}"])}
        whole = type_.startswith("int")
        op = chance.choice([hvd.Sum, hvd.Min, hvd.Max, hvd.Product] + [hvd.Average] * (not whole))
        before = chance.choice([1.0, 0.5]) if op == hvd.Sum and not whole else 1.0
        reduced = numpy_of[op](np.stack(all_of), axis=0).astype(type_) * np.asarray(before, type_)
        kind = chance.choice(["allreduce", "grouped", "allgather", "broadcast", "alltoall", "reducescatter"])
        in_place, turned, root = chance.random() < 0.5, chance.random() < 0.3, chance.choice(members)
        rows = [chance.randint(0, len(one)) for one in all_of]
        splits = [kept.multinomial(shape[0], [1 / len(members)] * len(members)) for _ in members]
        if rank not in members:
            continue
        place = members.index(rank)
        mine = torch.from_numpy(all_of[place].copy())
        if turned and len(shape) > 1:  # not contiguous
            mine = mine.transpose(0, 1).contiguous().transpose(0, 1)
        if kind == "allreduce":
            call = hvd.allreduce_ if in_place else hvd.allreduce
            got, want = [call(mine, op=op, prescale_factor=before, **how)], [reduced]
            assert (got[0] is mine) == in_place
        elif kind == "grouped":
            call = hvd.grouped_allreduce_ if in_place else hvd.grouped_allreduce
            got, want = call([mine, mine[:1].clone()], op=op, postscale_factor=before, **how), [reduced, reduced[:1]]
        elif kind == "broadcast":
            call = hvd.broadcast_ if in_place else hvd.broadcast
            got, want = [call(mine, root, **how)], [all_of[members.index(root)]]
        elif kind == "allgather":
            got = [hvd.synchronize(hvd.allgather_async(mine[: rows[place]], **how))]
            want = [np.concatenate([one[:count] for one, count in zip(all_of, rows)])]
        elif kind == "reducescatter":
            got = [hvd.reducescatter(mine, op=op, prescale_factor=before, **how)]
            want = [np.array_split(reduced, len(members))[place]]
        else:
            got = hvd.alltoall(mine, torch.tensor(splits[place]), **how)
            parts = [np.split(one, np.cumsum(count)[:-1]) for one, count in zip(all_of, splits)]
            want = [np.concatenate([part[place] for part in parts]), [count[place] for count in splits]]
        for one, other in zip(got, want, strict=True):
            np.testing.assert_allclose(one.numpy(), other, rtol=1e-5, atol=1e-5, err_msg=f"seed {seed} step {step}")
    print("said agrees")
    """),
        3,
    )
    assert said == ["agrees"] * 3


def test_words_of_horovod(run_ranks: Callable[..., list[str]]) -> None:
    said = run_ranks(
        """
    start = torch.tensor([[1.0, 2.0], [3.0, 4.0]]) * (rank + 1)
    def gradient(call):
        leaf = start.clone().requires_grad_()
        (call(leaf).sum() * (rank + 1.0)).backward()
        return leaf.grad.tolist()
    both = lambda value: [[value] * 2] * 2
    assert gradient(lambda x: hvd.allreduce(x, op=hvd.Sum)) == both(3.0)
    assert gradient(lambda x: hvd.allreduce(x, prescale_factor=0.5)) == both(0.75)
    assert gradient(lambda x: hvd.grouped_allreduce([x, x])[1]) == both(1.5)
    assert gradient(hvd.allgather) == both(1.5)
    assert gradient(lambda x: hvd.broadcast(x, 1)) == both(1.5 * rank)
    assert gradient(hvd.alltoall) == [[1.0, 1.0], [2.0, 2.0]]
    assert gradient(lambda x: hvd.reducescatter(x, op=hvd.Sum)) == [[2.0, 2.0], [4.0, 4.0]]
    handle = hvd.allreduce_async(torch.ones(2, dtype=torch.bfloat16), op=hvd.Sum)
    while not hvd.poll(handle):
        pass
    assert hvd.synchronize(handle).tolist() == [2.0, 2.0] and hvd.synchronize(handle) is None
    half = hvd.allreduce(torch.ones(2), compression=hvd.Compression.fp16)
    assert half.dtype == torch.float32 and half.tolist() == [1.0, 1.0]
    sparse = torch.sparse_coo_tensor([[rank, 2]], [1.0, 3.0], (4,))
    assert hvd.sparse_allreduce_async(sparse, "rows", hvd.Average)().to_dense().tolist() == [0.5, 0.5, 3.0, 0.0]
    for wrong, how in ((NotImplementedError, {"op": hvd.Adasum}), (ValueError, {"op": hvd.Sum, "average": True})):
        try:
            hvd.allreduce(start, **how)
            raise SystemExit("not refused")
        except wrong:
            pass
    assert hvd.broadcast_object({"epoch": rank}, 1) == {"epoch": 1} and hvd.allgather_object("x" * rank) == ["", "x"]
    hvd.barrier()
    # requests that differ are an error at all ranks, not a hang
    try:
        hvd.allreduce(torch.ones(2 + rank))
        raise SystemExit("not refused")
    except hvd.HorovodInternalError as error:
        assert error.code == "invalid", error
    # batch normalization over the batches of all
    mine = slice(rank * 32, rank * 32 + 32)
    ours, plain = hvd.SyncBatchNorm(4), torch.nn.BatchNorm1d(4)
    part, whole = x[mine].clone().requires_grad_(), x.clone().requires_grad_()
    (ours(part) ** 3).sum().backward()
    (plain(whole) ** 3).sum().backward()
    torch.testing.assert_close(part.grad, whole.grad[mine], rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(ours.running_var, plain.running_var)
    # a rank that runs out of data takes part with zeros, twice
    for _ in range(2):
        for step in range(2 + 3 * rank):
            total = hvd.allreduce(torch.ones(3), op=hvd.Sum, name=f"step{step % 2}")
            rows = hvd.allgather(torch.ones(rank + 1, 2))
            half = hvd.allreduce(torch.ones(2, dtype=torch.bfloat16))
            assert total.tolist() == [2.0 if step < 2 else 1.0] * 3 and len(rows) == (3 if step < 2 else 2)
            assert half[0].item() == (1.0 if step < 2 else 0.5)
        assert hvd.join() == 1
    # shutdown() and init() again, each rank when it comes to it
    hvd.shutdown()
    assert not hvd.is_initialized()
    hvd.init()
    assert hvd.allreduce(torch.tensor([3, -3]) * (rank + 1)).tolist() == [4, -4]
    # one that leaves without join() is named
    if rank == 0:
        try:
            hvd.join()
            raise SystemExit("not refused")
        except hvd.HorovodInternalError as error:
            assert "rank 1 has left without join()" in str(error), error
    print("said done")
    """,
        2,
    )
    assert said == ["done"] * 2


def test_a_model_trains_as_one(run_ranks: Callable[..., list[str]]) -> None:
    said = run_ranks(
        """
    mine = slice(rank * 64 // size, (rank + 1) * 64 // size)

    def model_of(seed):
        torch.manual_seed(seed)
        return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))

    def trained(model, optimizer, parts, clips=False, closure=False):
        for _ in range(10):
            optimizer.zero_grad()
            def loss():
                for part in parts:
                    (torch.nn.functional.mse_loss(model(x[part]), y[part]) / len(parts)).backward()
            if closure:
                optimizer.step(loss)
                continue
            loss()
            if clips and hasattr(optimizer, "synchronize"):
                optimizer.synchronize()
            if clips:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            if clips and hasattr(optimizer, "synchronize"):
                with optimizer.skip_synchronize():
                    optimizer.step()
            else:
                optimizer.step()
        return torch.cat([one.detach().ravel() for one in model.parameters()])

    def sgd(model):
        return torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

    alone = model_of(3)
    expected = trained(alone, sgd(alone), [slice(0, 64)])
    for how, parts, more in (
        ({}, [mine], {}),
        ({}, [mine], {"closure": True}),
        ({"groups": 2}, [mine], {}),
        ({"groups": "lists"}, [mine], {}),
        ({"gradient_predivide_factor": 2.0}, [mine], {}),
        ({"backward_passes_per_step": 2}, [slice(mine.start, mine.start + 16), slice(mine.start + 16, mine.stop)], {}),
    ):
        model = model_of(3 + rank)
        if how.get("groups") == "lists":
            how = {"groups": [list(model[0].parameters())]}
        optimizer = hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters(), **how)
        assert isinstance(optimizer, torch.optim.SGD)
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        torch.testing.assert_close(trained(model, optimizer, parts, **more), expected, rtol=1e-4, atol=1e-5)

    clipped = model_of(3)
    expected = trained(clipped, sgd(clipped), [slice(0, 64)], clips=True)
    model = model_of(3)
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    torch.testing.assert_close(trained(model, optimizer, [mine], clips=True), expected, rtol=1e-4, atol=1e-5)

    # the state of an optimizer that has made steps goes to one that has made none
    model = model_of(5)
    optimizer = torch.optim.Adam(model.parameters(), 0.1 if rank == 0 else 0.2)
    if rank == 0:
        trained(model, optimizer, [mine])
    hvd.broadcast_optimizer_state(optimizer, 0)
    state = optimizer.state_dict()
    assert state["param_groups"][0]["lr"] == 0.1 and float(state["state"][0]["step"]) == 10
    moments = hvd.allgather(state["state"][0]["exp_avg"][None])
    assert torch.equal(moments[0], moments[1])

    # a sparse table
    def rows(wrap):
        torch.manual_seed(1)
        table = torch.nn.Embedding(10, 2, sparse=True)
        optimizer = wrap(torch.optim.SGD(table.parameters(), 0.5))
        ids = torch.arange(8)
        part = ids if wrap is plain else ids[rank * 4 : rank * 4 + 4]
        optimizer.zero_grad()
        (table(part) ** 2).mean().backward()
        optimizer.step()
        return table.weight.detach()
    plain = lambda optimizer: optimizer
    for how in ({}, {"sparse_as_dense": True}):
        torch.testing.assert_close(rows(lambda one: hvd.DistributedOptimizer(one, **how)), rows(plain))
    print("said trained")
    """,
        2,
    )
    assert said == ["trained"] * 2


def test_training_goes_on_after_a_death(run_ranks: Callable[..., list[str]]) -> None:
    said = run_ranks(
        """
    torch.manual_seed(rank)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.5)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    sampler = hvd.elastic.ElasticSampler(x, shuffle=True)
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, sampler=sampler, epoch=0, batch=0)
    resets, seen = [], []
    state.register_reset_callbacks([lambda: resets.append(hvd.size())])

    @hvd.elastic.run
    def train(state):
        while state.epoch < 8:
            for batch, part in enumerate(torch.tensor(list(sampler)).split(4)):
                if state.epoch == 3 and batch == 2 and rank == 0 and not resets:
                    os.kill(os.getpid(), signal.SIGKILL)
                optimizer.zero_grad()
                torch.nn.functional.mse_loss(model(x[part]), y[part]).backward()
                optimizer.step()
                sampler.record_batch(batch, len(part))
                if state.epoch == 3:
                    seen.extend(part.tolist())
                state.commit()
            state.epoch += 1
            sampler.set_epoch(state.epoch)
            state.commit()
        return hvd.rank(), float(torch.nn.functional.mse_loss(model(x), y))

    place, loss = train(state)
    everybody = hvd.allgather(model.weight.detach())
    assert torch.equal(everybody[0], everybody[1]) and resets == [2] and loss < 0.5, (resets, loss)
    # What was left of the epoch was divided anew: with what the dead one had done, all was seen.
    both = set(sum(hvd.allgather_object(seen), []))
    assert 64 - 8 <= len(both) <= 64, len(both)
    print("said", place)
    """,
        3,
        "--min-ranks",
        2,
    )
    assert said == ["0", "1"]
