# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""A program in mpi4py's words, for any number of ranks from 2: test_mpi.py runs it over fusewire, and over MPI itself
where that is installed. mpi_program.py fusewire|mpi4py"""

import sys

import numpy as np

if sys.argv[1] == "fusewire":
    from fusewire import mpi as MPI
else:
    from mpi4py import MPI

world = MPI.COMM_WORLD
rank, ranks = world.Get_rank(), world.size
right, left = (rank + 1) % ranks, (rank - 1) % ranks
everyone = range(ranks)
counts = [one + 1 for one in everyone]  # elements of each rank, in the functions that end with v
packed = [float(one) for one in everyone for _ in range(one + 1)]

# Reductions.
array = np.arange(10, dtype=np.float32) * (rank + 1)
result = np.empty_like(array)
world.Allreduce(array, result)
assert np.allclose(result, np.arange(10) * sum(counts))
world.Allreduce(MPI.IN_PLACE, array, op=MPI.MAX)
assert np.allclose(array, np.arange(10) * ranks)
mixed, result = np.array([rank, 0, 1]), np.empty(3, np.int64)
world.Allreduce(mixed, result, op=MPI.LAND)
assert result.tolist() == [0, 0, 1]
world.Reduce(mixed, result, op=MPI.SUM, root=1)
assert rank != 1 or result.tolist() == [sum(everyone), 0, ranks]
part = np.empty(2)
world.Reduce_scatter_block(np.full(2 * ranks, float(rank)), part)
assert part.tolist() == [sum(everyone)] * 2
part = np.empty(rank + 1)
world.Reduce_scatter(np.ones(sum(counts)), part, counts)
assert (part == ranks).all()

# Moves.
pairs = [value for one in everyone for value in (one, -one)]
gathered = np.empty(2 * ranks, np.int64)
world.Allgather(np.array([rank, -rank]), gathered)
assert gathered.tolist() == pairs
gathered[:] = 0
gathered[2 * rank : 2 * rank + 2] = rank, -rank
world.Allgather(MPI.IN_PLACE, gathered)
assert gathered.tolist() == pairs
gathered = np.empty(2 * ranks, np.int64) if rank == 0 else None
world.Gather(np.array([rank, -rank]), gathered)
assert rank != 0 or gathered.tolist() == pairs
parts = np.empty(sum(counts))
world.Allgatherv(np.full(rank + 1, float(rank)), [parts, counts, MPI.DOUBLE])
assert parts.tolist() == packed
parts[:] = 0
world.Gatherv(np.full(rank + 1, float(rank)), [parts, (counts, None)] if rank == 0 else None)
assert rank != 0 or parts.tolist() == packed
mine = np.empty(rank + 1)
world.Scatterv([parts, counts] if rank == 0 else None, mine)
assert (mine == rank).all()
mine = np.empty(3)
world.Scatter(np.arange(3.0 * ranks) if rank == 0 else None, mine)
assert mine.tolist() == [3.0 * rank, 3.0 * rank + 1, 3.0 * rank + 2]
turned = np.empty(ranks, np.int32)
world.Alltoall(np.arange(ranks, dtype=np.int32) + 10 * rank, turned)
assert turned.tolist() == [10 * one + rank for one in everyone]
sends = [(rank + 2 * one) % 3 for one in everyone]
receives = [(one + 2 * rank) % 3 for one in everyone]
sent = np.concatenate([np.full(count, 10.0 * rank + one) for one, count in enumerate(sends)])
turned = np.empty(sum(receives))
world.Alltoallv([sent, sends], [turned, receives])
assert turned.tolist() == [10.0 * one + rank for one, count in enumerate(receives) for _ in range(count)]
array = np.full(4, rank)
world.Bcast(array, root=ranks - 1)
assert (array == ranks - 1).all()

# Begun and waited for later.
results = [np.empty(4) for _ in range(5)]
sources = [np.full(4, float(one)) for one in range(5)]  # MPI does not keep them
requests = [world.Iallreduce(source, result) for source, result in zip(sources, results, strict=True)]
requests.append(world.Ibarrier())
MPI.Request.Waitall(requests)
assert [result[0] for result in results] == [float(one * ranks) for one in range(5)]

# Prepared once: of MPI 4, which Debian's libraries have not.
if sys.argv[1] == "fusewire":
    given, got = np.zeros(3), np.zeros(3)
    prepared = world.Allreduce_init(given, got, op=MPI.MAX), world.Bcast_init(given, root=1), world.Barrier_init()
    for turn in range(3):
        for request, wanted in zip(prepared, (ranks - 1 + turn, 1 + turn, None), strict=True):
            given[:] = rank + turn
            assert request.Test()  # it has not begun, or has ended
            request.Start()
            request.Wait()
            assert wanted is None or (got if request is prepared[0] else given)[0] == wanted

# Objects.
assert world.bcast({"of": rank}, root=1) == {"of": 1}
assert world.allgather(rank) == list(everyone)
assert world.gather(rank, root=1) == (list(everyone) if rank == 1 else None)
assert world.allreduce(rank) == sum(everyone)
assert world.reduce([rank]) == (list(everyone) if rank == 0 else None)
assert world.allreduce((-abs(rank - 1), rank), op=MPI.MAXLOC) == (0, 1)
assert world.allreduce(rank, op=MPI.Op.Create(lambda one, other, datatype: max(one, other))) == ranks - 1
assert world.scatter([one * one for one in everyone] if rank == 0 else None) == rank * rank
assert world.alltoall([(rank, one) for one in everyone]) == [(one, rank) for one in everyone]
assert (world.scan(1), world.exscan(1)) == (rank + 1, rank or None)

# Messages.
got, status = np.empty(5), MPI.Status()
world.Sendrecv(np.full(3, float(rank)), right, 5, got, left, 5, status)
assert (got[:3] == left).all()
assert (status.Get_source(), status.Get_tag(), status.Get_count(MPI.DOUBLE)) == (left, 5, 3)
assert world.sendrecv({"from": rank}, right, 0, None, left) == {"from": left}
request = world.irecv(source=left, tag=9)
world.isend("word", right, tag=9).wait()
assert request.wait() == "word"
if rank == 0:
    seen = set()
    for _ in range(ranks - 1):
        status = MPI.Status()
        text = world.recv(source=MPI.ANY_SOURCE, tag=7, status=status)
        assert text == "x" * 5 * status.Get_source()
        seen.add(status.Get_source())
    assert seen == set(range(1, ranks))
else:
    world.send("x" * 5 * rank, 0, 7)
world.Send(np.ones(1), MPI.PROC_NULL)

# Communicators.
half = world.Split(rank % 2, -rank)
assert half.allgather(rank) == sorted(range(rank % 2, ranks, 2), reverse=True)
same = world.Dup()
request = same.isend("of same", right)
world.sendrecv("of world", right, 0, None, left)
assert same.recv(source=left) == "of same"
request.wait()
same.Free()
assert (world.Split(MPI.UNDEFINED if rank else 0) == MPI.COMM_NULL) == bool(rank)
assert MPI.COMM_SELF.allreduce(5) == 5
world.Barrier()
MPI.Finalize()
print("all is well at", rank, flush=True)
