# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Shared by the Python tests: runs programs in separate processes, which are always ended."""

import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping

import pytest
from cluster import run_cluster, serving, tasks
from processes import ci_turn, clean_environment, process

__all__ = ["run_cluster", "serving", "tasks"]  # fixtures, for the tests beside

FUSEWIRE = pathlib.Path(sys.executable).with_name("fusewire")
ROOT = pathlib.Path(__file__).resolve().parents[2]
DEADLINE_S = 90.0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--every-turn", action="store_true", help="run all parameter sets of tests marked in_turn")
    parser.addoption("--quarter", type=int, choices=range(4), help="run every fourth test file")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--every-turn"):
        take_turns(config, items)
    quarter = config.getoption("--quarter")
    if quarter is not None:
        files = sorted({item.path for item in items})
        leave_out(config, items, [item for item in items if files.index(item.path) % 4 != quarter])


def leave_out(config: pytest.Config, items: list[pytest.Item], left_out: list[pytest.Item]) -> None:
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        ids = {id(item) for item in left_out}
        items[:] = [item for item in items if id(item) not in ids]


def take_turns(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a test marked in_turn(N), leaves out all but N of its parameter sets: others in each of CI's turns."""
    sets: dict[tuple[str, str], list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("in_turn"):
            sets.setdefault((str(item.path), getattr(item, "originalname", item.name)), []).append(item)
    left_out = []
    for every in sets.values():
        [number] = every[0].get_closest_marker("in_turn").args
        begin = ci_turn() * number % len(every)
        left_out += (every[begin:] + every[:begin])[number:]
    leave_out(config, items, left_out)


@dataclasses.dataclass(frozen=True)
class Done:
    status: int
    out: str
    error: str

    def ok(self) -> str:
        assert self.status == 0, f"exit code {self.status}\n--- stdout\n{self.out}\n--- stderr\n{self.error}"
        return self.out


def run_to_end(
    command: list[object],
    cwd: pathlib.Path,
    environment: Mapping[str, str] | None = None,
    deadline_s: float = DEADLINE_S,
) -> Done:
    with process(command, cwd, environment) as started:
        try:
            out, error = started.communicate(timeout=deadline_s)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)
            out, error = started.communicate()
            pytest.fail(f"{command} did not end within {deadline_s} s\n--- stdout\n{out}\n--- stderr\n{error}")
    return Done(started.returncode, out, error)


@pytest.fixture
def run_python(tmp_path: pathlib.Path) -> Callable[..., Done]:
    """run_python(code, NAME=value...): runs the code in a new interpreter, in an empty folder."""

    def run(code: str, **environment: str) -> Done:
        program = tmp_path / "program.py"
        program.write_text(textwrap.dedent(code), encoding="utf-8")
        return run_to_end([sys.executable, program], tmp_path, clean_environment(**environment))

    return run


@pytest.fixture
def fusewire_command(tmp_path: pathlib.Path) -> Callable[..., Done]:
    """fusewire_command("run", ..., NAME=value...): runs the command in an empty folder."""

    def run(*words: object, **environment: str) -> Done:
        return run_to_end([FUSEWIRE, *words], tmp_path, clean_environment(**environment))

    return run
