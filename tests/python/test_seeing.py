# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""A running job, as `fusewire top`, `fusewire trace`, Prometheus and a browser see it."""

import argparse
import collections
import http.server
import itertools
import json
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from typing import ClassVar

import pytest
from conftest import ROOT, process
from processes import free_addresses, wait_until

from fusewire import machine
from fusewire.inspect import seeing, top, trace

OBSERVE = ROOT / "deploy" / "observe"
ON_PAGE = re.compile(r"^\| `(fusewire_\w+)` \| (\w+) \|", re.MULTILINE)
needs_prometheus = pytest.mark.skipif(shutil.which("prometheus") is None, reason="Debian's prometheus is not installed")
needs_browser = pytest.mark.skipif(shutil.which("chromium") is None, reason="Debian's chromium is not installed")
S = 10**9
SCRAPE_S = 30.0


def fusewire(*words, **environment):
    command = [sys.executable, "-m", "fusewire", *map(str, words)]
    env = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=env)


def get(place, path):
    with urllib.request.urlopen(f"http://{place}{path}", timeout=20) as answer:
        return answer.read().decode()


TRAIN = """
with tf1.device(place):
    weights = [tf1.get_variable(f"weights{i}", [20000], initializer=tf1.zeros_initializer()) for i in range(4)]
    loss = tf.add_n([tf.reduce_mean(tf.square(each - 1.0)) for each in weights])
    train = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
session = tf1.Session(server.target)
session.run(tf1.global_variables_initializer())
session.run(train)
say("TRAINS")
while True:
    session.run(train)
"""


@pytest.fixture
def places(tasks, tmp_path, monkeypatch, request):
    """The status ports of a job that trains, with two parameter servers and a worker: task -> Place."""
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    cluster = tasks(TRAIN, request.param, XDG_RUNTIME_DIR=str(runtime))
    started = [cluster.start("ps", 0), cluster.start("ps", 1), cluster.start("worker")]
    cluster.read_until(started[2], "TRAINS", 60)
    found = {place.tasks[0]: place for place in seeing.find([runtime / "fusewire"])}
    assert sorted(found) == ["ps:0", "ps:1", "worker:0"]
    return found


@pytest.mark.once
@pytest.mark.parametrize("places", ["grpc++", "star_server"], indirect=True)
def test_top_and_trace(places, tmp_path):
    done = fusewire("top", "--json", "--every", "0.5", *places.values())
    assert done.returncode == 0, done.stderr
    [cluster] = json.loads(done.stdout)["clusters"]
    tasks = {task["task"]: task for task in cluster["tasks"]}
    assert [task["state"] for task in tasks.values()] == ["answers"] * 3
    assert tasks["worker:0"]["steps_per_s"] > 1
    assert tasks["worker:0"]["p99_s"] >= tasks["worker:0"]["p50_s"] > 0
    assert tasks["worker:0"]["slowest_peer"] in ("ps:0", "ps:1")
    assert tasks["ps:0"]["bytes_out_per_s"] > 0 and tasks["ps:0"]["bytes_in_per_s"] > 0
    assert tasks["worker:0"]["bytes_out_per_s"] > 0 and tasks["worker:0"]["bytes_in_per_s"] > 0
    assert ("worker:0", True) in {(name["task"], name["bytes_per_s"] > 0) for name in cluster["most_bytes"]}
    assert cluster["imbalance"] >= 1
    assert all(task["cpu"] > 0 and task["memory_bytes"] > 1 << 20 for task in tasks.values())
    if tasks["ps:0"]["protocol"] == "star_server":  # it has no steps, and is asked for variables
        assert tasks["ps:0"]["steps_per_s"] is None
        names = {name["name"] for name in cluster["most_bytes"] if name["peer"] == "ps:0"}
        assert names >= {"weights0, weights2", "weights0, weights2 (update)"}
    text = fusewire("top", "--once", "--every", "0.2", *places.values())
    assert text.returncode == 0, text.stderr
    assert "worker:0" in text.stdout
    assert "most bytes" in text.stdout

    output = tmp_path / "trace.json"
    done = fusewire("trace", "--seconds", "1", "-o", output, *places.values())
    assert done.returncode == 0, done.stderr
    events = json.loads(output.read_text())["traceEvents"]
    names = {event["args"]["name"].split()[0] for event in events if event["name"] == "process_name"}
    assert names == {"ps:0", "ps:1", "worker:0"}
    check_lanes(events)
    arrows = check_arrows(events)
    assert arrows > 20, done.stdout
    assert "all by one clock" in done.stdout


def check_lanes(events):
    """No two events of a lane overlap: viewers would nest them."""
    lanes = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            lanes[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in lanes.values():
        spans.sort()
        for (_, end), (begin, _) in itertools.pairwise(spans):
            assert begin >= end - 0.002


def check_arrows(events):
    """Each arrow leads from an event of one task into one of another, and not back in time. Returns their number."""
    ends = collections.defaultdict(dict)
    for event in events:
        if event["ph"] in "sf":
            ends[event["id"]][event["ph"]] = event
    for pair in ends.values():
        assert set(pair) == {"s", "f"}
        assert pair["s"]["pid"] != pair["f"]["pid"]
        assert pair["f"]["ts"] >= pair["s"]["ts"]
    return len(ends)


@pytest.mark.once
@needs_prometheus
@pytest.mark.parametrize("places", ["grpc++"], indirect=True)
def test_a_real_prometheus_scrapes_it(places, tmp_path):
    text = get(places["worker:0"], "/metrics")
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    # The page lists these metrics and no others.
    told = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
    assert dict(ON_PAGE.findall((ROOT / "docs" / "seeing.md").read_text(encoding="utf-8"))) == told

    subprocess.run(["promtool", "check", "rules", OBSERVE / "alerts.yml"], check=True, capture_output=True, timeout=30)
    targets = fusewire("top", "--targets", *places.values())
    (tmp_path / "fusewire-targets.json").write_text(targets.stdout)
    shutil.copy(OBSERVE / "alerts.yml", tmp_path)
    config = (OBSERVE / "prometheus.yml").read_text().replace("15s", "1s")
    (tmp_path / "prometheus.yml").write_text(config)
    [address] = free_addresses(1)
    command = ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data"]
    with process([*command, f"--web.listen-address={address}"], tmp_path, dict(os.environ)):

        def ask(query):
            try:
                answer = get(address, "/api/v1/query?" + urllib.parse.urlencode({"query": query}))
            except OSError:
                return []
            return json.loads(answer)["data"]["result"]

        wait_until(lambda: len(ask('up{job="fusewire"} == 1')) == 3, SCRAPE_S, "all three ports are scraped")
        rate = 'rate(fusewire_operation_seconds_count{kind="step",task="worker:0"}[10s]) > 0'
        wait_until(lambda: ask(rate), SCRAPE_S, "the worker's steps have a rate")
        board = json.loads((OBSERVE / "dashboard.json").read_text())
        for panel in board["panels"]:
            query = panel["targets"][0]["expr"].replace("$__rate_interval", "10s")
            if "failures" not in query and "collectives" not in query:
                wait_until(lambda query=query: ask(query), SCRAPE_S, f"the dashboard's panel {panel['title']} has data")


@pytest.mark.once
@needs_browser
@pytest.mark.parametrize("places", ["star_server"], indirect=True)
def test_the_page_in_a_real_browser(places, tmp_path):
    assert get(places["ps:0"], "/healthz") == "ok\n"
    samples = re.compile(r"\[\d+,")
    wait_until(lambda: len(samples.findall(get(places["worker:0"], "/history.json"))) > 2, SCRAPE_S, "points of curves")
    command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    command += [f"--user-data-dir={tmp_path / 'browser'}", "--enable-logging=stderr", "--virtual-time-budget=4000"]
    url = f"http://{places['worker:0']}/"
    done = subprocess.run([*command, "--dump-dom", url], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "CONSOLE" not in done.stderr, done.stderr
    body = done.stdout
    assert "worker:0 over star_server" in body
    peers = re.search(r'<table id="peers">(.*?)</table>', body, re.DOTALL)[1]
    assert "run_out" in peers
    assert "ps:1" in peers
    assert 'id="state" class="good"' in body
    rates = re.search(r'<div id="rates">(.*?)</div>', body, re.DOTALL)[1]
    assert re.findall(r"<figcaption>([\w ]+): (?!-)", rates) == ["steps", "bytes in", "bytes out"]
    assert len(re.findall(r'<polyline points="[\d., ]+"', rates)) == 3
    picture = tmp_path / "page.png"  # as in docs/seeing.md
    command += [f"--screenshot={picture}", "--window-size=1200,900", url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")


class Answering(http.server.BaseHTTPRequestHandler):
    """A task whose clock is an hour ahead."""

    ahead_ns = 3600 * S
    status: ClassVar[dict[str, object]] = {}

    def do_GET(self):
        body = json.dumps({**self.status, "now_ns": time.monotonic_ns() + self.ahead_ns}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_clocks_are_aligned_by_round_trips():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        offset_ns, error_ns = trace.clock_of(seeing.Place("127.0.0.1", server.server_port), time.monotonic() + 20)
        server.shutdown()
        thread.join(20)
    assert abs(offset_ns - Answering.ahead_ns) <= error_ns + 1_000_000
    assert error_ns < S


def test_processes_of_one_machine_share_a_clock():
    here = trace.Tape("a", 1, "here"), trace.Tape("b", 2, "here")
    there = trace.Tape("c", 3, "there", 70, 9), trace.Tape("d", 4, "there", 50, 4)
    older = trace.Tape("e", 5, "", 30, 8), trace.Tape("f", 6, "", 20, 7)
    tapes = [*here, *there, *older]
    trace.align(tapes)
    clocks = [(tape.offset_ns, tape.error_ns) for tape in tapes]
    assert clocks == [(0, 0), (0, 0), (50, 4), (50, 4), (30, 8), (20, 7)]


def tape(name, ahead_ns, *operations):
    made = trace.Tape(name, 1, offset_ns=ahead_ns)
    for number, (kind, peer, flow, begun, landed, ended) in enumerate(operations):
        made.tags[number] = {"kind": kind, "task": name, "peer": peer, "name": "weights"}
        times = {"begun_ns": begun, "landed_ns": landed, "ended_ns": ended}
        times = {key: value + ahead_ns if value else 0 for key, value in times.items()}
        flags = {"id": number, "tag": number, "open": int(not ended), "failed": 0, "step": 1, "bytes": 8}
        made.operations[number] = {**flags, **times, "flow": flow}
    return made


def test_a_trace_has_lanes_without_overlaps_and_arrows_between_clocks():
    receiver = tape(
        "worker:0",
        5 * S,
        ("receive", "ps:0", "7", 1000, 9000, 10000),
        ("receive", "ps:0", "8", 2000, 0, 0),
        ("receive", "ps:0", "9", 11000, 0, 12000),
    )
    sender = tape("ps:0", -3 * S, ("provide", "worker:0", "7", 3000, 4000, 5000))
    events = list(trace.events_of([receiver, sender]))
    check_lanes(events)
    assert check_arrows(events) == 1
    start = next(event for event in events if event["ph"] == "s")
    end = next(event for event in events if event["ph"] == "f")
    assert (start["ts"], end["ts"]) == (3.0, 8.0)  # microseconds since the first operation
    titles = [event["args"]["name"] for event in events if event["name"] == "thread_name"]
    assert titles == ["receive ps:0 #1", "receive ps:0 #2", "provide worker:0"]


def status(now_s, count, moved_bytes, open_count=0):
    line = {"kind": "receive", "task": "worker:0", "peer": "ps:0", "count": count, "failed": 0, "bytes": moved_bytes}
    line |= {"time_ns": count * 1000, "p50_ns": 900, "p99_ns": 5000, "max_ns": 6000}
    line |= {"open": open_count, "oldest_ns": 7 * S if open_count else 0}
    step = {**line, "kind": "session", "task": "", "peer": "", "bytes": 0}
    name = {"kind": "receive", "task": "worker:0", "peer": "ps:0", "name": "weights", "count": count}
    name |= {"bytes": moved_bytes, "time_ns": count * 1000}
    task = {"task": "worker:0", "protocol": "grpc++", "members": {"worker:0": "h:1"}}
    return {"pid": 7, "now_ns": now_s * S, "tasks": [task], "lines": [line, step], "names": [name]}


@pytest.mark.parametrize(("kind", "rates"), [("run_out", (2500, 1500)), ("run_in", (1500, 2500))])
def test_what_a_part_was_given_goes_the_other_way(kind, rates):
    then, now = status(10, 100, 1000), status(12, 300, 9000)
    for answer, given in ((then, 400), (now, 3400)):
        answer["lines"][0] |= {"kind": kind, "bytes_given": given}
    place = seeing.Place("127.0.0.1", 1)
    [task] = top.view([seeing.Process(place, now)], [seeing.Process(place, then)]).tasks
    assert (task.bytes_in_per_s, task.bytes_out_per_s) == rates


def test_rates_are_between_two_answers(capsys):
    place = seeing.Place("127.0.0.1", 1)
    before = seeing.Process(place, status(10, 100, 1000))
    view = top.view([seeing.Process(place, status(12, 300, 9000, 3))], [before])
    [task] = view.tasks
    assert task.steps_per_s == 100
    assert task.bytes_in_per_s == 4000
    assert (task.waits_open, task.oldest_s) == (3, 7)
    assert (task.slowest_peer, round(task.slowest_peer_s * 1e9)) == ("ps:0", 1000)
    assert view.most_bytes[0].bytes_per_s == 4000
    again = top.view([seeing.Process(place, {**status(12, 300, 9000), "pid": 8})], [before])  # it was restarted
    assert again.tasks[0].steps_per_s == 0
    top.show([view], live=True)
    assert capsys.readouterr().out.startswith("\033[H\033[2J1 worker\n")
    lines = list(top.text_of(view))
    assert lines[0] == "1 worker"
    assert any("worker:0 <- ps:0  weights" in line for line in lines)


def full_status(task, **more):
    """As a status port answers."""
    place = {"tasks": [{"task": task, "protocol": "star_server", "members": {"ps:0": "h:1", "worker:0": "h:2"}}]}
    return {"pid": 7, "now_ns": 9 * S, "begun_ns": 1, "lines": [], "open": [], "names": [], "last": [], **place, **more}


def test_what_is_not_known_is_a_dash():
    """A parameter server of star_server has no steps; an older task tells no use."""

    def row(now):
        before = seeing.Process(seeing.Place("127.0.0.1", 1), {**full_status("ps:0"), "cpu_ns": 1 * S, "now_ns": 7 * S})
        [line] = [
            line for line in top.text_of(top.view([seeing.Process(before.place, now)], [before])) if "ps:0" in line
        ]
        return " ".join(line.split())

    assert row(full_status("ps:0")) == "ps:0 up - 0 B 0 B - - 0 0 0 us - - -"
    known = full_status("ps:0", cpu_ns=4 * S, memory_bytes=3_000_000)
    assert row(known) == "ps:0 up - 0 B 0 B 150 % 3.0 MB 0 0 0 us - - -"


def test_tasks_are_sorted_by_any_column(capsys):
    tasks = [top.TaskView("ps:0", "answers", memory_bytes=9), top.TaskView("worker:0", "answers", steps_per_s=4.0)]
    view = top.View(tasks, 0.0, "", [], [])
    for name, first in (("task", "ps:0"), ("steps", "worker:0"), ("memory", "ps:0"), ("cpu", "ps:0")):
        top.present([view], argparse.Namespace(sort=name, json=False), live=False)
        assert capsys.readouterr().out.splitlines()[2].split()[0] == first, name
    assert len({name[0] for name in [*top.SORTS, top.QUIT]}) == len(top.SORTS) + 1  # keys


@pytest.mark.parametrize(("no_colour", "bold"), [("", "\033[1m  cpu"), ("1", "")])
def test_the_live_view_follows_the_keys(monkeypatch, no_colour, bold):
    monkeypatch.setattr(Answering, "status", full_status("worker:0"))
    control, terminal = pty.openpty()
    text = ""

    def read(until):
        nonlocal text
        deadline = time.monotonic() + SCRAPE_S
        while until not in text:
            assert select.select([control], [], [], max(0.0, deadline - time.monotonic()))[0], text
            text += os.read(control, 65536).decode()

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        words = [sys.executable, "-m", "fusewire", "top", "--every", "0.3", f"127.0.0.1:{server.server_port}"]
        environment = {**os.environ, "TERM": "xterm", "NO_COLOR": no_colour}
        shown = subprocess.Popen(words, env=environment, stdin=terminal, stdout=terminal)
        try:
            read("sorted by")
            os.write(control, b"c")
            read(bold)
            assert ("\033[32mup" in text) == (not no_colour)
            os.write(control, b"q")
            assert shown.wait(SCRAPE_S) == 0
        finally:
            shown.kill()
            server.shutdown()
            thread.join(20)
            os.close(terminal)
            os.close(control)


def test_files_of_jobs_that_have_ended_are_removed(tmp_path):
    folder = tmp_path / "fusewire"
    folder.mkdir(mode=0o700)
    start = int(pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])

    def write(name, start, task, members, pid_space):
        entry = {"pid": os.getpid(), "start": start, "host": "127.0.0.1", "port": 9, "pid_space": pid_space}
        (folder / name).write_text(json.dumps({**entry, "tasks": [{"task": task, "members": members}]}))

    here, job, other = machine.pid_identity(), {"ps:0": "h:1", "worker:0": "h:2"}, {"ps:0": "h:3"}
    write("1.json", start, "worker:0", job, here)
    write("2.json", start + 1, "ps:0", job, here)  # dead beside one that lives: `fusewire why` says so
    write("3.json", start + 1, "worker:0", job, here)  # started again
    write("4.json", start + 1, "ps:0", other, here)  # a job that has ended
    write("5.json", start + 1, "ps:0", other, "another container")
    assert [place.tasks for place in seeing.find([folder])] == [("worker:0",), ("ps:0",), ("ps:0",)]
    assert sorted(path.name for path in folder.iterdir()) == ["1.json", "2.json", "5.json"]


def test_files_that_others_could_have_written_are_ignored(tmp_path):
    folder = tmp_path / "fusewire"
    folder.mkdir(mode=0o700)
    entry = {"pid": os.getpid(), "start": 1, "host": "0.0.0.0", "port": 9, "tasks": [{"task": "ps:0", "members": {}}]}
    (folder / "7.json").write_text(json.dumps(entry))
    (folder / "8.json").write_text("{")
    (folder / "9.json").write_text('{"pid": []}')
    [place] = seeing.find([folder])
    assert (place.host, place.tasks) == ("127.0.0.1", ("ps:0",))
    [process_] = seeing.ask_all([place])
    assert process_.state == "dead"  # its number belongs to another process now: this one
    folder.chmod(0o770)
    assert seeing.find([folder]) == []


def test_a_port_that_answers_nothing_useful_is_reported():
    [refused] = seeing.ask_all([seeing.parse(free_addresses(1)[0])])
    assert refused.state == "refuses connections"
    assert next(top.text_of(top.view([refused], []))) == "1 place"
    for text in ("", "host", "host:", ":5", "host:x", "host:99999", "host:\u00b2"):
        with pytest.raises(ValueError, match="is not HOST:PORT"):
            seeing.parse(text)


def test_the_token_needs_a_secret():
    secret = "hush, hush, hush"
    assert fusewire("top", "--token", FUSEWIRE_SECRET="").returncode == 2
    short = fusewire("top", "--token", FUSEWIRE_SECRET="x")
    assert "FUSEWIRE_SECRET: it has fewer than 16 bytes. Fix: openssl rand -hex 32" in short.stderr
    assert fusewire("top", "--token", FUSEWIRE_SECRET=secret).stdout.strip() == seeing.token(secret)


@pytest.mark.once
def test_beyond_loopback_a_request_needs_the_secret(serving, monkeypatch):
    place, errors = serving(FUSEWIRE_STATUS="0.0.0.0:0", FUSEWIRE_SECRET="hush, hush, hush")
    assert "stays closed" not in errors
    [process_] = seeing.ask_all([place])
    assert "asks for a proof of the cluster's secret" in process_.state
    monkeypatch.setenv("FUSEWIRE_SECRET", "guess, guess, guess")
    [process_] = seeing.ask_all([place])
    assert "FUSEWIRE_SECRET differs" in process_.state
    monkeypatch.setenv("FUSEWIRE_SECRET", "hush, hush, hush")
    [process_] = seeing.ask_all([place])
    assert process_.tasks == ("worker:0",)
    assert seeing.ask(place, "/ring.json?after_ns=1")["ring"] == []
    metrics = urllib.request.Request(
        f"http://{place}/metrics", headers={"Authorization": f"Bearer {seeing.token('hush, hush, hush')}"}
    )
    with urllib.request.urlopen(metrics, timeout=20) as answer:
        assert b"fusewire_info" in answer.read()


@pytest.mark.once
def test_beyond_loopback_without_a_secret_the_port_stays_closed(serving):
    place, errors = serving(FUSEWIRE_STATUS="0.0.0.0:0")
    assert place is None
    assert "the status port stays closed: 0.0.0.0:0 is not on loopback" in errors
    assert "set FUSEWIRE_SECRET" in errors


@pytest.mark.once
def test_off_is_off(serving):
    assert serving(FUSEWIRE_STATUS="off")[0] is None
