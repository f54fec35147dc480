# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""`fusewire completion`: what shells make of its scripts."""

import pathlib
import re
import shlex
import shutil
import subprocess

import pytest

COMPLETE = """
COMP_WORDS=(%s)
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_fusewire
echo "${COMPREPLY[*]}"
"""


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["t"], "top trace tune"),
        (["run", "--wo"], "--workers"),
        (["run", "--protocol", "star"], "star_server star_server_lite"),
        (["run", "--ps", "1", "--live", "o"], "on off"),
        (["run", "--ps", "1", "tr"], "train.py"),
        (["run", "--hostfile", "tr"], "train.py"),
        (["run", "--ps", "1", "train.py", "--wo"], ""),  # an option of the program
        (["completion", ""], "bash zsh fish"),
        (["top", "--js"], "--json"),
    ],
)
def test_bash(fusewire_command, tmp_path: pathlib.Path, words, found):
    (tmp_path / "train.py").touch()
    script = fusewire_command("completion", "bash").ok() + COMPLETE % shlex.join(["fusewire", *words])
    done = subprocess.run(["bash", "-eu", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == (found, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_option_is_there(fusewire_command, shell):
    script = fusewire_command("completion", shell).ok()
    told = fusewire_command("run", "--help").out.partition("examples:")[0]
    for name in set(re.findall(r"^  (?:-\w, )?--([\w-]+)", told, re.MULTILINE)):
        assert re.search(rf"-l {name}\b" if shell == "fish" else rf"--{name}\b", script), name
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True, timeout=20)


def test_bash_script_is_clean(fusewire_command):
    if shutil.which("shellcheck") is None:
        pytest.skip("Debian's shellcheck is not installed")
    script = fusewire_command("completion", "bash").ok()
    checked = subprocess.run(
        ["shellcheck", "--shell=bash", "-"], input=script, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout
