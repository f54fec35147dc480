# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The flight recorder: torch's own analyser reads what real ranks write, and finds what they did wrong, and nothing
else."""

import datetime
import json
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import time

import pytest
import torch
import torch.distributed as dist
from conftest import ROOT, join, run_ranks, tell, wait_for
from processes import wait_until
from torch._C import _distributed_c10d as c10d

import fusewire.torch

SHORT = datetime.timedelta(seconds=1.5)
LONG = datetime.timedelta(seconds=30)


@pytest.fixture
def prefix(tmp_path, monkeypatch):
    """Where the ranks write."""
    (tmp_path / "dumps").mkdir()
    monkeypatch.setenv("TORCH_FR_DUMP_TEMP_FILE", str(tmp_path / "dumps" / "rank_"))
    return tmp_path / "dumps" / "rank_"


def analysed(prefix, *flags):
    """(what torch's analyser says, its operations)"""
    result = prefix.parent.parent / "result"
    words = [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", str(prefix.parent), "-o", str(result)]
    done = subprocess.run(
        [*words, *flags], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout
    with result.open("rb") as file:
        _, database = pickle.load(file)
    return done.stdout, database.collectives


def read(prefix, rank):
    with open(f"{prefix}{rank}", "rb") as file:
        return pickle.load(file)


def wait_for_dumps(prefix, ranks):
    """A rank that has no error of its own writes when others tell it to."""
    paths = [pathlib.Path(f"{prefix}{rank}") for rank in ranks]
    wait_until(lambda: all(path.exists() for path in paths), 20, lambda: f"all dumps: {os.listdir(prefix.parent)}")


def error_of(function):
    with pytest.raises(RuntimeError) as caught:
        function()
    return str(caught.value)


# ---- a clean run ----


def does_everything(rank, size, folder):
    join("fusewire", rank, size, folder, timeout=LONG)
    one, two = dist.new_group(group_desc="one"), dist.new_group([0, size - 1], group_desc="two")
    for turn in range(3):
        tensor, many = torch.ones(4, 6), torch.zeros(4 * size, 6)
        each = [torch.zeros(4, 6) for _ in range(size)]
        dist.all_reduce(tensor)
        dist.all_reduce(tensor.t())  # not contiguous: another way through the backend
        dist.all_reduce(tensor, group=one, async_op=True).wait()
        dist.all_reduce(torch.ones(0))
        if rank in (0, size - 1):
            dist.all_reduce(torch.ones(turn + 1, dtype=torch.bfloat16), group=two)
        dist.broadcast(tensor, 1)
        dist.reduce(tensor, 1, group=one)
        dist.all_gather(each, tensor)
        dist.all_gather([torch.zeros(one + 1) for one in range(size)], torch.ones(rank + 1))
        dist.all_gather_into_tensor(many, tensor)
        dist.reduce_scatter(tensor, each)
        dist.reduce_scatter(torch.zeros(rank + 1), [torch.ones(one + 1) for one in range(size)])
        dist.reduce_scatter_tensor(tensor, many)
        dist.gather(tensor, each if rank == 1 else None, dst=1)
        dist.scatter(tensor, each if rank == 1 else None, src=1)
        dist.all_to_all(each, [torch.ones(4, 6) for _ in range(size)])
        dist.all_to_all_single(many, torch.ones(4 * size, 6))
        dist.all_to_all_single(  # rank r sends r + 1 rows to each
            torch.zeros(sum(range(1, size + 1))),
            torch.ones((rank + 1) * size),
            list(range(1, size + 1)),
            [rank + 1] * size,
        )
        with dist.distributed_c10d._coalescing_manager():
            dist.all_reduce(tensor)
            dist.all_reduce(each[0])
        dist.barrier(group=one)
        dist.monitored_barrier()
        gathered = [None] * size
        dist.all_gather_object(gathered, "x" * rank)
        # Messages in both directions at once, with tags in another order, to itself, and from any rank.
        right, left = (rank + 1) % size, (rank - 1) % size
        sends = [dist.isend(torch.ones(5), right, tag=tag) for tag in (0, 0, 7)]
        sends.append(dist.isend(torch.ones(2, 3), left))
        for tag in (7, 0, 0):
            dist.recv(torch.zeros(5), left, tag=tag)
        dist.recv(torch.zeros(6), right)
        dist.isend(torch.ones(1), rank, tag=9)
        dist.recv(torch.zeros(1), rank, tag=9)
        sends.append(dist.isend(torch.ones(2), right, tag=11))
        assert dist.recv(torch.zeros(2), tag=11) == left
        for work in sends:
            work.wait()
    dist.barrier()
    name = fusewire.torch.dump_flight_recorder()
    dist.destroy_process_group()
    return name


@pytest.mark.parametrize("size", [2, 3])
def test_the_analyser_finds_nothing_wrong_in_a_clean_run(prefix, size):
    assert run_ranks(does_everything, size) == [f"{prefix}{rank}" for rank in range(size)]
    said, operations = analysed(prefix)
    assert [one for one in operations if not one.pass_check or one.missing_ranks or one.type_of_mismatch] == [], said
    for word in ("mismatch", "missing", "Culprit", "cannot decide", "rror"):
        assert word not in said
    names = {one.collective_name.rpartition(":")[2].split()[0] for one in operations}
    assert {"all_reduce", "allreduce_coalesced", "broadcast", "reduce", "all_gather", "all_gather_v"} <= names
    assert {"_all_gather_base", "reduce_scatter", "reduce_scatter_v", "_reduce_scatter_base"} <= names
    assert {"gather", "scatter", "all_to_all", "barrier", "send"} <= names
    for rank in range(size):
        dump = read(prefix, rank)
        assert {entry["state"] for entry in dump["entries"]} == {"completed"}
        assert dump["pg_config"]["0"] == {"name": "0", "desc": "default_pg", "ranks": str(list(range(size)))}
        assert {"one", "two"} - ({"two"} if rank == 1 < size - 1 else set()) <= {
            one["desc"] for one in dump["pg_config"].values()
        }


def test_an_entry_has_what_torch_says_of_one(prefix):
    run_ranks(does_everything, 2)
    entries = read(prefix, 1)["entries"]
    assert [entry["record_id"] for entry in entries] == list(range(len(entries)))
    of_default = [one for one in entries if one["process_group"][0] == "0" and not one["is_p2p"]]
    first, second, third = of_default[:3]
    assert first["process_group"] == ("0", "default_pg")
    assert first["profiling_name"].endswith(":all_reduce")
    assert (first["input_sizes"], first["input_dtypes"]) == ([[4, 6]], ["Float"])
    assert (first["output_sizes"], first["output_dtypes"]) == ([[4, 6]], ["Float"])
    assert second["input_sizes"] == [[6, 4]]
    assert [one["collective_seq_id"] for one in (first, second, third)] == [1, 2, 3]
    assert first["timeout_ms"] == 30_000
    assert first["time_created_ns"] <= first["time_discovered_started_ns"] < first["time_discovered_completed_ns"]
    assert first["duration_ms"] > 0
    assert [one["frames"] for one in entries if one["frames"]] == []  # nobody asked for them
    half = next(one for one in entries if one["process_group"][1] == "two")
    assert half["input_dtypes"] == ["BFloat16"]
    messages = [one for one in entries if one["is_p2p"]]
    assert [one["p2p_seq_id"] for one in messages] == list(range(1, len(messages) + 1))


# ---- what went wrong ----


def leaves_out_a_call(rank, size, folder, prefix):
    join("fusewire", rank, size, folder, timeout=SHORT)
    dist.all_reduce(torch.ones(8))
    if rank == 2:
        wait_for_dumps(prefix, range(size))
        return None
    return error_of(lambda: dist.all_reduce(torch.ones(8)))


def test_a_rank_that_never_makes_a_call_is_named(prefix):
    """That rank has no error, and writes when the others tell it to."""
    run_ranks(leaves_out_a_call, 3, prefix)
    said, operations = analysed(prefix)
    assert "Not all ranks joining collective, sequence number: 2" in said
    assert "missing ranks: {2}" in said
    assert "collective state: started" in said
    assert "leaves_out_a_call" in said  # where the others wait
    assert [one.missing_ranks for one in operations] == [None, {2}]


def makes_another_call(rank, size, folder, how):
    join("fusewire", rank, size, folder, timeout=SHORT)
    dist.all_reduce(torch.ones(8))
    if rank == 1 and how == "operation":
        return error_of(lambda: dist.broadcast(torch.ones(8), 0))
    if rank == 1 and how == "type":
        return error_of(lambda: dist.all_reduce(torch.ones(8, dtype=torch.int32)))
    return error_of(lambda: dist.all_reduce(torch.ones(9 if rank == 1 else 8)))


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        ("operation", "COLLECTIVE_TYPE_MISMATCH"),
        ("size", "SIZE_OR_SYNTAX_MISMATCH"),
        ("type", "COLLECTIVE_DTYPE_MISMATCH"),
    ],
)
def test_a_rank_that_makes_another_call_is_named(prefix, how, kind):
    run_ranks(makes_another_call, 3, how)
    said, operations = analysed(prefix)
    assert "Collective sequence number: 2 has errors" in said
    assert f"Culprit rank 1; Error type: {kind}" in said
    assert "Culprit rank 2" not in said
    assert [one.pass_check for one in operations] == [True, False]


def sends_nothing(rank, size, folder, prefix):
    join("fusewire", rank, size, folder, timeout=SHORT)
    if rank == 2:
        dist.send(torch.ones(3), 1)
    if rank == 1:
        dist.recv(torch.ones(3), 2)
        return error_of(lambda: dist.recv(torch.ones(3), 2))
    wait_for_dumps(prefix, range(size))
    return None


def test_a_rank_that_does_not_send_is_named(prefix):
    run_ranks(sends_nothing, 3, prefix)
    said, _ = analysed(prefix)
    assert "recv" in said
    assert "missing ranks: {2}" in said
    assert "0, 1 and 2" in said
    assert said.count("missing ranks") == 1


def leaves_out_a_call_of_a_group(rank, size, folder, prefix, is_async):
    join("fusewire", rank, size, folder, timeout=LONG)
    others = dist.new_group([0, 1], group_desc="others", timeout=SHORT)
    group = dist.new_group([1, 3], group_desc="mine", timeout=SHORT)
    for _ in range(2):
        dist.all_reduce(torch.ones(4))
        if rank in (0, 1):
            dist.all_reduce(torch.ones(5), group=others)
        if rank in (1, 3):
            dist.all_reduce(torch.ones(6), group=group)
    if rank == 1:
        work = dist.all_reduce(torch.ones(7), group=group, async_op=is_async)
        return work.wait() if is_async else None
    wait_for_dumps(prefix, range(size))
    return None


@pytest.mark.parametrize("is_async", [False, True])
def test_a_rank_of_a_group_is_named_by_its_number_in_the_world(prefix, is_async):
    found = run_ranks(leaves_out_a_call_of_a_group, 4, prefix, is_async, fails=True)
    assert "rank 1 (" in found[1]
    said, operations = analysed(prefix)
    assert "missing ranks: {3}" in said
    assert ":mine" in said
    assert said.count("missing ranks") == 1
    assert sum(one.missing_ranks is None for one in operations) == 6


def is_killed(rank, size, folder):
    join("fusewire", rank, size, folder, timeout=LONG)
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    error_of(lambda: [dist.all_reduce(torch.ones(100)) for _ in range(1000)])
    return time.monotonic() - began


def test_the_others_write_when_a_rank_is_killed(prefix):
    seconds = run_ranks(is_killed, 3, killed=(1,))
    assert sorted(os.listdir(prefix.parent)) == ["rank_0", "rank_2"]
    assert max(seconds[0], seconds[2]) < 1.5  # as without a recorder
    said, _ = analysed(prefix, "--allow-incomplete-ranks")
    assert "missed FR dumps from ranks ({1})" in said


# ---- the ring ----


def fills_the_ring(rank, size, folder):
    os.environ["TORCH_FR_BUFFER_SIZE"] = "10"
    join("fusewire", rank, size, folder, timeout=LONG)
    for _ in range(25):
        dist.all_reduce(torch.ones(3))
    fusewire.torch.dump_flight_recorder()
    dist.destroy_process_group()


def test_a_full_ring_forgets_the_oldest(prefix):
    run_ranks(fills_the_ring, 2)
    for rank in range(2):
        assert [one["collective_seq_id"] for one in read(prefix, rank)["entries"]] == list(range(16, 26))
    said, operations = analysed(prefix)
    assert len(operations) == 10, said
    assert all(one.pass_check and not one.missing_ranks for one in operations), said


def is_off(rank, size, folder, name, value):
    os.environ[name] = value
    join("fusewire", rank, size, folder, timeout=SHORT)
    dist.all_reduce(torch.ones(3))
    if rank == 0:
        error_of(lambda: dist.all_reduce(torch.ones(3)))
        tell(folder, "0 ended")
    else:
        wait_for(folder, "0 ended")
    if name != "TORCH_FR_BUFFER_SIZE":
        return None
    return error_of(fusewire.torch.dump_flight_recorder)


@pytest.mark.parametrize(
    ("name", "value"),
    [("TORCH_FR_BUFFER_SIZE", "0"), ("TORCH_FR_DUMP_ON_TIMEOUT", "0"), ("TORCH_NCCL_DUMP_ON_TIMEOUT", "false")],
)
def test_the_variables_of_torch_turn_it_off(prefix, name, value):
    found = run_ranks(is_off, 2, name, value)
    assert os.listdir(prefix.parent) == []
    if name == "TORCH_FR_BUFFER_SIZE":
        assert "TORCH_FR_BUFFER_SIZE is 0" in found[0]


def has_a_wrong_size(rank, size, folder):
    os.environ["TORCH_NCCL_TRACE_BUFFER_SIZE"] = "many"
    with pytest.raises(ValueError, match="'many', but the flight recorder needs the number of operations"):
        join("fusewire", rank, size, folder, timeout=SHORT)


def test_a_malformed_size_is_an_error():
    run_ranks(has_a_wrong_size, 2)


def shows_frames(rank, size, folder):
    os.environ["TORCH_INCLUDE_STACK_TRACE"] = "1"
    join("fusewire", rank, size, folder, timeout=LONG)
    dist.all_reduce(torch.ones(3))
    dist.broadcast(torch.ones(3), 0)
    fusewire.torch.dump_flight_recorder()
    dist.destroy_process_group()


def test_frames_are_there_if_a_variable_asks_for_them(prefix):
    run_ranks(shows_frames, 2)
    for entry, name in zip(read(prefix, 0)["entries"], ("all_reduce", "broadcast"), strict=True):
        names = [frame["name"] for frame in entry["frames"]]
        assert names[0] == name  # torch's
        assert "shows_frames" in names
        assert all(frame["line"] > 0 for frame in entry["frames"])


# ---- files ----


def cannot_write(rank, size, folder, prefix):
    join("fusewire", rank, size, folder, timeout=LONG)
    group = dist.new_group(timeout=SHORT)
    if rank == 0:
        error_of(lambda: dist.all_reduce(torch.ones(3), group=group))
    with pytest.raises(OSError, match="can't write its flight recorder") as caught:
        fusewire.torch.dump_flight_recorder(prefix)
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    dist.destroy_process_group()
    return str(caught.value), tensor.tolist()


@pytest.mark.parametrize("why", ["missing", "a file", "read only"])
def test_a_folder_that_can_not_be_written_is_an_error_and_the_program_goes_on(tmp_path, monkeypatch, capfd, why):
    folder = {"missing": tmp_path / "missing", "a file": tmp_path / "file", "read only": pathlib.Path("/proc")}[why]
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("TORCH_FR_DUMP_TEMP_FILE", f"{folder}/rank_")
    for rank, (words, total) in enumerate(run_ranks(cannot_write, 2, f"{folder}/rank_")):
        assert f"rank {rank} can't write its flight recorder to {folder}/rank_{rank}" in words
        assert "make that folder writable, or set TORCH_FR_DUMP_TEMP_FILE" in words
        assert total == [2.0] * 3
    assert f"rank 0 can't write its flight recorder to {folder}/rank_0" in capfd.readouterr().err


def writes_to_the_cache(rank, size, folder, home):
    del os.environ["TORCH_FR_DUMP_TEMP_FILE"]
    os.environ.pop("XDG_CACHE_HOME", None)
    os.environ["HOME"] = home
    join("fusewire", rank, size, folder, timeout=LONG)
    dist.barrier()
    return fusewire.torch.dump_flight_recorder()


def test_without_a_prefix_files_are_where_torch_has_its_own(tmp_path):
    names = run_ranks(writes_to_the_cache, 2, str(tmp_path))
    assert names == [f"{tmp_path}/.cache/torch/comm_lib_trace_rank_{rank}" for rank in range(2)]


# ---- torch's own functions ----


def asks_torch(rank, size, folder, prefix):
    join("fusewire", rank, size, folder, timeout=LONG)
    dist.all_reduce(torch.ones(2, 8))
    works = [dist.irecv(torch.ones(3), 1 - rank), dist.all_reduce(torch.ones(3), async_op=True)]
    works[1].wait()
    everything = pickle.loads(c10d._dump_fr_trace(backend="fusewire"))
    active = pickle.loads(c10d._dump_fr_trace(True, False, True, backend="fusewire"))
    as_json = json.loads(c10d._dump_fr_trace_json(backend="fusewire"))
    gloo = pickle.loads(c10d._dump_fr_trace())
    if hasattr(c10d, "_dump_fr_trace_file"):
        c10d._dump_fr_trace_file(7 + rank, backend="fusewire")
        assert len(read(prefix, 7 + rank)["entries"]) == 3
        c10d._reset_fr_trace(backend="fusewire")
        assert pickle.loads(c10d._dump_fr_trace(backend="fusewire"))["entries"] == []
    dist.send(torch.ones(3), 1 - rank)
    works[0].wait()
    hooks = getattr(dist.distributed_c10d._world, "pg_flight_recorder_hooks", {})
    is_alone = len(hooks) == 0
    dist.destroy_process_group()
    return everything, active, as_json, gloo, is_alone


def test_functions_of_torch_know_the_backend(prefix):
    for everything, active, as_json, gloo, is_alone in run_ranks(asks_torch, 2, prefix):
        assert [one["state"] for one in everything["entries"]] == ["completed", "started", "completed"]
        assert [one["is_p2p"] for one in active["entries"]] == [True]
        assert "frames" not in active["entries"][0]
        assert [one["state"] for one in as_json["entries"]] == ["completed", "started", "completed"]
        assert gloo["entries"] == []  # torch's own recorders are not touched
        assert is_alone  # torch has attached none to this backend


def test_the_example_of_the_page(prefix):
    """Its program, its output."""
    section = (ROOT / "docs/torch.md").read_text(encoding="utf-8").partition("## Flight recorder\n")[2]
    path = prefix.parent.parent / "late.py"
    path.write_text(section.partition("```python\n")[2].partition("```")[0])
    expected = section.partition("$ torchfrtrace traces\n")[2].partition("```")[0]
    assert "missing ranks: {1}" in expected
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=3", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert "rank 1" in done.stderr
    said, _ = analysed(prefix)
    if torch.__version__ < (2, 15):
        expected = expected.replace("c10d:", "gloo:")
    assert expected in said
