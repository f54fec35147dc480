# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The soak's machines: with root, processes on hosts of a lab (tests/python/lab.py), connected by a router.

All of it is in mounts and processes of its own, which this process enters first, so that nothing is left when it ends,
however it ends. Without permission for that, tasks are plain processes and the faults that need more are left out:
enter() says which applies.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "python"))

import lab
from processes import free_ports
from returns import End

HERE = pathlib.Path(__file__).resolve().parent
# Not root, which has no limit on threads. All tasks have the same user, so that they may share memory.
USER = 65500
ENTERED = "SOAK_ENTERED"
RECOVERY_S = 120.0  # as fusewire run --snapshots sets it
PEER_TIMEOUT_S = 5.0
ORDER_S = 60.0
LIMITS = {"nofile": "Max open files", "nproc": "Max processes", "as": "Max address space"}  # in /proc/PID/limits


def enter() -> bool:
    """Re-executes this process in new namespaces; returns whether it is in them."""
    if os.environ.get(ENTERED):
        return os.environ[ENTERED] == "yes"
    words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    able = not lab.why_not() and subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0
    os.environ[ENTERED] = "yes" if able else "no"
    if not able:
        return False
    return os.execvp(words[0], [*words, sys.executable, *sys.argv])


def command(line: str) -> None:
    done = subprocess.run(line.split(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{line}: exit code {done.returncode}: {done.stderr.strip()}")


def manifest_begun(manifest: bytes) -> float:
    """The time of day that a snapshot's manifest has (src/fusewire/tf/heads/snapshots.h draws it)."""
    at = len("fusewire manifest") + 1
    version = manifest[at - 1]

    def number() -> int:
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = manifest[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    for _ in ("task", "cluster"):
        size = number()
        at += size
    if version > 1:
        number()  # its epoch
        at += 8  # its holder
    number()  # its generation
    return number() / 1000


class Task:
    """One task of the cluster, with one process after another."""

    def __init__(self, machine: "Machine", job: str, index: int, number: int) -> None:
        self.name, self.job, self.index = f"{job}{index}", job, index
        self._machine = machine
        self.place = machine.lab.hosts[number] if machine.lab else None
        self.link = machine.lab.links[number] if machine.lab else None
        self.host = self.place.address if self.place else "127.0.0.1"
        self.address = f"{self.host}:{2222 if self.place else free_ports(1)[0]}"
        self.events_path = machine.folder / f"{self.name}.events"
        self.errors_path = machine.folder / f"{self.name}.err"
        self.clock_path = machine.folder / f"{self.name}.clock"
        self.clock_path.write_bytes(bytes(4096))
        self.process: subprocess.Popen | None = None
        self.started = 0.0
        self.may_die = ""  # the fault under which it may end
        self.ends: list[End] = []  # of its processes
        self.taken: list[float] = []  # when another process had taken it over
        self.owner = self  # whose process serves it

    def start(self) -> None:
        machine = self._machine
        config = {"cluster": machine.cluster, "task": {"type": self.job, "index": self.index}}
        variables = {**machine.variables, "TF_CONFIG": json.dumps(config), "SOAK_CLOCK": str(self.clock_path)}
        words: list[object] = [sys.executable, machine.program]
        if self.place:
            more = "+dac_override,+dac_read_search"  # the clone may be readable only by root
            user = [f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--inh-caps", more, "--ambient-caps", more]
            words = list(self.place.words("setpriv", *user, *words))
        with self.events_path.open("ab") as events, self.errors_path.open("ab") as errors:
            self.process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=events, stderr=errors, env=variables, cwd=machine.folder
            )
        self.started = time.monotonic()

    @property
    def pid(self) -> int:
        return self.process.pid

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def send(self, number: signal.Signals) -> None:
        if self.alive():
            self.process.send_signal(number)

    def kill(self, lost: float | None = None) -> None:
        """`lost`: when it has done its last work, if not now."""
        if self.process is not None:
            began = time.monotonic() if lost is None else lost
            self.send(signal.SIGKILL)
            self.process.wait(30)
            self.note_end(began)

    @property
    def serves(self) -> list["Task"]:
        """The tasks that its process serves: its own, and those that it has taken over."""
        return [task for task in self._machine.tasks if task.owner is self]

    def note_end(self, when: float) -> None:
        """After the process has ended, or was taken for dead, at `when` or later."""
        for task in self.serves:
            task.ends.append(End(when, *self._machine.newest_snapshot(task)))

    def adopt(self, task: "Task") -> None:
        """By an operator's order to its process. RuntimeError if it refuses."""
        words = ["-m", "fusewire", "adopt", f"ps:{task.index}", "--by", f"ps:{self.index}", "--cluster", self.address]
        words = [sys.executable, *words]
        done = subprocess.run(
            self.place.words(*words) if self.place else words,
            env=self._machine.variables,
            cwd=self._machine.folder,
            capture_output=True,
            text=True,
            timeout=ORDER_S,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{self.name} has not adopted {task.name}: {done.stderr.strip()}")
        task.owner = self
        task.taken.append(time.monotonic())

    def limit(self, kind: str, most: int | None) -> None:
        """Sets a limit, one of LIMITS, of the running process; None restores the old one."""
        if not self.alive():
            return
        limits = pathlib.Path(f"/proc/{self.pid}/limits").read_text()
        hard = re.search(rf"^{LIMITS[kind]} +\S+ +(\S+)", limits, re.MULTILINE)[1]
        line = f"prlimit --pid {self.pid} --{kind}={hard if most is None else most}:{hard}"
        # As the task's user: root in a container may not change other users' limits.
        command(f"setpriv --reuid={USER} --regid={USER} --clear-groups {line}" if self._machine.apart else line)

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def address_space(self) -> int:
        text = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmSize:\s+(\d+)", text)[1]) * 1024

    def sample(self) -> dict[str, int] | None:
        with contextlib.suppress(OSError, ValueError, TypeError):
            text = pathlib.Path(f"/proc/{self.pid}/status").read_text()
            kib = int(re.search(r"RssAnon:\s+(\d+)", text)[1])
            threads = int(re.search(r"Threads:\s+(\d+)", text)[1])
            return {"kib": kib, "threads": threads, "descriptors": self.descriptors()}
        return None

    def stacks(self) -> str:
        """The stacks of every thread, as far as this machine permits: Python's (in its .err), the kernel's, gdb's."""
        said = [f"--- {self.name}, pid {self.pid}"]
        with contextlib.suppress(OSError):  # it may have ended
            for thread in sorted(pathlib.Path(f"/proc/{self.pid}/task").iterdir()):
                with contextlib.suppress(OSError, IndexError):
                    name, where = (thread / "comm").read_text().strip(), (thread / "wchan").read_text()
                    said.append(f"{thread.name} {name}: {where} {(thread / 'syscall').read_text().split()[0]}")
        if shutil.which("gdb"):
            words = ["gdb", "-batch", "-p", str(self.pid), "-ex", "thread apply all bt 30"]
            with contextlib.suppress(subprocess.TimeoutExpired):
                done = subprocess.run(words, capture_output=True, text=True, timeout=40, check=False)
                said.append(done.stdout)
        self.send(signal.SIGUSR1)  # last: its effect on a hanging process is unknown
        time.sleep(0.5)
        return "\n".join(said)


class Machine:
    """The cluster of one run, and the operations on it."""

    def __init__(
        self,
        folder: pathlib.Path,
        protocol: str,
        servers: int,
        workers: int,
        apart: bool,
        program: str = "trainee.py",
    ) -> None:
        self.folder, self.apart, self.protocol, self.program = folder, apart, protocol, HERE / program
        folder.mkdir(parents=True, exist_ok=True)
        # Readable by any user: access(2) does not consider a task's capabilities.
        self.checkpoints = pathlib.Path("/run/soak") if apart else folder / "checkpoints"
        self.lab = lab.Lab(servers + workers, router=True) if apart else None
        self.variables = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("FUSEWIRE_", "TF_"))},
            "CUDA_VISIBLE_DEVICES": "",
            "FUSEWIRE_PEER_TIMEOUT": f"{PEER_TIMEOUT_S:g}",
            "HOME": str(folder),
            "SOAK_CHECKPOINTS": str(self.checkpoints),
            "SOAK_PROTOCOL": protocol,
        }
        self.snapshots: pathlib.Path | None = None
        self.adopts = False  # what a server's process has served, others take over
        self.clock = self._build_clock()
        if apart:
            # Separate mounts: no other process sees those of this run.
            self.checkpoints.mkdir(exist_ok=True)
            command(f"mount -t tmpfs -o size=64m none {self.checkpoints}")
        self.servers = [Task(self, "ps", index, index) for index in range(servers)]
        self.workers = [Task(self, "worker", index, servers + index) for index in range(workers)]
        self.tasks = self.servers + self.workers
        if apart:
            for path in (folder, self.checkpoints):
                os.chown(path, USER, USER)
        else:
            self.checkpoints.mkdir()
        self.cluster = {
            "ps": [task.address for task in self.servers],
            "worker": [task.address for task in self.workers],
        }

    def keep_snapshots(self, every_s: float) -> None:
        """As fusewire run --snapshots does; on another disk than the checkpoints."""
        self.snapshots = self.folder / "snapshots"
        shutil.rmtree(self.snapshots, ignore_errors=True)
        self.snapshots.mkdir()
        if self.apart:
            os.chown(self.snapshots, USER, USER)
        self.variables |= {
            "FUSEWIRE_SNAPSHOTS": str(self.snapshots),
            "FUSEWIRE_SNAPSHOT_EVERY": f"{every_s:g}",
            "FUSEWIRE_RECOVERY": f"{RECOVERY_S:g}",
        }

    def newest_snapshot(self, task: Task) -> tuple[float | None, float, int]:
        """Of a server: when it was begun, by the monotonic clock, how long it took, and the size of its manifest."""
        manifests = sorted(self.snapshots.glob(f"{task.job}_{task.index}/*.manifest")) if self.snapshots else []
        if not manifests:
            return None, 0.0, 0
        begun = manifest_begun(manifests[-1].read_bytes())
        now = time.time()
        return time.monotonic() - (now - begun), manifests[-1].stat().st_mtime - begun, manifests[-1].stat().st_size

    def _build_clock(self) -> bool:
        library = self.folder / "clock_shim.so"
        words = ["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(HERE / "clock_shim.c"), "-ldl"]
        if shutil.which("cc") is None or subprocess.run(words, check=False).returncode != 0:
            return False
        self.variables["LD_PRELOAD"] = str(library)
        return True

    def adopt(self) -> None:
        """From now on, as fusewire run --on-loss adopt does."""
        self.adopts = True
        self.variables["FUSEWIRE_SECRET"] = secrets.token_hex(16)

    @property
    def living_servers(self) -> list[Task]:
        """Those whose processes serve something."""
        return [task for task in self.servers if task.serves and task.alive()]

    def hand_over(self, lost: Task) -> None:
        """Living processes take over what this one has served, which does not answer; each with the fewest first."""
        for task in lost.serves:
            by = min((one for one in self.living_servers if one is not lost), key=lambda one: len(one.serves))
            by.adopt(task)

    def start_again(self, lost: Task) -> None:
        """What it had taken over has nobody to serve it: the processes that had it first begin again, too."""
        for task in lost.serves or [lost]:
            task.owner = task
            task.start()
            task.may_die = ""

    def start(self) -> None:
        for task in self.tasks:
            task.owner, task.may_die = task, ""
            task.start()

    def stop(self) -> None:
        for task in self.tasks:
            task.send(signal.SIGCONT)
            task.kill()

    def leave(self) -> None:
        """Removes the hosts and the mounts, so that another machine can be created."""
        self.lab.end()
        command(f"umount {self.checkpoints}")

    # Faults of links, of one direction.
    def cut(self, source: Task, target: Task) -> None:
        self.lab.cut(source.place, target.place)

    def restore(self, source: Task, target: Task) -> None:
        self.lab.restore(source.place, target.place)

    def reset_connections(self, task: Task) -> int:
        """Resets all connections of the task; returns how many."""
        words = task.place.words("ss", "-K", "-t", "-n", "-H", "state", "established")
        return len(subprocess.run(words, capture_output=True, text=True, check=False).stdout.splitlines())

    def fill_disk(self) -> pathlib.Path:
        path = self.checkpoints / "filler"
        with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(1 << 16))
        return path

    @staticmethod
    def set_clock(task: Task, seconds: int) -> None:
        with task.clock_path.open("r+b") as file:
            file.write(ctypes.c_int64(seconds))
