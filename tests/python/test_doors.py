# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Where a server's data port listens: at its address in the cluster, and nowhere else if that can be determined."""

import json
import socket

import pytest
from cluster import FREE_PORTS

# Of each protocol, two servers in one process, a session over their data ports, and what of this process listens.
PROGRAM = (
    FREE_PORTS
    + """
ports = free_ports(8)
import json, os, socket, sys
import fusewire
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()

def listening():
    paths = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
    held = {os.readlink(path) for path in paths if os.path.islink(path)}
    found = []
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        if not os.path.exists(f"/proc/net/{table}"):
            continue
        for line in open(f"/proc/net/{table}").read().splitlines()[1:]:
            words = line.split()
            if words[3] != "0A" or f"socket:[{words[9]}]" not in held:
                continue
            raw, port = words[1].split(":")
            words32 = [bytes.fromhex(raw[at : at + 8])[::-1] for at in range(0, len(raw), 8)]
            found.append((socket.inet_ntop(family, b"".join(words32)), int(port, 16)))
    return found

host = os.environ["TEST_HOST"]
servers = []

def data_ports_of(protocol):
    before, calls = listening(), fusewire.stats().get("calls_out", 0)
    own = [ports.pop(), ports.pop()]
    cluster = {"ps": [f"{host}:{own[0]}"], "worker": [f"{host}:{own[1]}"]}
    servers.extend(tf1.train.Server(cluster, job_name=job, task_index=0, protocol=protocol) for job in cluster)
    with tf1.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            value = tf1.placeholder(tf.float32, [1000])
            there = value + 1.0
        with tf.device("/job:worker/task:0"):
            total = tf.reduce_sum(there)
        with tf1.Session(servers[-1].target) as session:
            assert session.run(total, {value: [1.0] * 1000}) == 2000.0
    assert fusewire.stats().get("calls_out", 0) > calls, "the step did not go over the data ports"
    added = [each for each in listening() if each not in before]
    assert {port for _, port in added} >= set(own), "gRPC does not listen where it should"
    return [each for each in added if each[1] not in own]

print(json.dumps([data_ports_of(protocol) for protocol in os.environ["TEST_PROTOCOLS"].split()]), flush=True)
os._exit(0)
"""
)


def data_ports(run_python, host: str, protocols: str = "grpc++", **environment: str) -> list[tuple[str, int]]:
    """The data ports of two servers of each protocol: each has one. The status port of a process is no data port."""
    environment.setdefault("FUSEWIRE_STATUS", "off")
    done = run_python(PROGRAM, TEST_HOST=host, TEST_PROTOCOLS=protocols, **environment)
    found = json.loads(done.ok().splitlines()[-1])
    assert len(found) == len(protocols.split())
    for data in found:
        assert len(data) == 2, f"two servers listen beside gRPC at {data}"
    return [tuple(each) for data in found for each in data]


def own_address() -> str:
    """An address of this machine that is not loopback; no packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as trial:
        try:
            trial.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address but loopback")
        return trial.getsockname()[0]


def test_a_server_of_each_protocol_has_one_data_port_on_loopback_in_a_loopback_cluster(run_python):
    reactors = {"FUSEWIRE_PS_REACTORS": "2", "FUSEWIRE_WORKER_REACTORS": "4"}
    data = data_ports(run_python, "localhost", "grpc++ star_server star_server_lite", **reactors)
    assert {host for host, _ in data} <= {"127.0.0.1", "::1"}


def test_a_cluster_listens_at_its_own_address(run_python):
    host = own_address()
    assert {each for each, _ in data_ports(run_python, host)} == {host}


def test_a_cluster_of_ipv6_listens_there(run_python):
    with socket.socket(socket.AF_INET6 if socket.has_ipv6 else socket.AF_INET) as trial:
        try:
            trial.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
    assert {each for each, _ in data_ports(run_python, "[::1]")} == {"::1"}


def test_the_settings_choose_the_interface_and_the_ports(run_python):
    data = data_ports(run_python, "127.0.0.1", FUSEWIRE_BIND="*", FUSEWIRE_PORTS="33000-33999")
    assert {host for host, _ in data} <= {"::", "0.0.0.0"}
    assert all(33000 <= port <= 33999 for _, port in data)


def test_an_address_that_cannot_be_had_is_an_error_and_not_another_address(run_python):
    done = run_python(PROGRAM, TEST_HOST="127.0.0.1", TEST_PROTOCOLS="grpc++", FUSEWIRE_BIND="192.0.2.1")
    assert done.status != 0
    assert "the data port cannot be opened" in done.error
    assert "192.0.2.1" in done.error
