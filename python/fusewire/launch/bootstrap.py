# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""How the processes of a job (inside.py) find rank 0, and prove to each other that they know FUSEWIRE_SECRET.

A joining process sends the version that it speaks in a line; frames follow, as frames.py has them:

    NUL "fusewire agent " VERSION "+meeting." PROTOCOL NEWLINE

| kind | sent by | payload, JSON |
|---|---|---|
| CHALLENGE | rank 0 | nonce, drawn for this connection |
| OFFER | the process | rank, size of the job, its address and rank 0's as it sees them, its ports, a nonce, a proof |
| WELCOME | rank 0 | a proof; how the two go on |
| REFUSED | rank 0 | in place of WELCOME: why |

A proof is the HMAC-SHA256, by the secret, of its sender's role, both nonces and all that its frame says. The joining
process proves itself first: before that, rank 0 sends nothing that depends on the secret, so that nobody can test
guesses of it. From WELCOME on, each frame is sealed by a key of the secret and both nonces. Without a
secret there is no proof, and the seals protect only from programs that have not seen the nonces.
"""

import contextlib
import hmac
import ipaddress
import json
import re
import secrets
import socket
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from fusewire import machine
from fusewire.cli import printable
from fusewire.launch import frames
from fusewire.launch.frames import Decoder, FrameError, Seal
from fusewire.launch.loop import READ_BYTES, Loop, read
from fusewire.secret import SECRET
from fusewire.version import VERSION

SPEAKS = f"{VERSION}+meeting.3"
FIRST_LINE = f"\0fusewire agent {SPEAKS}\n".encode()
LINE_BYTES_MAX, UNPROVEN_BYTES_MAX = 96, 4096  # before the proof: the first line, a payload
PROOF_S = 5.0  # that a proof may take
DIAL_AGAIN_S, DIAL_S = 0.2, 5.0
NONCE, NONCE_BYTES = re.compile("[0-9a-f]{32}"), 16
COMES, LEADS = "comes", "leads"  # the roles
UNKNOWN = f"it does not know the secret. Fix: set the same {SECRET} for all processes of the job"


class BootstrapError(Exception):
    """The processes of the job can't reach each other; the text says why, and what to do."""


def prove(secret: str, role: str, nonces: tuple[str, str], said: Mapping[str, Any]) -> str:
    """`nonces` are rank 0's and the other's, `said` is the frame without its proof."""
    text = json.dumps(["fusewire meeting", role, *nonces, dict(said)], sort_keys=True)
    return hmac.digest(secret.encode(), text.encode(), "sha256").hex()


def seal_of(secret: str, role: str, nonces: tuple[str, str]) -> Seal:
    """Of the frames that this role sends."""
    text = json.dumps(["fusewire meeting seal", role, *nonces])
    return Seal(hmac.digest(secret.encode(), text.encode(), "sha256"))


def proves(secret: str, role: str, nonces: tuple[str, str], said: Mapping[str, Any]) -> bool:
    rest = {name: value for name, value in said.items() if name != "proof"}
    return hmac.compare_digest(prove(secret, role, nonces, rest).encode(), said["proof"].encode())


class Candidate:
    """At rank 0's end: a connection until it has proved itself (`offer`), is refused (`why`), or `until` is over."""

    def __init__(self, loop: Loop, line: socket.socket, secret: str):
        self.line = line
        self.offer: Mapping[str, Any] | None = None
        self.why = ""
        self.until = time.monotonic() + PROOF_S
        self._loop = loop
        self._secret = secret
        self._nonce = secrets.token_hex(NONCE_BYTES)
        self._first = b""
        self._decoder: Decoder | None = None
        line.setblocking(False)
        loop.watch(line, self._read)

    @property
    def is_decided(self) -> bool:
        return self.offer is not None or self.why != ""

    def refuse(self, why: str) -> None:
        """Ends the connection, and says why to the other end."""
        self.why = self.why or why
        self.offer = None
        with contextlib.suppress(OSError):
            self.line.send(frames.encode_json(frames.REFUSED, 0, {"why": why}))
        self.close()

    def close(self) -> None:
        self._loop.forget(self.line)
        self.line.close()

    def welcome(self, progress: bool, silence_s: float) -> tuple[Decoder, Seal]:
        """Takes the process. From now on, its connection is the caller's, and what it says is sealed."""
        assert self.offer is not None
        assert self._decoder is not None
        self._loop.forget(self.line)
        nonces = (self._nonce, self.offer["nonce"])
        said: dict[str, Any] = {"progress": progress, "silence_s": silence_s}
        said["proof"] = prove(self._secret, LEADS, nonces, said) if self._secret else ""
        with contextlib.suppress(OSError):  # its reader will find out
            self.line.send(frames.encode_json(frames.WELCOME, 0, said))
        self._decoder.seal_with(seal_of(self._secret, COMES, nonces), frames.OF_AGENT)
        return self._decoder, seal_of(self._secret, LEADS, nonces)

    def _read(self) -> None:
        data = read(self.line.fileno())
        if data is None:
            return
        if not data:
            self.why = "it has ended"
            self.close()
            return
        try:
            if self._decoder is None:
                data = self._greet(data)
            for _, _, offer in self._decoder.feed(data) if self._decoder else ():
                self._take(offer)
        except FrameError as error:
            self.refuse(str(error))

    def _greet(self, data: bytes) -> bytes:
        """Looks for the first line; returns what follows it."""
        self._first += data
        line, newline, rest = self._first.partition(b"\n")
        if not newline and len(line) <= LINE_BYTES_MAX:
            return b""
        found = frames.FIRST_LINE_OF_ANY.fullmatch(line[:LINE_BYTES_MAX] + newline)
        if found is None:
            raise FrameError(f"it begins with {line[:40]!r}")
        speaks = found[1].decode()
        if speaks != SPEAKS:
            raise FrameError(f"it is of fusewire {speaks}, and rank 0 of {SPEAKS}. Fix: install one version")
        self._decoder = Decoder({frames.OFFER}, UNPROVEN_BYTES_MAX)
        try:
            self.line.send(frames.encode_json(frames.CHALLENGE, 0, {"nonce": self._nonce}))
        except OSError as error:
            raise FrameError(f"it takes nothing: {error.strerror}") from error
        return rest

    def _take(self, offer: Mapping[str, Any]) -> None:
        if self.offer is not None:
            raise FrameError("it offers itself twice")
        if not NONCE.fullmatch(offer["nonce"]):
            raise FrameError("it has no nonce")
        if self._secret and not proves(self._secret, COMES, (self._nonce, offer["nonce"]), offer):
            raise FrameError(UNKNOWN)
        for name in ("address", "dialled"):
            try:
                ipaddress.ip_address(offer[name])
            except ValueError as error:
                raise FrameError(f"{offer[name]!r} is not an address") from error
        for port in offer["ports"]:
            if type(port) is not int or not 0 < port < 1 << 16:
                raise FrameError(f"{str(port)[:80]!r} is not a port")
        self.offer = offer


class Joined(NamedTuple):
    """At the other end: the connection to rank 0, once both have proved themselves."""

    line: socket.socket
    decoder: Decoder
    seal: Seal
    silence_s: float
    progress: bool


def join(host: str, port: int, limit_s: float, secret: str, offer: Mapping[str, Any]) -> Joined:
    """`offer` describes this process, without its addresses. Tries again if rank 0 is not there yet, or has no
    time; BootstrapError after limit_s, or if rank 0 refuses."""
    until = time.monotonic() + limit_s
    while True:
        try:
            line = socket.create_connection((host, port), timeout=min(DIAL_S, limit_s))
            try:
                return _prove(line, secret, offer)
            except BaseException:
                line.close()
                raise
        except FrameError as error:
            raise BootstrapError(f"rank 0 sends invalid frames: {error}. Fix: choose another port") from error
        except OSError as error:
            if time.monotonic() > until:
                raise BootstrapError(
                    f"rank 0 is not reached at {machine.at_port(host, port)} for {limit_s:g} s: {error}. Fix: see what "
                    "it has printed; if it is on another host, name that one by --meet; raise --host-timeout if it "
                    "starts slowly"
                ) from error
            time.sleep(DIAL_AGAIN_S)


def _prove(line: socket.socket, secret: str, offer: Mapping[str, Any]) -> Joined:
    """OSError if the connection ends, or nothing comes for long."""
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    line.settimeout(PROOF_S)
    line.sendall(FIRST_LINE)
    decoder = Decoder({frames.CHALLENGE, frames.REFUSED}, UNPROVEN_BYTES_MAX)
    theirs = _next(line, decoder)["nonce"]
    if not NONCE.fullmatch(theirs):
        raise FrameError("it has no nonce")
    nonces = (theirs, secrets.token_hex(NONCE_BYTES))
    said = {**offer, "address": line.getsockname()[0], "dialled": line.getpeername()[0], "nonce": nonces[1]}
    said["proof"] = prove(secret, COMES, nonces, said) if secret else ""
    line.sendall(frames.encode_json(frames.OFFER, 0, said))
    decoder.expect({frames.WELCOME, frames.REFUSED})
    welcome = _next(line, decoder)
    if secret and not proves(secret, LEADS, nonces, welcome):
        raise BootstrapError(
            f"rank 0 does not know the secret. Fix: set the same {SECRET} for all processes of the job"
        )
    decoder.seal_with(seal_of(secret, LEADS, nonces), frames.OF_LAUNCHER)
    line.settimeout(None)
    silence_s = frames.silence_s(welcome["silence_s"])
    return Joined(line, decoder, seal_of(secret, COMES, nonces), silence_s, welcome["progress"])


def _next(line: socket.socket, decoder: Decoder) -> Mapping[str, Any]:
    """What the next frame says."""
    data = b""
    until = time.monotonic() + PROOF_S
    while True:
        for kind, _, said in decoder.feed(data):
            if kind == frames.REFUSED:
                raise BootstrapError(f"rank 0 refuses this process: {printable(said['why'])}")
            return dict(said)
        if time.monotonic() > until:
            raise TimeoutError("it says nothing")
        data = line.recv(READ_BYTES)
        if not data:
            raise ConnectionError("it has ended the connection")
