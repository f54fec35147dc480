# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Random programs over every protocol, compared bit for bit with stock gRPC. README.md says how to use it.

python judging.py --seeds 0:200 | --seconds 60 | --seed 17
"""

import argparse
import collections
import dataclasses
import datetime
import json
import os
import pathlib
import selectors
import subprocess
import sys
import time

from making import make
from program import Program

HERE = pathlib.Path(__file__).parent
LIMIT_S = 150  # for one program over all protocols
SHRINKS_MAX = 150
REACTORS = (1, 2, 4)
BATCH = 25  # programs of one process


class Child:
    """A process that runs programs; a new one comes when it has died, or was ended because it hung."""

    def __init__(self, reactors: int) -> None:
        count = str(reactors)
        environment = {**os.environ, "FUSEWIRE_PS_REACTORS": count, "FUSEWIRE_WORKER_REACTORS": count}
        path = [str(HERE), str(HERE.parent / "python"), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, path))
        self._process = subprocess.Popen(
            [sys.executable, HERE / "running.py"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._text = b""
        self._read("READY")

    def run(self, program: Program) -> dict:
        self._process.stdin.write(json.dumps(dataclasses.asdict(program)).encode() + b"\n")
        self._process.stdin.flush()
        words = self._read("RESULT")
        return {"differs": {"all": words}} if words.startswith("!") else json.loads(words)

    def _read(self, word: str) -> str:
        ends = time.monotonic() + LIMIT_S
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while time.monotonic() < ends:
                while b"\n" in self._text:
                    line, self._text = self._text.split(b"\n", 1)
                    if line.startswith(word.encode()):
                        return line.decode()[len(word) + 1 :]
                if not selector.select(1.0):
                    continue
                more = os.read(self._process.stdout.fileno(), 1 << 20)
                if not more:
                    return f"!the process ended with {self._process.wait()}"
                self._text += more
        self.end()
        return f"!it hung for {LIMIT_S} s"

    def alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


def differs(result: dict) -> bool:
    return bool(result.get("differs"))


def shrink(program: Program, run) -> Program:
    """Fewer steps, then fewer statements, as long as it still differs."""
    tries = 0

    def still(candidate: Program) -> bool:
        nonlocal tries
        tries += 1
        return bool(candidate.steps) and tries <= SHRINKS_MAX and differs(run(candidate))

    for at in range(len(program.steps) - 1, -1, -1):
        steps = program.steps[:at] + program.steps[at + 1 :]
        if still(candidate := dataclasses.replace(program, steps=steps)):
            program = candidate
    again = True
    while again:
        again = False
        for each in reversed(program.statements):
            if each.name not in program.names():
                continue
            candidate = program.without({each.name})
            if still(candidate):
                program, again = candidate, True
    for number, step in enumerate(program.steps):
        for name in step.fetches:
            kept = tuple(each for each in program.steps[number].fetches if each != name)
            if not kept:
                continue
            smaller = dataclasses.replace(step, fetches=kept)
            steps = (*program.steps[:number], smaller, *program.steps[number + 1 :])
            if still(candidate := dataclasses.replace(program, steps=steps)):
                program = candidate
                step = smaller
    return program


def seeds_of(options: argparse.Namespace):
    if options.seed is not None:
        return iter([options.seed])
    if options.seeds:
        first, last = map(int, options.seeds.split(":"))
        return iter(range(first, last))
    day = datetime.datetime.now(datetime.UTC).toordinal()
    return iter(range(day * 1000, day * 1000 + 1000))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, help="this one only, with its program")
    parser.add_argument("--seeds", metavar="FIRST:LAST", help="without either, those of today")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--reactors", type=int, help="of every task; without it 1, 2 and 4 in turn")
    options = parser.parse_args()
    ends = time.monotonic() + options.seconds
    counts: collections.Counter = collections.Counter()
    child, number = None, -1
    for number, seed in enumerate(seeds_of(options)):
        if time.monotonic() > ends:
            break
        reactors = options.reactors or REACTORS[number // BATCH % len(REACTORS)]
        if child is None or not child.alive() or (number % BATCH == 0 and not options.reactors):
            if child is not None:
                child.end()
            child = Child(reactors)
        program = make(seed)
        if options.seed is not None:
            print(program.text())
        result = child.run(program)
        if "broken" in result:
            print(f"seed {seed}: cannot be built: {result['broken']}", flush=True)
            counts["broken"] += 1
        elif result.get("discarded"):
            counts["discarded"] += 1
        elif not differs(result):
            counts["same"] += 1
            counts["same, to an error"] += result["ends"] == "error"
        else:
            counts["differ"] += 1
            print(f"seed {seed}, {reactors} reactors, differs: {json.dumps(result['differs'], indent=1)}", flush=True)

            def again(candidate: Program, reactors: int = reactors) -> dict:
                nonlocal child
                if not child.alive():
                    child = Child(reactors)
                return child.run(candidate)

            smallest = shrink(program, again)
            print(f"its smallest form:\n{smallest.text()}", flush=True)
            print(f"again: python {HERE.name}/judging.py --seed {seed} --reactors {reactors}", flush=True)
    if child is not None:
        child.end()
    words = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    print(f"programs: {words or 'none'}")
    return 1 if counts["differ"] or counts["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
