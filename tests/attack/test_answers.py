# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Answers of status ports, and of tasks to the doctor, that are JSON but of a wrong structure: no command breaks, the
liar is named, and the other tasks are shown."""

import contextlib
import copy
import http.server
import json
import random
import re
import socket
import threading
import time

import pytest
from conftest import fusewire_command

from fusewire import __main__ as main
from fusewire.doctor import survey
from fusewire.doctor.report import show
from fusewire.inspect import answers, inquiry, seeing, top, trace, why
from fusewire.launch import rates

__all__ = ["fusewire_command"]  # a fixture
pytestmark = pytest.mark.once
S = 10**9
LIES = 400
UNREADABLE = r"gives an answer that can't be read: .*\. Fix: check that a task of Fusewire listens at this port"
MEMBERS = {"ps:0": "127.0.0.1:29288", "ps:1": "127.0.0.1:10971", "worker:0": "127.0.0.1:18853"}


def line(kind, task, peer, count=1666, moved=0):
    row = {"kind": kind, "task": task, "peer": peer, "count": count, "failed": 0, "bytes": moved}
    times = {"time_ns": 883072141, "p50_ns": 458751, "p99_ns": 2097151, "max_ns": 15696103}
    return {**row, **times, "open": 1, "oldest_ns": 5 * S}


# As a job has answered, but shorter: a worker, which is a rank as well.
STATUS = {
    "fusewire": "0.2.0.dev0+g0123456",
    "pid": 24937,
    "start": 1572809,
    "now_ns": 15729268252952,
    "begun_ns": 15728114819839,
    "time": 1795791749.175421,
    "tasks": [
        {"task": "worker:0", "protocol": "grpc++", "data_port": 40458, "members": MEMBERS},
        {"task": "rank:0", "protocol": "collective", "data_port": 0, "members": {"rank:0": "a:1", "rank:1": "b:1"}},
    ],
    "lines": [
        line("session", "", ""),
        line("receive", "worker:0", "ps:0", 4998, 266560000),
        line("collective", "rank:0", "rank:1"),
    ],
    "open_total": 2,
    "open": [
        {"kind": kind, "task": task, "peer": peer, "name": "all", "step": 7, "age_ns": 9 * S, "landed": False}
        for kind, task, peer in (
            ("receive", "worker:0", "ps:1"),
            ("collective", "rank:0", "rank:1"),
            ("session", "", ""),
            ("provide", "worker:0", "ps:1"),
        )
    ],
    "names_total": 1,
    "names": [
        {"kind": "receive", "task": "worker:0", "peer": "ps:0", "name": "w", "count": 9, "bytes": 9, "time_ns": 9}
    ],
    "numbers": {"collectives": 3, "collective_bytes": 900},
    "unrecorded": 0,
    "last": [{"kind": "session", "task": "", "peer": "", "age_ns": 9 * S}],
}
RING = {
    "now_ns": 15729268252952,
    "tags": {
        "6": {"kind": "receive", "task": "worker:0", "peer": "ps:0", "name": "w"},
        "7": {"kind": "provide", "task": "worker:0", "peer": "ps:0", "name": "w"},
    },
    "columns": list(answers.COLUMNS),
    "ring": [
        [17408, 6, 0, 0, 7, 80000, 15728196733931, 15728196733999, 15728201556357, "14528467418063318291"],
        [17409, 6, 1, 0, 7, 80000, 15728196733932, 0, 0, "0"],
        [17410, 7, 0, 1, 7, 80000, 15728196734000, 0, 15728201556357, "14528467418063318291"],
    ],
}
NOW = {"now_ns": 15729268252952}
ABOUT = {"fusewire": "0.2.0", "tensorflow": "2.15.1", "task": "ps:0", "protocol": "grpc++", "data_port": 4711}
ABOUT |= {"wall_ns": 1795791749175421000, "members": MEMBERS}
MEASURED = {"wire": "tcp", "best_round_trip_ns": 9000, "median_round_trip_ns": 9500, "bytes_per_s": 10**9}
HONEST = {"/status.json": STATUS, "/ring.json": RING, "/now": NOW}

OTHERS = [None, True, False, 0, 1, -1, 1.5, 1e308, 2**63, 2**64, 10**400, -(2**70), "", "x", "7", "\u00b2", "ps:\u00b2"]
OTHERS += ["ps:" + "9" * 5000, "rank:1", "\ud800\x1b[2J", [], [[]], [{}], {}, {"": None}, {"x": {"x": [[[[1]]]]}}]


def nodes_of(value, at=()):
    """The places of all values within this one."""
    yield at
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in inside:
        yield from nodes_of(one, (*at, name))


def lie_of(truth, seed):
    """The same, but for one to three values that are replaced, removed or there twice."""
    chance = random.Random(seed)
    lie = {"": copy.deepcopy(truth)}
    for _ in range(chance.randint(1, 3)):
        *outer, name = chance.choice([at for at in nodes_of(lie) if at])
        inside = lie
        for step in outer:
            inside = inside[step]
        match chance.randrange(4):
            case 0 if name != "":
                del inside[name]
            case 1 if isinstance(inside, list):
                inside.append(copy.deepcopy(inside[name]))
            case _:
                inside[name] = copy.deepcopy(chance.choice(OTHERS))
    return lie.get("")


WRONG_JSON = [
    b"",
    b"{",
    b"NaN",
    b'{"pid": NaN}',
    b'{"pid": -Infinity}',
    b"[" * 10**5,
    b"\xff\xfe",
    b"1" * 5000,
    b"null",
]
# Of the right structure: a task whose number is not one, and a wait for an unknown task.
STRANGE = [
    {**STATUS, "tasks": [{**STATUS["tasks"][0], "task": "ps:\u00b2"}]},
    {**STATUS, "open": [*STATUS["open"], {**STATUS["open"][0], "peer": "unknown:0"}]},
]
LIES_OF_STATUS = [json.dumps(lie_of(STATUS, seed)).encode() for seed in range(LIES)]
LIES_OF_STATUS += [*WRONG_JSON, *(json.dumps(strange).encode() for strange in STRANGE)]


class Ports:
    """Stands for the network: port 1 says the truth, each other port what `said` has for it."""

    def __init__(self, monkeypatch):
        self.said: dict[int, dict[str, bytes]] = {1: {path: json.dumps(one).encode() for path, one in HONEST.items()}}
        self._turn = 0
        monkeypatch.setattr(seeing, "_body", self._body)

    def _body(self, place, target, limit_s):
        body = self.said[place.port][target.partition("?")[0]]
        if place.port == 1 and target == "/status.json":  # a second later
            self._turn += 1
            body = json.dumps({**STATUS, "now_ns": STATUS["now_ns"] + self._turn * S}).encode()
        return body


COMMANDS = [
    ["top", "--once", "--every", "0.001"],
    ["top", "--json", "--every", "0.001"],
    ["top", "--targets"],
    ["why"],
    ["why", "--json"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_lies_about_the_status(monkeypatch, capsys, words):
    """The commands say something of the honest task, and no more of the liar than that it can't be read."""
    ports = Ports(monkeypatch)
    refused = 0
    for number, lie in enumerate(LIES_OF_STATUS):
        ports.said[2] = {"/status.json": lie}
        main.main([*words, "h:1", "h:2"])
        said = capsys.readouterr()
        assert "worker:0" in said.out, (number, lie)
        if "--targets" in words:
            continue
        try:
            answers.read(lie, answers.STATUS)
        except answers.AnswerError as error:
            refused += 1
            assert re.search(UNREADABLE, str(error))
            assert re.search("h:2.*can't be read", said.out, re.DOTALL), (number, lie, said.out)
    print(f"{refused} of {len(LIES_OF_STATUS)} are refused")
    assert "--targets" in words or LIES / 2 < refused < len(LIES_OF_STATUS)


def test_lies_about_operations(monkeypatch, capsys, tmp_path):
    """`fusewire trace` writes what the honest task says, and names the liar."""
    monkeypatch.setattr(trace, "POLL_S", 0.0)
    ports = Ports(monkeypatch)
    output = tmp_path / "trace.json"
    refused = 0
    for seed in range(LIES // 2):
        for path, shape in answers.SHAPES.items():
            lie = json.dumps(lie_of(HONEST[path], seed)).encode()
            ports.said[2] = {**ports.said[1], path: lie}
            assert main.main(["trace", "--seconds", "0.0001", "-o", str(output), "h:1", "h:2"]) == 0
            events = json.loads(output.read_text())["traceEvents"]
            assert sum(event["ph"] == "X" for event in events) >= len(RING["ring"])
            said = capsys.readouterr().err
            try:
                answers.read(lie, shape)
            except answers.AnswerError:
                refused += 1
                assert re.search(UNREADABLE, said), (path, seed, said)
    print(f"{refused} of {LIES // 2 * len(answers.SHAPES)} are refused")
    assert refused > LIES / 2


def test_lies_to_the_launcher(monkeypatch):
    """Of `fusewire run`: what can't be read is left out."""
    refused = 0
    for lie in LIES_OF_STATUS:
        try:
            counters = rates.Counters.of(answers.read(lie, answers.COUNTERS))
        except answers.AnswerError:
            refused += 1
            continue
        with contextlib.suppress(ValueError):  # numbers that no other process would take
            rates.Progress.of(list(vars(counters.since(rates.Counters(1, 2, 3))).values()))
    assert LIES / 8 < refused < len(LIES_OF_STATUS)


def test_lies_to_the_doctor(monkeypatch, capsys):
    """Of `fusewire doctor --cluster`: about itself, and about its ways to others."""
    monkeypatch.setattr(inquiry.Task, "__init__", lambda self, address: setattr(self, "address", address))
    monkeypatch.setattr(inquiry.Task, "close", lambda self: None)
    monkeypatch.setattr(inquiry, "connect", lambda address: "127.0.0.1")
    said = {}

    def call(task, request, limit_s):
        about = b"measure" not in request
        if task.address != MEMBERS["ps:0"]:
            return json.dumps({**ABOUT, "task": "worker:0"} if about else MEASURED)
        return said["about" if about else "measured"]

    monkeypatch.setattr(inquiry.Task, "_call", call)
    monkeypatch.setattr(inquiry, "ABOUTS", 1)
    for seed in range(LIES):
        said["about"] = json.dumps(lie_of(ABOUT, seed) if seed % 2 else ABOUT)
        said["measured"] = json.dumps(MEASURED if seed % 2 else lie_of(MEASURED, seed))
        found = survey.survey([MEMBERS["ps:0"], MEMBERS["worker:0"]], 5.0, lambda text: None)
        show(survey.checks(found), survey.matrices(found))
        show(survey.checks(found), facts=survey.as_json(found))
        assert "worker:0" in capsys.readouterr().out
        try:
            answers.read(said["about"], answers.ABOUT)
        except answers.AnswerError:
            [liar] = [peer for peer in found.peers if peer.address == MEMBERS["ps:0"]]
            assert liar.state == "stranger"
            assert "can't be read" in liar.error


def test_a_task_that_names_others_without_end(monkeypatch):
    """The doctor asks so many, and says that there were more."""
    monkeypatch.setattr(survey, "PEERS_MAX", 50)

    def ask(address):
        port = int(address.rpartition(":")[2])
        members = {f"ps:{port}.{number}": f"h:{port + 1 + number}" for number in range(20)}
        return survey.Peer(address, name=f"ps:{port}", about={**ABOUT, "members": members})

    monkeypatch.setattr(survey, "ask", ask)
    monkeypatch.setattr(survey, "measure", lambda *_: None)
    found = survey.survey(["h:1"], 1.0, lambda text: None)
    assert len(found.peers) == 50
    assert any(
        "more addresses, which tasks have named, were not asked" in check.value for check in survey.checks(found)
    )


def test_an_endless_number_of_a_protobuf():
    begun = time.monotonic()
    assert inquiry._device(b"\xff" * (1 << 20)) == ""
    assert time.monotonic() - begun < 5


def costly_statuses():
    """As large as an answer may be, and the worst case for following waits and for comparing rows."""
    rows = answers.ROWS_MAX
    chain = [{**STATUS["open"][0], "task": f"t:{row}", "peer": f"t:{row + 1}"} for row in range(rows)]
    yield {**STATUS, "open": chain}
    members = {f"rank:{rank}": "a:1" for rank in range(rows)}
    rank = {**STATUS["tasks"][1], "members": members}
    late = [line("collective", "rank:0", f"rank:{row}") for row in range(rows)]
    yield {**STATUS, "tasks": [rank], "lines": late}
    yield {**STATUS, "tasks": [rank], "open": [{**STATUS["open"][1], "peer": f"rank:{row}"} for row in range(rows)]}
    tasks = [{**STATUS["tasks"][0], "task": f"t:{row}"} for row in range(answers.TASKS_MAX)]
    yield {**STATUS, "tasks": tasks, "lines": [line("receive", "", f"t:{row}") for row in range(rows)]}


def test_an_answer_costs_a_bounded_time():
    for status in costly_statuses():
        begun = time.monotonic()
        process = seeing.Process(seeing.Place("h", 2), answers.read(json.dumps(status), answers.STATUS))
        why.judge([process], 2 * S)
        list(top.text_of(top.view([process], [process])))
        assert time.monotonic() - begun < 20
    for value in ({**STATUS, "open": [STATUS["open"][0]] * (answers.ROWS_MAX + 1)}, {**STATUS, "tasks": [{}] * 257}):
        with pytest.raises(answers.AnswerError, match="are the most"):
            answers.read(json.dumps(value), answers.STATUS)


def test_operations_that_all_overlap_cost_a_bounded_time():
    tape = trace.Tape("liar", 1, tags=dict.fromkeys([6], RING["tags"]["6"]))
    row = dict(zip(answers.COLUMNS, RING["ring"][0], strict=True))
    tape.operations = {number: {**row, "id": number} for number in range(50_000)}
    begun = time.monotonic()
    assert len(list(trace.tracks_of(tape))) == 50_000
    assert time.monotonic() - begun < 20


class Port(http.server.BaseHTTPRequestHandler):
    """A status port. Its server has what it says."""

    def do_GET(self):
        path = self.path.partition("?")[0]
        body = self.server.said.get(path, b"")
        if path == "/status.json" and body.startswith(b'{"fusewire"'):
            self.server.turn += 1
            status = json.loads(body)
            body = json.dumps({**status, "now_ns": STATUS["now_ns"] + self.server.turn * S}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def port(**changed):
    """The address of one that is honest, but for these: status=..., ring=..., now=..."""
    paths = {"status": "/status.json", "ring": "/ring.json", "now": "/now"}
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Port) as server:
        server.said = {path: json.dumps(one).encode() for path, one in HONEST.items()}
        server.said |= {
            paths[name]: one if isinstance(one, bytes) else json.dumps(one).encode() for name, one in changed.items()
        }
        server.turn = 0
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        ([], "it is a list, not an object"),
        ({**STATUS, "tasks": None}, "tasks is null, not a list"),
        ({**STATUS, "lines": [{**STATUS["lines"][0], "count": "9"}]}, "lines[0].count is a text, not a whole number"),
        ({**STATUS, "begun_ns": 1.5}, "begun_ns is 1.5, not a whole number"),
        ({key: value for key, value in STATUS.items() if key != "open"}, "it has no open"),
        (b'{"pid": NaN}', "it is not JSON (NaN is not a number)"),
        (b"[" * 10**5, "it is not JSON (it is nested too deeply)"),
    ],
)
def test_a_port_that_lies_beside_one_that_does_not(fusewire_command, tmp_path, lie, words):
    with port(status=lie) as liar, port() as honest:
        for command in (["top", "--once", "--every", "0.1"], ["why"]):
            done = fusewire_command(*command, liar, honest)
            assert "Traceback" not in done.error, done.error
            assert f"{liar}" in done.out
            assert f"gives an answer that can't be read: {words}" in done.out
            assert "worker:0" in done.out
        done = fusewire_command("trace", "--seconds", "0.1", "-o", "trace.json", liar, honest)
    assert done.status == 0, done.error
    assert f"fusewire trace: {liar} is left out: it gives an answer that can't be read: {words}" in done.error
    assert "3 operations of 1 processes" in done.out


@pytest.mark.parametrize(
    "lie", [{"ring": {**RING, "tags": {}}}, {"ring": {**RING, "columns": 7}}, {"now": {"now_ns": []}}]
)
def test_operations_of_a_port_that_lies(fusewire_command, lie):
    with port(**lie) as liar, port() as honest:
        done = fusewire_command("trace", "--seconds", "0.1", "-o", "trace.json", liar, honest)
    assert done.status == 0, done.error
    assert re.search(f"fusewire trace: .* is shown only in part: it {UNREADABLE}", done.error), done.error
    assert "3 operations of 1 processes" in done.out


@contextlib.contextmanager
def slow_port(begin: bytes, again: bytes, every_s: float):
    """The address of one that says `begin`, and then `again` for as long as somebody listens."""
    ended = threading.Event()

    def serve(held):
        with held, contextlib.suppress(OSError):
            held.sendall(begin)
            while not ended.wait(every_s):
                held.sendall(again)

    def accept():
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        ended.set()
        listener.shutdown(socket.SHUT_RDWR)


OK = b"HTTP/1.1 200 OK\r\n"
DRIPS = {
    "the first line": (b"", b"H"),
    "a head": (OK, b"a"),
    "heads": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "a body": (OK + b"Content-Length: 1000000\r\n\r\n", b" "),
    "pieces": (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
}


@pytest.mark.parametrize("what", DRIPS)
def test_a_port_that_drips_is_given_up(what):
    with slow_port(*DRIPS[what], every_s=0.1) as address:
        begun = time.monotonic()
        [process] = seeing.ask_all([seeing.parse(address)], limit_s=0.5)
        assert process.state == "does not answer within 0.5 s"
        assert 0.4 < time.monotonic() - begun < 5


@pytest.mark.parametrize("head", [b"", OK + b"\r\n", OK + b"Content-Length: 9999999999\r\n\r\n"])
def test_an_answer_without_end_is_cut(head):
    with slow_port(head, b" " * (1 << 20), every_s=0.0) as address:
        [process] = seeing.ask_all([seeing.parse(address)], limit_s=60.0)
    assert re.search(f"{UNREADABLE}", process.state)
    assert "more than 16 MiB" in process.state


def test_a_name_with_many_addresses_that_do_not_answer(monkeypatch):
    """All of them together have the time of one."""
    held = socket.create_server(("127.0.0.1", 0), backlog=0)
    port = held.getsockname()[1]
    full = [socket.create_connection(("127.0.0.1", port)) for _ in range(1)]
    info = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", port))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [info] * 20)
    begun = time.monotonic()
    [process] = seeing.ask_all([seeing.Place("many", port)], limit_s=1.0)
    assert process.state == "does not answer within 1 s"
    assert time.monotonic() - begun < 5
    for each in [held, *full]:
        each.close()


def test_a_port_that_drips_beside_one_that_does_not(fusewire_command):
    with slow_port(*DRIPS["a body"], every_s=0.5) as liar, port() as honest:
        for command in (["top", "--once", "--every", "0.1"], ["why"]):
            begun = time.monotonic()
            done = fusewire_command(*command, liar, honest)
            assert time.monotonic() - begun < 20
            assert re.search(f"{liar}.* does not answer within 2 s", done.out)
            assert "worker:0" in done.out
        done = fusewire_command("trace", "--seconds", "0.1", "-o", "trace.json", liar, honest)
    assert f"fusewire trace: {liar} is left out: it does not answer within 2 s" in done.error
    assert "3 operations of 1 processes" in done.out


def test_a_clock_that_drips_takes_the_time_of_the_trace(monkeypatch):
    """Each answer comes in time; all of them would take longer than the trace may."""
    asked = []

    def ask(place, target="/status.json", limit_s=0.0):
        asked.append(target)
        time.sleep(0.05)
        return answers.read(json.dumps(NOW), answers.NOW)

    monkeypatch.setattr(seeing, "ask", ask)
    trace.clock_of(seeing.Place("h", 1), time.monotonic() + 0.1)
    assert 1 <= len(asked) <= 4
