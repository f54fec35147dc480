# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The live lines of `fusewire run` on a terminal, as a terminal shows them."""

import dataclasses
import fcntl
import io
import os
import pty
import re
import select
import struct
import subprocess
import termios

import pytest
from conftest import DEADLINE_S, FUSEWIRE, clean_environment, process
from terminal import Terminal
from test_inside import slurm

from fusewire.launch.live import duration, table
from fusewire.launch.rates import Progress

pytestmark = pytest.mark.once


def run_on_terminal(folder, *words, until="", then=None, columns=100, rows=20, command=(FUSEWIRE, "run"), **variables):
    """(exit code, the screen at the moment when `until` was on it, the last screen)"""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    terminal, seen = Terminal(), ""
    environment = clean_environment(TERM="xterm", **variables)
    with subprocess.Popen([*command, *words], cwd=folder, env=environment, stdout=slave, stderr=slave) as launcher:
        os.close(slave)
        while select.select([master], [], [], DEADLINE_S)[0]:
            try:
                terminal.feed(os.read(master, 65536).decode())
            except OSError:  # all is read
                break
            if not seen and until and re.search(until, terminal.text()):
                seen = terminal.text()
                then()
        assert launcher.wait(DEADLINE_S) is not None
    os.close(master)
    return launcher.returncode, seen, terminal.text()


SCRIPT = (
    'case "$TF_CONFIG" in *\'"type": "ps"\'*) exec sleep 1000 ;; esac; echo first words; '
    'test -e again || { touch again; exit 3; }; printf "\\033[1mlast words\\033[0m\\n"; '
    "until test -e go; do sleep 0.05; done"
)


def test_lines_below_the_output(tmp_path):
    until = r"\nps:0 .*\nworker:0  runs .* restarts 1  last words"
    words = ["--ps", "1", "--workers", "1", "--restarts", "1", "--", "sh", "-c", SCRIPT]
    code, seen, last = run_on_terminal(tmp_path, *words, until=until, then=(tmp_path / "go").touch)
    assert code == 0, last
    *above, of_ps, of_worker = seen.splitlines()
    assert re.fullmatch(r"ps:0      (runs|serves)  +\d:\d\d", of_ps)
    assert re.fullmatch(r"worker:0  runs  +\d:\d\d  restarts 1  last words", of_worker)
    assert above.count("worker:0 | first words") == 2
    # Nothing of them is left at the end, and nothing of the output has gone with them.
    assert "worker:0  runs" not in last
    assert last.count("worker:0 | first words") == 2
    assert "fusewire run: done in" in last.splitlines()[-1] or "fusewire run: done in" in last.splitlines()[-2]


def test_without_lines(tmp_path):
    words = ["--ps", "0", "--live", "off", "--", "sh", "-c", "echo words; sleep 0.5"]
    code, _, last = run_on_terminal(tmp_path, *words)
    assert (code, "worker:0  runs" in last) == (0, False)
    done = subprocess.run(
        [FUSEWIRE, "run", *words[:2], *words[4:]], capture_output=True, timeout=DEADLINE_S, check=True
    )
    assert b"\033" not in done.stderr


TELLS = """
import json, os, pathlib, time
import fusewire
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
step = 0
while not pathlib.Path("go").exists():
    step += 1
    fusewire.progress((index + 1) * 1000 + step % 1000)
    time.sleep(0.01)
"""
BOTH = r"\nworker:0  runs .*step 1,\d+ .*\nworker:1  runs .*step 2,\d+ "


def test_rank_0_shows_what_the_others_tell_it(tmp_path):
    """Inside of another launcher, each process prints by itself: the lines are asked for."""
    (tmp_path / "train.py").write_text(TELLS)
    words = ["--inside", "auto", "--live", "on", "--ps", "0", "train.py"]
    first, second = slurm(0, 2), slurm(1, 2)
    with process([FUSEWIRE, "run", *words], tmp_path, clean_environment(**second)) as follower:
        go = tmp_path / "go"
        code, seen, last = run_on_terminal(tmp_path, *words, until=BOTH, then=go.touch, columns=120, **first)
        assert (code, follower.wait(DEADLINE_S)) == (0, 0), last
    assert re.search(BOTH, seen)


@dataclasses.dataclass
class Task:
    name: str = "worker:0"
    serves: bool = False
    status: int | None = None
    starts: int = 1
    started: float = 100.0
    ended: float = 0.0
    start_at: float = 0.0
    asked_to_end: bool = False
    last_words: str = "hello"
    progress: Progress | None = None


def drawn(tasks, columns=80, rows=20):
    return table(tasks, 165.0, columns, rows, io.BytesIO())


def test_states():
    tasks = [
        Task(starts=0, last_words=""),
        Task("ps:0", serves=True),
        Task(status=0, ended=161.0),
        Task(status=-15, ended=161.0, asked_to_end=True),
        Task(status=7, ended=161.0),
        Task(status=-9, ended=161.0),
        Task(status=7, ended=161.0, start_at=168.0, starts=3),
    ]
    assert drawn(tasks) == [
        "worker:0  not started",
        "ps:0      serves        1:05              hello",
        "worker:0  done          1:01              hello",
        "worker:0  done          1:01              hello",
        "worker:0  exit code 7   1:01              hello",
        "worker:0  signal 9      1:01              hello",
        "worker:0  again in 3 s  1:01  restarts 2  hello",
    ]


def test_what_a_task_tells_of_itself():
    tasks = [
        Task("ps:0", serves=True, last_words="", progress=Progress(None, None, 31.25e6)),
        Task(progress=Progress(12345, 67.89, 1.5e6)),
        Task("worker:1", progress=Progress(7, state="stopped", is_told=True)),
        Task("worker:2", status=0, ended=161.0, progress=Progress(999, 67.89, 1.5e6)),
    ]
    assert drawn(tasks) == [
        "ps:0      serves        1:05                        31.2 MB/s",
        "worker:0  runs          1:05  12,345 steps  67.9/s   1.5 MB/s  hello",
        "worker:1  stopped       1:05        step 7                     hello",
        "worker:2  done          1:01     999 steps                     hello",
    ]


def test_a_line_fits_and_shows_no_controls():
    words = "\033[31mred\033[0m \a\t" + "x" * 500
    for columns in (20, 21, 40, 80, 200):
        [line] = drawn([Task(last_words=words)], columns)
        assert len(line) < columns
        assert line.isprintable()
    assert drawn([Task(last_words=words)], 10) == []


def test_more_tasks_than_rows():
    tasks = [Task(f"worker:{number}", status=0, ended=161.0) for number in range(50)]
    tasks[40] = Task("worker:40", status=7, ended=161.0)
    tasks[45] = Task("worker:45")
    lines = drawn(tasks, rows=5)
    assert [line.split()[0] for line in lines] == ["worker:0", "worker:1", "worker:40", "worker:45", "..."]
    assert lines[-1] == "... and 46 more tasks"


def test_durations():
    assert [duration(seconds) for seconds in (0.4, 59, 61, 3599, 3600, 90061)] == [
        "0:00",
        "0:59",
        "1:01",
        "59:59",
        "1:00:00",
        "25:01:01",
    ]
