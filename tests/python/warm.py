# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Programs that start with TensorFlow imported: the import takes two seconds, most of the time of short tests.

A process imports TensorFlow once and nothing of ours; each program is a fork of it, in a session and with descriptors
and an environment of its own, and imports fusewire itself. `fusewire run` is such a fork too, and forks its tasks. What
is about importing, loading, or variables that TensorFlow reads when it is imported, starts as users start it.

    with start(["program.py", "argument"], folder, environment) as program: ...

As a script, `warm.py SOCKET`, this is the process that forks. It ends with the process that holds its standard input.
"""

import array
import contextlib
import ctypes
import fcntl
import gc
import io
import json
import os
import pathlib
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

COMMAND = pathlib.Path(sys.executable).with_name("fusewire")
FUSEWIRE_RUN = "fusewire"  # as the first word: the command, in place of a program
# TensorFlow reads the others when it is imported.
READ_LATER = (
    "TF_CONFIG",
    "TF_CPP_MIN_LOG_LEVEL",
    "TF_GRPC_WORKER_CACHE_QUEUES",
    "TF_GRPC_WORKER_CACHE_THREADS",
    "TF_NUM_INTRAOP_THREADS",
)
START_S = 60.0
PR_SET_PDEATHSIG = 1


def fits(environment: Mapping[str, str]) -> bool:
    """Whether a program with this environment may start this way. With TEST_COLD in the environment, none does."""
    if os.environ.get("TEST_COLD"):
        return False
    early = [name for name in environment if name.startswith("TF_") and name not in READ_LATER]
    early += ["PYTHONPATH", "LD_PRELOAD"]
    return all(environment.get(name) == os.environ.get(name) for name in early)


class Program:
    """A running program, with the parts of subprocess.Popen that tests use. Output without a stream is read here."""

    def __init__(
        self,
        words: Sequence[object],
        cwd: pathlib.Path,
        environment: Mapping[str, str],
        out: IO[Any] | int | None = None,
        error: IO[Any] | int | None = None,
    ) -> None:
        with contextlib.ExitStack() as ours:
            self.stdout, out = _stream(out, ours)
            self.stderr, error = _stream(error, ours)
            self._start(words, cwd, environment, out, error)

    def _start(
        self, words: Sequence[object], cwd: pathlib.Path, environment: Mapping[str, str], out: int, error: int
    ) -> None:
        self._line = _connect()
        request = {"words": [str(word) for word in words], "cwd": str(cwd), "environment": dict(environment)}
        text = json.dumps(request).encode()
        streams = array.array("i", [out, error])
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)]
        self._line.sendmsg([len(text).to_bytes(4, "little")], rights)
        self._line.sendall(text)
        self._line.settimeout(START_S)
        self.pid = int.from_bytes(_receive(self._line, 4), "little")
        self._line.settimeout(None)
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            answers = selectors.PollSelector()  # select() takes no descriptor above 1,023
            answers.register(self._line, selectors.EVENT_READ)
            if not answers.select(timeout):
                raise subprocess.TimeoutExpired(f"program {self.pid}", timeout or 0.0)
            self.returncode = int.from_bytes(_receive(self._line, 4), "little", signed=True)
            self._line.close()
        return self.returncode

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def end(self) -> None:
        """Kills it with its whole session."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait(START_S)


def run_command(
    words: Sequence[object], cwd: pathlib.Path, environment: Mapping[str, str], timeout: float, cold: bool = False
) -> "subprocess.CompletedProcess[str]":
    """Runs `fusewire WORDS...` like subprocess.run; as a normal process if its environment or the caller requires
    that."""
    command = [str(word) for word in words]
    if cold or not fits(environment):
        options: dict[str, Any] = {"cwd": cwd, "env": environment, "capture_output": True, "text": True}
        return subprocess.run([COMMAND, *command], timeout=timeout, check=False, **options)
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as error:
        program = Program([FUSEWIRE_RUN, *command], cwd, environment, out, error)
        late = False
        try:
            program.wait(timeout)
        except subprocess.TimeoutExpired:
            late = True
        finally:
            program.end()
        texts = []
        for stream in (out, error):
            stream.seek(0)
            texts.append(stream.read())
        if late:
            raise subprocess.TimeoutExpired(command, timeout, *texts)
        return subprocess.CompletedProcess(command, program.wait(), *texts)


def _stream(given: IO[Any] | int | None, ours: contextlib.ExitStack) -> tuple[IO[str] | None, int]:
    """The read end, if there is one, and the end that the program writes to."""
    if given is None:
        read, write = os.pipe()
        ours.callback(os.close, write)
        return open(read, encoding="utf-8", errors="replace"), write
    if given == subprocess.DEVNULL:
        null = os.open(os.devnull, os.O_WRONLY)
        ours.callback(os.close, null)
        return None, null
    return None, given.fileno()


class _Server:
    """The process that forks programs, started when it is first needed."""

    process: "subprocess.Popen[bytes] | None" = None
    path = ""


def _connect() -> socket.socket:
    if _Server.process is None:
        folder = tempfile.mkdtemp(prefix="warm-")
        _Server.path = os.path.join(folder, "socket")
        # One thread: a process that forks must have no other. The level is that of the programs, and read once.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "1"}
        _Server.process = subprocess.Popen(
            [sys.executable, __file__, _Server.path], env=environment, stdin=subprocess.PIPE
        )
    until = time.monotonic() + START_S
    while True:
        line = socket.socket(socket.AF_UNIX)
        try:
            line.connect(_Server.path)
            return line
        except OSError:
            line.close()
            if _Server.process.poll() is not None or time.monotonic() > until:
                raise
            time.sleep(0.05)


def _receive(line: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = line.recv(count - len(data))
        if not more:
            raise EOFError("the process that forks programs has gone")
        data += more
    return data


# --- Below: the process that forks, and what it forks.


def serve(path: str) -> None:
    import tensorflow as tf

    _ = tf.keras.layers, tf.compat.v1.train.Server  # what is imported late
    gc.collect()
    gc.freeze()  # or each program would look at all of it when it ends, and copy the pages
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            os._exit(0)
        line, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            attend(line)
        line.close()


def attend(line: socket.socket) -> None:
    """Starts one program and reports how it ends; kills it when the caller has gone."""
    size, rights, _, _ = line.recvmsg(4, socket.CMSG_SPACE(8))
    request = json.loads(_receive(line, int.from_bytes(size, "little")))
    out, error = array.array("i", rights[0][2])
    pid = fork_in_session()
    if pid == 0:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # nobody else would end it
        line.close()
        os.chdir(request["cwd"])
        exec_program(request["words"], request["environment"], (os.open(os.devnull, os.O_RDONLY), out, error), ())
    os.close(out)
    os.close(error)
    line.sendall(pid.to_bytes(4, "little"))
    watched = os.pidfd_open(pid)
    ready, _, _ = select.select([line, watched], [], [])
    if watched not in ready:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    with contextlib.suppress(OSError):
        line.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "little", signed=True))
    os._exit(0)


def fork_in_session() -> int:
    """os.fork(); when the parent goes on, the child leads its session, which can be killed by the child's number."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.close(read)
    os.close(write)  # the child's is the last one
    if pid != 0:
        os.read(read, 1)
        os.close(read)
    return pid


def exec_program(
    words: Sequence[str], environment: Mapping[str, str], streams: tuple[int, int, int], passed: Sequence[int]
) -> None:
    """In a fork: runs the command `words` like a new process, and exits."""
    for number in range(1, signal.NSIG):
        with contextlib.suppress(OSError, ValueError):
            if signal.getsignal(number) not in (signal.SIG_IGN, signal.SIG_DFL, None):
                signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.set_wakeup_fd(-1)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    close_as_exec_does(passed)
    os.environ.clear()
    os.environ.update(environment)
    sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False), encoding="utf-8")
    for name, number in (("stdout", 1), ("stderr", 2)):
        raw = io.FileIO(number, "w", closefd=False)
        setattr(sys, name, io.TextIOWrapper(raw, encoding="utf-8", line_buffering=True, write_through=True))
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr
    code = 0
    try:
        carry_out(list(words))
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if code and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
        code = 1
    ctypes.pythonapi.Py_Exit(code)  # as at the end of Python, from wherever in the stack


def close_as_exec_does(passed: Sequence[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        with contextlib.suppress(OSError):
            if number > 2 and number not in passed and fcntl.fcntl(number, fcntl.F_GETFD) & fcntl.FD_CLOEXEC:
                os.close(number)


def carry_out(words: list[str]) -> None:
    import numpy as np

    np.random.seed()  # each process has its own
    for name in [name for name in sys.modules if name.split(".")[0] == "fusewire"]:
        del sys.modules[name]
    if words[0] == FUSEWIRE_RUN:
        sys.argv = words
        with hidden("tensorflow"):
            from fusewire import __main__ as main
            from fusewire.launch import processes

        processes.subprocess = types.SimpleNamespace(Popen=Forked, DEVNULL=subprocess.DEVNULL, PIPE=subprocess.PIPE)
        sys.exit(main.main(words[1:]))
    if is_ours(words):
        sys.argv = [words[0], *words[2:]]
        del sys.path[0]
        with hidden("tensorflow"):
            from fusewire.launch import program

        program.main()
        return
    sys.argv = words
    sys.path[0] = os.path.dirname(os.path.realpath(words[0]))
    module = types.ModuleType("__main__")
    module.__file__ = os.path.abspath(words[0])
    sys.modules["__main__"] = module
    code = compile(pathlib.Path(words[0]).read_bytes(), words[0], "exec")
    exec(code, module.__dict__)


def is_ours(words: Sequence[str]) -> bool:
    """Whether this is the part of ours that runs a program."""
    return words[0] == "-c" and "from fusewire.launch.program import" in words[1]


@contextlib.contextmanager
def hidden(name: str) -> Iterator[None]:
    """Modules imported inside start as in a process that has not imported this module."""
    module = sys.modules.pop(name)
    try:
        yield
    finally:
        sys.modules[name] = module


class Forked:
    """Replaces subprocess.Popen in `fusewire run`: its tasks are forks as well."""

    def __new__(cls, words, **options):
        is_python = words[0] == sys.executable and (is_ours(words[1:]) or words[1][:1] != "-")
        return super().__new__(cls) if is_python else subprocess.Popen(words, **options)

    def __init__(self, words, *, env, pass_fds, preexec_fn, **_) -> None:
        pipes = [os.pipe(), os.pipe()]
        self.returncode: int | None = None
        self.pid = fork_in_session()
        if self.pid == 0:
            preexec_fn()
            streams = (os.open(os.devnull, os.O_RDONLY), pipes[0][1], pipes[1][1])
            exec_program(words[1:], env, streams, pass_fds)
        for _, write in pipes:
            os.close(write)
        self.stdout, self.stderr = (io.FileIO(read) for read, _ in pipes)

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


if __name__ == "__main__":
    serve(sys.argv[1])
