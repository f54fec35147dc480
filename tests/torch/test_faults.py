# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""What goes wrong: every rank gets an error of torch's kinds that names the rank at fault, in time."""

import datetime
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
import torch.distributed as dist
from certificates import Certificates
from conftest import ROOT, join, run_ranks, tell, wait_for

from fusewire.torch import bootstrap as meeting

DIES_WITHIN_S = 1.5  # a second, and what a busy machine adds


def two_hosts(rank):
    meeting.machine.host_identity = lambda: f"host {rank % 2}"
    os.environ["FUSEWIRE_BIND"] = "127.0.0.1"


def error_after(function):
    """(kinds and words of the error, seconds until it)"""
    began = time.monotonic()
    try:
        function()
    except RuntimeError as error:
        return [kind.__name__ for kind in type(error).__mro__], str(error), time.monotonic() - began
    raise AssertionError("no error")


def dies_in_all_reduce(rank, size, folder, hosts):
    if hosts > 1:
        two_hosts(rank)
    join("fusewire", rank, size, folder, timeout=datetime.timedelta(seconds=30))
    tensor = torch.ones(1 << 20)
    for _ in range(5):
        dist.all_reduce(tensor)
    if rank == 1:
        dist.all_reduce(tensor, async_op=True)
        os.kill(os.getpid(), signal.SIGKILL)

    def until_it_fails():
        while True:
            dist.all_reduce(tensor)

    return error_after(until_it_fails)


@pytest.mark.parametrize("hosts", [1, 2])
def test_a_rank_that_is_killed_is_named_by_all_others(hosts):
    results = run_ranks(dies_in_all_reduce, 4, hosts, killed=(1,))
    for rank in (0, 2, 3):
        kinds, words, seconds = results[rank]
        assert "rank 1" in words
        assert "DistNetworkError" in kinds, words
        assert "RuntimeError" in kinds
        assert seconds < DIES_WITHIN_S


def dies_while_others_wait(rank, size, folder):
    join("fusewire", rank, size, folder, timeout=datetime.timedelta(seconds=30))
    dist.barrier()
    if rank == 2:
        wait_for(folder, "0 waits", "1 waits")
        os.kill(os.getpid(), signal.SIGKILL)
    work = dist.all_reduce(torch.ones(5), async_op=True)
    tell(folder, f"{rank} waits")
    if rank == 0:
        return error_after(work.get_future().wait)
    return error_after(work.wait)


def test_work_and_future_of_an_operation_with_a_dead_rank_fail():
    results = run_ranks(dies_while_others_wait, 3, killed=(2,))
    for rank in (0, 1):
        _, words, seconds = results[rank]
        assert "rank 2" in words
        assert seconds < DIES_WITHIN_S


def dies_before_it_sends(rank, size, folder, meets):
    join("fusewire", rank, size, folder, timeout=datetime.timedelta(seconds=20))
    if meets:
        dist.barrier()
    if rank == 1:
        wait_for(folder, "0 waits")
        os.kill(os.getpid(), signal.SIGKILL)
    work = dist.irecv(torch.ones(5), 1)
    tell(folder, "0 waits")
    return error_after(work.wait)


@pytest.mark.parametrize("meets", [True, False])
def test_a_receive_from_a_rank_that_dies_fails(meets):
    """Also if the two had nothing to do with each other before."""
    kinds, words, seconds = run_ranks(dies_before_it_sends, 2, meets, killed=(1,))[0]
    assert "receive from rank 1 with tag 0" in words
    assert "DistNetworkError" in kinds, words
    assert seconds < DIES_WITHIN_S


def dies_while_others_receive_from_anyone(rank, size, folder, how):
    join("fusewire", rank, size, folder, timeout=datetime.timedelta(seconds=30))
    if how != "at once":
        dist.barrier()
    if rank == 1:
        wait_for(folder, "0 waits", "2 waits")
        os.kill(os.getpid(), signal.SIGKILL)
    work = dist.irecv(torch.ones(5))
    tell(folder, f"{rank} waits")
    if how == "looks":
        return error_after(lambda: looked_until_its_end(work))
    return error_after(work.get_future().wait if how == "future" and rank == 0 else work.wait)


def looked_until_its_end(work):
    while not work.is_completed():
        time.sleep(0.01)
    work.wait()


@pytest.mark.parametrize("how", ["waits", "looks", "future", "at once"])
def test_a_receive_from_any_rank_fails_when_one_dies(how):
    """Another one might still send, but the group is broken for all that is to come."""
    results = run_ranks(dies_while_others_receive_from_anyone, 3, how, killed=(1,))
    for rank in (0, 2):
        kinds, words, seconds = results[rank]
        assert "receive from any rank with tag 0" in words
        assert "rank 1" in words
        assert ("RuntimeError" if how == "future" else "DistNetworkError") in kinds, words
        assert seconds < DIES_WITHIN_S


def is_absent(rank, size, folder, kind):
    join("fusewire", rank, size, folder, timeout=datetime.timedelta(seconds=1))
    dist.barrier()
    if rank == 2:
        wait_for(folder, "0 ended", "1 ended")
        return None
    tensor = torch.ones(10)
    operations = {
        "reduce": lambda: dist.all_reduce(tensor),
        "async": lambda: dist.all_reduce(tensor, async_op=True).wait(),
        "receive": lambda: dist.recv(tensor, 2),
    }
    error = error_after(operations[kind])
    tell(folder, f"{rank} ended")
    return error


@pytest.mark.parametrize("kind", ["reduce", "async", "receive"])
def test_a_timeout_names_the_rank_that_did_not_come(kind):
    results = run_ranks(is_absent, 3, kind)
    for rank in (0, 1):
        kinds, words, seconds = results[rank]
        assert "rank 2" in words
        assert "timeout" in words
        assert "DistBackendError" in kinds
        assert 0.9 < seconds < 2.5


def calls_alone(rank, size, folder):
    join("fusewire", rank, size, folder, timeout=datetime.timedelta(seconds=2))
    if rank == 1:
        wait_for(folder, "0 ended")
        return None
    error = error_after(dist.barrier)
    tell(folder, "0 ended")
    return error


def test_the_first_operation_ends_by_its_timeout_too():
    _, words, seconds = run_ranks(calls_alone, 2)[0]
    assert "rank 1" in words
    assert 1.9 < seconds < 3.5


def never_comes(rank, size, folder):
    if rank == 1:
        return None
    return error_after(lambda: join("fusewire", rank, size, folder, timeout=datetime.timedelta(seconds=1)))


def test_init_names_the_rank_that_does_not_come():
    results = run_ranks(never_comes, 3)
    for rank in (0, 2):
        kinds, words, seconds = results[rank]
        assert "rank 1 of 3 did not come" in words
        assert "DistBackendError" in kinds, words
        assert seconds < 3


def differs(rank, size, folder, how):
    join("fusewire", rank, size, folder, timeout=datetime.timedelta(seconds=10))
    if how == "size":
        error = error_after(lambda: dist.all_reduce(torch.ones(10 if rank else 11)))
    elif how == "operator":
        error = error_after(lambda: dist.all_reduce(torch.ones(10), dist.ReduceOp.MAX if rank else dist.ReduceOp.SUM))
    elif how == "type":
        error = error_after(lambda: dist.all_reduce(torch.ones(10, dtype=torch.float64 if rank else torch.float32)))
    else:
        error = error_after(lambda: dist.broadcast(torch.ones(10), 0) if rank else dist.all_reduce(torch.ones(10)))
    tensor = torch.ones(3)  # the group goes on
    dist.all_reduce(tensor)
    return error, tensor.tolist()


@pytest.mark.parametrize("how", ["size", "operator", "type", "kind"])
def test_a_mismatch_names_both_and_the_group_goes_on(how):
    for (kinds, words, _), after in run_ranks(differs, 2, how):
        assert "rank 0" in words
        assert "rank 1" in words
        assert "DistBackendError" in kinds
        assert after == [2.0, 2.0, 2.0]


def has_settings(rank, size, folder, settings):
    two_hosts(rank)
    os.environ.update(settings[rank])
    join("fusewire", rank, size, folder, timeout=datetime.timedelta(seconds=10))
    tensor = torch.ones(1000)
    if settings[0] != settings[1]:
        error = error_after(lambda: dist.all_reduce(tensor))
        tell(folder, f"{rank} ended")  # no rank ends before the other has seen the reason
        wait_for(folder, *(f"{one} ended" for one in range(size)))
        return error
    dist.all_reduce(tensor)
    if rank == 0:
        dist.send(tensor, 1)
    else:
        dist.recv(tensor, 0)
    dist.destroy_process_group()
    return tensor[-1].item()


def test_the_settings_of_trust_apply():
    one, another = ({"FUSEWIRE_SECRET": 8 * secret, "FUSEWIRE_CHECKSUM": "1"} for secret in ("one", "another"))
    assert run_ranks(has_settings, 2, (one, one)) == [2.0, 2.0]
    for kinds, words, _ in run_ranks(has_settings, 2, (one, another)):
        assert "shared secret differs" in words
        assert "DistBackendError" in kinds


def test_ranks_show_their_certificates(tmp_path):
    """Over TCP: shared memory needs none."""
    certificates = Certificates(tmp_path)
    ours = {**certificates.settings("rank"), "FUSEWIRE_TRANSPORT": "tcp"}
    assert run_ranks(has_settings, 2, (ours, ours)) == [2.0, 2.0]
    certificates.authority("other")
    strange = {**certificates.settings("stranger", "other"), "FUSEWIRE_TRANSPORT": "tcp"}
    for _, words, _ in run_ranks(has_settings, 2, (ours, strange)):
        assert "certificate" in words, words


def sends_too_much(rank, size, folder):
    join("fusewire", rank, size, folder, timeout=datetime.timedelta(seconds=10))
    if rank == 0:
        dist.isend(torch.ones(20), 1, tag=7)
        dist.isend(torch.ones(5), 1, tag=8)
        dist.barrier()
        return None
    errors = [error_after(lambda tag=tag: dist.recv(torch.ones(10), 0, tag=tag)) for tag in (7, 8)]
    dist.barrier()
    return errors


def test_a_message_of_another_size_is_an_error():
    _, errors = run_ranks(sends_too_much, 2)
    for _, words, _ in errors:
        assert "rank 0" in words
    assert "sent 20 bytes to rank 1 with tag 8" in errors[1][1]


def names_no_rank(rank, size, folder):
    join("fusewire", rank, size, folder, timeout=datetime.timedelta(seconds=10))
    tensor = torch.ones(3)
    calls = [
        lambda: dist.send(tensor, 7),
        lambda: dist.recv(tensor, 7),
        lambda: dist.group.WORLD.send([tensor], -1, 0),
        lambda: dist.broadcast(tensor, 7),
        lambda: dist.reduce(tensor, 7),
        lambda: dist.scatter(tensor, None, 7),
    ]
    errors = []
    for call in calls:
        with pytest.raises((ValueError, RuntimeError)) as caught:
            call()
        errors.append(str(caught.value))
    dist.all_reduce(tensor)
    dist.destroy_process_group()
    return errors, tensor.tolist()


def test_a_rank_that_is_not_there_is_named_and_the_group_goes_on():
    for errors, total in run_ranks(names_no_rank, 2):
        for words in errors:
            assert any(name in words for name in ("rank 7", "rank -1"))
            assert "give a rank from 0 to 1" in words
        assert total == [2.0] * 3


def is_aborted(rank, size, folder):
    join("fusewire", rank, size, folder, timeout=datetime.timedelta(seconds=30))
    dist.barrier()
    if rank == 0:
        dist.distributed_c10d._abort_process_group()
        return "aborted"
    return error_after(lambda: dist.all_reduce(torch.ones(4)))


def test_abort_ends_the_operations_of_all_ranks():
    _, (_, words, seconds) = run_ranks(is_aborted, 2)
    assert "abort" in words
    assert seconds < 5


def uses_a_forked_group(rank, size, folder):
    join("fusewire", rank, size, folder, timeout=datetime.timedelta(seconds=10))
    dist.barrier()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            dist.all_reduce(torch.ones(2))
        except RuntimeError as error:
            os.write(writer, str(error).encode())
        os._exit(0)
    os.close(writer)
    words = os.read(reader, 4096).decode()
    os.waitpid(child, 0)
    dist.barrier()  # the parent's group lives
    return words


def test_a_forked_child_is_told_that_the_group_is_not_its_own():
    for words in run_ranks(uses_a_forked_group, 2):
        assert "forked" in words


def monitored(rank, size, folder, wait_all):
    join("fusewire", rank, size, folder, timeout=datetime.timedelta(seconds=10))
    dist.monitored_barrier()
    if rank in (1, 3):
        wait_for(folder, "0 ended", "2 ended")
        return None
    limit = datetime.timedelta(seconds=1)
    error = error_after(lambda: dist.monitored_barrier(timeout=limit, wait_all_ranks=wait_all))
    tell(folder, f"{rank} ended")
    return error


@pytest.mark.parametrize("wait_all", [False, True])
def test_monitored_barrier_names_the_missing_ranks(wait_all):
    results = run_ranks(monitored, 4, wait_all)
    who = "Ranks 1, 3 failed" if wait_all else "Rank 1 failed"
    assert who in results[0][1]
    assert "Rank 2 successfully reached" in results[2][1]
    assert who in results[2][1]


@pytest.mark.skipif(not hasattr(dist, "shrink_group"), reason="this torch has no shrink_group")
def test_survivors_of_kills_go_on():
    """The short form of kills.py."""
    words = [sys.executable, ROOT / "tests/torch/kills.py", "--times", "5"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all went on" in done.stdout
