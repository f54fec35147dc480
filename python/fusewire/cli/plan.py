# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""What is to run: the tasks, and the variables that tell each of them its place in the cluster or group."""

import dataclasses
import secrets
from collections.abc import Mapping, Sequence

from fusewire import settings
from fusewire.cli.cluster import Shape, by_job, tf_config
from fusewire.cli.placement import Host, place, place_in_blocks
from fusewire.secret import SECRET, SECRET_FILE, secret_of_environment
from fusewire.tf import protocol

SECRET_BYTES = 32


@dataclasses.dataclass(frozen=True)
class Cluster:
    """A TensorFlow cluster."""

    shape: Shape
    protocol: str | None = None

    def tasks(self) -> list[tuple[str, int]]:
        return self.shape.tasks()

    def is_alone(self, job: str) -> bool:
        return job in ("chief", "evaluator")

    def listening(self) -> int:
        """The number of tasks that have an address: the first ones. An evaluator has none."""
        return sum(self.shape.jobs().values())

    def places(self, hosts: Sequence[Host]) -> list[int]:
        return place(len(self.tasks()), hosts)

    def environments(self, addresses: Sequence[str]) -> list[dict[str, str]]:
        cluster = by_job(self.shape, addresses)
        found = []
        for job, index in self.tasks():
            environment = {"TF_CONFIG": tf_config(cluster, job, index, self.protocol)}
            if self.protocol:
                environment[protocol.VARIABLE] = self.protocol
            found.append(environment)
        return found

    def __str__(self) -> str:
        return f"{self.shape} over {self.protocol}" if self.protocol else str(self.shape)


@dataclasses.dataclass(frozen=True)
class Ranks:
    """A group of fusewire.collective."""

    count: int

    def tasks(self) -> list[tuple[str, int]]:
        return [("rank", index) for index in range(self.count)]

    def is_alone(self, job: str) -> bool:
        return False

    def listening(self) -> int:
        return self.count

    def places(self, hosts: Sequence[Host]) -> list[int]:
        return place_in_blocks(self.count, hosts)

    def environments(self, addresses: Sequence[str]) -> list[dict[str, str]]:
        return [
            {"FUSEWIRE_RANK": str(index), "FUSEWIRE_RANK_ADDRESSES": ",".join(addresses)} for index in range(self.count)
        ]

    def __str__(self) -> str:
        return f"{self.count} rank{'s' if self.count > 1 else ''}"


Plan = Cluster | Ranks


def variables(
    given: Sequence[str], environment: Mapping[str, str], *, make_secret: bool = True, elsewhere: bool = False
) -> dict[str, str]:
    """The variables that all tasks get: those of --env, and a secret of their own unless the caller has set one. Tasks
    elsewhere get what a file here says; others read it themselves. ValueError: a variable or the secret is wrong."""
    found = {"PYTHONUNBUFFERED": "1"}  # lines appear as soon as they are printed
    for word in given:
        name, equals, value = word.partition("=")
        if not equals and name not in environment:
            raise ValueError(f"--env {name}: this variable is not set here. Fix: set it, or --env {name}=VALUE")
        found[name] = value if equals else environment[name]
    if found.get(SECRET_FILE) and elsewhere:  # a file of theirs
        found.setdefault(SECRET, "")
        return found
    known = secret_of_environment({**environment, **found})
    if known is None and make_secret and SECRET not in {**environment, **found}:
        found[SECRET] = secrets.token_hex(SECRET_BYTES)
    if known is not None and elsewhere:
        found |= {SECRET: known, SECRET_FILE: ""}
    return found


def passed_on(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that go to other hosts without being named by --env."""
    prefixes = ("FUSEWIRE_", "TF_")
    return {
        name: value
        for name, value in environment.items()
        if (name.startswith(prefixes) or name in settings.NAMES) and name != "TF_CONFIG"
    }
