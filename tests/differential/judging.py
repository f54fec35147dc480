# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Random programs over every protocol, compared bit for bit with stock gRPC. README.md says how to use it.

python judging.py --seeds 0:200 [--log FILE] | --seconds 60 | --seed 17 | --census 0:300
"""

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import selectors
import subprocess
import sys
import tempfile
import time

from census import census
from making import make
from program import STOCK, Program
from seeds import seeds_of
from shrinking import shrink

HERE = pathlib.Path(__file__).parent
LIMIT_S = 150  # for a program over a protocol, and for a process that starts
REACTORS = (1, 2, 4)
ENDS = {"ok": "same", "error": "same, to an error", "cut": "ended", "lost": "same, until a step was lost"}
BATCH = 20  # seeds that one process runs, with as many reactors


class Child:
    """A process that runs programs; it is replaced when it has crashed, or was ended because it hung."""

    def __init__(self, reactors: int, limit_s: float, mode: str) -> None:
        count = str(reactors)
        environment = {**os.environ, "FUSEWIRE_PS_REACTORS": count, "FUSEWIRE_WORKER_REACTORS": count}
        # Too few steps for a worker to measure which way is faster: it gets one of them.
        environment.setdefault("FUSEWIRE_WORKER_LIST", "never" if reactors == REACTORS[-1] else "always")
        self._folder = tempfile.TemporaryDirectory(prefix="programs-", ignore_cleanup_errors=True)
        path = [str(HERE), str(HERE.parent / "python"), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, path))
        self._limit_s = limit_s
        self._mode = mode
        self._process = subprocess.Popen(
            [sys.executable, HERE / "running.py", mode],
            cwd=self._folder.name,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._text = b""
        self._at = ""
        if words := self._read("READY"):
            raise RuntimeError(f"the clusters could not be started: {words[1:]}")

    def run(self, program: Program, runs: tuple[str, ...] = ()) -> dict:
        """`runs`: the protocols; empty: all."""
        words = {"program": dataclasses.asdict(program), "runs": runs}
        self._at = ""  # of this program
        try:
            self._process.stdin.write(json.dumps(words).encode() + b"\n")
            self._process.stdin.flush()
            said = self._read("RESULT")
        except BrokenPipeError:
            said = f"!the process ended with {self._process.wait()}"
        if not said.startswith("!"):
            return json.loads(said)
        words = f"{said[1:]} over {self._at or 'none'}"
        return {"discarded": words} if self._at == STOCK else {"differs": {"all": words}}

    def _read(self, word: str) -> str:
        ends = time.monotonic() + self._limit_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while time.monotonic() < ends:
                while b"\n" in self._text:
                    line, self._text = self._text.split(b"\n", 1)
                    if line.startswith(b"OVER "):
                        self._at = line.decode()[len("OVER ") :]
                        ends = time.monotonic() + self._limit_s
                    if line.startswith(word.encode()):
                        return line.decode()[len(word) + 1 :]
                if not selector.select(1.0):
                    continue
                more = os.read(self._process.stdout.fileno(), 1 << 20)
                if not more:
                    return f"!the process ended with {self._process.wait()}"
                self._text += more
        self.end()
        return f"!it hung for {self._limit_s} s"

    def alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()


class Log:
    """The log of outcomes, a line per program: logged programs are not run again."""

    def __init__(self, path: pathlib.Path | None) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path and path.exists() else []
        self.said = {told["seed"]: told["outcome"] for told in map(json.loads, lines)}

    def add(self, seed: int, outcome: str, **more) -> None:
        self.said[seed] = outcome
        if self._path:
            with self._path.open("a") as file:
                file.write(json.dumps({"seed": seed, "outcome": outcome, **more}) + "\n")


class Run:
    def __init__(self, log: Log, options: argparse.Namespace) -> None:
        self._log, self._shows = log, options.seed is not None
        self._limit_s, self._mode = options.limit, options.mode
        self._child: Child | None = None
        self._batch = -1
        self.took: collections.Counter = collections.Counter()  # seconds
        self.moves: collections.Counter = collections.Counter()  # by what came of them

    def child(self, reactors: int) -> Child:
        old = self._child
        if old is None or not old.alive():
            self.end()
            begun = time.monotonic()
            self._child = Child(reactors, self._limit_s, self._mode)
            self.took["starting"] += time.monotonic() - begun
        return self._child

    def end(self) -> None:
        if self._child is not None:
            self._child.end()

    def one(self, seed: int, batch: int, reactors: int) -> None:
        if batch != self._batch:
            self.end()
            self._batch = batch
        program = make(seed)
        if self._mode == "moves":
            program = program.fit_to_move()
        if self._shows:
            print(program.text())
        result = self.child(reactors).run(program)
        self.took.update(result.get("took", {}))
        self.moves.update(result.get("moves", {}))
        if "broken" in result:
            print(f"seed {seed}: the program can't be built: {result['broken']}", flush=True)
            self._log.add(seed, "broken", reactors=reactors)
        elif result.get("discarded"):
            self._log.add(seed, "discarded", reactors=reactors, why=result["discarded"])
        elif not result["differs"]:
            self._log.add(seed, ENDS[result["ends"]], reactors=reactors)
        else:
            self._log.add(seed, "differ", reactors=reactors, differs=result["differs"])
            self.report(program, reactors, result["differs"])

    def report(self, program: Program, reactors: int, differs: dict) -> None:
        seed = program.seed
        print(f"seed {seed}, {reactors} reactors, differs: {json.dumps(differs, indent=1)}", flush=True)
        runs = () if "all" in differs else tuple(differs)
        smallest = shrink(program, lambda each: bool(self.child(reactors).run(each, runs).get("differs")))
        print(f"its smallest form:\n{smallest.text()}", flush=True)
        mode = f" --{self._mode}" if self._mode else ""
        print(f"again: python {HERE.name}/judging.py --seed {seed} --reactors {reactors}{mode}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, help="only this seed; prints its program")
    parser.add_argument("--seeds", metavar="FIRST:LAST", help="a range of seeds; default: those of CI's turn")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--batch", type=int, default=BATCH, help="number of seeds that one process runs")
    parser.add_argument("--reactors", type=int, help="number of reactors of every task; default: 1, 2 and 4 in turn")
    parser.add_argument(
        "--cut",
        dest="mode",
        action="store_const",
        const="cut",
        default="",
        help="check only that steps end, with limits that pass at any point",
    )
    parser.add_argument(
        "--resets",
        dest="mode",
        action="store_const",
        const="resets",
        help="over star_server, while connections to the servers are reset: a step may be lost, but no value differs",
    )
    parser.add_argument(
        "--moves",
        dest="mode",
        action="store_const",
        const="moves",
        help="while parameter servers move from process to process: a step over grpc++ may be lost, no value differs",
    )
    parser.add_argument(
        "--limit", type=float, default=LIMIT_S, help="seconds for a program over a protocol; use more on a busy machine"
    )
    parser.add_argument("--log", type=pathlib.Path, help="file to which outcomes are appended; seeds in it are skipped")
    parser.add_argument(
        "--census", metavar="FIRST:LAST", help="only count the kinds of statements that these seeds draw"
    )
    options = parser.parse_args()
    if options.census:
        print(census(range(*map(int, options.census.split(":")))))
        return 0
    ends = time.monotonic() + options.seconds
    log = Log(options.log)
    run = Run(log, options)
    todo = [seed for seed in seeds_of(options, 1000) if seed not in log.said]
    for seed in todo:
        if time.monotonic() > ends:
            break
        batch = seed // options.batch
        run.one(seed, batch, options.reactors or REACTORS[batch % len(REACTORS)])
    run.end()
    for what, count in run.moves.most_common():
        print(f"moves: {count} {what}")
    return summary(log, run.took)


def summary(log: Log, took: collections.Counter) -> int:
    counts = collections.Counter(log.said.values())
    words = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    print(f"programs: {words or 'none'}")
    print("seconds:", ", ".join(f"{what} {seconds:.1f}" for what, seconds in took.most_common()) or "none")
    return 1 if counts["differ"] or counts["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
