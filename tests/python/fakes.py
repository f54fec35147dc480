# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""For tests of orders: processes that answer at gRPC ports as those of parameter servers do, and move tasks that are
nothing but numbers. They run in the test's own process, or in one of their own (`python fakes.py`)."""

import concurrent.futures
import hashlib
import hmac
import itertools
import json
import os
import pathlib
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping

import grpc
from processes import free_addresses

SECRET = "a secret of the tests of moving"
KEPT = {"epoch": 1, "bytes": 1 << 20, "busy_ms": 0}


class Process:
    """Serves at each of these addresses as the task of that name. `moves(task, target, limit_ms)` decides an order."""

    def __init__(
        self,
        addresses: Mapping[str, str],
        members: Mapping[str, str],
        moves: Callable[[str, "Process", int], str],
        drains: Callable[["Process", int], str],
        secret: str = SECRET,
    ):
        self.id = os.urandom(8).hex()
        self.addresses = dict(addresses)
        self.members = {**members, **addresses}
        self.serves: dict[str, dict[str, int]] = {}
        self.orders: list[str] = []
        self.tells = True  # what it serves; False: an older one
        self._moves, self._drains, self._secret = moves, drains, secret
        self._servers = [self._serve(name, address) for name, address in addresses.items()]

    @property
    def name(self) -> str:
        return next(iter(self.addresses))

    def stop(self) -> None:
        for server in self._servers:
            server.stop(0).wait(5)

    def _serve(self, name: str, address: str) -> grpc.Server:
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 0)])
        log = grpc.unary_unary_rpc_method_handler(lambda request, _: _response(self._answer(name, _text_of(request))))
        handlers = {"Logging": log}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("tensorflow.WorkerService", handlers),))
        assert server.add_insecure_port(address) != 0
        server.start()
        return server

    def _answer(self, name: str, text: str) -> str:
        if text == "about":
            told = {"task": name, "members": self.members, "fusewire": "1", "protocol": "star_server"}
            if self.tells:
                told |= {
                    "process": self.id,
                    "serves": [{"task": task, **facts} for task, facts in list(self.serves.items())],
                }
            return json.dumps(told)
        shown, _, words = text.removeprefix("order ").partition(" ")
        if shown != self._proof(shown, self.addresses[name], words):
            return json.dumps({"error": "it refuses this order: the proof is wrong"})
        self.orders.append(words)
        try:
            return json.dumps({"done": self._carry_out(*words.split())})
        except RefusedError as error:
            return json.dumps({"error": f'"{words}" is not done: {error}; see: fusewire explain elastic#orders'})

    def _carry_out(self, verb: str, *rest: str) -> str:
        if verb == "move":
            return self._moves(rest[0], self, int(rest[1]))
        if verb == "drain":
            return self._drains(self, int(rest[0]))
        raise RefusedError("it is not an order")

    def _proof(self, shown: str, host: str, words: str) -> str:
        now_ms, nonce, _ = shown.split(":")
        key = hmac.digest(self._secret.encode(), b"fusewire status", "sha256")
        message = "\n".join((now_ms, nonce, host, words)).encode()
        return f"{now_ms}:{nonce}:{hmac.new(key, message, hashlib.sha256).hexdigest()}"


class RefusedError(Exception):
    pass


class Cluster:
    """Processes in this process, whose tasks move between them."""

    def __init__(self, ps: int, processes: int, workers: int = 0):
        self.members = dict(zip([f"ps:{index}" for index in range(ps)], free_addresses(ps), strict=True))
        self.members |= dict(zip([f"worker:{index}" for index in range(workers)], free_addresses(workers), strict=True))
        self.refuses: dict[str, str] = {}
        self.pause_ms = 12
        self.before_move: Callable[[str, Process], None] = lambda task, target: None
        self.processes: list[Process] = []
        self.epochs = itertools.count(2)
        for number in range(processes):
            tasks = [f"ps:{index}" for index in range(number, ps, processes)]
            self.add(tasks, {task: self.members[task] for task in tasks})

    def add(self, serves: list[str], addresses: Mapping[str, str]) -> Process:
        process = Process(addresses, self.members, self.move, self.drain)
        process.serves = {task: dict(KEPT) for task in serves}
        self.processes.append(process)
        return process

    def holder(self, task: str) -> Process:
        return next(process for process in self.processes if task in process.serves)

    def move(self, task: str, target: Process, limit_ms: int) -> str:
        if task in target.serves:
            raise RefusedError(f"this process serves {task} itself")
        if task in self.refuses:
            raise RefusedError(self.refuses[task])
        if self.pause_ms > limit_ms:
            raise RefusedError(f"steps would stand still for {self.pause_ms} ms, and {limit_ms} ms are allowed")
        self.before_move(task, target)
        source = self.holder(task)
        facts = source.serves[task]
        target.serves[task] = {**facts, "epoch": next(self.epochs)}
        del source.serves[task]
        return (
            f"{task} is served by the process of {target.name}, at 127.0.0.1:1, epoch {target.serves[task]['epoch']}: "
            f"1.0 MiB came over in 0.01 s, and steps stood still for {self.pause_ms} ms"
        )

    def drain(self, source: Process, limit_ms: int) -> str:
        said = []
        for task in list(source.serves):
            others = [process for process in self.processes if process is not source]
            if not others:
                raise RefusedError(f"no other process takes {', '.join(source.serves)}")
            said.append(self.move(task, min(others, key=lambda process: len(process.serves)), limit_ms))
        return "; ".join(said)

    def stop(self) -> None:
        for process in self.processes:
            process.stop()


def _text_of(request: bytes) -> str:
    """Of LoggingRequest, as inquiry.py writes it."""
    numbers = list(_varints(request[1:]))[1:]  # without the size
    return b"".join(struct.pack("<Q", number) for number in numbers[1:]).rstrip(b"\0").decode()


def _varints(data: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield number
            number = shift = 0


def _response(text: str) -> bytes:
    data = text.encode()
    for number in (1, 1, 2, 1):
        size, head = len(data), bytearray([number << 3 | 2])
        while size >= 0x80:
            head.append(size & 0x7F | 0x80)
            size >>= 7
        data = bytes([*head, size]) + data
    return data


# ---- a program of `fusewire run`, whose processes move tasks by files of a folder that all see ----


class Files:
    """Who serves which task: folder/ps_3 has "PID EPOCH". A task whose process is dead is served by nobody."""

    def __init__(self, folder: pathlib.Path):
        self._folder = folder

    def owner(self, task: str) -> tuple[int, int]:
        try:
            pid, epoch = map(int, (self._folder / task.replace(":", "_")).read_text().split())
        except FileNotFoundError:
            return 0, 0
        return (pid, epoch) if _is_alive(pid) else (0, epoch)

    def take(self, task: str) -> int:
        epoch = self.owner(task)[1] + 1
        path = self._folder / task.replace(":", "_")
        new = path.with_suffix(f".{os.getpid()}")
        new.write_text(f"{os.getpid()} {epoch}")
        new.rename(path)
        return epoch


def _is_alive(pid: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class FileProcess(Process):
    """A parameter server's process of a job, which is told its tasks by the environment."""

    def __init__(self, environment: Mapping[str, str]):
        config = json.loads(environment["TF_CONFIG"])
        own = f"{config['task']['type']}:{config['task']['index']}"
        members = {
            f"{job}:{index}": address
            for job, addresses in config["cluster"].items()
            for index, address in enumerate(addresses)
        }
        tasks = (environment.get("FUSEWIRE_TASKS") or own).split(",")
        self.files = Files(pathlib.Path(environment["FUSEWIRE_SNAPSHOTS"]))
        moves = environment.get("FUSEWIRE_ON_SERVED") == "move"
        self.dies_at = environment.get("FAKE_DIES_AT", "") if moves else ""
        self.stays = environment.get("FAKE_STAYS", "").split(",")
        here = [own, *(task for task in tasks if task != own)]
        super().__init__(
            {task: members[task] for task in here},
            members,
            self._take,
            self._drain,
            environment.get("FUSEWIRE_SECRET", ""),
        )
        for task in tasks:
            if self.files.owner(task)[0] in (0, os.getpid()) or moves:
                self._become_owner(task)

    def _become_owner(self, task: str) -> None:
        if task in self.stays and self.files.owner(task)[0]:
            return
        if task == self.dies_at:
            died = pathlib.Path("died")
            if not died.exists():
                died.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        self.serves[task] = {**KEPT, "epoch": self.files.take(task)}

    def look_again(self) -> None:
        for task in list(self.serves):
            if self.files.owner(task)[0] != os.getpid():
                del self.serves[task]

    def _answer(self, name: str, text: str) -> str:
        self.look_again()
        return super()._answer(name, text)

    def _carry_out(self, verb: str, *rest: str) -> str:
        if verb == "adopt":
            if self.files.owner(rest[0])[0]:
                raise RefusedError("the server of it serves it")
            self._become_owner(rest[0])
            return f"{rest[0]} is served by the process of {self.name}, at 127.0.0.1:1, epoch 2"
        return super()._carry_out(verb, *rest)

    def _take(self, task: str, _: Process, limit_ms: int) -> str:
        if task in self.stays:
            raise RefusedError(f"{task} holds the FIFOQueueV2 q, which can't be copied")
        if task in self.serves:
            raise RefusedError("this process serves it itself")
        self._become_owner(task)
        return f"{task} is served by the process of {self.name}, at 127.0.0.1:1: steps stood still for 1 ms"

    def _drain(self, _: Process, limit_ms: int) -> str:
        if self.serves:
            raise RefusedError(f"left are {', '.join(self.serves)}")
        return ""


def main() -> None:
    """A parameter server, which serves until it is ended; or a worker, which ends when the file "enough" is there."""
    config = json.loads(os.environ["TF_CONFIG"])
    if config["task"]["type"] == "ps":
        process = FileProcess(os.environ)
        print("SERVES", process.name, *process.serves, flush=True)
        drains = float(os.environ.get("FUSEWIRE_DRAIN") or 0)
        term = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: term.set())
        while not term.wait(0.05):
            pass
        process.look_again()
        print("ENDS", len(process.serves), flush=True)
        if drains and not process.serves:
            os._exit(0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
    ends = time.monotonic() + 60
    while not pathlib.Path("enough").exists() and time.monotonic() < ends:
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
