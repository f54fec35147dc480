# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""`fusewire doctor --cluster`: what it makes of the answers, and real clusters with every fault that it names."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading

import pytest
from certificates import Certificates
from conftest import FUSEWIRE, clean_environment, run_to_end
from processes import free_addresses, wait_until

from fusewire.__main__ import main
from fusewire.doctor import survey
from fusewire.doctor.survey import Peer, Survey, Way
from fusewire.inspect import inquiry, seeing

MEMBERS = {"ps:0": "10.0.0.1:2222", "ps:1": "10.0.0.2:2222", "worker:0": "10.0.0.3:2222"}


def peer(name, members=MEMBERS, clock_s=0.0, **about):
    told = {"task": name, "protocol": "grpc++", "fusewire": "1.0", "tensorflow": "2.15.1", "data_port": 4711}
    return Peer(members.get(name, "h:1"), name=name, about={**told, "members": members, **about}, clock_s=clock_s)


def worst(found, name):
    order = ["ok", "note", "warn", "FAIL"]
    mine = [check for check in survey.checks(found) if check.name == name]
    return max(mine, key=lambda check: order.index(check.status))


@pytest.mark.parametrize("count", range(9))
def test_every_way_is_measured_once_and_no_task_twice_at_a_time(count):
    names = [f"t{index}" for index in range(count)]
    rounds = list(survey.rounds(names))
    for pairs in rounds:
        busy = [name for pair in pairs for name in pair]
        assert len(busy) == len(set(busy))
    pairs = [pair for pairs in rounds for pair in pairs]
    assert sorted(pairs) == sorted((one, other) for one in names for other in names if one != other)


def test_a_task_of_another_cluster_is_named_with_the_difference():
    other = {**MEMBERS, "ps:1": "10.0.0.9:2222"}
    check = worst(Survey([peer("ps:0"), peer("ps:1", other), peer("worker:0")], []), "ps:1")
    assert check.status == "FAIL"
    assert "another cluster: its ps:1 is 10.0.0.9:2222, and most say 10.0.0.2:2222" in check.value
    smaller = {name: address for name, address in MEMBERS.items() if name != "worker:0"}
    check = worst(Survey([peer("ps:0", smaller), peer("ps:1"), peer("worker:0")], []), "ps:0")
    assert "it does not know worker:0, which most say is 10.0.0.3:2222" in check.value


@pytest.mark.parametrize(
    ("about", "status", "words"),
    [
        ({"fusewire": "0.9"}, "FAIL", "another version: most tasks have Fusewire 1.0"),
        ({"data_port": 0, "protocol": "grpc"}, "warn", "no data port: everything goes over gRPC"),
        ({"protocol": "star_server"}, "warn", "its protocol is not that of most tasks"),
        ({}, "ok", "grpc++, Fusewire 1.0, TensorFlow 2.15.1"),
    ],
)
def test_a_task_that_differs_is_named(about, status, words):
    check = worst(Survey([peer("ps:0"), peer("ps:1", **about), peer("worker:0")], []), "ps:1")
    assert (check.status, words in check.value, bool(check.fix)) == (status, True, status != "ok")


def test_clocks_apart_are_named():
    found = Survey([peer("ps:0", clock_s=5.0), peer("ps:1", clock_s=5.001), peer("worker:0", clock_s=2.0)], [])
    check = worst(found, "clocks")
    assert (check.status, check.value) == ("warn", "worker:0 is 3.0 s behind")
    found.peers.pop()
    assert worst(found, "clocks").status == "ok"


def all_ways(slow=(), lost=()):
    names = sorted(MEMBERS)
    return [
        Way(one, other, error="timeout: no answer")
        if one in lost or other in lost
        else Way(one, other, "tcp", 90_000_000 if one in slow or other in slow else 50_000, 10**9)
        for one in names
        for other in names
        if one != other
    ]


def test_the_slow_end_is_named():
    names = [peer(name) for name in MEMBERS]
    assert worst(Survey(names, all_ways()), "ways").status == "ok"
    ways = [
        Way(f"t{one}", f"t{other}", "tcp", 90_000_000 if 3 in (one, other) else 50_000, 10**9)
        for one in range(6)
        for other in range(6)
        if one != other
    ]
    check = worst(Survey(names, ways), "ways")
    assert (check.status, check.value.splitlines()[0]) == (
        "warn",
        "t3 is slow in 10 ways: t0 to t3: 90000 us, usual are 50",
    )
    check = worst(Survey(names, all_ways(lost=("ps:1",))), "ways")
    assert (check.status, check.value) == ("FAIL", "ps:0 to ps:1: timeout: no answer")


def test_matrices():
    lines = list(survey.matrices(Survey([], all_ways(lost=("ps:1",)))))
    assert lines[:5] == [
        "round trip in us, of the task on the left to the one above, over tcp:",
        "            ps:0  ps:1  worker:0",
        "  ps:0         -     x        50",
        "  ps:1         x     -         x",
        "  worker:0    50     x         -",
    ]
    many = [Way(f"t{index}", "x", "tcp", index * 1000, 10**9) for index in range(20)]
    lines = list(survey.matrices(Survey([], many)))
    assert len(lines) == 1 + survey.WORST_SHOWN
    assert lines[1] == "  t19 to x: 19 us, 1000 MB/s, tcp"


def test_addresses_come_from_the_words_or_from_tf_config(monkeypatch):
    monkeypatch.setattr(seeing, "find", list)
    assert survey.addresses_of("a:1, [::1]:2,a:1,", {}) == ["a:1", "[::1]:2"]
    config = {"TF_CONFIG": json.dumps({"cluster": {"ps": ["a:1"], "worker": {"3": "b:2"}}})}
    assert survey.addresses_of("TF_CONFIG", config) == ["a:1", "b:2"]
    for words, environment in (("", {}), ("a", {}), ("a:0", {}), ("a:x", {}), ("TF_CONFIG", {}), ("TF_CONFIG", config)):
        if environment:
            environment = {"TF_CONFIG": '{"cluster": 3}'}
        with pytest.raises(ValueError):
            survey.addresses_of(words, environment)


def test_without_addresses_the_job_of_this_machine_is_found(monkeypatch):
    start = int(pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])

    def place(task, start, **members):
        return seeing.Place("127.0.0.1", 1, os.getpid(), start, (task,), members)

    here = [place("ps:0", start, ps="a:1", worker="b:2"), place("worker:0", start, ps="a:1", worker="b:2")]
    # Of another kind; dead; alone in its process.
    others = [place("rank:0", start, rank="c:3"), place("ps:0", start + 1, ps="d:4"), place("local:0", start, it="f:0")]
    monkeypatch.setattr(seeing, "find", lambda: here + others)
    assert survey.addresses_of(survey.HERE, {}) == ["a:1", "b:2"]
    monkeypatch.setattr(seeing, "find", lambda: [*here, place("ps:0", start, ps="e:5")])
    with pytest.raises(ValueError, match="2 clusters run on this machine: write --cluster a:1, or --cluster e:5"):
        survey.addresses_of(survey.HERE, {})


@pytest.mark.parametrize("data", [b"", b"\x0a", b"\x0a\x05\x12", b"\xff" * 20, b"\x0b\x00", b"\x0a\x02\x12\x00"])
def test_an_answer_that_is_cut_or_none_is_empty(data):
    assert inquiry._device(data) == ""


JOIN = """
say("READY")
server.join()
"""


def doctor(address, tmp_path, *options):
    done = run_to_end([FUSEWIRE, "doctor", "--cluster", address, "--json", *options], tmp_path, clean_environment())
    assert done.status in (0, 1), done.error
    report = json.loads(done.out)
    assert done.status == (0 if report["ok"] else 1)
    checks = {}
    for check in report["checks"]:
        assert check["fix"] or check["status"] in ("ok", "note")
        checks.setdefault(check["name"], check)
    return report, checks


def until_served(address):
    def is_served():
        with contextlib.suppress(OSError), socket.create_connection(inquiry.split(address), 1):
            return True
        return False

    wait_until(is_served, 30, f"a server at {address}")


def begin(cluster, **of_worker):
    """The addresses of all, once they are served."""
    for index in range(2):
        cluster.start("ps", index)
    worker = cluster.start("worker", **of_worker)
    cluster.read_until(worker, "READY", 30)
    addresses = [*cluster._cluster["ps"], *cluster._cluster["worker"]]
    for address in addresses:
        until_served(address)
    return addresses


def test_a_healthy_cluster_and_then_a_stopped_and_a_dead_task(tasks, tmp_path):
    cluster = tasks(JOIN, "grpc++")
    addresses = begin(cluster)
    report, checks = doctor(addresses[2], tmp_path)  # one is enough
    assert report["ok"], checks
    assert {check["status"] for check in report["checks"]} == {"ok"}, checks
    assert {each["task"]: each["address"] for each in report["peers"]} == dict(
        zip(("ps:0", "ps:1", "worker:0"), addresses, strict=True)
    )
    assert len(report["ways"]) == 6
    assert all(way["wire"] == "shm" and 0 < way["round_trip_ns"] < 10**9 for way in report["ways"])
    assert all(10**7 < way["bytes_per_s"] < 10**12 for way in report["ways"])

    shown = run_to_end([FUSEWIRE, "doctor", "--cluster", ",".join(addresses)], tmp_path, clean_environment()).ok()
    assert "round trip in us, of the task on the left to the one above, over shm:" in shown
    assert "No problems found." in shown

    cluster._running["ps:1"].send_signal(signal.SIGSTOP)
    report, checks = doctor(",".join(addresses), tmp_path)
    assert checks["ps:1"]["status"] == "FAIL"
    assert "its port is open, but it has not answered for 5 s" in checks["ps:1"]["value"]
    assert "fusewire why" in checks["ps:1"]["fix"]
    assert len(report["ways"]) == 2  # of those that are well
    cluster._running["ps:1"].send_signal(signal.SIGCONT)
    cluster._running["ps:1"].kill()
    cluster._running["ps:1"].wait(20)
    report, checks = doctor(addresses[0], tmp_path)
    assert checks["ps:1"]["status"] == "FAIL"
    assert "refuses: no process listens" in checks["ps:1"]["value"]
    assert checks["ps:0"]["status"] == "ok"


def test_a_cluster_over_tls_and_a_task_of_another_authority(tasks, tmp_path):
    """The doctor asks over gRPC; the tasks measure with the certificates that they have."""
    certificates = Certificates(tmp_path / "certificates")
    cluster = tasks(JOIN, "grpc++", FUSEWIRE_TRANSPORT="tcp", **certificates.settings("task"))
    addresses = begin(cluster)
    report, checks = doctor(addresses[0], tmp_path)
    assert report["ok"], checks
    assert [(way["wire"], way["error"]) for way in report["ways"]] == [("tls", "")] * 6

    cluster.end()
    certificates.authority("other")
    addresses = begin(cluster, **certificates.settings("stranger", "other"))
    report, checks = doctor(addresses[0], tmp_path)
    assert checks["ways"]["status"] == "FAIL"
    assert "certificate" in checks["ways"]["value"], checks["ways"]
    lost = {(way["asker"], way["peer"]) for way in report["ways"] if way["error"]}
    assert lost == {("ps:0", "worker:0"), ("ps:1", "worker:0"), ("worker:0", "ps:0"), ("worker:0", "ps:1")}


def test_a_task_of_another_cluster_or_protocol_and_one_that_the_others_cannot_greet(tasks, tmp_path):
    cluster = tasks(JOIN, "grpc++", FUSEWIRE_SECRET=8 * "one", TEST_PROTOCOL_OF_worker="grpc")
    addresses = begin(cluster)
    _, checks = doctor(addresses[0], tmp_path)
    assert checks["worker:0"]["status"] == "warn"
    assert "no data port: everything goes over gRPC" in checks["worker:0"]["value"]

    cluster.end()
    cluster._environment["TEST_PROTOCOL_OF_worker"] = "grpc++"
    addresses = begin(cluster, FUSEWIRE_SECRET=8 * "another")
    report, checks = doctor(addresses[0], tmp_path)
    assert checks["worker:0"]["status"] == "ok"  # over gRPC it is reached
    assert checks["ways"]["status"] == "FAIL"
    assert {way["error"] != "" for way in report["ways"] if "worker:0" in (way["asker"], way["peer"])} == {True}
    assert "secret" in checks["ways"]["value"], checks["ways"]

    cluster.end()
    old = dict(cluster._cluster)
    cluster._cluster = {**old, "ps": [*old["ps"][:1], "127.0.0.1:9"]}
    cluster.read_until(cluster.start("worker"), "READY", 30)
    cluster._cluster = old
    for index in range(2):
        cluster.start("ps", index)
        until_served(old["ps"][index])
    _, checks = doctor(",".join(old["ps"] + old["worker"]), tmp_path)
    assert checks["worker:0"]["status"] == "FAIL"
    assert "another cluster: its ps:1 is 127.0.0.1:9, and most say" in checks["worker:0"]["value"]


STOCK = """
import sys
import tensorflow as tf
server = tf.distribute.Server({"ps": [sys.argv[1]]}, protocol="grpc")
server.join()
"""


@contextlib.contextmanager
def mumbling():
    """A port that answers every connection with something that is not gRPC."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    connection.sendall(b"220 mail.example.com\r\n")
                    connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(10)


def test_ports_at_which_there_is_no_task_of_ours(tmp_path):
    [stock] = free_addresses(1)
    program = subprocess.Popen(
        [sys.executable, "-c", STOCK, stock], env={**clean_environment(), "CUDA_VISIBLE_DEVICES": ""}
    )
    try:
        until_served(stock)
        with mumbling() as mail:
            report, checks = doctor(f"{stock},{mail},no-such-host.invalid:22,[::1]:9", tmp_path)
    finally:
        program.kill()
        program.wait(20)
    states = {peer["address"]: peer["state"] for peer in report["peers"]}
    assert states[stock] == "no plug-in"
    assert checks[stock]["status"] == "warn"
    assert states[mail] == "stranger"
    assert "no TensorFlow server" in checks[mail]["value"]
    assert states["no-such-host.invalid:22"] == "unresolved"
    assert states["[::1]:9"] in ("refused", "unreachable")
    assert not report["ok"]


@pytest.mark.parametrize("words", ["nowhere", "host:port"])
def test_invalid_addresses_are_a_usage_error(words, tmp_path):
    done = run_to_end([FUSEWIRE, "doctor", "--cluster", words], tmp_path, clean_environment())
    assert (done.status, done.out) == (2, "")
    assert "write host:port" in done.error


def test_no_address_and_no_cluster_here_is_a_usage_error(monkeypatch, capsys):
    monkeypatch.setattr(seeing, "find", list)  # tests that run beside this one have clusters on this machine
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert main(["doctor", "--cluster"]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert "no cluster is found on this machine: write --cluster host:port" in error


def test_without_grpcs_package_it_says_so(tmp_path):
    (tmp_path / "grpc.py").write_text("raise ImportError('none')")
    environment = clean_environment(PYTHONPATH=str(tmp_path) + os.pathsep + os.environ.get("PYTHONPATH", ""))
    done = run_to_end([FUSEWIRE, "doctor", "--cluster", "h:1"], tmp_path, environment)
    assert done.status == 1
    assert "gRPC's Python package is missing" in done.error
