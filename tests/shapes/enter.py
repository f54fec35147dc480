# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Runs a command on a simulated machine of another shape: python enter.py [SHAPE...] -- COMMAND...

It uses namespaces for mounts, network and host name, files mounted over the kernel's, and a filter of system calls.
It needs root. docs/reliability.md lists the properties of containers that it does not simulate.
"""

import argparse
import contextlib
import ctypes
import errno
import os
import pathlib
import platform
import socket
import struct
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "python"))

import lab

READ_ONLY, REMOUNT, BIND = 1, 32, 4096
SET_SECCOMP, SET_NO_NEW_PRIVILEGES, FILTER_MODE = 22, 38, 2
NOBODY = 65534
HOST = "shapehost"
ROOM = pathlib.Path("/sys/fs/cgroup")  # writable when everything else is read-only
# File systems of the kernel; all others may be made read-only.
KERNELS = {"proc", "sysfs", "devtmpfs", "devpts", "mqueue", "cgroup", "cgroup2", "securityfs", "tracefs", "debugfs"}
# Numbers of system calls, on x86_64 and aarch64.
CALLS = {
    "process_vm_readv": (310, 270),
    "pidfd_open": (434, 434),
    "memfd_create": (319, 279),
    "socket": (41, 198),
}
LIBC = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    words = sys.argv[1:]
    middle = words.index("--")
    shape = parse(words[:middle])
    if os.geteuid() != 0:
        sys.exit("enter.py: only root may create namespaces; run it with sudo")
    spaces = lab.MOUNTS | lab.NAME
    if shape.no_ipv6 or shape.ipv6_only or shape.ipv6_address:
        spaces |= lab.NETWORK
    lab.leave(spaces)
    run("mount", "--make-rprivate", "/")
    if spaces & lab.NETWORK:
        lay_network(shape)
    lay_files(shape)
    if shape.read_only:
        make_read_only()
        # TensorFlow needs a writable folder.
        os.environ.setdefault("TMPDIR", str(ROOM))
    if shape.nobody:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        os.environ["HOME"] = "/nonexistent"
    refuse(shape)
    if shape.processors:
        os.environ |= {"SHAPE_PROCESSORS": str(shape.processors), "LD_PRELOAD": shape.shim}
    os.execvp(words[middle + 1], words[middle + 1 :])


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--processors", type=int, default=0)
    parser.add_argument("--shim", default="", help="processors_shim.c, compiled")
    parser.add_argument("--quota", type=float, default=0, help="processor quota in the control groups' files")
    parser.add_argument("--groups", type=int, default=2, help="version of control groups: 1 or 2")
    parser.add_argument("--memory", type=int, default=0, help="memory limit in bytes in the control groups' files")
    parser.add_argument("--shm", default="", help="size of /dev/shm, or `none`")
    parser.add_argument("--no-sys-cpu", action="store_true")
    parser.add_argument("--refuse", default="", metavar="CALL[=ERROR],...")
    parser.add_argument("--read-only", action="store_true")
    parser.add_argument("--nobody", action="store_true", help="run as an unprivileged user without a home")
    parser.add_argument("--no-ipv6", action="store_true")
    parser.add_argument("--ipv6-only", action="store_true", help="not even 127.0.0.1")
    parser.add_argument(
        "--ipv6-address", action="store_true", help="the machine's own address is IPv6 only; 127.0.0.1 exists"
    )
    parser.add_argument(
        "--loopback-name", action="store_true", help="the host name resolves to 127.0.1.1, as on Debian"
    )
    return parser.parse_args(words)


def check(result: int, call: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")


def run(*words: str) -> None:
    subprocess.run(words, check=True)


def lay_network(shape: argparse.Namespace) -> None:
    if shape.no_ipv6:
        with contextlib.suppress(FileNotFoundError):  # the kernel has none either
            pathlib.Path("/proc/sys/net/ipv6/conf/all/disable_ipv6").write_text("1")
    if shape.ipv6_only:
        run("ip", "addr", "del", "127.0.0.1/8", "dev", "lo")
    if shape.ipv6_address:
        run("ip", "addr", "add", "fd00::1/128", "dev", "lo", "nodad")


def lay_files(shape: argparse.Namespace) -> None:
    lay_hosts(shape)
    run("mount", "-t", "tmpfs", "-o", "mode=1777", "shape", str(ROOM))
    lay_groups(shape)
    if shape.processors or shape.no_sys_cpu:
        folder = "/sys/devices/system/cpu"
        run("mount", "-t", "tmpfs", "shape", folder)
        for name in () if shape.no_sys_cpu else ("possible", "present", "online"):
            pathlib.Path(folder, name).write_text(f"0-{shape.processors - 1}\n")
    if shape.shm == "none":
        lay_devices()
    elif shape.shm:
        run("mount", "-t", "tmpfs", "-o", f"size={shape.shm},mode=1777", "shape", "/dev/shm")


def lay_hosts(shape: argparse.Namespace) -> None:
    socket.sethostname(HOST)
    own = "::1" if shape.ipv6_only else "127.0.1.1" if shape.loopback_name else "127.0.0.1"
    lines = [] if shape.ipv6_only else ["127.0.0.1 localhost"]
    lines += [] if shape.no_ipv6 else ["::1 localhost ip6-localhost"]
    lay_over("/etc/hosts", "\n".join([*lines, f"{own} {HOST}"]) + "\n")


def lay_over(path: str, text: str) -> None:
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(text)
        file.flush()
        os.chmod(file.name, 0o644)
        run("mount", "--bind", file.name, path)


def lay_groups(shape: argparse.Namespace) -> None:
    quota = str(int(shape.quota * 100_000)) if shape.quota else ""
    if shape.groups == 1:
        files = {"cpu/cpu.cfs_quota_us": quota or "-1", "cpu/cpu.cfs_period_us": "100000"}
        files["memory/memory.limit_in_bytes"] = str(shape.memory or 9223372036854771712)
    else:
        files = {"cpu.max": f"{quota or 'max'} 100000", "memory.max": str(shape.memory or "max")}
    for name, text in files.items():
        path = ROOM / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text + "\n")
        path.chmod(0o666)


def lay_devices() -> None:
    """A /dev with a few devices and without shm."""
    with tempfile.TemporaryDirectory() as folder:
        run("mount", "-t", "tmpfs", "-o", "mode=755", "shape", folder)
        for name in ("null", "zero", "full", "random", "urandom", "tty"):
            pathlib.Path(folder, name).touch()
            run("mount", "--bind", f"/dev/{name}", f"{folder}/{name}")
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            os.symlink(f"/proc/self/fd/{number}", pathlib.Path(folder, name))
        os.symlink("/proc/self/fd", pathlib.Path(folder, "fd"))
        run("mount", "--rbind", folder, "/dev")
        run("umount", "-R", folder)


def make_read_only() -> None:
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        place, kind = before.split()[4].encode().decode("unicode_escape"), after.split()[0]
        if kind in KERNELS or pathlib.Path(place) == ROOM or place.startswith("/dev/"):
            continue
        if LIBC.mount(None, place.encode(), None, REMOUNT | BIND | READ_ONLY, None) != 0 and place == "/":
            check(-1, "mount /, read-only")


def refuse(shape: argparse.Namespace) -> None:
    """A filter that makes some system calls fail."""
    column = 0 if platform.machine() == "x86_64" else 1
    load, equal, answer = 0x20, 0x15, 0x06
    allowed, refused = 0x7FFF0000, 0x00050000
    rules = [(load, 0, 0, 0)]  # the call's number
    for word in filter(None, shape.refuse.split(",")):
        name, _, error = word.partition("=")
        number = getattr(errno, error or "EPERM")
        rules += [(equal, 0, 1, CALLS[name][column]), (answer, 0, 0, refused | number)]
    if shape.no_ipv6:  # as of a kernel without it: socket(AF_INET6)
        first_argument = 16
        rules += [
            (equal, 0, 3, CALLS["socket"][column]),
            (load, 0, 0, first_argument),
            (equal, 0, 1, socket.AF_INET6),
            (answer, 0, 0, refused | errno.EAFNOSUPPORT),
        ]
    rules.append((answer, 0, 0, allowed))
    if len(rules) == 2:
        return
    program = b"".join(struct.pack("=HBBI", *rule) for rule in rules)
    memory = ctypes.create_string_buffer(program, len(program))
    header = ctypes.create_string_buffer(struct.pack("@HP", len(rules), ctypes.addressof(memory)))
    check(LIBC.prctl(SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "prctl")
    check(LIBC.prctl(SET_SECCOMP, FILTER_MODE, ctypes.byref(header), 0, 0), "seccomp")


if __name__ == "__main__":
    main()
