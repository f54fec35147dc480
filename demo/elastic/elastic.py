#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Trains Wide & Deep while its parameter servers are killed, moved and doubled.

Over Fusewire, and then over stock TensorFlow: both are treated alike, at the same times. Prints what happens as it
happens, and leaves a page and a picture. Everything in them is measured in this run.
"""

import argparse
import pathlib
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "training"))
sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import machine
from cluster import Side, Training, can, ours, stock
from page import Shown, page, picture, table
from watching import figures_of

SERVERS, DOUBLED = 2, 4  # processes with parameter servers
TASKS = 4  # parameter servers in them, over Fusewire
COMMANDS = ("move", "scale")


@dataclass(frozen=True)
class Fault:
    at: float  # a share of the training
    kind: str  # kill, move, double


APART = 0.13  # between the end of one event and the next, and before the end
# A process is killed when others are there that can take over what it had.
SCHEDULE = (Fault(0.16, "move"), Fault(0.36, "double"), Fault(0.58, "kill"), Fault(0.80, "kill"))
ONLY_KILLS = (Fault(0.35, "kill"),)
NAMES = {
    "kill": "a server process killed (kill -9)",
    "move": "a server moved",
    "double": f"server processes doubled, {SERVERS} to {DOUBLED}",
}
SHORT = {"kill": "kill -9", "move": "moved", "double": f"{SERVERS} to {DOUBLED} processes"}


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=40, help="how long each of the two trains; default: 40")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--tf", default="2.15.1", metavar="VERSION", help="the TensorFlow to train with")
    parser.add_argument("--python", type=pathlib.Path, help="the Python to use; default: that of .venv-tf-VERSION")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/demo/elastic.html"))
    options = parser.parse_args(arguments)
    if options.seconds < 5 or options.workers < 1:
        parser.error("--seconds must be at least 5, and --workers at least 1")
    options.python = options.python or pathlib.Path(f".venv-tf-{options.tf}/bin/python")
    options.python = options.python.absolute()  # not resolved: it is a link into a virtual environment
    return options


def say(name: str, at: float, words: str) -> None:
    print(f"{name:>16} {at:6.1f} s  {words}", flush=True)


def run(training: Training, schedule: Sequence[Fault], seconds: float, is_ours: bool) -> list[Fault]:
    """To its end, with all faults. Returns when they were: later than planned, if the one before has taken long."""
    began = time.time()
    training.start()
    training.await_steps(began)
    if is_ours:
        training.await_snapshots(TASKS)
    training.began()
    kills, done, free = 0, [], 0.0
    for fault in schedule:
        training.go_on(max(fault.at * seconds, free))
        done.append(Fault(training.now / seconds, fault.kind))
        if fault.kind == "kill":
            kills += 1
            server = (SERVERS - kills) % SERVERS
            training.note(f"{NAMES['kill']}: ps:{server}", True, SHORT["kill"])
            training.kill(server)
        elif is_ours:
            treat(training, fault.kind)
        else:
            treat_stock(training, fault.kind)
        free = training.now + APART * seconds
    training.go_on(max(seconds, free))
    training.finish()
    return done


def treat(training: Training, kind: str) -> None:
    training.note(NAMES[kind], True, SHORT[kind])
    if kind == "move":
        training.command("move", "ps:3", "--to", "ps:0", "--cluster", training.address_of("ps-0"))
    else:
        training.command("scale", "--ps-processes", str(DOUBLED))


def treat_stock(training: Training, kind: str) -> None:
    """TensorFlow moves nothing. More servers mean another cluster: everything ends, and begins at the checkpoint."""
    training.note(NAMES[kind], True, SHORT[kind])
    if kind == "move":
        training.note("TensorFlow has no way to do this: nothing is done", short="can't")
        return
    words = "TensorFlow has no way to do this: the job is stopped, and started again from its checkpoint"
    training.note(words, short="can't: stopped, and started again from its checkpoint")
    training.stop()
    training.start(stock(training.python, DOUBLED, training.workers).command)
    training.await_steps(time.time())


def train(
    options: argparse.Namespace, schedule: Sequence[Fault], side: Side, folder: pathlib.Path
) -> tuple[Training, list[Fault]]:
    say(side.name, 0.0, "starting servers and workers")
    training = Training(side, folder, options.python, options.workers, lambda at, words: say(side.name, at, words))
    try:
        done = run(training, schedule, options.seconds, not side.environment)
    except BaseException:
        training.kill_all()
        raise
    figures = figures_of(training.trainees, training.begin, training.end)
    words = f"{figures.steps:,} steps made, {figures.lost:,} lost, longest pause {figures.pause_s:.1f} s"
    say(side.name, training.now, f"{words}, {figures.rebuilt} sessions rebuilt\n")
    return training, done


def main(arguments: Sequence[str]) -> int:
    options = parse_arguments(arguments)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # the tasks are ended, the folder removed
    if not options.python.exists():
        print(
            f"demo: there is no {options.python}; run tools/plugin.sh {options.tf}, which creates it", file=sys.stderr
        )
        return 1
    schedule = SCHEDULE if all(can(options.python, verb) for verb in COMMANDS) else ONLY_KILLS
    print(
        f"Wide & Deep on {SERVERS} processes with parameter servers and {options.workers} workers, TensorFlow "
        f"{options.tf}: {options.seconds:g} s each, over Fusewire and over stock TensorFlow\n"
    )
    with tempfile.TemporaryDirectory(prefix="elastic-") as temporary:
        folder = pathlib.Path(temporary)
        sides = [
            ours(options.python, folder / "ours", TASKS, SERVERS, options.workers),
            stock(options.python, SERVERS, options.workers),
        ]
        try:
            trainings = []
            for side, name in zip(sides, ("ours", "stock"), strict=True):
                training, schedule = train(options, schedule, side, folder / name)  # the second one: at the same times
                trainings.append(training)
        except (OSError, RuntimeError) as error:
            print(f"\ndemo: {error}", file=sys.stderr)
            for path in sorted(folder.glob("*/err")):
                print(f"--- {path.parent.name}\n{path.read_text(errors='replace')[-3000:]}", file=sys.stderr)
            return 1
    facts = {
        "workers": options.workers,
        "servers": SERVERS,
        "doubled": DOUBLED if any(fault.kind == "double" for fault in schedule) else 0,
        "tensorflow": options.tf,
        "machine": machine.processor_words(machine.facts_of_machine(look_s=0)),
        "date": time.strftime("%Y-%m-%d %H:%M"),
    }
    shown = [Shown(training, figures_of(training.trainees, training.begin, training.end)) for training in trainings]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(page(shown, facts), encoding="utf-8")
    options.out.with_suffix(".svg").write_text(picture(shown, facts), encoding="utf-8")
    print(f"{table(shown)}\n\nThe page: {options.out.resolve()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
