# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The cluster's secret: files that somebody else can read or write, and words that can be guessed."""

import os
import pathlib
import subprocess
import sys

import pytest
from conftest import FUSEWIRE, clean_environment, run_python, run_to_end
from processes import free_addresses

from fusewire import collective, p2p
from fusewire import secret as the_secret
from fusewire.launch import plan
from fusewire.secret import secret_of_environment

__all__ = ["run_python"]
pytestmark = pytest.mark.once
SECRET = "open sesame, open"
SHOWS = 'echo "${FUSEWIRE_SECRET-unset} ${FUSEWIRE_SECRET_FILE-unset}"'


@pytest.fixture
def file(tmp_path):
    """file(text, mode) -> its path."""

    def write(text: str | bytes = SECRET + "\n", mode: int = 0o400) -> pathlib.Path:
        path = tmp_path / "secret"
        path.unlink(missing_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        path.chmod(mode)
        return path

    return write


def read(path: pathlib.Path, **more: str) -> str | None:
    return secret_of_environment({"FUSEWIRE_SECRET_FILE": str(path), **more})


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o500])
def test_a_file_of_this_user_alone_is_read(file, mode):
    assert read(file(mode=mode)) == SECRET
    assert read(file(SECRET, mode)) == SECRET


def test_a_mounted_secret_is_read(file, tmp_path):
    """As Kubernetes mounts it: FILE -> ..data/FILE, ..data -> ..TIME"""
    (tmp_path / "..data").symlink_to(".")
    file().rename(tmp_path / "word")
    (tmp_path / "link").symlink_to("..data/word")
    assert read(tmp_path / "link") == SECRET


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        (0o644, "others can read it. Fix: chmod 400"),
        (0o404, "others can read it. Fix: chmod 400"),
        (0o620, "others can write it. Fix: chmod 400"),
        (0o602, "others can write it. Fix: chmod 400"),
        (0o666, "others can write it. Fix: chmod 400"),
    ],
)
def test_a_file_that_others_can_reach_is_refused(file, mode, why):
    with pytest.raises(ValueError, match=r"FUSEWIRE_SECRET_FILE, .*/secret: ") as told:
        read(file(mode=mode))
    assert why in str(told.value)
    assert "fusewire explain trust#the-secret" in str(told.value)
    assert "sesame" not in str(told.value)


def stat_of(mode: int, owner: int) -> os.stat_result:
    return os.stat_result((0o100000 | mode, 0, 0, 1, owner, 0, 0, 0, 0, 0))


def test_only_roots_file_may_be_for_a_group():
    """So does Kubernetes with fsGroup; a user's group is anybody on many clusters."""
    me = os.geteuid()
    assert the_secret._why_not(stat_of(0o440, 0)) == ""
    assert "belongs to another user" in the_secret._why_not(stat_of(0o400, me + 1))
    if me == 0:
        pytest.skip("this user is root")
    assert "its group can read it" in the_secret._why_not(stat_of(0o440, me))


@pytest.mark.parametrize("text", ["", "\n", f"{SECRET}\n{SECRET}\n", f"{SECRET}\r\n", b"open\0sesame, open", "é" * 16])
def test_a_malformed_line_is_refused(file, text):
    with pytest.raises(ValueError, match=r"is not one line of ASCII text. Fix: openssl rand -hex 32"):
        read(file(text))


def test_what_cannot_hold_a_secret_is_refused(file, tmp_path):
    with pytest.raises(ValueError, match="No such file"):
        read(tmp_path / "none")
    with pytest.raises(ValueError, match="it is not a file"):
        read(tmp_path)
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(ValueError, match="it is not a file"):  # at once: nobody writes
        read(tmp_path / "pipe")
    with pytest.raises(ValueError, match="more than 4096 bytes"):
        read(file("x" * 5000))


def test_both_are_an_error(file):
    with pytest.raises(ValueError, match=r"are both set. Fix: unset one of them"):
        read(file(), FUSEWIRE_SECRET=SECRET)
    assert read(file(), FUSEWIRE_SECRET="") == SECRET
    assert secret_of_environment({"FUSEWIRE_SECRET": SECRET, "FUSEWIRE_SECRET_FILE": ""}) == SECRET
    assert secret_of_environment({}) is None


def test_a_short_secret_is_refused_everywhere(file, monkeypatch):
    how = "openssl rand -hex 32"
    with pytest.raises(ValueError, match=how):
        read(file("fifteen letters"))
    with pytest.raises(ValueError, match=how):
        secret_of_environment({"FUSEWIRE_SECRET": "fifteen letters"})
    with pytest.raises(ValueError, match=how):
        plan.variables(["FUSEWIRE_SECRET=fifteen letters"], {})
    with pytest.raises(p2p.Error, match=f"a secret of 15 bytes, must have at least 16.*{how}"):
        p2p.Endpoint("a", secret="fifteen letters")
    with pytest.raises(p2p.Error, match=how):
        collective.init(secret="fifteen letters")
    monkeypatch.setenv("FUSEWIRE_SECRET", "fifteen letters")
    with pytest.raises(ValueError, match=how):
        collective.init()
    assert not collective.is_initialized()
    with p2p.Endpoint("a", secret="sixteen letters."):
        pass


def run(tmp_path: pathlib.Path, *words: str, **variables: str):
    command = [FUSEWIRE, "run", *words, "--", "sh", "-c", SHOWS]
    return run_to_end(command, tmp_path, clean_environment(**variables), 60)


def test_tasks_of_this_machine_read_the_file_themselves(file, tmp_path):
    done = run(tmp_path, "--ps", "0", FUSEWIRE_SECRET_FILE=str(file()))
    assert done.ok() == f"worker:0 | unset {tmp_path / 'secret'}\n"


def test_a_job_does_not_begin_with_a_file_that_is_refused(file, tmp_path):
    done = run(tmp_path, "--ps", "0", FUSEWIRE_SECRET_FILE=str(file(mode=0o644)))
    assert done.status == 2
    assert "others can read it. Fix: chmod 400" in done.error
    assert done.out == ""


def test_tasks_elsewhere_get_what_the_file_says(file):
    here = {"FUSEWIRE_SECRET_FILE": str(file())}
    found = plan.variables([], here, elsewhere=True)
    assert secret_of_environment({**here, **found}) == SECRET == found["FUSEWIRE_SECRET"]
    theirs = plan.variables(["FUSEWIRE_SECRET_FILE=/there"], {"FUSEWIRE_SECRET": SECRET}, elsewhere=True)
    assert (theirs["FUSEWIRE_SECRET"], theirs["FUSEWIRE_SECRET_FILE"]) == ("", "/there")
    assert plan.variables([], here).get("FUSEWIRE_SECRET") is None


SERVES = """
import fusewire
import tensorflow as tf
try:
    tf.distribute.Server({"worker": ["ADDRESS"]}, job_name="worker", task_index=0, protocol="grpc++")
    print("serves", flush=True)
except tf.errors.OpError as error:
    print(error.message, flush=True)
import os
os._exit(0)
"""


def test_a_server_reads_the_file_and_refuses_another(file, run_python):
    program = SERVES.replace("ADDRESS", free_addresses(1)[0])
    for text, mode, words in (
        (SECRET, 0o400, "serves"),
        (SECRET, 0o644, "others can read it; next: chmod 400"),
        ("short", 0o400, "a secret of 5 bytes, must have at least 16"),
    ):
        done = run_python(program, FUSEWIRE_SECRET_FILE=str(file(text, mode)))
        assert words in done.ok()


def test_ranks_meet_by_a_file(file, tmp_path):
    program = tmp_path / "sum.py"
    program.write_text(
        "import numpy as np\nimport fusewire.collective as fw\nfw.init()\n"
        "print(fw.allreduce(np.ones(1), op=fw.Sum)[0], fw.shutdown(), flush=True)\n"
    )
    environment = clean_environment(FUSEWIRE_SECRET_FILE=str(file()))
    done = run_to_end([FUSEWIRE, "run", "--ranks", "2", program], tmp_path, environment, 60)
    assert done.ok().count("2.0") == 2
    addresses = {"FUSEWIRE_RANK": "0", "FUSEWIRE_RANK_ADDRESSES": "127.0.0.1:0"}
    file(mode=0o644)
    words = [sys.executable, str(program)]
    alone = subprocess.run(words, env={**environment, **addresses}, capture_output=True, text=True, check=False)
    assert alone.returncode != 0
    assert "others can read it" in alone.stderr
