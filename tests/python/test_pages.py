# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The pages in docs/ that show programs: each program is saved under its title, each command is run, top to bottom."""

import pathlib
import re
import shlex
import sys

import pytest
import warm
from conftest import ROOT, Done, clean_environment, run_to_end

BLOCK = re.compile(r"^```(python title=\"(?P<title>[\w.]+)\"|console)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
DOCS = ROOT / "docs"
LIMIT_S = 75.0


def blocks(page: pathlib.Path) -> list[tuple[str | None, str]]:
    """(title of a program, or None for commands; text) of each block."""
    return [(block["title"], block["text"]) for block in BLOCK.finditer(page.read_text())]


def run(line: str, folder: pathlib.Path) -> str:
    program, *arguments = shlex.split(line)
    if program == "fusewire":
        ended = warm.run_command(arguments, folder, clean_environment(), LIMIT_S)
        return Done(ended.returncode, ended.stdout, ended.stderr).ok()
    assert program == "python", f"{line}: a page may run fusewire and python"
    return run_to_end([sys.executable, *arguments], folder).ok()


def follow(page: pathlib.Path, folder: pathlib.Path) -> list[str]:
    """Does what the page says; the output of each command."""
    said = []
    for title, text in blocks(page):
        if title:
            (folder / title).write_text(text)
            continue
        for line in text.splitlines():
            assert line.startswith("$ "), f"{page.name}: {line}: only commands are expected in a console block"
            said.append(run(line.removeprefix("$ "), folder))
    return said


def losses(said: str) -> list[float]:
    return [float(loss) for loss in re.findall(r"^worker:0 \| step \d+: loss (\S+), \d+ steps/s$", said, re.MULTILINE)]


def test_the_quick_start_trains_over_both_protocols(tmp_path):
    doctor, over_grpc, over_star, server = follow(DOCS / "index.md", tmp_path)
    assert "python" in doctor
    for said in (over_grpc, over_star):
        first, *_, last = losses(said)
        assert last < first < 1.0
    assert server == "grpc++ True\n"


@pytest.mark.once
def test_the_page_about_migrating(tmp_path):
    [said] = follow(DOCS / "migrating.md", tmp_path)
    assert "[1.5 1.5 1.5 1.5] [0 1 2 3]" in said


@pytest.mark.once
def test_the_guide_of_collectives(tmp_path):
    [said] = follow(DOCS / "collectives.md", tmp_path)
    assert "[1.5 1.5 1.5 1.5] [6. 6. 6. 6.] [0 1 2 3] [24. 24. 24. 24.]" in said


@pytest.mark.once
def test_the_page_of_mpi4pys_words(tmp_path):
    [said] = follow(DOCS / "mpi.md", tmp_path)
    assert said.count("[1. 1. 1. 1.] [0, 1]") == 2


def test_every_page_with_commands_is_followed_here():
    followed = set(re.findall(r'DOCS / "([\w./]+)"', pathlib.Path(__file__).read_text()))
    assert {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if blocks(page)} == followed
