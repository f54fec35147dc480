# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The manifests of deploy/kubernetes without Kubernetes: their containers' commands and variables, in namespaces as
pods. The pods listen only on ports that the NetworkPolicy opens."""

import contextlib
import json
import pathlib
import re
import subprocess

import hosts
import lab
import pytest
from conftest import DEADLINE_S, FUSEWIRE, ROOT
from processes import wait_until
from test_hosts import TRAIN
from test_run import Runner

pytestmark = [pytest.mark.once, pytest.mark.slow]
PYTHON = ROOT / ".venv/bin/python"
TO_JSON = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))"
# Says that it has trained, and waits until the ports have been looked at.
PAUSE = """
open(f"trained-{index}", "w")
while not os.path.exists("go"):
    time.sleep(0.05)
calls, secret ="""


def manifests(name: str) -> dict[str, dict]:
    """{kind: manifest} of a file."""
    if not PYTHON.exists():
        pytest.skip("there is no YAML parser: tools/deps.sh python")
    path = ROOT / "deploy/kubernetes" / name
    done = subprocess.run([PYTHON, "-c", TO_JSON, path], capture_output=True, text=True, check=True)
    return {manifest["kind"]: manifest for manifest in json.loads(done.stdout)}


class Pods:
    """A cluster of pods, each with its own address and the name of its Service."""

    def __init__(self, folder: pathlib.Path, network: hosts.Network, names: list[str], stack: contextlib.ExitStack):
        self.folder, self.network, self.stack = folder, network, stack
        self.environment = Runner(folder).environment
        self.started: list[subprocess.Popen[str]] = []
        lines = [f"{address} {name}" for address, name in zip(network.addresses, names, strict=True)]
        (folder / "hosts").write_text("127.0.0.1 localhost\n" + "\n".join(lines) + "\n")
        (folder / "secret").write_text("of the cluster, and only of it")
        (folder / "secret").chmod(0o400)
        (folder / "train.py").write_text(TRAIN.replace("\ncalls, secret =", PAUSE))

    def start(self, container: dict, **known: str) -> None:
        """The next pod. What comes from a Secret, a ConfigMap or a field of the pod is in `known`."""
        host = self.network.hosts[len(self.started)]
        host.run("mount", "--bind", self.folder / "hosts", "/etc/hosts")
        secret = self.folder / "secret"
        given = {**known, "FUSEWIRE_SECRET_FILE": str(secret)}
        for one in container["env"]:
            if one["name"] == "FUSEWIRE_SECRET_FILE":
                assert one["value"] == "/run/secrets/train/secret"  # where the Secret is mounted
            elif one["name"] == "FUSEWIRE_SNAPSHOTS":
                assert one["value"] == "/snapshots"  # where the volume is mounted
                given[one["name"]] = str(self.folder / "snapshots")
            elif "value" in one:
                given[one["name"]] = re.sub(r"\$\((\w+)\)", lambda found: given[found[1]], one["value"])
        arguments = [word.replace("/train/train.py", "train.py") for word in container["args"]]
        words = host.words("env", "-C", self.folder, FUSEWIRE, *arguments)
        pipe = subprocess.PIPE
        pod = subprocess.Popen(
            [str(word) for word in words], env={**self.environment, **given}, stdout=pipe, stderr=pipe, text=True
        )
        self.stack.callback(pod.kill)
        self.started.append(pod)

    def wait_until_trained(self) -> None:
        def trained() -> bool:
            return len(list(self.folder.glob("trained-*"))) == 2

        wait_until(
            lambda: trained() or any(pod.poll() is not None for pod in self.started), DEADLINE_S, "both have trained"
        )
        assert trained(), [pod.communicate() for pod in self.started if pod.poll() is not None]

    def check_ports(self, policy: dict) -> None:
        [rule] = policy["spec"]["ingress"]
        allowed = {port for one in rule["ports"] for port in range(one["port"], one.get("endPort", one["port"]) + 1)}
        for host in self.network.hosts:
            words = [str(word) for word in host.words("ss", "-Hltn")]
            listening = subprocess.run(words, capture_output=True, text=True, check=True).stdout
            places = [line.split()[3].rpartition(":") for line in listening.splitlines()]
            ports = {int(port) for host_address, _, port in places if host_address != "127.0.0.1"} - {hosts.PORT}
            assert len(ports) >= 2  # TensorFlow's, and the data port
            assert ports <= allowed

    def end(self, pods: list["subprocess.Popen[str]"]) -> None:
        (self.folder / "go").touch()
        said = [pod.communicate(timeout=DEADLINE_S) for pod in pods]
        assert [pod.returncode for pod in pods] == [0] * len(pods), said
        lines = [line.partition(" | ")[2] or line for out, _ in said for line in out.splitlines()]
        told = [json.loads(line) for line in lines]
        assert sorted(one["worker"] for one in told) == [0, 1]
        assert all(one["lost"] < 0.5 and one["calls"] > 0 for one in told)


def test_a_job(tmp_path):
    files = manifests("job.yaml")
    spec = files["Job"]["spec"]
    pod = spec["template"]["spec"]
    names = [f"train-{index}.{pod['subdomain']}" for index in range(spec["completions"])]
    with hosts.make(len(names)) as network, contextlib.ExitStack() as stack:
        pods = Pods(tmp_path, network, names, stack)
        for index in range(len(names)):
            pods.start(pod["containers"][0], JOB_COMPLETION_INDEX=str(index))
        pods.wait_until_trained()
        pods.check_ports(files["NetworkPolicy"])
        pods.end(pods.started)  # the servers, too


def test_servers_that_stay(tmp_path):
    files = manifests("servers.yaml")
    cluster = files["ConfigMap"]["data"]["cluster"]
    names = [address.partition(":")[0] for addresses in json.loads(cluster).values() for address in addresses]
    with hosts.make(len(names)) as network, contextlib.ExitStack() as stack:
        pods = Pods(tmp_path, network, names, stack)
        for kind in ("StatefulSet", "Job"):
            spec = files[kind]["spec"]
            for index in range(spec.get("replicas") or spec["completions"]):
                [container] = spec["template"]["spec"]["containers"]
                pods.start(container, INDEX=str(index), CLUSTER=cluster)
        pods.wait_until_trained()
        pods.check_ports(files["NetworkPolicy"])
        pods.end(pods.started[2:])
        assert [pod.poll() for pod in pods.started[:2]] == [None, None]


def probe(pods: Pods, host: lab.Host, words: list[str]) -> "subprocess.CompletedProcess[str]":
    """A command of a container's probe or hook, in its pod."""
    assert words[0] == "fusewire"
    words = [str(word) for word in host.words("env", "-C", pods.folder, FUSEWIRE, *words[1:])]
    return subprocess.run(words, env=pods.environment, capture_output=True, text=True, check=False)


def test_servers_that_grow(tmp_path):
    files = manifests("elastic.yaml")
    cluster = files["ConfigMap"]["data"]["cluster"]
    names = [address.partition(":")[0] for addresses in json.loads(cluster).values() for address in addresses]
    names.append("train-ps-2.train")
    [server] = files["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    [worker] = files["Job"]["spec"]["template"]["spec"]["containers"]
    ready = server["readinessProbe"]["exec"]["command"]
    [*hook, drain, address] = server["lifecycle"]["preStop"]["exec"]["command"]
    assert hook == ["timeout", hook[1], "fusewire"]

    def owners() -> dict[int, int]:
        """{task: its epoch}"""
        found: dict[int, int] = {}
        for path in (tmp_path / "snapshots").glob("ps_*/owner.*"):
            task, epoch = int(path.parent.name[3:]), int(path.name.split(".")[1])
            found[task] = max(epoch, found.get(task, 0))
        return found

    with hosts.make(len(names)) as network, contextlib.ExitStack() as stack:
        pods = Pods(tmp_path, network, names, stack)
        assert "refuses" in probe(pods, network.hosts[0], ready).stderr

        def start(host: int, index: int) -> None:
            pods.start(server, INDEX=str(index), POD=f"train-ps-{index}", CLUSTER=cluster)
            wait_until(lambda: probe(pods, network.hosts[host], ready).returncode == 0, DEADLINE_S, "it is ready")
            assert probe(pods, network.hosts[host], ready).stdout == f"ps:{index} serves\n"

        for index in range(2):
            start(index, index)
        assert owners() == dict.fromkeys(range(16), 1)
        for index in range(2):
            pods.start(worker, INDEX=str(index), CLUSTER=cluster)
        pods.wait_until_trained()
        # kubectl scale statefulset train-ps --replicas 3, and back to 2.
        start(4, 2)
        assert owners() == {task: 2 if task in (2, 5, 8, 11, 14) else 1 for task in range(16)}
        pods.check_ports(files["NetworkPolicy"])
        secret = {"FUSEWIRE_SECRET_FILE": str(tmp_path / "secret")}
        words = [str(word) for word in network.hosts[4].words("env", "-C", tmp_path, FUSEWIRE, drain, address)]
        done = subprocess.run(words, env={**pods.environment, **secret}, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert owners() == {task: 3 if task in (2, 5, 8, 11, 14) else 1 for task in range(16)}
        pods.started[4].terminate()
        assert pods.started[4].wait(DEADLINE_S) == 0
        pods.end(pods.started[2:4])
        assert [pod.poll() for pod in pods.started[:2]] == [None, None]
