# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Ranks of fusewire.collective as `fusewire top`, `why`, `trace`, Prometheus and `fusewire run` see them: real jobs,
with ranks that are stopped, busy, dead, and hidden."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

import pytest
from conftest import FUSEWIRE, clean_environment, process, run_to_end
from test_live import run_on_terminal

from fusewire.inspect import seeing

pytestmark = pytest.mark.once
LIMIT_S = 30.0

# Steps of small and large all-reduces. A file busy-N holds rank N back, `hidden` ends it.
STEPS = """
import os, sys, time
import numpy as np
import fusewire
import fusewire.collective as fw

fw.init()
rank = fw.rank()
small, large = np.ones(16, np.float32), np.ones(1 << 16, np.float32)
for step in range(1 << 30):
    while os.path.exists(f"busy-{rank}"):
        time.sleep(0.05)
    fw.allreduce(large, op=fw.Max, out=large, name=NAME, timeout=60)
    fw.allreduce(small, op=fw.Max, out=small, timeout=60)
    fusewire.progress(step)
    if step == 20:
        print("STEPS", os.getpid(), flush=True)
    time.sleep(0.001)
"""


@pytest.fixture
def runtime(tmp_path, monkeypatch):
    folder = tmp_path / "runtime"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.setattr(seeing, "folders", lambda: [folder / "fusewire"])
    return folder


@contextlib.contextmanager
def job(tmp_path, runtime, *, named=False, ranks=3, folder="job", **environment):
    """A running job: {rank: pid}."""
    place = tmp_path / folder
    place.mkdir()
    program = place / "steps.py"
    program.write_text(STEPS.replace("NAME", repr("grads") if named else "None"))
    command = [FUSEWIRE, "run", "--ranks", ranks, "--live", "off", "--", sys.executable, "-u", program]
    with process(command, place, clean_environment(XDG_RUNTIME_DIR=str(runtime), **environment)) as started:
        try:
            pids = {}
            while len(pids) < ranks:
                line = started.stdout.readline()
                assert line, started.stderr.read()
                if "STEPS" in line:
                    words = line.split()
                    pids[int(words[0].partition(":")[2])] = int(words[-1])
            yield place, pids
        finally:
            for pid in pids.values():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)


def fusewire(*words):
    """The command's exit code and output."""
    done = subprocess.run(
        [sys.executable, "-m", "fusewire", *map(str, words)], capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout + done.stderr


def verdicts_of(*jobs):
    """What `fusewire why` says of jobs, each {rank: pid}; other jobs of this user may run beside them."""
    _, text = fusewire("why", "--longer", "0.5", "--json")
    members = {place.pid: dict(place.members) for place in seeing.find()}
    wanted = [members[pid] for pids in jobs for pid in pids.values() if pid in members]
    return [each for each in json.loads(text)["clusters"] if each["members"] in wanted]


def await_verdict(pids, cause, task, words=""):
    ends = time.monotonic() + LIMIT_S
    while True:
        [verdict] = verdicts_of(pids)
        if (verdict["cause"], verdict["task"]) == (cause, task) and words in json.dumps(verdict):
            return verdict
        if time.monotonic() > ends:
            pytest.fail(f"not {cause} {task} with {words} but {json.dumps(verdict, indent=1)}")


def test_top_trace_and_metrics(tmp_path, runtime):
    with job(tmp_path, runtime) as (_, pids):
        places = {place.tasks[0]: place for place in seeing.find()}
        assert sorted(places) == ["rank:0", "rank:1", "rank:2"]
        assert {places[f"rank:{rank}"].pid for rank in pids} == set(pids.values())
        code, text = fusewire("top", "--json", "--every", "0.5")
        assert code == 0, text
        clusters = json.loads(text)["clusters"]
        [cluster] = [each for each in clusters if pids[0] in [task["pid"] for task in each["tasks"]]]
        for task in cluster["tasks"]:
            assert (task["state"], task["protocol"]) == ("answers", "collective")
            assert task["collectives_per_s"] > 2
            assert task["bytes_out_per_s"] > task["collectives_per_s"] * 1000
        code, text = fusewire("top", "--once", "--every", "0.3")
        assert code == 0
        assert "rank:1    up" in text
        assert "all-reduce f32 65,536" in text
        with urllib.request.urlopen(f"http://{places['rank:2']}/metrics", timeout=20) as answer:
            metrics = answer.read().decode()
        assert 'fusewire_task{task="rank:2",protocol="collective"} 1' in metrics
        values = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if not line.startswith("#"))
        assert int(values["fusewire_collectives_total"]) > 40
        assert int(values["fusewire_collective_bytes_total"]) > 20 * (1 << 18)
        if shutil.which("promtool"):
            checked = subprocess.run(["promtool", "check", "metrics"], input=metrics, capture_output=True, text=True)
            assert checked.returncode == 0, checked.stdout + checked.stderr

        output = tmp_path / "trace.json"
        code, text = fusewire("trace", "--seconds", "1", "-o", output, *places.values())
        assert code == 0, text
        events = json.loads(output.read_text())["traceEvents"]
        numbers = {
            event["pid"]: event["args"]["name"].split()[0] for event in events if event["name"] == "process_name"
        }
        assert sorted(numbers.values()) == ["rank:0", "rank:1", "rank:2"]
        calls = {}
        for event in events:
            # Also the small ones, while somebody looks.
            if event["ph"] == "X" and event["args"]["peer"] == "3 ranks" and event["name"] == "all-reduce f32 16":
                span = (event["ts"], event["ts"] + event["dur"])
                calls.setdefault(event["args"]["step"], {})[numbers[event["pid"]]] = span
        whole = [spans for spans in calls.values() if len(spans) == 3]
        assert len(whole) > 5
        # One machine has one clock, and a call ends at no rank before it has begun at all.
        for spans in whole:
            assert min(end for _, end in spans.values()) >= max(begin for begin, _ in spans.values()) - 2000


@pytest.mark.parametrize("named", [False, True], ids=["arena", "messages"])
def test_why_with_a_rank_that_is_busy_stopped_or_dead(tmp_path, runtime, named):
    with job(tmp_path, runtime, named=named) as (place, pids):
        (place / "busy-1").touch()
        verdict = await_verdict(pids, "idle", "rank:1", "rank:0 and rank:2 wait for it in all-reduce f32 65,536")
        assert verdict["stands"]
        assert f"py-spy dump --pid {pids[1]}" in verdict["evidence"][0]
        if not named:
            assert "#" in verdict["sentence"]
        (place / "busy-1").unlink()
        await_verdict(pids, "none", "")

        os.kill(pids[2], signal.SIGSTOP)
        # In a ring one rank may wait for the other, which waits for the stopped one.
        verdict = await_verdict(pids, "silent", "rank:2", "rank:0 and rank:1 wait for it")
        assert "is stopped" in verdict["sentence"]
        code, text = fusewire("top", "--once", "--every", "0.2")
        assert code == 0
        assert "rank:2    stopped" in text
        os.kill(pids[2], signal.SIGCONT)
        await_verdict(pids, "none", "")

        # A rank whose process is gone without a word, while the others are held: they have not ended yet.
        for rank in (0, 1):
            os.kill(pids[rank], signal.SIGSTOP)
        os.kill(pids[2], signal.SIGKILL)
        ends = time.monotonic() + LIMIT_S
        while [verdict["tasks"]["rank:2"] for verdict in verdicts_of(pids)] != ["dead"]:
            assert time.monotonic() < ends


def test_two_jobs_are_two_clusters(tmp_path, runtime):
    with (
        job(tmp_path, runtime, ranks=2, folder="one") as (_, first),
        job(tmp_path, runtime, ranks=2, folder="two") as (place, second),
    ):
        assert len(verdicts_of(first, second)) == 2
        (place / "busy-0").touch()
        await_verdict(second, "idle", "rank:0")
        assert [verdict["cause"] for verdict in verdicts_of(first)] == ["none"]


def test_off_shows_nothing_and_a_wrong_place_is_said(tmp_path, runtime):
    with job(tmp_path, runtime, ranks=2, FUSEWIRE_STATUS="off"):
        assert seeing.find() == []
    code = "import fusewire.collective as fw\nfw.init()\nfw.barrier()\nprint('works')"
    for place, words in (("somewhere", "ADDRESS:PORT"), ("0.0.0.0:0", "FUSEWIRE_SECRET")):
        environment = clean_environment(XDG_RUNTIME_DIR=str(runtime), FUSEWIRE_STATUS=place)
        done = run_to_end([sys.executable, "-c", code], tmp_path, environment)
        assert done.ok() == "works\n"
        assert words in done.error
        assert "works all the same" in done.error
    assert list((runtime / "fusewire").glob("*")) == [] if (runtime / "fusewire").exists() else True


def test_beyond_loopback_the_secret_is_asked_for(tmp_path, runtime, monkeypatch):
    with job(tmp_path, runtime, ranks=2, FUSEWIRE_STATUS="0.0.0.0:0", FUSEWIRE_SECRET="hush, hush, hush"):
        ports = [str(place) for place in seeing.find()]
        code, text = fusewire("why", *ports)
        assert (code, text.count("401") >= 1) == (1, True), text
        monkeypatch.setenv("FUSEWIRE_SECRET", "hush, hush, hush")
        code, text = fusewire("why", *ports)
        assert (code, "2 asked" in text) == (0, True), text


def test_a_rank_that_ends_well_leaves_no_file_and_a_fork_has_its_own(tmp_path, runtime):
    code = """
import os, pathlib, sys
import fusewire.collective as fw
from fusewire.inspect import seeing

seeing.folders = lambda: [pathlib.Path(os.environ["XDG_RUNTIME_DIR"], "fusewire")]
fw.init()
fw.barrier()
mine = [place.pid for place in seeing.find()]
assert mine == [os.getpid()], mine
child = os.fork()
if child == 0:
    assert os.getpid() not in [place.pid for place in seeing.find()]
    fw._world = None  # the parent's
    fw.init()
    fw.barrier()
    assert os.getpid() in [place.pid for place in seeing.find()]
    [own] = [place for place in seeing.find() if place.pid == os.getpid()]
    assert seeing.ask(own)["tasks"][0]["task"] == "rank:0"
    assert seeing.ask(own)["numbers"]["collectives"] == 1
    fw.shutdown()
    assert os.getpid() not in [place.pid for place in seeing.find()]
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
fw.shutdown()
assert seeing.find() == []
fw.init()
assert len(seeing.find()) == 1
"""
    program = tmp_path / "program.py"
    program.write_text(code)
    run_to_end([sys.executable, program], tmp_path, clean_environment(XDG_RUNTIME_DIR=str(runtime))).ok()
    assert seeing.find() == []


def test_two_libraries_of_a_process_have_a_port_and_a_file_each(tmp_path, runtime):
    """As the plug-in beside libfusewire: a copy of the library stands for it."""
    code = """
import ctypes, os, pathlib, shutil, sys
import fusewire.collective as fw
from fusewire import _native
from fusewire.inspect import seeing

seeing.folders = lambda: [pathlib.Path(os.environ["XDG_RUNTIME_DIR"], "fusewire")]
fw.init()
source = pathlib.Path(_native.__file__).parent / "_lib" / _native.LIBRARY
copy = pathlib.Path("copy.so").absolute()
shutil.copy(source, copy)
other = ctypes.CDLL(str(copy))
for name, (result, arguments) in _native.FUNCTIONS.items():
    getattr(other, name).restype, getattr(other, name).argtypes = result, arguments
endpoint, group = ctypes.c_void_p(), ctypes.c_void_p()
solo = _native.EndpointOptions(name=b"solo", address=b"127.0.0.1:0")
assert other.fusewire_endpoint_start(ctypes.byref(solo), ctypes.byref(endpoint)) == 0
names, addresses = (ctypes.c_char_p * 1)(b"solo"), (ctypes.c_char_p * 1)(b"127.0.0.1:0")
options = _native.GroupOptions(name=b"other", ranks=1, rank=0, names=names, addresses=addresses)
assert other.fusewire_group_make(endpoint, ctypes.byref(options), ctypes.byref(group)) == 0
runtime = os.environ["XDG_RUNTIME_DIR"].encode()
assert other.fusewire_group_show(group, None, runtime) == 0
places = seeing.find()
assert [place.pid for place in places] == [os.getpid()] * 2, places
assert len({place.port for place in places}) == 2
assert len(seeing.clusters(seeing.ask_all(places))) == 2
names = sorted(path.name for path in pathlib.Path(runtime.decode(), "fusewire").iterdir())
assert names == [f"{os.getpid()}.1.json", f"{os.getpid()}.json"], names
other.fusewire_group_free(group)
assert len(seeing.find()) == 1
fw.shutdown()
assert seeing.find() == []
"""
    program = tmp_path / "program.py"
    program.write_text(code)
    run_to_end([sys.executable, program], tmp_path, clean_environment(XDG_RUNTIME_DIR=str(runtime))).ok()


def test_subgroups_are_not_other_tasks(tmp_path, runtime):
    code = """
import os, pathlib
import numpy as np
import fusewire.collective as fw
from fusewire.inspect import seeing

seeing.folders = lambda: [pathlib.Path(os.environ["XDG_RUNTIME_DIR"], "fusewire")]
fw.init()
pair = fw.subgroup("pair", [1, 0])
other = fw.sibling("other")
ones = np.ones(33, np.float32)
for group in (fw.world(), pair, other):
    group.allreduce(ones, name="x")
    group.barrier()
fw.barrier()
[cluster] = seeing.clusters(seeing.ask_all(seeing.find()))
assert sorted(process.tasks for process in cluster) == [("rank:0",), ("rank:1",)]
for process in cluster:
    names = {row["name"]: row["task"] for row in process.status["names"]}
    [mine] = process.tasks
    assert any(name.startswith("all-reduce f32 33 in world/pair") for name in names), names
    assert "all-reduce f32 33 in other" in names
    assert "all-reduce f32 33" in names
    assert set(names.values()) == {mine}
fw.barrier()
print("fine")
"""
    program = tmp_path / "program.py"
    program.write_text(code)
    command = [FUSEWIRE, "run", "--ranks", 2, "--live", "off", "--", sys.executable, program]
    done = run_to_end(command, tmp_path, clean_environment(XDG_RUNTIME_DIR=str(runtime)))
    assert done.ok().count("fine") == 2


def test_the_lines_of_fusewire_run_show_bytes_and_steps(tmp_path, runtime):
    program = tmp_path / "steps.py"
    together = 'large[0] = os.path.exists("go")\n    fw.allreduce(large'
    end = "    if large[0]:\n        break\n"
    program.write_text(STEPS.replace("NAME", "None").replace("fw.allreduce(large", together) + end)
    until = r"rank:0 .*step [\d,]+ .*\d/s .*B/s(.|\n)*rank:1 .*B/s"
    words = ["--ranks", "2", str(program)]
    code, seen, last = run_on_terminal(tmp_path, *words, until=until, then=(tmp_path / "go").touch, columns=140)
    assert seen, last
    assert code == 0, last
