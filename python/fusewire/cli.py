# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The command: fusewire VERB ..."""

import argparse
import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence

from fusewire import protocol, settings
from fusewire.cluster import Shape, addresses, free_ports, local_addresses, tf_config
from fusewire.job import GRACE_S, PIPE, Command, Job, Task
from fusewire.output import Screen
from fusewire.version import VERSION

USAGE_ERROR = 2

RUN_EPILOG = """
Each task gets TF_CONFIG, and runs in a process group of its own. The job is done when all working tasks have ended:
parameter servers, and workers that have called Server.join(), are then ended. If a task fails, all are ended; its last
lines are printed last, and the command returns its exit code (128 + signal if a signal ended it; 124 after --timeout).
Ctrl-C and SIGTERM end all tasks; a second one kills them.

--protocol P reaches a Python program in three ways: FUSEWIRE_PROTOCOL=P, which applies to every server for which the
program names no protocol or grpc; TF_CONFIG["rpc_layer"]; and `import fusewire` before the program's first line. Other
programs get only the variables.

examples:
  fusewire run --ps 2 --workers 2 --protocol grpc++ train.py --steps 1000
  fusewire run --ps 1 --workers 2 --chief --evaluator estimator.py
  fusewire run --workers 2 -m my.package.train
  fusewire run --ranks 4 collective.py
"""


TUNE_EPILOG = """
On several machines, start `python -m fusewire.collective.tune --out FILE` as every rank, in the way you start your
ranks, with FUSEWIRE_RANK and FUSEWIRE_RANK_ADDRESSES; rank 0 writes the file.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="fusewire", description="Fusewire: grpc++ for stock TensorFlow.")
    parser.add_argument("--version", action="version", version=f"fusewire {VERSION}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    add_run(verbs)
    add_doctor(verbs)
    add_tune(verbs)
    options = parser.parse_args(arguments)
    if told := settings.warning():
        print(f"fusewire: {told}", file=sys.stderr)
    try:
        code = int(options.call(options))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe, as `head` does. Python flushes once more at its end: into nothing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    return code


def add_run(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    run = verbs.add_parser(
        "run",
        help="run a program as a cluster on this machine",
        description="Runs a program as a cluster on this machine, with one process for each task.",
        epilog=RUN_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="fusewire run [option...] [--] PROGRAM [argument...]",
    )
    run.add_argument("--ps", type=_count, default=1, metavar="N", help="parameter servers; 1 by default")
    run.add_argument("--workers", type=_count, default=1, metavar="N", help="workers; 1 by default")
    run.add_argument(
        "--ranks", type=_count, metavar="N", help="start N ranks of fusewire.collective instead of a TensorFlow cluster"
    )
    run.add_argument("--chief", action="store_true", help="add a chief beside the workers, as Estimator requires")
    run.add_argument("--evaluator", action="store_true", help="add an evaluator, outside of the cluster")
    run.add_argument(
        "--protocol",
        choices=(protocol.STOCK, *protocol.OURS),
        default=os.environ.get(protocol.VARIABLE) or None,
        help="protocol of servers for which the program names none or grpc; by default as the program says",
    )
    run.add_argument("--timeout", type=_seconds, metavar="S", help="end all tasks after S seconds")
    run.add_argument(
        "--grace",
        type=_seconds,
        default=GRACE_S,
        metavar="S",
        help=f"seconds from asking to killing; {GRACE_S:g} by default",
    )
    run.add_argument("-m", dest="module", action="store_true", help="PROGRAM is a module, as in python -m")
    run.add_argument("program", nargs=argparse.REMAINDER, metavar="PROGRAM", help="a Python file, or any command")
    run.set_defaults(call=call_run)


def add_doctor(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    doctor = verbs.add_parser("doctor", help="show what is installed, what fits, and how to fix the rest")
    doctor.add_argument("--json", action="store_true", help="print JSON")
    doctor.set_defaults(call=call_doctor)


def add_tune(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    tune = verbs.add_parser(
        "tune",
        help="measure the fastest algorithm of each collective, for each size",
        description="Measures every algorithm of every collective among ranks on this machine, and writes the table "
        "that FUSEWIRE_COLLECTIVE_TABLE names.",
        epilog=TUNE_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    tune.add_argument(
        "--ranks", type=_counts, default=[2], metavar="N,...", help="numbers of ranks to measure; 2 by default"
    )
    tune.add_argument("--out", metavar="FILE", default="fusewire-table.txt", help="fusewire-table.txt by default")
    tune.add_argument("--bytes", type=_counts, metavar="N,...", help="sizes to measure; 64 B to 16 MiB by default")
    tune.add_argument(
        "--seconds", type=_seconds, metavar="S", help="seconds for each algorithm and size; 0.1 by default"
    )
    tune.set_defaults(call=call_tune)


def call_tune(options: argparse.Namespace) -> int:
    screen = Screen()
    parts = []
    for ranks in options.ranks:
        if ranks < 2:
            screen.say("a single rank has nothing to measure. Fix: --ranks 2,4")
            return USAGE_ERROR
        with tempfile.TemporaryDirectory() as folder:
            part = pathlib.Path(folder, "table")
            words = ["fusewire.collective.tune", "--out", str(part)]
            if options.bytes:
                words += ["--bytes", ",".join(str(size) for size in options.bytes)]
            if options.seconds:
                words += ["--seconds", str(options.seconds)]
            code = run_ranks(ranks, Command((sys.executable, "-m", *words)), screen, None, GRACE_S)
            if code != 0:
                return code
            parts.append(part.read_text())
    pathlib.Path(options.out).write_text("".join(parts))
    screen.say(f"written: {options.out}. Use it: FUSEWIRE_COLLECTIVE_TABLE={options.out} at all ranks")
    return 0


def tune_main() -> int:
    """The command fusewire-tune."""
    return main(["tune", *sys.argv[1:]])


def call_doctor(options: argparse.Namespace) -> int:
    from fusewire import doctor

    return doctor.run(as_json=options.json)


def call_run(options: argparse.Namespace) -> int:
    screen = Screen()
    words = options.program[1:] if options.program[:1] == ["--"] else options.program
    if not words:
        screen.say("which program? Fix: fusewire run --ps 1 --workers 2 train.py")
        return USAGE_ERROR
    if options.ranks is not None:
        return call_run_ranks(options, words, screen)
    shape = Shape(options.ps, options.workers, options.chief, options.evaluator)
    if not shape.tasks():
        screen.say("a cluster without a task. Fix: --ps, --workers, --chief or --evaluator")
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
            environment["PYTHONUNBUFFERED"] = "1"  # so that lines come when they are printed
            if options.protocol:
                environment[protocol.VARIABLE] = options.protocol
            environments.append(environment)
        return Job(tasks, screen, options.timeout, options.grace).run(command, environments)


def call_run_ranks(options: argparse.Namespace, words: list[str], screen: Screen) -> int:
    if options.ranks < 1:
        screen.say("a group without a rank. Fix: --ranks 2")
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
    """What each task runs; ValueError says why nothing can."""
    program = words[0]
    if program == "-m" or is_python_file(program):
        return Command((sys.executable, "-m", "fusewire._main", PIPE, *words))
    if re.fullmatch(r"(.*/)?python[0-9.]*", program) and shutil.which(program):
        flags, rest = interpreter_flags(words[1:])
        if not rest:
            raise ValueError(f"{' '.join(words)}: no program for it to run")
        return Command((program, *flags, "-m", "fusewire._main", PIPE, *rest))
    if shutil.which(program) is None:
        raise ValueError(f"there is no file and no command {program}. Fix: check its name, and the working directory")
    return Command(tuple(words))


def is_python_file(program: str) -> bool:
    path = pathlib.Path(program)
    if program.endswith(".py") and not path.is_file():
        raise ValueError(f"there is no file {program}. Fix: check its name, and the working directory {os.getcwd()}")
    if not path.is_file():
        return False
    with path.open("rb") as file:
        first = file.readline(200)
    return program.endswith(".py") or (first.startswith(b"#!") and b"python" in first)


def interpreter_flags(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """(-u -X dev ..., the program and its arguments) of what follows the word python."""
    flags = []
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] not in ("-m", "-c", "-"):
        flags.append(rest.pop(0))
        if flags[-1] in ("-X", "-W") and rest:
            flags.append(rest.pop(0))
    return flags, rest


def _count(text: str) -> int:
    count = int(text)
    if count < 0:
        raise argparse.ArgumentTypeError("a number of tasks, 0 or more")
    return count


def _counts(text: str) -> list[int]:
    return [_count(word) for word in text.split(",")]


def _seconds(text: str) -> float:
    seconds = float(text)
    if not seconds > 0:
        raise argparse.ArgumentTypeError("seconds, more than 0")
    return seconds
