# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""fusewire adopt: an operator's orders to the parameter servers of a running cluster, see docs/elastic.md#orders."""

import argparse
import contextlib
import os
import re
import sys

from fusewire.cli import USAGE_ERROR
from fusewire.doctor import survey
from fusewire.inspect import inquiry
from fusewire.pages import with_page
from fusewire.secret import SECRET, secret_of_environment
from fusewire.tf import plugin

TASK = re.compile(r"[A-Za-z_]\w*:\d{1,9}")
PAGE = "orders"


def task(text: str) -> str:
    if not TASK.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no task: write it as ps:3")
    return text


def add_to(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    adopt = verbs.add_parser(
        "adopt",
        help="let another process serve a parameter server whose own is dead or stands still",
        description="Orders the process of the task BY to take over TASK, from its newest snapshot, and to serve it. "
        "It refuses if the server of TASK answers. The cluster's secret is needed (FUSEWIRE_SECRET), and parameter "
        "servers that keep snapshots.",
    )
    adopt.add_argument("task", metavar="TASK", type=task, help="the parameter server, ps:3")
    adopt.add_argument("--by", metavar="BY", type=task, required=True, help="a task of the process that takes it over")
    adopt.add_argument(
        "--cluster",
        metavar="HOST:PORT,...",
        default=survey.HERE,
        help="addresses of living tasks, as in the cluster; one is enough, as each knows the others. Default: those in "
        "TF_CONFIG, or of the job that runs on this machine",
    )
    adopt.set_defaults(call=run_adopt)


def run_adopt(options: argparse.Namespace) -> int:
    """Returns the exit code: 0 if it is done."""
    try:
        addresses = survey.addresses_of(options.cluster, os.environ)
        secret = secret_of_environment()
        if secret is None:
            raise ValueError(f"orders need the cluster's secret. Fix: set {SECRET} as it is set for the tasks")
    except ValueError as error:
        print(f"fusewire adopt: {with_page(str(error), PAGE)}", file=sys.stderr)
        return USAGE_ERROR
    if missing := survey.needs_grpc():
        print(with_page(f"fusewire adopt: {missing}. Fix: {plugin.pip()} install grpcio", PAGE), file=sys.stderr)
        return 1
    try:
        print(inquiry.give_order(address_of(options.by, addresses), f"adopt {options.task}", secret))
    except (inquiry.OrderError, inquiry.NoAnswerError) as error:
        print(f"fusewire adopt: {error}", file=sys.stderr)
        return 1
    return 0


def address_of(name: str, addresses: list[str]) -> str:
    """Where the cluster has this task, as one of these says that answers. Raises NoAnswerError."""
    why = ""
    for address in addresses:
        try:
            with contextlib.closing(inquiry.Task(address)) as asked:
                members = dict(asked.about()[0].get("members") or {})
        except inquiry.NoAnswerError as error:
            why = f"{address}: {error.text}"
            continue
        if name in members:
            return str(members[name])
        raise inquiry.NoAnswerError("unknown", f"the cluster of {address} has no task {name}: {', '.join(members)}")
    raise inquiry.NoAnswerError("silent", f"no task answers that knows where {name} is; {why}")
