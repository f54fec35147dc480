# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""fusewire.collective: ranks as threads of one process, and as processes that `fusewire run --ranks` starts."""

import concurrent.futures
import contextlib
import signal
import sys
import textwrap
import threading

import numpy as np
import pytest
from conftest import ROOT, clean_environment, process, run_to_end
from processes import free_addresses

import fusewire.collective as fw
from fusewire import _native, p2p
from fusewire._bootstrap import endpoint_of_environment

pytestmark = pytest.mark.once
LIMIT_S = 30.0


class OnlyDlpack:
    """An array as torch shows its tensors."""

    def __init__(self, array):
        self.array, self.shape, self.dtype = array, array.shape, f"torch.{array.dtype}"

    def new_empty(self, shape):
        return OnlyDlpack(np.empty(shape, self.array.dtype))

    def __dlpack__(self, **how):
        return self.array.__dlpack__(**how)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def run_ranks(count, work, **how):
    """[work(group) of each rank], run at the same time."""
    with contextlib.ExitStack() as stack:
        endpoints = [stack.enter_context(p2p.Endpoint(f"w{rank}")) for rank in range(count)]
        members = [(endpoint.name, endpoint.address) for endpoint in endpoints]
        groups = [
            stack.enter_context(fw.Group.make(endpoint, "test", members, rank, **how))
            for rank, endpoint in enumerate(endpoints)
        ]
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            return list(pool.map(work, groups, timeout=LIMIT_S))


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "float16", "uint8"])
@pytest.mark.parametrize("hosts", ["unknown", "one"])
def test_every_kind_agrees_with_numpy(ranks, dtype, hosts):
    shape = (2 * ranks, 3)
    brought = [np.random.default_rng(rank).integers(0, 9, shape).astype(dtype) for rank in range(ranks)]
    total = sum(one.astype("int64") for one in brought).astype(dtype)

    def work(group):
        rank = group.rank()
        mine = brought[rank]
        root = ranks - 1
        np.testing.assert_array_equal(group.allreduce(mine, fw.Sum), total)
        np.testing.assert_array_equal(group.allreduce(mine, fw.Max), np.maximum.reduce(brought))
        in_place = mine.copy()
        assert group.allreduce(in_place, fw.Sum, out=in_place) is in_place
        np.testing.assert_array_equal(in_place, total)
        reduced = group.reduce(mine, root, fw.Sum)
        assert (reduced is None) == (rank != root)
        if rank == root:
            np.testing.assert_array_equal(reduced, total)
        np.testing.assert_array_equal(group.broadcast(mine, root), brought[root])
        np.testing.assert_array_equal(group.reduce_scatter(mine, fw.Sum), total[2 * rank : 2 * rank + 2])
        rows = mine[: rank + 1]
        expected = np.concatenate([one[: other + 1] for other, one in enumerate(brought)])
        np.testing.assert_array_equal(group.allgather(rows), expected)
        gathered = group.gather(rows, 0)
        assert (gathered is None) == (rank != 0)
        np.testing.assert_array_equal(group.scatter(mine, root), brought[root][2 * rank : 2 * rank + 2])
        swapped = np.concatenate([one[2 * rank : 2 * rank + 2] for one in brought])
        np.testing.assert_array_equal(group.alltoall(mine), swapped)
        if ranks > 1:
            with pytest.raises(ValueError, match="pass splits, or rows that divide evenly"):
                group.alltoall(mine[1:])
        splits = [2 if to == rank else 1 for to in range(ranks)]
        _, received = group.alltoall(mine[: sum(splits)], splits)
        assert received.tolist() == [2 if source == rank else 1 for source in range(ranks)]
        group.barrier()
        return True

    assert all(run_ranks(ranks, work, hosts=[7] * ranks if hosts == "one" else None))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int16", "int64", "uint8", "uint32", "float16"])
def test_results_are_written_into_the_callers_array(dtype):
    ranks, shape = 3, (6, 2)
    brought = [np.random.default_rng(rank).integers(0, 9, shape).astype(dtype) for rank in range(ranks)]
    total = sum(one.astype("int64") for one in brought).astype(dtype)

    def work(group):
        rank = group.rank()
        mine, same, two, all_of = (
            brought[rank],
            np.empty(shape, dtype),
            np.empty((2, 2), dtype),
            np.empty((18, 2), dtype),
        )
        for out, call, expected in (
            (same, lambda out: group.allreduce(mine, fw.Sum, out=out), total),
            (same, lambda out: group.allreduce(out, fw.Max, out=out), total),
            (same, lambda out: group.broadcast(mine, 1, out=out), brought[1]),
            (same, lambda out: group.alltoall(mine, out=out), np.concatenate([one[2 * rank :][:2] for one in brought])),
            (two, lambda out: group.reduce_scatter(mine, fw.Sum, out=out), total[2 * rank :][:2]),
            (all_of, lambda out: group.allgather(mine, out=out), np.concatenate(brought)),
            (all_of, lambda out: group.allgather(mine, rows=[6] * 3, out=out), np.concatenate(brought)),
        ):
            assert call(out) is out
            np.testing.assert_array_equal(out, expected)
        with pytest.raises(fw.Error, match="bytes"):
            group.allreduce(mine, fw.Sum, out=np.empty(5, dtype))
        group.barrier()
        return True

    assert all(run_ranks(ranks, work, hosts=[7] * ranks))


def test_run_serves_simple_arrays_only():
    kind = _native.KINDS.index("allreduce")

    def work(group):
        served, array, big_endian = group._calls.run, np.ones(4, np.float32), np.ones(4, ">f4")
        for source, target in (
            (array, array[::2]),
            (array[::2], array),
            (array, array.astype(np.float64)),
            (big_endian, big_endian),
            ([1.0], array),
            (array, None),
            (np.ones(0, np.float32), np.ones(0, np.float32)),
            (array, memoryview(bytes(16))),
            (np.ones(4, np.complex64), np.ones(4, np.complex64)),
        ):
            assert served(kind, fw.Sum, 0, source, target) == _native.NOT_SERVED
        assert served(_native.KINDS.index("gather"), fw.Sum, 0, array, array.copy()) == _native.NOT_SERVED
        held = sys.getrefcount(array)
        for _ in range(100):
            assert served(kind, fw.Max, 0, array, array) == 0
        assert sys.getrefcount(array) == held
        assert served(kind, 99, 0, array, array) == _native.CODES.index("invalid")
        with pytest.raises(TypeError):
            served(kind, "sum", 0, array, array)
        group.barrier()
        group.close()
        assert served(kind, fw.Sum, 0, array, array) == _native.NOT_SERVED
        with pytest.raises(RuntimeError, match="closed"):
            group.allreduce(array, out=array)
        return True

    assert all(run_ranks(2, work))


@pytest.mark.parametrize("hosts", [None, [7, 7, 7]])
def test_a_plan_runs_again_and_again_on_its_arrays(hosts):
    def work(group):
        rank, mine, total = group.rank(), np.zeros(6, np.float32), np.empty(6, np.float32)
        plans = [
            group.plan("allreduce", mine, fw.Sum, out=total),
            group.plan("grouped_allreduce", [mine, mine], fw.Max),
            group.plan("reduce", mine, 1, fw.Sum),
            group.plan("allgather", mine[: rank + 1], rows=[1, 2, 3]),
            group.plan("alltoall", mine),
            group.plan("barrier"),
        ]
        for turn in range(5):
            mine[:] = turn + rank
            assert plans[0].run() is total
            np.testing.assert_array_equal(total, np.full(6, 3 * turn + 3))
            for reduced in plans[1].run():
                np.testing.assert_array_equal(reduced, np.full(6, turn + 2))
            reduced = plans[2].run()
            assert (reduced is None) == (rank != 1)
            np.testing.assert_array_equal(plans[3].run(), turn + np.array([0, 1, 1, 2, 2, 2]))
            np.testing.assert_array_equal(plans[4].run(), turn + np.array([0, 0, 1, 1, 2, 2]))
            assert plans[5].run() is None
            tickets = [plan.start() for plan in plans[:2]]
            assert tickets[0].wait() is total
            tickets[1].wait()
        return True

    assert all(run_ranks(3, work, hosts=hosts))


@pytest.mark.parametrize("hosts", [None, [7, 7]])
def test_a_plan_is_refused_while_it_is_under_way_and_when_its_group_is_closed(hosts):
    def work(group):
        plan = group.plan("allreduce", np.ones(4, np.float32), fw.Sum)
        if group.rank() == 0:
            ticket = plan.start()  # rank 1 comes later
            for again in (plan.run, lambda: plan.start().wait()):
                with pytest.raises(fw.Error, match="the plan is under way") as caught:
                    again()
                assert caught.value.code == "invalid"
            group.barrier(name="go")
            ticket.wait()
        else:
            group.barrier(name="go")
            plan.run()
        wrong = group.plan("allreduce", np.ones(4, np.float32), fw.Sum, out=np.empty(5, np.float32))
        for _ in range(2):
            with pytest.raises(fw.Error, match="bytes"):
                wrong.run()
        with pytest.raises(TypeError, match="collectives do not support"):
            group.plan("allreduce", np.ones(4, np.complex64))
        np.testing.assert_array_equal(plan.run(), np.full(4, 2))
        group.barrier()
        group.close()
        with pytest.raises(RuntimeError, match="closed"):
            plan.run()
        with pytest.raises(RuntimeError, match="closed"):
            plan.start()
        return True

    assert all(run_ranks(2, work, hosts=hosts))


def test_a_plan_that_is_dropped_frees_its_arrays():
    def work(group):
        array = np.ones(4, np.float32)
        held = sys.getrefcount(array)
        for _ in range(100):
            group.plan("allreduce", array, out=array).run()
        assert sys.getrefcount(array) == held
        return True

    assert all(run_ranks(2, work, hosts=[7, 7]))


@pytest.mark.parametrize("hosts", [None, [7, 7, 7]])
def test_truths_travel_but_are_not_added_up(hosts):
    def work(group):
        mine = np.arange(3) == group.rank()
        np.testing.assert_array_equal(group.broadcast(mine, 2), [False, False, True])
        np.testing.assert_array_equal(group.allgather(mine), np.eye(3, dtype=bool).ravel())
        np.testing.assert_array_equal(group.scatter(mine, 1), [group.rank() == 1])
        np.testing.assert_array_equal(group.alltoall(mine), mine)
        assert group.allreduce(mine, fw.Max).all()
        with pytest.raises(fw.Error, match="booleans cannot be summed"):
            group.allreduce(mine, fw.Sum)
        return True

    assert all(run_ranks(3, work, hosts=hosts))


def test_an_average_is_what_allreduce_means_and_names_meet_in_any_order():
    def work(group):
        order = range(20) if group.rank() else reversed(range(20))
        tickets = {one: group.allreduce_async(np.full(100, float(group.rank() + one)), name=f"t{one}") for one in order}
        for one, ticket in tickets.items():
            np.testing.assert_allclose(ticket.wait(), one + 0.5)

    run_ranks(2, work)


def test_groups_of_tensors_subgroups_and_dlpack():
    def work(group):
        rank = group.rank()
        for lengths in ([1, 0, 7, 1000], [0, 5], [0, 0, 1]):
            results = group.grouped_allreduce([np.full(length, rank, np.float32) for length in lengths], fw.Sum)
            assert [len(one) for one in results] == lengths
            assert all((one == 3).all() for one in results)
        tensor = group.allreduce(OnlyDlpack(np.full((2, 2), rank, np.float32)), fw.Sum)
        assert (tensor.array == 3).all()
        if rank == 1:
            return
        with group.subgroup("ends", [2, 0]) as ends:
            assert ends.rank() == (0 if rank == 2 else 1)
            assert ends.allreduce(np.array([rank]), fw.Sum)[0] == 2

    run_ranks(3, work)


def test_sparse_rows_are_added_up():
    def work(group):
        indices = np.array([5, group.rank(), 5])
        values = np.array([[1.0, 2.0], [10.0, 20.0], [3.0, 4.0]])
        where, what = group.sparse_allreduce(indices, values, fw.Sum)
        assert where.tolist() == [0, 1, 5]
        assert what.tolist() == [[10.0, 20.0], [10.0, 20.0], [8.0, 12.0]]

    run_ranks(2, work)


def test_different_wishes_are_an_error_that_names_both():
    def work(group):
        with pytest.raises(fw.Error, match=r"rank 0 \(w0\).*rank 1 \(w1\)|rank 1 \(w1\).*rank 0 \(w0\)") as error:
            group.allreduce(np.zeros(3 + group.rank()))
        assert error.value.code == "invalid"
        assert group.allreduce(np.ones(3), fw.Sum).tolist() == [2, 2, 2]

    run_ranks(2, work)


def test_objects_travel():
    def work(group):
        rank = group.rank()
        assert group.broadcast_object({"epoch": 7, "of": rank} if rank == 1 else None, 1) == {"epoch": 7, "of": 1}
        assert group.allgather_object("x" * rank) == ["", "x", "xx"]
        return True

    assert all(run_ranks(3, work))


def test_ranks_know_where_they_stand():
    addresses = ["a:1", "b:1", "a:2", "a:3", "b:2"]
    for rank, expected in enumerate([(0, 3, 0, 2), (0, 2, 1, 2), (1, 3, 0, 2), (2, 3, 0, 1), (1, 2, 1, 2)]):
        fw.init(rank, ["127.0.0.1:0" if one == rank else "127.0.0.1:1" for one in range(5)])
        try:
            fw._world = fw._world._replace(hosts=fw.hosts_of(addresses))
            assert (fw.local_rank(), fw.local_size(), fw.cross_rank(), fw.cross_size()) == expected
        finally:
            fw.shutdown()


def test_what_cannot_be_done_is_said():
    def work(group):
        with pytest.raises(fw.Error, match="`root` is 3, and `ranks` is 1"):
            group.broadcast(np.zeros(3), 3)
        with pytest.raises(TypeError, match="do not support complex128"):
            group.allreduce(np.zeros(3, complex))
        with pytest.raises(ValueError, match="not contiguous"):
            group.allreduce(np.zeros(3), out=np.zeros((3, 2))[:, 0])
        with pytest.raises(fw.Error, match=r"bits|and"):
            group.allreduce(np.zeros(3), fw.And)

    run_ranks(1, work)


PROGRAM = """
    import os, signal, sys
    import numpy as np
    import fusewire.collective as fw

    fw.init()
    rank, size = fw.rank(), fw.size()
    array = np.full(1 << 20, float(rank))
    assert (fw.allreduce(array, fw.Sum) == size * (size - 1) / 2).all()
    if len(sys.argv) > 1 and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        while len(sys.argv) > 1:
            fw.allreduce(array)
    except fw.Error as error:
        assert error.code == "unavailable" and "rank 1 (world:1)" in str(error), error
        fw.shrink()
        assert fw.size() == size - 1
        assert (fw.allreduce(np.ones(10), fw.Sum) == size - 1).all()
    print("rank", rank, "is done")
    fw.shutdown()
"""


def test_ranks_of_one_host_share_an_arena_unless_told_otherwise():
    def work(group):
        assert not group.in_arena()
        group.barrier()
        return group.in_arena()

    assert run_ranks(2, work, hosts=[0, 0]) == [True, True]
    assert run_ranks(2, work, hosts=[0, 0], arena=False) == [False, False]
    assert run_ranks(2, work, hosts=[0, 1]) == [False, False]
    assert run_ranks(2, work) == [False, False]


# Ctrl-C, in other words: who waits for a rank that does not come can be interrupted, and that rank hears of it.
INTERRUPTED = """
import os, signal, sys, time
import numpy as np
import fusewire.collective as fw

class Enough(Exception):
    pass

def on_alarm(*_):
    raise Enough

fw.init()
group = fw.world()
if sys.argv[1] == "wires":
    group = fw.sibling("wires", arena=False)
name = "named" if sys.argv[1] == "named" else None
group.allreduce(np.ones(3))
if fw.rank() == 0:
    signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    begin = time.monotonic()
    try:
        group.allreduce(np.ones(3), name=name)
    except Enough:
        print("interrupted after", time.monotonic() - begin < 2, flush=True)
    open("interrupted", "w").close()
else:
    while not os.path.exists("interrupted"):
        time.sleep(0.01)
    try:
        group.allreduce(np.ones(3), name=name)
    except fw.Error as error:
        print("heard", "gave it up" in str(error), flush=True)
print("sum", group.allreduce(np.ones(3), fw.Sum)[0], flush=True)
fw.shutdown()
"""


@pytest.mark.parametrize("way", ["arena", "wires", "named"])
def test_a_waiting_rank_can_be_interrupted(tmp_path, way):
    program = tmp_path / "interrupted.py"
    program.write_text(INTERRUPTED)
    command = [sys.executable, "-m", "fusewire", "run", "--ranks", 2, "--timeout", 60, program, way]
    done = run_to_end(command, tmp_path, clean_environment())
    assert done.status == 0, done
    assert done.out.count("interrupted after True") == 1, done
    assert done.out.count("heard True") == 1, done
    assert done.out.count("sum 2.0") == 2, done


def test_processes_of_fusewire_run(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM), encoding="utf-8")
    command = [sys.executable, "-m", "fusewire", "run", "--ranks", 3, "--timeout", 60, program]
    out = run_to_end(command, tmp_path).ok()
    assert out.count("is done") == 3


def test_survivors_of_a_kill_shrink_and_go_on(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM), encoding="utf-8")
    from fusewire.launch.plan import free_ports

    with free_ports(3) as ports, contextlib.ExitStack() as stack:
        addresses = ",".join(f"127.0.0.1:{port}" for port in ports)
        ranks = [
            stack.enter_context(
                process(
                    [sys.executable, program, "die"],
                    tmp_path,
                    clean_environment(
                        FUSEWIRE_RANK=str(rank),
                        FUSEWIRE_RANK_ADDRESSES=addresses,
                    ),
                )
            )
            for rank in range(3)
        ]
        outputs = [rank.communicate(timeout=LIMIT_S) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, -signal.SIGKILL, 0], outputs


def test_the_example_finds_the_line(tmp_path):
    command = [sys.executable, "-m", "fusewire", "run", "--ranks", 3, "--timeout", 60, ROOT / "examples/collective.py"]
    assert "3 ranks, 3000 points: y = 3.0 x + -1.0, apart by 0" in run_to_end(command, tmp_path).ok()


def test_a_rank_listens_where_the_operator_says(monkeypatch):
    """Behind NAT: its address in the list is the gateway's, which no process here can open."""
    monkeypatch.setenv("FUSEWIRE_BIND", "127.0.0.0/8")
    fw.init(0, ["198.51.100.1:0"])
    try:
        np.testing.assert_array_equal(fw.allreduce(np.ones(3)), np.ones(3))
    finally:
        fw.shutdown()
    monkeypatch.setenv("FUSEWIRE_BIND", "eth-none")
    with pytest.raises(ValueError, match=r'FUSEWIRE_BIND is "eth-none": .*is not an interface of this machine'):
        fw.init(0, ["127.0.0.1:0"])


def test_the_operator_chooses_the_transport(monkeypatch):
    """Over TCP alone, ranks of one host share no arena."""
    addresses = free_addresses(2)

    def work(rank):
        endpoint = endpoint_of_environment(f"w:{rank}", addresses[rank], None, None)
        members = [(f"w:{one}", address) for one, address in enumerate(addresses)]
        with endpoint, fw.Group.make(endpoint, "g", members, rank, hosts=[0, 0]) as group:
            for _ in range(3):
                assert group.allreduce(np.ones(3), fw.Sum).tolist() == [2, 2, 2]
            shares = group.in_arena()
            group.barrier()  # no rank leaves before the other has looked
            return shares

    for wire, shares in (("", True), ("tcp", False)):
        monkeypatch.setenv("FUSEWIRE_TRANSPORT", wire)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            assert list(pool.map(work, range(2))) == [shares] * 2
    monkeypatch.setenv("FUSEWIRE_TRANSPORT", "pigeon")
    with pytest.raises(
        ValueError, match=r'FUSEWIRE_TRANSPORT is "pigeon", which is not one of auto, tcp, .*see: fusewire explain '
    ):
        fw.init(0, ["127.0.0.1:0"])


def test_ranks_of_one_host_go_first_and_a_table_chooses():
    assert fw.hosts_of(["a:1", "b:1", "a:2", "[::1]:5", "b:9"]) == [0, 1, 0, 3, 1]
    table = "all-reduce 4 1000000 two-level 65536\nall-gather 4 1000000 two-level 65536\n"

    def work(group):
        mine = np.arange(1000, dtype="int64") + group.rank()
        return group.allreduce(mine, op=fw.Sum), group.allgather(mine[:3])

    for hosts in ([0, 0, 1, 1], [0, 1, 1, 1], [3, 2, 1, 0]):
        for total, gathered in run_ranks(4, work, hosts=hosts, table=table):
            np.testing.assert_array_equal(total, 4 * np.arange(1000) + 6)
            np.testing.assert_array_equal(gathered, [0, 1, 2, 1, 2, 3, 2, 3, 4, 3, 4, 5])
    with pytest.raises(ValueError, match="3 hosts for 4 members"):
        run_ranks(4, work, hosts=[0, 0, 1])
    with pytest.raises(fw.Error, match="line 1"):
        run_ranks(4, work, table="all-reduce 4 fast ring 1")


def test_tune_measures_every_algorithm_and_its_table_is_used(tmp_path):
    table = tmp_path / "table"
    arguments = ["tune", "--ranks", "2,3", "--bytes", "64,65536", "--seconds", "0.003", "--out", str(table)]
    tuned = run_to_end([sys.executable, "-m", "fusewire", *arguments], tmp_path, deadline_s=4 * LIMIT_S)
    tuned.ok()
    rows = [line.split() for line in table.read_text().splitlines() if not line.startswith("#")]
    for ranks in ("2", "3"):
        for kind in ("all-reduce", "reduce-scatter", "all-gather", "broadcast", "reduce"):
            sizes = [int(row[2]) for row in rows if row[:2] == [kind, ranks]]
            assert sizes and sizes == sorted(sizes) and sizes[-1] > 1 << 60, (kind, ranks, rows)

    program = tmp_path / "sum.py"
    program.write_text(
        textwrap.dedent(
            """
            import numpy as np
            import fusewire.collective as fw
            fw.init()
            print("sum", fw.allreduce(np.ones(5000), op=fw.Sum).sum())
            """
        )
    )
    environment = {**clean_environment(), "FUSEWIRE_COLLECTIVE_TABLE": str(table)}
    command = [sys.executable, "-m", "fusewire", "run", "--ranks", "3", str(program)]
    used = run_to_end(command, tmp_path, environment)
    assert used.ok().count("sum 15000.0") == 3, used.out
    table.write_text("all-reduce 3 much ring 1\n")
    refused = run_to_end(command, tmp_path, environment)
    assert refused.status != 0
    assert "BYTES_MAX is much, and must be a number of bytes" in refused.out + refused.error


def test_a_confirmed_broadcast_ends_when_the_others_have_it():
    begins = threading.Event()
    brought = np.arange(3.0)

    def work(group):
        group.allreduce(np.ones(1))  # all are connected
        if group.rank() == 0:
            ticket = group.broadcast_async(brought, 0, "x", confirm=True)
            early = any(begins.wait(0.01) or ticket.test() for _ in range(20))
            begins.set()
            ticket.wait()
            return not early
        assert begins.wait(LIMIT_S)
        np.testing.assert_array_equal(group.broadcast(np.empty(3), 0, "x", confirm=True), brought)
        return True

    assert run_ranks(2, work) == [True, True]
