# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Two hosts behind NAT: a worker and a parameter server on hosts of their own, and a gateway between them
that forwards some ports. Neither host has a route to the other."""

import contextlib
import json
import pathlib
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest
from conftest import clean_environment
from lab import Host, Lab, why_not

pytestmark = pytest.mark.once
DEADLINE_S = 120.0

# What the gateway forwards: outside, each host is at the gateway's address in the other's network, at other ports.
FORWARDED = (
    ("10.77.1.1:2222", "10.77.2.2:2222"),  # gRPC of the ps
    ("10.77.1.1:40000", "10.77.2.2:41000"),  # its data port
    ("10.77.2.1:2222", "10.77.1.2:2222"),  # and of the worker
    ("10.77.2.1:40000", "10.77.1.2:41000"),
)

PROGRAM = """
import json, os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "1"
import fusewire
import tensorflow as tf
tf1 = tf.compat.v1
tf1.disable_eager_execution()
config = json.loads(os.environ["TF_CONFIG"])
job = config["task"]["type"]
server = tf1.train.Server(config["cluster"], job_name=job, task_index=0, protocol="grpc++")
if job == "ps":
    server.join()
with tf.device("/job:ps/task:0"):
    total = tf1.get_variable("total", [1000], initializer=tf1.zeros_initializer())
with tf.device("/job:worker/task:0"):
    step = tf1.placeholder(tf.float32, [1000])
with tf.device("/job:ps/task:0"):
    added = tf1.assign_add(total, step)
with tf.device("/job:worker/task:0"):
    result = tf.reduce_sum(added)
with tf1.Session(server.target) as session:
    session.run(tf1.global_variables_initializer())
    last = [float(session.run(result, {step: [2.0] * 1000})) for _ in range(5)][-1]
stats = fusewire.stats()
print(json.dumps({"last": last, "recvs": stats["recvs"], "asked": stats["asked"],
                  "fallback": stats["fallback_grpc_calls"], "out": stats["calls_out"]}), flush=True)
os._exit(0)
"""


@contextlib.contextmanager
def hosts() -> Iterator[tuple[Host, Host, Host]]:
    """The worker, the ps and the gateway. Each of the first two is alone with the gateway in a network."""
    if reason := why_not():
        pytest.skip(reason)
    with Lab(2, router=True, forwards=False) as lab:
        yield *lab.hosts, lab.middle


@contextlib.contextmanager
def forwarding(gate: Host, by: str) -> Iterator[None]:
    """The gateway forwards while the block runs: by the kernel's NAT, or by a program."""
    if by == "kernel":
        if not shutil.which("nft"):
            pytest.skip("the kernel's NAT needs the command nft")
        rules = ["table ip nat {", "chain to {", "type nat hook prerouting priority -100;"]
        for outside, behind in FORWARDED:
            host, _, port = outside.rpartition(":")
            rules.append(f"ip daddr {host} tcp dport {port} dnat to {behind}")
        rules += ["}", "chain from {", "type nat hook postrouting priority 100;", "masquerade", "}", "}"]
        text = "\n".join(rules)
        made = subprocess.run(
            gate.words("nft", "-f", "-"), input=text, capture_output=True, text=True, timeout=20, check=False
        )
        if made.returncode != 0:
            pytest.skip(f"the kernel has no NAT here: {made.stderr.strip()}")
        forward = "echo 1 > /proc/sys/net/ipv4/ip_forward"
        subprocess.run(gate.words("sh", "-c", forward), check=True, timeout=20)
        yield
        return
    words = [each for pair in FORWARDED for each in pair]
    command = gate.words(sys.executable, pathlib.Path(__file__).with_name("relay.py"), *words)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as relay:
        try:
            assert relay.stdout.readline() == "ready\n"
            yield
        finally:
            relay.kill()


@pytest.mark.parametrize("by", ["program", pytest.param("kernel", marks=pytest.mark.slow)])
def test_tasks_behind_nat_train_over_their_data_ports(tmp_path, by):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM), encoding="utf-8")
    with hosts() as (worker, ps, gate), forwarding(gate, by), contextlib.ExitStack() as running:
        started = {}
        own = {"ps": "10.77.2.2", "worker": "10.77.1.2"}
        seen = {"ps": "10.77.1.1", "worker": "10.77.2.1"}  # by the other host: the gateway
        for job, other, host in (("ps", "worker", ps), ("worker", "ps", worker)):
            cluster = {job: [f"{own[job]}:2222"], other: [f"{seen[other]}:2222"]}
            environment = clean_environment(
                TF_CONFIG=json.dumps({"cluster": cluster, "task": {"type": job, "index": 0}}),
                FUSEWIRE_BIND="eth0",
                FUSEWIRE_PORTS="41000",
                FUSEWIRE_ADVERTISE=f"{seen[job]}:40000",
            )
            error = running.enter_context((tmp_path / f"{job}.err").open("w"))
            started[job] = running.enter_context(
                subprocess.Popen(
                    host.words(sys.executable, program),
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=error,
                    text=True,
                )
            )
            running.callback(started[job].kill)
        try:
            out, _ = started["worker"].communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            out = "no end"
        errors = "".join(f"--- {path.name}\n{path.read_text()[-3000:]}" for path in tmp_path.glob("*.err"))
        assert started["worker"].returncode == 0, out + errors
        result = json.loads(out.splitlines()[-1])
        assert result["last"] == 10000.0
        assert result["fallback"] == 0, errors
        assert result["out"] > 0  # to the ps, through the gateway
        assert result["recvs"] >= 5
        assert result["asked"] > 0  # by the ps, of the worker


def test_a_used_up_range_and_a_wrong_interface_are_named(run_python):
    """Cold, as users start it; TensorFlow reports what the server says."""
    start = """
        import os, socket
        held = socket.socket()
        held.bind(("127.0.0.1", 0))
        held.listen(1)
        if os.environ["FUSEWIRE_PORTS"] == "held":
            os.environ["FUSEWIRE_PORTS"] = str(held.getsockname()[1])
        import fusewire
        import tensorflow as tf
        for name, value in (("", ""), ("FUSEWIRE_BIND", "eth-none"), ("FUSEWIRE_ADVERTISE", "host:0")):
            if name:
                os.environ[name] = value
            try:
                tf.distribute.Server({"ps": ["127.0.0.1:0"]}, job_name="ps", task_index=0, protocol="grpc++")
            except tf.errors.OpError as error:
                print(repr(str(error)), flush=True)
            if name:
                del os.environ[name]
        os._exit(0)
    """
    lines = run_python(start, FUSEWIRE_PORTS="held").ok().splitlines()
    assert len(lines) == 3, lines
    assert "FUSEWIRE_PORTS is " in lines[0]
    assert "ss -ltnp" in lines[0]
    assert all("; see: fusewire explain errors#" in line for line in lines)
    assert 'FUSEWIRE_BIND is "eth-none": eth-none is not an interface of this machine' in lines[1]
    assert 'FUSEWIRE_ADVERTISE is "host:0": port 0 is not a port' in lines[2]
