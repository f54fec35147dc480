# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The pictures of docs/: each is made from a real run, and still shows what the command shows today.

TEST_PICTURES=1 .venv-tf-2.15.1/bin/python -m pytest tests/python/test_pictures.py      draws them anew
"""

import os
import pathlib
import platform
import re
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.request
import zlib

import pytest
import warm
from conftest import FUSEWIRE, ROOT, clean_environment
from processes import wait_until
from terminal import OnTerminal, Terminal, picture, text_of

import fusewire
from fusewire.inspect import seeing

pytestmark = pytest.mark.once
PICTURES = ROOT / "docs" / "pictures"
HEAD_BYTES = 33  # of a PNG: its signature and the first chunk
DRAW = bool(os.environ.get("TEST_PICTURES"))
RELEASE = fusewire.__version__.partition(".dev")[0]  # a picture does not name the commit

# What each picture shows, and has to show as long as the command does.
LIVE = (
    r"^worker:0 \| step [\d,]+: loss \d\.\d+$",
    r"^ps:0      serves +\d+:\d\d +[\d,]+ steps +[\d.]+/s +[\d.]+ [kM]B/s",
    r"^worker:1  runs +\d+:\d\d +step [\d,]+ +[\d.]+/s +[\d.]+ [kM]B/s  step [\d,]+: loss \d\.\d+$",
)
TOP = (
    r"^2 ps, 2 workers$",
    r"^  task +state +steps/s +in/s +out/s +cpu +memory +waits +asked +oldest +step p50 +p99  slowest peer$",
    r"^  worker:1 +up +[\d.]+ +[\d.]+ .?B .* \d+ % +[\d.]+ .B .* ps:\d \d+ .s$",
    r"^most bytes +bytes/s +waited/s +times/s$",
    r"^most time +bytes/s +waited/s +times/s$",
    r"^  worker:\d <- ps:\d  \w+/.* +[\d.]+ .?B +\d+ .s +[\d.]+$",
)
WHY = (
    r"^ps:1 is stopped: it gets no processor time until it is continued \(SIGCONT\), and (ps:0, )?worker:0 and$",
    r"^  worker:1 wait for it\.$",
    r"^  ps:1 \(process \d+, status port 127\.0\.0\.1:\d+\): stopped$",
    r"^  worker:\d has waited [\d.]+ s for the (tensor|answer to) \w.*",
    r"^  see: fusewire explain seeing#fusewire-why$",
)
CLUSTER = (
    r"^ +ok  ps:0 +127\.0\.0\.1:\d+: grpc\+\+,\s+Fusewire\s+[\w.+]+,\s+TensorFlow\s+2\.\d+\.\d+,\s+[\d.]+\s+ms\s+over"
    r"\s+gRPC",
    r"^FAIL  ps:1 +127\.0\.0\.1:\d+: its port is open, but it has not answered for 5 s",
    r"^ +ok  clocks +at most \d+ ms apart",
    r"^round trip in us, of the task on the left to the one above, over shm:$",
    r"^  worker:1 +\d+ +\d+ +-$",
    r"^1 to fix, \d to check\.$",
)
CHECKS = re.compile(r"^ *(?:ok|note|warn|FAIL)  (\w.*?)  ", re.MULTILINE)

TRAIN = """
import json
import os
import time

import fusewire
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()
tf1.logging.set_verbosity(tf1.logging.ERROR)
config = json.loads(os.environ["TF_CONFIG"])
job, index = config["task"]["type"], config["task"]["index"]
server = tf1.train.Server(config["cluster"], job, index)
if job == "ps":
    server.join()
place = tf1.train.replica_device_setter(cluster=config["cluster"], worker_device=f"/job:worker/task:{index}")
with tf1.device(place):
    users = tf1.get_variable("users", [2000, 32])
    items = tf1.get_variable("items", [2000, 64])
    weights = tf1.get_variable("weights", [32, 64])
    ids = tf1.random_uniform([256], maxval=2000, dtype=tf.int32)
    score = tf.reduce_sum(tf.nn.embedding_lookup(users, ids) @ weights * tf.nn.embedding_lookup(items, ids), axis=1)
    clicks = tf.sin(tf.cast(ids, tf.float32)) + tf1.random_normal([256], stddev=0.5)
    loss = tf.reduce_mean(tf.square(score - clicks))
    step = tf1.train.get_or_create_global_step()
    train = tf1.train.AdagradOptimizer(0.05).minimize(loss, step)
session = tf1.Session(server.target)
if index == 0:
    session.run(tf1.global_variables_initializer())
while session.run(tf1.report_uninitialized_variables()).size:
    time.sleep(0.05)
while not os.path.exists("end"):
    _, value, number = session.run([train, loss, step])
    fusewire.progress(number)
    if number % 500 < 2:
        print(f"step {number:,}: loss {value:.3f}", flush=True)
"""


def keep(name: str, command: str, screen: Terminal, *parts: str) -> None:
    """Draws the picture, or checks that the one in docs/ is still true: both have all parts."""
    screen.lines = [line.replace(fusewire.__version__, RELEASE) for line in screen.lines]
    drawn = picture(command, screen, 118 if name == "top.svg" else 100)
    path = PICTURES / name
    if DRAW:
        path.write_text(drawn, encoding="utf-8")
    for text in (text_of(drawn), text_of(path.read_text(encoding="utf-8"))):
        for part in parts:
            assert re.search(part, text, re.MULTILINE), f"{name} has no {part}:\n{text}"


def last(screen: Terminal, rows: int) -> Terminal:
    """The end of what has been printed, as a small window shows it."""
    first = max(0, len(screen.lines) - 1 - rows)
    screen.lines, screen.styles = screen.lines[first:], screen.styles[first:]
    return screen


def keep_page(place: seeing.Place, folder: pathlib.Path) -> None:
    """The same for the page of a status port. What a picture shows stands in it as its Description."""

    def read(path: str) -> str:
        with urllib.request.urlopen(f"http://{place}/{path}", timeout=20) as answer:
            return answer.read().decode()

    page = read("")
    parts = "; ".join(re.findall(r'<h2>[\w ]+|"operation",[\s\w",/]*', page))
    path = PICTURES / "page.png"
    if DRAW:
        with_curves = re.compile(r"(\[\d+,\d+,\d+,\d+\],?){40}")
        wait_until(lambda: with_curves.search(read("history.json")), 120, "a minute of history")
        command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        command += ["--virtual-time-budget=4000", "--hide-scrollbars", f"--user-data-dir={folder / 'browser'}"]
        command += [f"--screenshot={folder / 'page.png'}", "--window-size=1120,820", f"http://{place}/"]
        subprocess.run(command, capture_output=True, timeout=60, check=True)
        path.write_bytes(described((folder / "page.png").read_bytes(), parts))
    assert description_of(path.read_bytes()) == parts


def described(png: bytes, text: str) -> bytes:
    body = b"tEXtDescription\0" + text.encode()
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    return png[:HEAD_BYTES] + chunk + png[HEAD_BYTES:]


def description_of(png: bytes) -> str:
    length, kind = struct.unpack_from(">I4s", png, HEAD_BYTES)
    assert kind == b"tEXt"
    return png[HEAD_BYTES + 8 :][:length].decode().removeprefix("Description\0")


def run_on_terminal(folder: pathlib.Path, environment: dict[str, str], *words: object) -> tuple[int, Terminal]:
    """`fusewire WORDS...`, to its end."""
    shown = OnTerminal(
        lambda stream: subprocess.Popen([FUSEWIRE, *words], cwd=folder, env=environment, stdout=stream, stderr=stream)
    )
    try:
        return shown.program.wait(60), shown.screen()
    finally:
        shown.program.kill()
        shown.close()


@pytest.fixture
def running(tmp_path):
    """(the environment, a job that trains on a terminal, the places of its tasks)"""
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    environment = clean_environment(TERM="xterm", XDG_RUNTIME_DIR=str(runtime), TF_CPP_MIN_LOG_LEVEL="2")
    (tmp_path / "train.py").write_text(TRAIN)
    words = ["run", "--ps", "2", "--workers", "2", "--protocol", "grpc++", "train.py"]
    job = OnTerminal(
        lambda stream: warm.Program([warm.FUSEWIRE_RUN, *words], tmp_path, environment, stream, stream), rows=16
    )
    try:
        yield environment, job, runtime / "fusewire"
    finally:
        job.program.end()
        job.close()


def test_a_job_on_the_screens(running, tmp_path):
    environment, job, folder = running
    screen = job.wait_for(*LIVE)
    keep("run.svg", "fusewire run --ps 2 --workers 2 --protocol grpc++ train.py", last(screen, 14), *LIVE)
    places = {place.tasks[0]: place for place in seeing.find([folder])}
    assert sorted(places) == ["ps:0", "ps:1", "worker:0", "worker:1"]

    code, screen = run_on_terminal(tmp_path, environment, "top", "--once")
    assert code == 0
    keep("top.svg", "fusewire top", screen, *TOP)

    keep_page(places["worker:0"], tmp_path)

    os.kill(places["ps:1"].pid, signal.SIGSTOP)
    job.wait_for(r"^ps:1 +stopped ")
    until = time.monotonic() + 30
    while True:  # a wait counts after two seconds, for each worker
        code, screen = run_on_terminal(tmp_path, environment, "why")
        if time.monotonic() > until or all(re.search(part, screen.text(), re.MULTILINE) for part in WHY):
            break
    assert code == 1
    keep("why.svg", "fusewire why", screen, *WHY)

    address = places["ps:0"].members["ps:0"]
    code, screen = run_on_terminal(tmp_path, environment, "doctor", "--cluster", address)
    assert code == 1
    keep("cluster.svg", f"fusewire doctor --cluster {address}", screen, *CLUSTER)
    os.kill(places["ps:1"].pid, signal.SIGCONT)
    job.wait_for(r"^ps:1 +serves ")

    (tmp_path / "end").touch()
    assert job.program.wait(30) == 0
    assert "fusewire run: done in" in job.screen().text()


def test_the_doctor_on_the_screen(tmp_path):
    code, screen = run_on_terminal(tmp_path, clean_environment(TERM="xterm"), "doctor")
    assert code == 0, screen.text()
    # Where this machine has its files and what it is called is nobody's concern.
    package = str(pathlib.Path(fusewire.__file__).parent)
    for here, elsewhere in (
        (package, "/opt/venv/lib/python3/site-packages/fusewire"),
        (sys.prefix, "/opt/venv"),
        (f"{socket.gethostname()} ", "h1 "),
        (platform.release(), platform.release().partition("-")[0]),
    ):
        for row, line in enumerate(screen.lines):
            screen.lines[row] = line.replace(here, elsewhere)
    names = CHECKS.findall(screen.text())
    assert {"tensorflow", "self-test", "wires", "network: bind"} <= set(names)
    keep("doctor.svg", "fusewire doctor", screen, *(rf"^ *\w+  {re.escape(name)}  " for name in names))
    assert CHECKS.findall(text_of((PICTURES / "doctor.svg").read_text())) == names
