# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Checks the files of deploy/: tools/lint.sh deploy runs it with .venv/bin/python.

Each manifest fits the schema of its kind in several versions of Kubernetes; Kubeflow's kinds, for which there are no
schemas, have the fields that their operators look for. The command of each container, of its probes and of its hooks is
one that `fusewire` accepts, and TF_CONFIG is JSON. A hook ends before its pod is killed. The Dockerfile has only
instructions that exist, and its stages are defined before they are used.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import kubernetes_validate
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
from fusewire import orders, ready, settings  # noqa: E402
from fusewire.doctor import doctor  # noqa: E402
from fusewire.launch import run  # noqa: E402

VERSIONS = ("1.30", "1.34")
GRACE_S = 30  # Kubernetes' own, where a pod says none
INSTRUCTIONS = {"FROM", "ARG", "RUN", "WORKDIR", "COPY", "USER", "EXPOSE", "ENV", "ENTRYPOINT", "CMD"}


class FindingError(Exception):
    """What is wrong with a file."""


def main() -> int:
    findings = 0
    for path in sorted((ROOT / "deploy").rglob("*")):
        check = {".yaml": check_manifests, ".sbatch": check_script}.get(path.suffix)
        if path.name == "Dockerfile":
            check = check_dockerfile
        if check is None:
            continue
        try:
            check(path)
        except (FindingError, AssertionError, KeyError, yaml.YAMLError) as error:
            findings += 1
            print(f"{path.relative_to(ROOT)}: {type(error).__name__}: {error}")
    return 1 if findings else 0


def check_manifests(path: pathlib.Path) -> None:
    for manifest in yaml.safe_load_all(path.read_text()):
        kind, version = manifest["kind"], manifest["apiVersion"]
        if "kubeflow.org" in version:
            KUBEFLOW[kind](manifest)
        else:
            for release in VERSIONS:
                try:
                    kubernetes_validate.validate(manifest, release, strict=True)
                except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as error:
                    first, *_ = str(error).splitlines()  # a schema follows
                    raise FindingError(f"{kind}, Kubernetes {release}: {first}") from error
        for pod in pods(manifest):
            check_pod(pod)


def check_tfjob(manifest: dict[str, Any]) -> None:
    spec = manifest["spec"]
    replicas = spec["tfReplicaSpecs"]
    if set(replicas) - {"Chief", "Worker", "PS", "Evaluator"}:
        raise FindingError(f"TFJob has no replicas {set(replicas)}")
    if spec["runPolicy"]["cleanPodPolicy"] not in ("Running", "All", "None"):
        raise FindingError("cleanPodPolicy is unknown")
    for name, replica in replicas.items():
        if replica["restartPolicy"] not in ("Always", "OnFailure", "Never", "ExitCode"):
            raise FindingError(f"restartPolicy of {name} is unknown")
        [container] = replica["template"]["spec"]["containers"]
        # The operator looks for these names; without them, it sets no TF_CONFIG, or one with another port.
        if container["name"] != "tensorflow" or container["ports"][0]["name"] != "tfjob-port":
            raise FindingError(f"the container of {name} must be tensorflow, and its first port tfjob-port")


def check_runtime(manifest: dict[str, Any]) -> None:
    spec = manifest["spec"]
    if spec["mlPolicy"]["torch"]["numProcPerNode"] != 1:
        raise FindingError("one process a node: fusewire run --inside kubernetes")
    [job] = spec["template"]["spec"]["replicatedJobs"]
    labels = job["template"]["metadata"]["labels"]
    [container] = job["template"]["spec"]["template"]["spec"]["containers"]
    if labels.get("trainer.kubeflow.org/trainjob-ancestor-step") != "trainer" or container["name"] != "node":
        raise FindingError("Trainer looks for the step `trainer` and the container `node`")


def check_trainjob(manifest: dict[str, Any]) -> None:
    if manifest["spec"]["runtimeRef"]["kind"] not in ("TrainingRuntime", "ClusterTrainingRuntime"):
        raise FindingError("runtimeRef.kind is unknown")


KUBEFLOW = {"TFJob": check_tfjob, "TrainingRuntime": check_runtime, "TrainJob": check_trainjob}


def pods(node: Any) -> Iterator[dict[str, Any]]:
    """Each pod's spec, however deep."""
    if isinstance(node, dict):
        if "containers" in node:
            yield node
        for value in node.values():
            yield from pods(value)
    elif isinstance(node, list):
        for value in node:
            yield from pods(value)


def check_pod(pod: dict[str, Any]) -> None:
    volumes = {volume["name"] for volume in pod.get("volumes", ())}
    for container in pod["containers"]:
        accept(container["args"])
        check_commands(pod, container)
        for mount in container.get("volumeMounts", ()):
            if mount["name"] not in volumes:
                raise FindingError(f"there is no volume {mount['name']}")
        variables = {one["name"]: one.get("value") for one in container.get("env", ())}
        for name in variables:
            if name.startswith("FUSEWIRE_") and name not in settings.NAMES:
                raise FindingError(f"{name} is not a setting")
        if variables.get("FUSEWIRE_SECRET"):
            raise FindingError("a secret stands in the file")
        if file := variables.get("FUSEWIRE_SECRET_FILE"):
            check_secret(pod, container, pathlib.PurePosixPath(file))
        if config := variables.get("TF_CONFIG"):
            known = list(variables)
            for name in re.findall(r"\$\((\w+)\)", config):  # Kubernetes replaces those that stand before
                if known.index(name) > known.index("TF_CONFIG"):
                    raise FindingError(f"{name} must stand before TF_CONFIG")
            json.loads(config.replace("$(CLUSTER)", "{}").replace("$(INDEX)", "0"))


def check_commands(pod: dict[str, Any], container: dict[str, Any]) -> None:
    """Of probes and hooks."""
    named = {key: value for key, value in container.items() if key.endswith("Probe")} | container.get("lifecycle", {})
    for name, one in named.items():
        words = one.get("exec", {}).get("command", [])
        if "fusewire" in words:
            accept(words[words.index("fusewire") + 1 :])
        elif words:
            raise FindingError(f"{name} runs {words[0]}")
    hook = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", [])
    if not hook:
        return
    if hook[0] != "timeout":
        raise FindingError("preStop may take for ever, and longer than the pod has: begin with timeout SECONDS")
    seconds = int(hook[1]) + int({one["name"]: one.get("value") for one in container["env"]}.get("FUSEWIRE_DRAIN") or 0)
    if seconds >= pod.get("terminationGracePeriodSeconds", GRACE_S):
        raise FindingError(
            f"preStop and FUSEWIRE_DRAIN may take {seconds} s: terminationGracePeriodSeconds must be more"
        )


def check_secret(pod: dict[str, Any], container: dict[str, Any], file: pathlib.PurePosixPath) -> None:
    """As fusewire/secret.py wants it: root's, and for one group at most, of which the pod's user is a member."""
    mounts = {mount["mountPath"]: mount["name"] for mount in container.get("volumeMounts", ())}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    if str(file.parent) not in mounts or "secret" not in volumes[mounts[str(file.parent)]]:
        raise FindingError(f"there is no Secret at {file.parent}")
    if volumes[mounts[str(file.parent)]]["secret"].get("defaultMode") != 0o400:
        raise FindingError("others in the pod can read the Secret: defaultMode: 0400")
    if "fsGroup" not in pod.get("securityContext", {}):
        raise FindingError("a user who is not root can't read the Secret: fsGroup")


def accept(arguments: list[str]) -> None:
    """As `fusewire ARGUMENTS...` would."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    verbs = parser.add_subparsers()
    for verb in (run, doctor, ready, orders):
        verb.add_to(verbs)
    try:
        parser.parse_args(arguments)
    except (argparse.ArgumentError, SystemExit) as error:
        raise FindingError(f"fusewire {' '.join(arguments)}: {error}") from error


def check_script(path: pathlib.Path) -> None:
    done = subprocess.run(["shellcheck", path], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise FindingError(done.stdout)


def check_dockerfile(path: pathlib.Path) -> None:
    text = re.sub(r"\\\n\s*", "", path.read_text())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not lines[0].startswith("FROM "):
        raise FindingError("the first instruction is not FROM")
    stages: set[str] = set()
    for line in lines:
        instruction, _, rest = line.partition(" ")
        if instruction not in INSTRUCTIONS:
            raise FindingError(f"there is no instruction {instruction}")
        if instruction == "FROM" and (named := re.search(r" AS (\w+)$", rest)):
            stages.add(named[1])
        if instruction == "FROM" and re.search(r":latest\b|^[^:]+$", rest.partition(" AS ")[0]):
            raise FindingError(f"{rest}: name the version of the image")
        if (source := re.match(r"--from=(\w+)", rest)) and source[1] not in stages:
            raise FindingError(f"there is no stage {source[1]} before this line")
        if instruction in ("ENTRYPOINT", "CMD"):
            json.loads(rest)
        if instruction == "RUN":
            done = subprocess.run(
                ["shellcheck", "-s", "sh", "-"], input=rest, capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                raise FindingError(done.stdout)
    if not any(line.startswith("USER ") for line in lines):
        raise FindingError("it runs as root: USER is missing")
    accept(json.loads(lines[-1].removeprefix("CMD ")))


if __name__ == "__main__":
    sys.exit(main())
