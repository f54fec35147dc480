# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""fusewire scale: asks a `fusewire run` on this machine for more or fewer processes, see
docs/elastic.md#growing-and-shrinking."""

import argparse
import pathlib

from fusewire.cli import USAGE_ERROR, count
from fusewire.launch import control
from fusewire.pages import refused

PAGE = "scale"


def add_to(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    scale = verbs.add_parser(
        "scale",
        help="give the parameter servers of a running job more or fewer processes",
        description="Asks the `fusewire run --snapshots` that runs on this machine for N processes with parameter "
        "servers: it starts more, or ends some, and their tasks move while training goes on.",
    )
    scale.add_argument("--ps-processes", type=count, required=True, metavar="N", help="number of processes, from 1 on")
    scale.add_argument(
        "--job", type=count, metavar="PID", help="the process of that `fusewire run`, if there are several"
    )
    scale.set_defaults(call=run_scale)


class NoJobError(ValueError):
    """There is no job, or several and none was named."""


def run_scale(options: argparse.Namespace) -> int:
    """Returns the exit code: 0 if it is done."""
    try:
        path = job_of(options.job)
    except NoJobError as error:
        return refused("scale", error, PAGE, USAGE_ERROR)
    try:
        print(control.ask(path, f"scale {options.ps_processes}", lambda text: print(text, flush=True)))
    except (control.ControlError, OSError) as error:
        return refused("scale", str(error) or "the job has ended", PAGE)
    return 0


def job_of(pid: int | None) -> pathlib.Path:
    """The socket of the job with this process, or of the only one."""
    found: dict[int, tuple[str, pathlib.Path]] = {}
    silent = []
    for path in control.launchers():
        try:
            number, _, text = control.ask(path, "about").partition(" ")
            found[int(number)] = (text, path)
        except FileNotFoundError:
            continue  # left behind by a job that has ended
        except (control.ControlError, OSError, ValueError) as error:
            silent.append(f"{path}: {error}")
    if pid is not None and pid in found:
        return found[pid][1]
    if pid is None and len(found) == 1 and not silent:
        return next(iter(found.values()))[1]
    each = [*(f"--job {number} ({text})" for number, (text, _) in found.items()), *silent]
    if found or silent:
        raise NoJobError(
            f"{'no such job runs here' if pid is not None else 'several jobs run here'}: {', '.join(each)}"
        )
    raise NoJobError(
        "no job runs here that can be scaled. Fix: start it on this machine, as this user, by fusewire run --snapshots "
        "FOLDER --restarts 3"
    )
