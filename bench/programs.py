# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The programs of the suite `core`: a server and a client process for each run, built by CMake."""

import argparse
import json
import pathlib
import select
import subprocess
import sys
from collections.abc import Sequence

from machine import leave_out
from records import BenchError, Figure, Run, Sample

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "python"))

from certificates import Certificates, NoOpenSslError

PORT_DEADLINE_S = 20.0
CLIENT_DEADLINE_S = 60.0


def program_path(build_dir: pathlib.Path, program: str) -> pathlib.Path:
    return build_dir / "bin" / f"bench_{program}"


def built_figures(figures: Sequence[Figure], options: argparse.Namespace) -> list[Figure]:
    """Leaves out peers that were not built."""
    programs = {run.program for figure in figures for run in (figure.ours, figure.peer)}
    missing = {program for program in programs if not program_path(options.build_dir, program).exists()}
    if missing - {"grpc"}:
        raise BenchError(f"{program_path(options.build_dir, 'fusewire')} is not built; make bench builds it")
    if missing:
        leave_out("bench_grpc is not built (libgrpc++-dev was not found): gRPC is left out")
    return [figure for figure in figures if figure.peer.program not in missing]


def read_port(server: subprocess.Popen[str]) -> str:
    ready, _, _ = select.select([server.stdout], [], [], PORT_DEADLINE_S)
    line = server.stdout.readline().strip() if ready and server.stdout is not None else ""
    if not line.isdigit():
        raise BenchError(f"{server.args}: no port within {PORT_DEADLINE_S:.0f} s")
    return line


def protected(protection: str, build_dir: pathlib.Path) -> list[str]:
    """The options of a program for a case that is named CASE+tls or CASE+checksums."""
    if protection == "checksums":
        return ["--checksums", "1"]
    if protection != "tls":
        return []
    folder = build_dir / "certificates"
    if not (folder / "task.crt").exists():
        try:
            Certificates(folder, days=3650).issue("task")
        except (NoOpenSslError, subprocess.CalledProcessError) as error:
            raise BenchError(str(error)) from error
    return ["--tls", str(folder)]


def run_once(run: Run, options: argparse.Namespace) -> Sample:
    """Starts a new server and a new client of one program for one case; returns the client's output."""
    path = str(program_path(options.build_dir, run.program))
    case, _, protection = run.case.partition("+")
    more = ["--case", case, *protected(protection, options.build_dir)]
    with subprocess.Popen([path, "server", *more], stdout=subprocess.PIPE, text=True) as server:
        try:
            client = [path, "client", *more, "--port", read_port(server), "--server-pid", str(server.pid)]
            client += ["--seconds", str(options.seconds), "--warmup", str(options.warmup)]
            done = subprocess.run(client, capture_output=True, text=True, timeout=CLIENT_DEADLINE_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise BenchError(f"{' '.join(client)}: no result within {CLIENT_DEADLINE_S:.0f} s") from error
        finally:
            server.kill()
    if done.returncode != 0:
        raise BenchError(f"{' '.join(client)}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)
