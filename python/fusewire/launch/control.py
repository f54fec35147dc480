# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The socket at which `fusewire run` takes requests while its job runs, and the other end of it.

It is a Unix socket, run-TOKEN.sock, in the folder where processes name their status ports (seeing.folders()): nobody
but this user can enter that folder, or open the socket. A connection carries one request, and lines come back:

    scale 4                 ->  say ps:2 is started, and takes ps:2, ps:6
    about                       wait                        each few seconds, while it takes longer
                                done 4 processes: ...       or: error ..., the last line
"""

import contextlib
import dataclasses
import os
import pathlib
import queue
import secrets
import socket
import stat
import struct
import threading
import time
from collections.abc import Callable, Iterator

from fusewire.cli import LINE_MAX, printable
from fusewire.inspect import seeing
from fusewire.launch.loop import Loop

REQUEST_BYTES_MAX, REQUEST_S = 200, 5.0
LINE_BYTES_MAX = 16 * LINE_MAX  # a letter is shown by ten at most
SILENCE_S, WAIT_S = 20.0, 5.0  # a line comes more often than the other end gives up
CONNECTIONS_MAX = 4
LAST = ("done", "error")
PEER = struct.Struct("3i")  # of SO_PEERCRED: pid, uid, gid


class ControlError(Exception):
    """The other end has failed, or refuses; the text says why."""

    def __init__(self, text: str):
        super().__init__(printable(text, LINE_MAX))


@dataclasses.dataclass
class Request:
    """One request. Its functions may be called by any thread; the last line ends it."""

    words: list[str]
    lines: "queue.SimpleQueue[tuple[str, str]]" = dataclasses.field(default_factory=queue.SimpleQueue)

    def say(self, text: str) -> None:
        self.lines.put(("say", text))

    def done(self, text: str) -> None:
        self.lines.put(("done", text))

    def fail(self, text: str) -> None:
        self.lines.put(("error", text))


class Control:
    """The launcher's end. `take` is called in a thread of the connection, and returns at once."""

    def __init__(self, loop: Loop, take: Callable[[Request], None]):
        self._loop = loop
        self._take = take
        self._mutex = threading.Lock()
        self._count = 0  # of connections
        self._name = f"run-{secrets.token_hex(8)}.sock"
        self._folder = _open_folder()
        try:
            self._listener = _listen(self._folder, self._name)
        except OSError:
            os.close(self._folder)
            raise
        loop.watch(self._listener, self._accept)

    def close(self) -> None:
        """Takes no more requests; the thread that has taken one ends it."""
        self._loop.forget(self._listener)
        with contextlib.suppress(OSError):
            os.unlink(self._name, dir_fd=self._folder)
        self._listener.close()
        os.close(self._folder)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            line, _ = self._listener.accept()
            with self._mutex:
                is_welcome = self._count < CONNECTIONS_MAX and _user_of(line) == os.geteuid()
                self._count += is_welcome
            if is_welcome:
                threading.Thread(target=self._serve, args=(line,), daemon=True).start()
            else:
                line.close()

    def _serve(self, line: socket.socket) -> None:
        try:
            with line, contextlib.suppress(OSError):
                request = Request(_request(line))
                self._take(request)
                for word, text in _lines_of(request):
                    line.settimeout(SILENCE_S)
                    line.sendall(f"{word} {printable(text, LINE_MAX)}".rstrip().encode(errors="replace") + b"\n")
        finally:
            with self._mutex:
                self._count -= 1


def _lines_of(request: Request) -> Iterator[tuple[str, str]]:
    word = ""
    while word not in LAST:
        try:
            word, text = request.lines.get(timeout=WAIT_S)
        except queue.Empty:
            word, text = "wait", ""
        yield word, text


def _request(line: socket.socket) -> list[str]:
    """The words of the first line. Raises OSError if no such line comes in time."""
    ends = time.monotonic() + REQUEST_S
    data = b""
    while not data.endswith(b"\n"):
        line.settimeout(max(0.001, ends - time.monotonic()))
        more = line.recv(REQUEST_BYTES_MAX + 1 - len(data))
        data += more
        if not more or len(data) > REQUEST_BYTES_MAX or time.monotonic() > ends:
            raise ConnectionError
    return data.decode(errors="replace").split()


def _user_of(line: socket.socket) -> int:
    _, user, _ = PEER.unpack(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size))
    return int(user)


def _open_folder() -> int:
    """Where processes name their status ports, as observe/folder.h makes it. OSError if there is none."""
    runtime = pathlib.Path(os.environ.get("XDG_RUNTIME_DIR") or "/none")
    is_own = runtime.is_dir() and runtime.lstat().st_uid == os.geteuid()
    path = runtime / "fusewire" if is_own else pathlib.Path(f"/tmp/fusewire-{os.geteuid()}")
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    return _own_folder(path)


def _own_folder(path: pathlib.Path) -> int:
    """An open folder that this user alone can enter. OSError if it is somebody else's, or a link."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    about = os.fstat(folder)
    if about.st_uid != os.geteuid() or about.st_mode & 0o077:
        os.close(folder)
        raise PermissionError(f"{path} is not a folder that only this user can enter")
    return folder


def _place(folder: int, name: str) -> str:
    """A short name for it: that of a Unix socket has at most 107 bytes."""
    return f"/proc/self/fd/{folder}/{name}"


def _listen(folder: int, name: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # It gets its name once it listens: one that does not is left behind by a launcher that was killed.
        listener.bind(_place(folder, f"{name}.new"))
        os.chmod(f"{name}.new", 0o600, dir_fd=folder)
        listener.listen(CONNECTIONS_MAX)
        listener.setblocking(False)
        os.rename(f"{name}.new", name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        listener.close()
        raise
    return listener


# ---- the other end ----


def launchers() -> list[pathlib.Path]:
    """The sockets of this user's launchers on this machine."""
    found = []
    for path in seeing.folders():
        with contextlib.suppress(OSError):
            folder = _own_folder(path)
            try:
                for name in sorted(os.listdir(folder)):
                    about = os.stat(name, dir_fd=folder, follow_symlinks=False)
                    if name.startswith("run-") and name.endswith(".sock") and stat.S_ISSOCK(about.st_mode):
                        found.append(path / name)
            finally:
                os.close(folder)
    return found


def ask(path: pathlib.Path, words: str, say: Callable[[str], None] = lambda text: None) -> str:
    """What has been done. ControlError says why it is not. FileNotFoundError: no launcher listens there any more."""
    folder = _own_folder(path.parent)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(SILENCE_S)
            try:
                line.connect(_place(folder, path.name))
            except ConnectionRefusedError as error:
                os.unlink(path.name, dir_fd=folder)
                raise FileNotFoundError from error
            line.sendall(f"{words}\n".encode())
            return _answer(line, say)
    except TimeoutError as error:
        raise ControlError(
            f"it has said nothing for {SILENCE_S:g} s. Fix: see whether it is stopped (SIGCONT continues it)"
        ) from error
    except ConnectionError as error:
        raise ControlError(f"it has closed the connection ({error or 'its job has ended'})") from error
    finally:
        os.close(folder)


def _answer(line: socket.socket, say: Callable[[str], None]) -> str:
    with line.makefile("rb") as file:
        while data := file.readline(LINE_BYTES_MAX):
            word, _, text = data.decode(errors="replace").rstrip("\n").partition(" ")
            text = printable(text, LINE_MAX)
            if word == "error":
                raise ControlError(text)
            if word == "done":
                return text
            if word == "say":
                say(text)
    raise ConnectionResetError("its job has ended")
