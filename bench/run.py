#!/usr/bin/env python3
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Runs a benchmark suite: ours and its peers in turn, several rounds; medians, ratios, a table, a picture.

Writes OUT/SUITE.json (a list of records, see README.md), OUT/SUITE.machine.json and OUT/SUITE.png.
"""

import argparse
import json
import os
import pathlib
import platform
import select
import subprocess
import sys
from collections.abc import Sequence

import core_suite
from records import Figure, Record, Run, Sample, record_of, table_of

SUITES = {"core": core_suite.FIGURES}
PORT_DEADLINE_S = 20.0
CLIENT_DEADLINE_S = 60.0
RUNS, SECONDS, WARMUP_S = 9, 0.8, 0.2
QUICK_RUNS, QUICK_SECONDS, QUICK_WARMUP_S = 1, 0.2, 0.05


class BenchError(Exception):
    """Something that a person has to look at; its text says what."""


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", choices=sorted(SUITES), default="core")
    parser.add_argument("--build-dir", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("bench/out"))
    parser.add_argument("--runs", type=int, help=f"rounds; {RUNS} by default")
    parser.add_argument("--seconds", type=float, help=f"measured time of one run; {SECONDS} by default")
    parser.add_argument("--case", action="append", metavar="NAME", help="only this case; may be repeated")
    parser.add_argument(
        "--quick", action="store_true", help="one short round: do the programs run, are the figures sane?"
    )
    options = parser.parse_args(arguments)
    options.runs = options.runs or (QUICK_RUNS if options.quick else RUNS)
    options.seconds = options.seconds or (QUICK_SECONDS if options.quick else SECONDS)
    options.warmup = QUICK_WARMUP_S if options.quick else WARMUP_S
    return options


def program_path(build_dir: pathlib.Path, program: str) -> pathlib.Path:
    return build_dir / "bin" / f"bench_{program}"


def choose_figures(options: argparse.Namespace) -> list[Figure]:
    """The suite's figures, less the cases that were not asked for and the peers that were not built."""
    figures = SUITES[options.suite]
    if options.case:
        known = {figure.case for figure in figures}
        if unknown := set(options.case) - known:
            raise BenchError(f"no case {', '.join(sorted(unknown))}; there are: {', '.join(sorted(known))}")
        figures = [figure for figure in figures if figure.case in options.case]
    programs = {run.program for figure in figures for run in (figure.ours, figure.peer)}
    missing = {program for program in programs if not program_path(options.build_dir, program).exists()}
    if missing - {"grpc"}:
        raise BenchError(f"{program_path(options.build_dir, 'fusewire')} is not built; make bench builds it")
    if missing:
        print("bench_grpc is not built (libgrpc++-dev was not found): no figures beside gRPC", file=sys.stderr)
        figures = [figure for figure in figures if figure.peer.program not in missing]
    return figures


def read_port(server: subprocess.Popen[str]) -> str:
    ready, _, _ = select.select([server.stdout], [], [], PORT_DEADLINE_S)
    line = server.stdout.readline().strip() if ready and server.stdout is not None else ""
    if not line.isdigit():
        raise BenchError(f"{server.args}: no port within {PORT_DEADLINE_S:.0f} s")
    return line


def run_once(run: Run, options: argparse.Namespace) -> Sample:
    """Starts the server and the client of one program for one case, both afresh; returns what the client printed."""
    path = str(program_path(options.build_dir, run.program))
    with subprocess.Popen([path, "server", "--case", run.case], stdout=subprocess.PIPE, text=True) as server:
        try:
            client = [path, "client", "--case", run.case, "--port", read_port(server), "--server-pid", str(server.pid)]
            client += ["--seconds", str(options.seconds), "--warmup", str(options.warmup)]
            done = subprocess.run(client, capture_output=True, text=True, timeout=CLIENT_DEADLINE_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise BenchError(f"{' '.join(client)}: no result within {CLIENT_DEADLINE_S:.0f} s") from error
        finally:
            server.kill()
    if done.returncode != 0:
        raise BenchError(f"{' '.join(client)}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def run_rounds(runs: Sequence[Run], options: argparse.Namespace) -> dict[Run, list[Sample]]:
    samples: dict[Run, list[Sample]] = {run: [] for run in runs}
    for number in range(options.runs):
        print(f"round {number + 1} of {options.runs}", file=sys.stderr)
        for run in runs:
            samples[run].append(run_once(run, options))
    return samples


def machine_facts(options: argparse.Namespace) -> dict[str, object]:
    cpu = "unknown"
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            cpu = line.partition(":")[2].strip()
            break
    memory_kib = int(pathlib.Path("/proc/meminfo").read_text(encoding="utf-8").split()[1])
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_gib": round(memory_kib / 2**20, 1),
        "kernel": platform.release(),
        "network": "loopback, 127.0.0.1, TCP",
        "pinning": "none",
        "load_average_before": os.getloadavg()[0],
        "runs": options.runs,
        "seconds": options.seconds,
        "warmup_s": options.warmup,
    }


def warn_of_load(facts: dict[str, object]) -> None:
    """Waiting and busy polling measure the scheduler's other guests, once there are some."""
    load, cores = float(str(facts["load_average_before"])), os.cpu_count() or 1
    if load > cores / 4:
        print(f"the machine is not idle: load {load:.1f} on {cores} cores; the figures will show it", file=sys.stderr)


def write_json(path: pathlib.Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def write_picture(path: pathlib.Path, figures: Sequence[Figure], records: Sequence[Record]) -> None:
    try:
        from picture import draw
    except ImportError as error:
        print(f"no picture: {error}", file=sys.stderr)
        return
    draw(path, figures, records)


def main(arguments: Sequence[str]) -> int:
    options = parse_arguments(arguments)
    try:
        figures = choose_figures(options)
        options.out.mkdir(parents=True, exist_ok=True)
        facts = machine_facts(options)
        if not options.quick:
            warn_of_load(facts)
        runs = list(dict.fromkeys(run for figure in figures for run in (figure.ours, figure.peer)))
        samples = run_rounds(runs, options)
        records = [record_of(figure, samples) for figure in figures]
    except (BenchError, ValueError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    write_json(options.out / f"{options.suite}.json", records)
    write_json(options.out / f"{options.suite}.machine.json", facts)
    write_picture(options.out / f"{options.suite}.png", figures, records)
    print(table_of(figures, records))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
