# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The status port of a process, and what those who ask it give away: a proof of the secret is for one place, once."""

import http.client
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from cluster import serving, tasks

from fusewire import machine
from fusewire.inspect import seeing
from fusewire.launch import rates

__all__ = ["serving", "tasks"]  # fixtures
pytestmark = pytest.mark.once
SECRET = "hush, hush, hush"
LIMIT_S = 20.0


@pytest.fixture
def port(serving, monkeypatch):
    """The status port of a process with a server, open on every interface."""
    place, _ = serving(FUSEWIRE_STATUS="0.0.0.0:0", FUSEWIRE_SECRET=SECRET)
    monkeypatch.setenv("FUSEWIRE_SECRET", SECRET)
    return place.port


def get(address: str, port: int, host: str, proof: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(address, port, timeout=LIMIT_S)
    connection.request("GET", "/status.json", headers={"Host": host, "Authorization": proof})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_a_proof_is_for_one_place_and_once(port):
    here = f"127.0.0.1:{port}"
    proof = seeing.proof(SECRET, here, "/status.json")
    status, words = get("127.0.0.2", port, here, proof)  # another place, which an attacker chooses
    assert (status, f"is for {here}, and this is 127.0.0.2:{port}" in words) == (401, True), words
    assert get("127.0.0.1", port, here, proof)[0] == 200
    status, words = get("127.0.0.1", port, here, proof)
    assert (status, words) == (401, "the proof has been used\n")


def test_a_name_that_stands_for_this_host_is_asked_by_its_address(port):
    assert seeing.ask(seeing.parse(f"localhost:{port}"))["tasks"][0]["task"] == "worker:0"
    assert seeing.ask(seeing.parse(f"127.0.0.2:{port}"))["tasks"][0]["task"] == "worker:0"


class Impostor:
    """Answers nothing, and remembers what it is asked."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.asked = b""
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with self._socket, self._socket.accept()[0] as line:
            while b"\r\n\r\n" not in self.asked:
                self.asked += line.recv(4096)

    def header(self, name: str) -> str:
        self._thread.join(LIMIT_S)
        lines = self.asked.decode().split("\r\n")
        return next(line.partition(": ")[2] for line in lines if line.startswith(f"{name}: "))


def test_a_name_that_stands_for_another_host_gets_no_proof_for_the_own_one(monkeypatch):
    """A process that answers for a name gets a proof for its own address, which no task accepts."""
    monkeypatch.setenv("FUSEWIRE_SECRET", SECRET)
    impostor = Impostor()
    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *more, **how: real("127.0.0.1", *more, **how))
    with pytest.raises((OSError, ValueError)):
        seeing.ask(seeing.Place("ps-0.train", impostor.port))
    assert impostor.header("Host") == f"127.0.0.1:{impostor.port}"


def test_the_launcher_asks_by_the_address(port):
    """As seeing.ask(): the two write the same request."""
    place = seeing.Place("127.0.0.1", port)
    request = rates._Question(None, place, SECRET, lambda _: None)._request
    with socket.create_connection(("127.0.0.1", port), LIMIT_S) as line:
        line.sendall(request)
        assert line.recv(64).startswith(b"HTTP/1.1 200 ")
    assert f"Host: {machine.at_port('127.0.0.1', port)}\r\n".encode() in request


def test_silent_strangers_keep_no_member_out(port):
    silent = [socket.create_connection(("127.0.0.1", port), LIMIT_S) for _ in range(48)]
    begun = time.monotonic()
    assert seeing.ask(seeing.Place("127.0.0.1", port))["tasks"]
    assert time.monotonic() - begun < seeing.ANSWER_S
    for line in silent:
        line.close()


ASKS = {  # what is asked, and the status of the answer
    "GET /": 200,
    "HEAD /": 200,
    "GET /status.json": 200,
    "GET /ring.json?after_ns=1": 200,
    "GET /metrics": 200,
    "GET /healthz": 200,
    "GET /now": 200,
    "GET /ring.json?after_ns=x": 400,
    "GET /none": 404,
    "OPTIONS /": 405,
    "OPTIONS /status.json": 405,
    "POST /": 405,
    f"GET /{'x' * 2000}": 414,
    "nonsense": 400,
}


def answers_of(port: int, more: str = "") -> Iterator[tuple[str, int, http.client.HTTPMessage]]:
    """What a page of another origin gets, also if its browser asks before (OPTIONS)."""
    origin = "Origin: http://evil.example\r\nAccess-Control-Request-Method: GET\r\nSec-Fetch-Site: cross-site\r\n"
    for asked in ASKS:
        with socket.create_connection(("127.0.0.1", port), LIMIT_S) as line:
            head = f"{asked} HTTP/1.1\r\n{more or f'Host: 127.0.0.1:{port}'}\r\n{origin}\r\n"
            line.sendall(head.encode())
            answer = http.client.HTTPResponse(line, method=asked.partition(" ")[0])
            answer.begin()
            yield asked, answer.status, answer.headers


def is_closed_to_others(headers: http.client.HTTPMessage) -> bool:
    """No script of another origin may read it, no page may hold it in a frame, nothing takes it for another type."""
    directives = [words.split() for words in headers["Content-Security-Policy"].split(";")]
    policy, whole = {name: values for name, *values in directives}, str(headers)
    assert not [name for name in headers if name.lower().startswith("access-control-")], whole
    assert policy.get("frame-ancestors") == policy.get("default-src") == ["'none'"], whole
    assert policy.get("connect-src") == ["'self'"], whole
    assert (headers["X-Content-Type-Options"], headers["Cache-Control"]) == ("nosniff", "no-store"), whole
    assert headers.get_content_type() in ("text/html", "text/plain", "application/json"), whole
    return True


def test_no_answer_may_be_read_by_another_origin_or_put_into_a_frame(serving):
    place, _ = serving()
    for asked, status, headers in answers_of(place.port):
        assert (asked, status) == (asked, ASKS[asked])
        assert is_closed_to_others(headers)
    for _, status, headers in answers_of(place.port, "Host: evil.example"):
        assert status in (400, 405, 414, 421)
        assert is_closed_to_others(headers)


def test_nor_may_one_that_lacks_the_secret(port):
    for asked, status, headers in answers_of(port):
        assert status == (401 if ASKS[asked] in (200, 404) or "after_ns" in asked else ASKS[asked])
        assert is_closed_to_others(headers)
