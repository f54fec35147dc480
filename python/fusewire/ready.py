# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""fusewire ready: whether the server of this container has its variables and serves, for a readiness probe."""

import argparse
import contextlib
import os
import sys
from collections.abc import Mapping

from fusewire import machine
from fusewire.cli import USAGE_ERROR, parse
from fusewire.doctor import survey
from fusewire.inspect import inquiry
from fusewire.pages import refused

PAGE = "kubernetes"


def add_to(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    ready = verbs.add_parser(
        "ready",
        help="say whether a task serves: for a readiness probe",
        description="Asks a task at its gRPC port. A server answers there once all tasks of its process have read "
        "their newest snapshots. The exit code is 0 if it answers, 1 otherwise.",
    )
    ready.add_argument(
        "address",
        metavar="HOST:PORT",
        nargs="?",
        help="its gRPC port; default: that of the task of TF_CONFIG, at this host",
    )
    ready.set_defaults(call=run_ready)


def run_ready(options: argparse.Namespace) -> int:
    """Returns the exit code."""
    try:
        address = options.address or own_address(os.environ)
        inquiry.split(address)
    except ValueError as error:
        return refused("ready", error, PAGE, USAGE_ERROR)
    if missing := survey.needs_grpc():
        return refused("ready", missing, PAGE)
    try:
        inquiry.connect(address)
        with contextlib.closing(inquiry.Task(address)) as asked:
            told = asked.about()[0]
    except inquiry.NoAnswerError as error:
        print(f"fusewire ready: not yet: {address}: {error}", file=sys.stderr)
        return 1
    if told.get("error"):
        print(f"fusewire ready: not yet: {told.get('task', address)}: {told['error']}", file=sys.stderr)
        return 1
    print(f"{told.get('task', address)} serves")
    return 0


def own_address(environment: Mapping[str, str]) -> str:
    """Of the task in TF_CONFIG, at this host. A process that was added to a StatefulSet is not among those of the
    cluster: all of them have the same port. ValueError."""
    try:
        config = parse(environment.get("TF_CONFIG", ""))
        given = config["cluster"][config["task"]["type"]]
        index = int(config["task"]["index"])
        found = machine.host_and_port(str(given[index if index < len(given) else 0]))
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise ValueError("TF_CONFIG names no task: write fusewire ready HOST:PORT") from error
    if found is None:
        raise ValueError("TF_CONFIG has no address for its task: write fusewire ready HOST:PORT")
    return f"{machine.loopback()}:{found[1]}"
