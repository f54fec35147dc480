#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Trains under random faults from a seed, and reports the results: make soak MINUTES=10.

  tests/soak/run.py --minutes 10 --protocol star_server --seed 7
  tests/soak/run.py --minutes 2 --protocol grpc --faults kill-server,stop     stock gRPC, these faults only
  tests/soak/run.py --replay 20 --seed 7                                      only the 20th fault of a seed

Run with a Python that has TensorFlow, and Fusewire unless the protocol is grpc. Two parameter servers, two workers.
After each fault, every worker must make a step within the bound; judge.py checks the steps. Exit
code 1: a hang, a task that ended without being killed, or a violated rule. Writes a JSON report and all logs.
"""

import argparse
import collections
import json
import pathlib
import random
import re
import shutil
import statistics
import sys
import tempfile
import time

import faults
import machine as machines
import returns
from judge import Case, Injected, Tail, Verdict, judge

SETTLE_S = (1.0, 5.0)  # between faults
BEGIN_S = 120.0


class Run:
    def __init__(self, options: argparse.Namespace, machine: machines.Machine) -> None:
        self._options, self._machine = options, machine
        self._tails = {task.name: Tail(task.events_path) for task in machine.workers}
        self._injected: list[Injected] = []
        self._began = time.monotonic()
        self.report: list[dict] = []
        self.hangs: list[str] = []
        self.deaths: list[str] = []
        self._blind: list[tuple[float, float]] = []
        self._samples: dict[tuple[str, int], list[dict]] = collections.defaultdict(list)

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:7.1f}  {text}", flush=True)

    def _watch(self, seconds: float, until: float = 0.0) -> bool:
        """Continues for this long, or until every worker has made a step after `until`; restarts tasks that ended."""
        ends = time.monotonic() + seconds
        sampled = 0.0
        while True:
            for tail in self._tails.values():
                tail.look()
            if until and all(tail.last_step > until for tail in self._tails.values()):
                return True
            now = time.monotonic()
            if now >= ends:
                return False
            if now > sampled + 1:
                sampled = now
                for task in self._machine.tasks:
                    self._look_at(task, now)
            time.sleep(min(0.05, ends - now))

    def _look_at(self, task: machines.Task, now: float) -> None:
        if task.alive():
            sample = task.sample()
            if sample is not None:
                self._samples[task.name, task.pid].append({"age": now - task.started, **sample})
        elif task.may_die != "kill":
            what = f"{task.name} ended with {task.process.returncode}"
            if task.may_die:
                what += f", under the fault {task.may_die}"
            self.deaths.append(what)
            task.note_end(now - 1)  # each second is looked at
            self.say(what + "; it is started again")
            self._machine.start_again(task)

    def _hang(self, what: str, since: float) -> None:
        silent = [name for name, tail in self._tails.items() if tail.last_step <= since]
        self.hangs.append(f"after: {what}: no step of {', '.join(silent)} within {self._options.bound:.0f} s")
        self.say(f"HANG {self.hangs[-1]}")
        path = self._machine.folder / f"hang-{len(self.hangs)}.txt"
        tasks = [task for task in self._machine.tasks if task.alive() and (task.job == "ps" or task.name in silent)]
        path.write_text("\n".join(task.stacks() for task in tasks))
        self.say(f"the stacks are in {path}; restarting all tasks")
        self._machine.stop()
        self._machine.start()
        if not self._watch(BEGIN_S, time.monotonic()):
            raise RuntimeError("the cluster does not train, although all tasks were restarted")

    def _one(self, name: str, number: int) -> None:
        # Each fault has its own seed, so that one fault does not change the next.
        what, work = faults.ALL[name](self._machine, random.Random(f"{self._options.seed} {number}"))
        self.say(f"{number:3d} {name}: {what}")
        began = time.monotonic()
        self._injected.append(Injected(name, what, began))
        for seconds in work:
            self._watch(seconds)
        ended = time.monotonic()
        if name == "descriptors":
            self._blind.append((began, ended + 1))
        if not self._watch(self._options.bound, ended):
            self._hang(f"{number} {name}: {what}", ended)
            took = None
        else:
            took = round(max(tail.first_step_after(ended) for tail in self._tails.values()) - ended, 2)
        self.report.append({"fault": name, "what": what, "at": round(began - self._began, 1), "back": took})

    def go(self) -> None:
        options, machine = self._options, self._machine
        chosen = [name for name in options.faults if name in faults.possible(machine)]
        left = [name for name in options.faults if name not in chosen]
        self.say(f"seed {options.seed}, {options.protocol}, faults: {', '.join(chosen)}")
        if left:
            self.say(f"left out, as this machine does not permit them: {', '.join(left)}")
        machine.start()
        if not self._watch(BEGIN_S, self._began):
            raise RuntimeError(f"no training within {BEGIN_S:.0f} s; see {machine.folder}")
        self.say("trains")
        self._watch(3)
        if options.snapshots:
            self._await_snapshots()
        ends = time.monotonic() + options.minutes * 60
        draw, number, bag = random.Random(options.seed), 0, []
        while time.monotonic() < ends:
            if not bag:  # each fault once before any is repeated
                bag = draw.sample(chosen, len(chosen))
            name, pause = bag.pop(), draw.uniform(*SETTLE_S)
            number += 1
            if options.replay and number != options.replay:
                continue
            self._one(name, number)
            self._watch(pause)
            if options.replay:
                break
        self._watch(5)

    def _await_snapshots(self) -> None:
        until = time.monotonic() + BEGIN_S
        while any(self._machine.newest_snapshot(server)[0] is None for server in self._machine.servers):
            if time.monotonic() > until:
                raise RuntimeError(f"no snapshot of each server within {BEGIN_S:.0f} s; see {self._machine.folder}")
            self._watch(0.2)

    def _case(self) -> Case:
        servers = []
        for task in self._machine.servers:
            tail = Tail(task.events_path)
            tail.look()
            ready = [event.when for event in tail.events if event.word == "READY"]
            servers.append(returns.Server(task.name, task.ends, sorted([*ready, *task.taken])))
        return Case(servers, self._options.snapshots, self._injected, self._blind)

    def grown(self) -> list[dict]:
        """For each process that ran long enough: its first and its last sample."""
        found = []
        for (name, _), samples in self._samples.items():
            settled = [sample for sample in samples if sample["age"] > 30]
            if not settled or settled[-1]["age"] < 60:
                continue
            tenth = max(1, len(settled) // 10)
            row = {"task": name, "seconds": round(settled[-1]["age"]), "each_10_s": settled[::10]}
            for what in ("kib", "threads", "descriptors"):
                first, last = ([sample[what] for sample in part] for part in (settled[:tenth], settled[-tenth:]))
                row[what] = [sorted(first)[len(first) // 2], sorted(last)[len(last) // 2]]
            found.append(row)
        return found

    def end(self) -> bool:
        options = self._options
        self._machine.stop()
        for tail in self._tails.values():
            tail.look()
        case = self._case()
        verdict = judge(self._tails, case)
        seconds = time.monotonic() - self._began
        by_fault: dict[str, list] = collections.defaultdict(list)
        for row in self.report:
            by_fault[row["fault"]].append(row["back"])
        print(f"\n{options.protocol}, seed {options.seed}, {seconds:.0f} s: {len(self.report)} faults", flush=True)
        print(f"{'fault':14} times  back after, s: middle  longest")
        for name, took in sorted(by_fault.items()):
            back = sorted(each for each in took if each is not None)
            words = f"{back[len(back) // 2]:22.1f} {back[-1]:8.1f}" if back else ""
            hung = len(took) - len(back)
            print(f"{name:14} {len(took):5} {words}" + (f"  hung {hung} times" if hung else ""))
        share = 100 * (verdict.lost + verdict.went_back) / max(verdict.steps, 1)
        print(
            f"steps acknowledged {verdict.steps}, lost to restores {verdict.lost}, with servers that came back "
            f"{verdict.went_back}: {share:.2f} %; checkpoints {verdict.saved}, restored {verdict.restores} times"
        )
        self._say_returns(case, verdict)
        if verdict.anew:
            times = len(verdict.anew)
            print(f"initialised anew {times} times: the chief, without descriptors, could not open a checkpoint")
        why = ", ".join(f"{name} {count} ({reason})" for (name, reason), count in sorted(verdict.why.items()))
        print(f"sessions {verdict.sessions}: {why}")
        print(f"errors that ended a program's loop {dict(verdict.errors)}")
        grown = self.grown()
        for row in grown:
            change = ", ".join(f"{what} {row[what][0]} -> {row[what][1]}" for what in ("kib", "threads", "descriptors"))
            print(f"{row['task']:8} lived {row['seconds']} s: {change}")
        aborted = self._checks_that_failed()
        unexpected = [each for each in self.deaths if "under the fault" not in each]
        for title, lines in (
            ("hangs", self.hangs),
            ("deaths", self.deaths),
            ("checks of ours that failed", aborted),
            ("what must not be", verdict.wrong),
        ):
            print(f"{title}: {len(lines)}")
            for line in lines[:20]:
                print(f"  {line}")
        result = {
            "protocol": options.protocol,
            "seed": options.seed,
            "seconds": round(seconds),
            "steps": verdict.steps,
            "lost": verdict.lost,
            "went_back": verdict.went_back,
            "ages": [round(age, 3) for age in verdict.ages],
            "sessions": verdict.sessions,
            "why": {f"{name}: {reason}": count for (name, reason), count in sorted(verdict.why.items())},
            "checkpoints": verdict.saved,
            "restores": verdict.restores,
            "chief_joins": options.chief_joins,
            "snapshots": options.snapshots,
            "on_loss": options.on_loss,
            "anew": len(verdict.anew),
            "errors": dict(verdict.errors),
            "hangs": self.hangs,
            "deaths": self.deaths,
            "aborted": aborted,
            "wrong": verdict.wrong,
            "grown": grown,
            "faults": self.report,
        }
        (self._machine.folder / "report.json").write_text(json.dumps(result, indent=1))
        good = not (self.hangs or unexpected or aborted or verdict.wrong)
        print("good" if good else f"NOT GOOD; again with --seed {options.seed}", flush=True)
        return good

    def _say_returns(self, case: Case, verdict: Verdict) -> None:
        steps = [[event.when for event in tail.events if event.word == "STEP"] for tail in self._tails.values()]
        for what, seconds in zip(("was ready", "had ended"), returns.pauses(case.servers, steps), strict=True):
            if seconds:
                middle = statistics.median(seconds)
                print(f"first steps after a server {what}, s: middle {middle:.2f}, longest {max(seconds):.2f}")
        if case.every_s:
            took = [end.snapshot_took for server in case.servers for end in server.ends if end.snapshot_begun]
            print(f"lost with servers, by age when the server ended: {returns.histogram(verdict.ages, case.every_s)}")
            print(f"the oldest {max(verdict.ages, default=0):.2f} s; snapshots took up to {max(took, default=0):.2f} s")

    def _checks_that_failed(self) -> list[str]:
        found = []
        for task in self._machine.tasks:
            if task.errors_path.exists():
                for line in task.errors_path.read_text(errors="replace").splitlines():
                    if re.search(r"broken promise at|Segmentation fault|Sanitizer|^Fatal Python error", line):
                        found.append(f"{task.name}: {line[:300]}")
        return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--protocol", default="grpc++", choices=["grpc", "grpc++", "star_server", "star_server_lite"])
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--faults", type=lambda text: text.split(","), default=list(faults.ALL))
    parser.add_argument(
        "--bound", type=float, default=90, help="seconds within which every worker must make a step after a fault"
    )
    parser.add_argument("--chief-joins", action="store_true", help="set FUSEWIRE_CHIEF_JOINS=1 (docs/elastic.md)")
    parser.add_argument(
        "--snapshots", type=float, default=0, metavar="SECONDS", help="the servers keep snapshots at this interval"
    )
    parser.add_argument(
        "--on-loss",
        choices=("restart", "adopt"),
        default="restart",
        help="with --snapshots: what a killed or frozen server has served, the others take over",
    )
    parser.add_argument("--servers", type=int, help="default: 2; 3 if they adopt")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--replay", type=int, default=0, help="run only the fault with this number")
    parser.add_argument("--out", type=pathlib.Path, help="empty folder for the report and the logs; default: a new one")
    options = parser.parse_args()
    unknown = [name for name in options.faults if name not in faults.ALL]
    if unknown:
        parser.error(f"--faults: there is no fault {', '.join(unknown)}; the faults are {', '.join(faults.ALL)}")
    if options.out and options.out.exists() and any(options.out.iterdir()):
        parser.error(f"--out: {options.out} is not empty; a run judges what it finds there, so name a new folder")
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1 << 20)
        sys.argv += ["--seed", str(options.seed)]
    adopts = options.on_loss == "adopt"
    if adopts and not options.snapshots:
        parser.error("--on-loss adopt needs --snapshots: there would be nothing to take over")
    if adopts and options.protocol == "grpc":
        parser.error("--on-loss adopt: servers of stock grpc take no orders")
    options.servers = options.servers or (3 if adopts else 2)
    apart = machines.enter()
    folder = options.out.resolve() if options.out else pathlib.Path(tempfile.mkdtemp(prefix="fusewire-soak-"))
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    machine = machines.Machine(folder, options.protocol, options.servers, options.workers, apart)
    if options.chief_joins:
        machine.variables["FUSEWIRE_CHIEF_JOINS"] = "1"
    if options.snapshots:
        machine.keep_snapshots(options.snapshots)
    if adopts:
        machine.adopt()
    run = Run(options, machine)
    try:
        run.go()
    except RuntimeError as error:
        run.hangs.append(str(error))
    finally:
        good = run.end()
        print(f"logs: {folder}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
