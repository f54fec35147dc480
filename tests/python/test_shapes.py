# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Defaults on machines and in containers of every shape: right values, no hang, and one log line per fallback.

tests/shapes makes the shapes; docs/reliability.md has the table of what is tested with which.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest
from conftest import FUSEWIRE, ROOT, Done, clean_environment, run_to_end

import fusewire
from fusewire import machine

pytestmark = pytest.mark.once
SHAPES = ROOT / "tests" / "shapes"
# All at once: a container of little on a large host.
LITTLE = [
    *("--processors", "192", "--quota", "1.5", "--memory", str(1 << 30), "--shm", "64m", "--read-only", "--nobody"),
    *("--no-ipv6", "--loopback-name", "--refuse", "process_vm_readv"),
]
PROTOCOLS = {"grpc++", "star_server", "star_server_lite"}
TWICE = "copied twice instead of once"
# In a shell, as the folder of what it imports is the shim's.
RANK = [
    "sh",
    "-c",
    'PYTHONPATH=$SHAPE_FOLDER exec "$@"',
    "sh",
    pathlib.Path(sys.base_prefix, "bin/python3"),
    SHAPES / "rank.py",
]


def why_not() -> str:
    """Why shapes can't be created here; "" if they can."""
    if os.geteuid() != 0:
        return "only root may create namespaces"
    done = subprocess.run(
        [sys.executable, SHAPES / "enter.py", "--no-ipv6", "--", "true"], capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else f"no namespaces here: {done.stderr.strip()[-300:]}"


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    if reason := why_not():
        pytest.skip(reason)
    # Not below pytest's folder, which is its user's only.
    folder = pathlib.Path(tempfile.mkdtemp(prefix="shapes-"))
    folder.chmod(0o755)
    library = folder / "processors_shim.so"
    words = ["cc", "-O1", "-shared", "-fPIC", "-o", library, SHAPES / "processors_shim.c", "-ldl"]
    subprocess.run(words, check=True)
    # The import of ranks: with TensorFlow installed, fusewire would load that first.
    for name in ("fusewire", "numpy", "numpy.libs"):
        (folder / name).symlink_to(pathlib.Path(fusewire.__file__).parents[1] / name)
    yield library
    shutil.rmtree(folder)


@pytest.fixture
def run_in(shim):
    """run_in(shape, command, NAME=value...) -> Done"""

    def run(shape: list[str], command: list[object], **environment: str) -> Done:
        if any(word.startswith("--ipv6") for word in shape) and not pathlib.Path("/proc/net/if_inet6").exists():
            pytest.skip("this machine has no IPv6")
        environment = {"PYTHONDONTWRITEBYTECODE": "1", "SHAPE_FOLDER": str(shim.parent), **environment}
        words = [sys.executable, SHAPES / "enter.py", "--shim", shim, *shape, "--", *command]
        return run_to_end(words, pathlib.Path("/"), clean_environment(**environment))

    return run


def trained(done: Done) -> dict:
    told = json.loads(done.ok().splitlines()[-1])
    assert told["right"] == dict.fromkeys(PROTOCOLS, True)
    assert all(calls > 0 for calls in told["calls"].values()), "the steps did not go over the data ports"
    return told


def ranks(run_in, shape: list[str], *words: str, count: int = 3) -> tuple[bool, str]:
    """Whether they met in an arena, and the log."""
    done = run_in(shape, [FUSEWIRE, "run", "--ranks", str(count), "--timeout", "60", *RANK, *words])
    said = [json.loads(line.split("RANK ", 1)[1]) for line in done.ok().splitlines() if "RANK " in line]
    assert len(said) == count
    assert all(each["right"] for each in said)
    return said[0]["arena"], done.error


def checks_of(done: Done) -> dict[str, dict]:
    report = json.loads(done.ok())
    order = ["ok", "note", "warn", "FAIL"]
    return {check["name"]: check for check in sorted(report["checks"], key=lambda one: order.index(one["status"]))}


def test_servers_in_a_container_of_little(run_in):
    """Also the number of reactors of a server there, and on machines of other sizes without a quota."""
    done = run_in(LITTLE, [sys.executable, SHAPES / "trainee.py", "shapehost", "1", "192"])
    told = trained(done)
    assert told["reactors"] == {"default": 1, "1": 1, "192": 1}  # the quota holds, however many there are
    assert done.error.count(TWICE) == 1
    assert "process_vm_readv: Operation not permitted" in done.error


def test_servers_on_ipv6_only_of_every_size(run_in):
    done = run_in(
        ["--ipv6-only", "--processors", "64", "--no-sys-cpu", "--shm", "none"],
        [sys.executable, SHAPES / "trainee.py", "localhost", "1", "2", "4", "6", "16", "64", "192", "4096"],
    )
    told = trained(done)
    sizes = {"1": 1, "2": 1, "4": 2, "6": 3, "16": 4, "64": 4, "192": 4, "4096": 4}
    assert told["reactors"] == {"default": 4, **sizes}
    assert TWICE not in done.error


def test_doctor_in_a_container_of_little(run_in):
    checks = checks_of(run_in(LITTLE, [FUSEWIRE, "doctor", "--json"]))
    assert checks["cores"]["value"] == "192 of 192 usable, quota 1.5; a server has 1 reactor by default"
    assert "of which the container may use 1.0 GiB; a process holds at most 0.2 GiB" in checks["memory"]["value"]
    assert "shm: a large tensor is copied twice" in checks["wires"]["value"]
    assert checks["self-test"]["status"] == "ok"
    assert checks["localhost"]["value"] == "127.0.0.1"
    assert checks["temporary folder"]["status"] == "ok"
    assert checks["host name"]["status"] == "note"
    assert "shapehost is 127.0.1.1 on this machine" in checks["host name"]["value"]


def test_doctor_on_ipv6_only(run_in):
    checks = checks_of(run_in(["--ipv6-only", "--groups", "1", "--quota", "0.5"], [FUSEWIRE, "doctor", "--json"]))
    assert checks["self-test"]["status"] == "ok", checks["self-test"]
    assert (checks["localhost"]["status"], checks["localhost"]["value"]) == ("ok", "::1")
    assert "quota 0.5; a server has 1 reactor by default" in checks["cores"]["value"]


def test_doctor_where_nothing_can_be_written(run_in):
    """TensorFlow can't be imported there; the fix must not be to reinstall it."""
    code = (
        "from fusewire.doctor import doctor as d; print(d.check_temporary(), d.check_tensorflow(d.Report({}, 'ended')))"
    )
    said = run_in(["--read-only"], [sys.executable, "-c", code], TMPDIR="/nowhere").ok()
    assert "name='temporary folder', status='FAIL', value=" in said
    assert "No usable temporary directory" in said
    assert "docker run --tmpfs /tmp" in said
    assert "fix='fix the temporary folder first, see below'" in said


@pytest.mark.parametrize(
    ("shape", "host", "in_arena", "told"),
    [
        (LITTLE, "shapehost", True, TWICE),
        (["--ipv6-only", "--shm", "none", "--processors", "1"], "", True, ""),
        # Its resolver hides 127.0.0.1 from those who ask for addresses that they could use.
        (["--ipv6-address", "--loopback-name", "--processors", "16"], "shapehost", True, ""),
        (["--ipv6-address"], "localhost", True, ""),
        (["--refuse", "pidfd_open"], "", False, "its ranks share no arena"),
        (["--refuse", "memfd_create=ENOSYS"], "", False, "until then tasks of one machine speak over TCP"),
    ],
    ids=["little", "ipv6-only", "ipv6-address", "localhost", "no-pidfd", "no-memfd"],
)
def test_ranks(run_in, shape, host, in_arena, told):
    arena, log = ranks(run_in, shape, *filter(None, [host]))
    assert arena is in_arena
    if told:
        assert told in log


@pytest.mark.parametrize(
    ("apart", "in_arena", "told"),
    [
        (
            "setpriv --reuid 65534 --regid 65534 --clear-groups",
            False,
            "run both tasks as one user; until then they use TCP",
        ),
        ("unshare --pid --fork", False, "is in a pid namespace that we cannot see"),
        ("unshare --user --map-root-user", False, "whether the process at the other end is in our container"),
    ],
    ids=["users", "pid-namespaces", "user-namespaces"],
)
def test_a_rank_that_stands_apart(run_in, apart, in_arena, told):
    """Like containers of one pod, which share a network namespace but not the others."""
    start = f'if [ $FUSEWIRE_RANK = 1 ]; then exec {apart} "$@"; else exec "$@"; fi'
    done = run_in([], [FUSEWIRE, "run", "--ranks", "2", "--timeout", "60", "sh", "-c", start, "sh", *RANK])
    said = [json.loads(line.split("RANK ", 1)[1]) for line in done.ok().splitlines() if "RANK " in line]
    assert said == [{"right": True, "arena": in_arena}] * 2
    assert told in done.error


# ---- what Python reads of the machine ----


@pytest.fixture
def groups(tmp_path):
    """groups("0::/a", {"a/cpu.max": "150000 100000"}) -> arguments for machine's functions"""

    def lay(own: str, files: dict[str, str]) -> tuple[str, str]:
        (tmp_path / "own").write_text(own + "\n")
        for name, text in files.items():
            path = tmp_path / "groups" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")
        return str(tmp_path / "groups"), str(tmp_path / "own")

    return lay


V1_PERIOD = {"cpu/a/cpu.cfs_period_us": "100000", "cpu/cpu.cfs_period_us": "100000"}


@pytest.mark.parametrize(
    ("own", "files", "quota"),
    [
        ("0::/", {"cpu.max": "150000 100000"}, 1.5),
        ("0::/", {"cpu.max": "max 100000"}, None),
        ("0::/a/b", {"a/b/cpu.max": "max 100000", "a/cpu.max": "150000 100000"}, 1.5),
        ("0::/host/path", {"cpu.max": "50000 100000"}, 0.5),
        ("0::/../other", {"cpu.max": "50000 100000"}, 0.5),
        ("3:cpu:/a", {**V1_PERIOD, "cpu/a/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_quota_us": "200000"}, 2.0),
        ("3:cpu,cpuacct:/a", {"cpu,cpuacct/a/cpu.cfs_quota_us": "-1"}, None),
        ("0::/", {"cpu.max": "what is this"}, None),
        ("0::/", {"cpu.max": "100000 0"}, None),
        ("", {}, None),
    ],
)
def test_quota_of_control_groups(groups, own, files, quota):
    assert machine.cpu_quota(*groups(own, files)) == quota


@pytest.mark.parametrize(
    ("own", "files", "limit"),
    [
        ("0::/a", {"a/memory.max": "max", "memory.max": "1048576"}, 1048576),
        ("4:memory:/a", {"memory/a/memory.limit_in_bytes": "9223372036854771712"}, None),
        ("4:memory:/a", {"memory/a/memory.limit_in_bytes": "4096"}, 4096),
        ("", {}, None),
    ],
)
def test_memory_of_control_groups(groups, own, files, limit):
    assert machine.memory_limit(*groups(own, files)) == limit


# ---- the whole matrix: pytest -m slow tests/python/test_shapes.py ----

CONTAINERS = {
    "quota": ["--processors", "192", "--quota", "1.5"],
    "quota-v1": ["--processors", "192", "--quota", "1.5", "--groups", "1"],
    "small-shm": ["--shm", "64m"],
    "no-shm": ["--shm", "none"],
    "no-vm-readv": ["--refuse", "process_vm_readv"],
    "old-sandbox": ["--refuse", "pidfd_open,memfd_create=ENOSYS"],
    "read-only": ["--read-only"],
    "nobody": ["--nobody"],
    "no-ipv6": ["--no-ipv6"],
    "ipv6-only": ["--ipv6-only"],
    "ipv6-address": ["--ipv6-address", "--loopback-name"],
    "loopback-name": ["--loopback-name"],
    "no-sys-cpu": ["--no-sys-cpu", "--processors", "16"],
    "little": LITTLE,
}
SIZES = {f"{count}-processors": ["--processors", str(count)] for count in (1, 2, 4, 16, 64, 192)}


@pytest.mark.slow
@pytest.mark.parametrize("shape", [*SIZES, *CONTAINERS])
def test_servers_and_ranks_on(run_in, shape):
    made = {**SIZES, **CONTAINERS}[shape]
    host = "shapehost" if "--loopback-name" in made else "localhost"
    trained(run_in(made, [sys.executable, SHAPES / "trainee.py", host]))
    ranks(run_in, made, count=4)


@pytest.mark.slow
@pytest.mark.parametrize("wire", ["tcp", "shm"])
def test_a_wire_that_is_chosen_in_a_container_of_little(run_in, wire):
    done = run_in(LITTLE, [sys.executable, SHAPES / "trainee.py", "shapehost"], FUSEWIRE_TRANSPORT=wire)
    trained(done)
