# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""fusewire run: runs a program as a cluster on this machine."""

import argparse
import os
import pathlib
import re
import shutil
import sys
from collections.abc import Sequence

from fusewire.cli.arguments import USAGE_ERROR, count, seconds
from fusewire.cli.cluster import Shape, addresses, free_ports, local_addresses, tf_config
from fusewire.cli.job import GRACE_S, PIPE, Command, Job, Task
from fusewire.cli.output import Screen
from fusewire.tf import protocol

EPILOG = """
Each task gets TF_CONFIG and runs in its own process group. The job is done when all working tasks have ended; parameter
servers, and workers that have called Server.join(), are then ended. If a task fails, all others are ended, its last
lines are printed last, and its exit code is returned (128 + N if signal N ended it; 124 after --timeout). Ctrl-C and
SIGTERM end all tasks; a second signal kills them.

--protocol P reaches a Python program in three ways: FUSEWIRE_PROTOCOL=P, which applies to every server for which the
program names no protocol, or grpc; TF_CONFIG["rpc_layer"]; and `import fusewire` before the program's first line. Other
programs get only the two variables.

examples:
  fusewire run --ps 2 --workers 2 --protocol grpc++ train.py --steps 1000
  fusewire run --ps 1 --workers 2 --chief --evaluator estimator.py
  fusewire run --workers 2 -m my.package.train
  fusewire run --ranks 4 collective.py
"""


def add_to(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    run = verbs.add_parser(
        "run",
        help="run a program as a cluster on this machine",
        description="Runs a program as a cluster on this machine, one process for each task.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="fusewire run [option...] [--] PROGRAM [argument...]",
    )
    run.add_argument("--ps", type=count, default=1, metavar="N", help="number of parameter servers; default: 1")
    run.add_argument("--workers", type=count, default=1, metavar="N", help="number of workers; default: 1")
    run.add_argument(
        "--ranks",
        type=count,
        metavar="N",
        help="start N ranks of fusewire.collective instead of a TensorFlow cluster",
    )
    run.add_argument("--chief", action="store_true", help="add a chief, which Estimator requires")
    run.add_argument("--evaluator", action="store_true", help="add an evaluator, which is not part of the cluster")
    run.add_argument(
        "--protocol",
        choices=(protocol.STOCK, *protocol.OURS),
        default=os.environ.get(protocol.VARIABLE) or None,
        help="protocol of servers for which the program names none, or grpc; default: the program's choice",
    )
    run.add_argument("--timeout", type=seconds, metavar="S", help="end all tasks after S seconds")
    run.add_argument(
        "--grace",
        type=seconds,
        default=GRACE_S,
        metavar="S",
        help=f"seconds between asking a task to end and killing it; default: {GRACE_S:g}",
    )
    run.add_argument("-m", dest="module", action="store_true", help="PROGRAM is a module, as in python -m")
    run.add_argument("program", nargs=argparse.REMAINDER, metavar="PROGRAM", help="a Python file, or any command")
    run.set_defaults(call=call_run)


def call_run(options: argparse.Namespace) -> int:
    screen = Screen()
    words = options.program[1:] if options.program[:1] == ["--"] else options.program
    if not words:
        screen.say("no program is given. Fix: fusewire run --ps 1 --workers 2 train.py")
        return USAGE_ERROR
    if options.ranks is not None:
        return call_run_ranks(options, words, screen)
    shape = Shape(options.ps, options.workers, options.chief, options.evaluator)
    if not shape.tasks():
        screen.say("the cluster has no tasks. Fix: set --ps, --workers, --chief or --evaluator")
        return USAGE_ERROR
    try:
        command = command_of(["-m", *words] if options.module else words)
    except ValueError as error:
        screen.say(str(error))
        return USAGE_ERROR

    tasks = [Task(job, index, alone=job in ("chief", "evaluator")) for job, index in shape.tasks()]
    over = f" over {options.protocol}" if options.protocol else ""
    screen.say(f"{shape}{over}, on this machine; Ctrl-C ends them all")
    with free_ports(sum(shape.jobs().values())) as ports:
        cluster = addresses(shape, ports)
        environments = []
        for job, index in shape.tasks():
            environment = {**os.environ, "TF_CONFIG": tf_config(cluster, job, index, options.protocol)}
            environment["PYTHONUNBUFFERED"] = "1"  # lines appear as soon as they are printed
            if options.protocol:
                environment[protocol.VARIABLE] = options.protocol
            environments.append(environment)
        return Job(tasks, screen, options.timeout, options.grace).run(command, environments)


def call_run_ranks(options: argparse.Namespace, words: list[str], screen: Screen) -> int:
    if options.ranks < 1:
        screen.say("--ranks 0: a group needs at least one rank. Fix: --ranks 2")
        return USAGE_ERROR
    try:
        python = options.module or is_python_file(words[0])
    except ValueError as error:
        screen.say(str(error))
        return USAGE_ERROR
    words = ["-m", *words] if options.module else words
    command = Command((sys.executable, *words) if python else tuple(words))
    return run_ranks(options.ranks, command, screen, options.timeout, options.grace)


def run_ranks(ranks: int, command: Command, screen: Screen, timeout: float | None, grace: float) -> int:
    screen.say(f"{ranks} rank{'s' if ranks > 1 else ''}, on this machine; Ctrl-C ends them all")
    tasks = [Task("rank", index, alone=False) for index in range(ranks)]
    with free_ports(ranks) as ports:
        all_addresses = ",".join(local_addresses(ports))
        environments = [
            {
                **os.environ,
                "FUSEWIRE_RANK": str(index),
                "FUSEWIRE_RANK_ADDRESSES": all_addresses,
                "PYTHONUNBUFFERED": "1",
            }
            for index in range(ranks)
        ]
        return Job(tasks, screen, timeout, grace).run(command, environments)


def command_of(words: Sequence[str]) -> Command:
    """The command that each task runs. ValueError if it can't be run."""
    program = words[0]
    if program == "-m" or is_python_file(program):
        return Command((sys.executable, "-m", "fusewire.cli.program", PIPE, *words))
    if re.fullmatch(r"(.*/)?python[0-9.]*", program) and shutil.which(program):
        flags, rest = interpreter_flags(words[1:])
        if not rest:
            raise ValueError(f"{' '.join(words)}: no program is given. Fix: {' '.join(words)} train.py")
        return Command((program, *flags, "-m", "fusewire.cli.program", PIPE, *rest))
    if shutil.which(program) is None:
        raise ValueError(
            f"there is no file and no command {program}. Fix: check its name and the working directory {os.getcwd()}"
        )
    return Command(tuple(words))


def is_python_file(program: str) -> bool:
    path = pathlib.Path(program)
    if program.endswith(".py") and not path.is_file():
        raise ValueError(f"there is no file {program}. Fix: check its name and the working directory {os.getcwd()}")
    if not path.is_file():
        return False
    with path.open("rb") as file:
        first = file.readline(200)
    return program.endswith(".py") or (first.startswith(b"#!") and b"python" in first)


def interpreter_flags(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Splits the words after `python` into (the interpreter's flags, the program and its arguments)."""
    flags = []
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] not in ("-m", "-c", "-"):
        flags.append(rest.pop(0))
        if flags[-1] in ("-X", "-W") and rest:
            flags.append(rest.pop(0))
    return flags, rest
