# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""`fusewire run --ps 4 --ps-processes 2`: several parameter servers in a process."""

import json
import re
import socket
import textwrap

import pytest
import warm
from cluster import PROLOGUE
from conftest import clean_environment

from fusewire.launch.plan import Cluster, Shape

STAR = ["star_server", "star_server_lite"]
# Variables on each of four servers, of every kind; the one worker makes the same steps in each run.
TRAIN = """
import hashlib
with tf1.device(place):
    normal = [tf1.random_normal_initializer(seed=part) for part in range(4)]
    parts = [tf1.get_variable(f"part{part}", [125, 8], initializer=normal[part]) for part in range(4)]
    dense = [tf1.get_variable(f"dense{layer}", [8, 8], initializer=tf1.ones_initializer()) for layer in range(4)]
    step = tf1.train.get_or_create_global_step()
    which = tf1.placeholder(tf.int64, [None])
    values = tf.nn.embedding_lookup(parts, which)
    for layer in dense:
        values = tf.tanh(tf.matmul(values, layer))
    loss = tf.reduce_sum(tf.square(values - 0.5))
    train = tf1.train.AdamOptimizer(0.01).minimize(loss, global_step=step)
places = sorted({each.device.split("/")[-1] for each in parts + dense})
digest = hashlib.sha256()
with tf1.Session(server.target) as session:
    session.run(tf1.global_variables_initializer())
    for number in range(30):
        ids = np.random.RandomState(number).randint(0, 500, 40)
        digest.update(session.run([train, loss], {which: ids})[1].tobytes())
    for value in session.run(sorted(tf1.global_variables(), key=lambda each: each.name)):
        digest.update(value.tobytes())
    say("PLACES", *places)
    say("DIGEST", digest.hexdigest(), session.run(step))
done()
"""


@pytest.mark.parametrize("protocol", [*STAR, "grpc++"])
def test_the_same_bits_as_in_a_process_each(run_cluster, protocol):
    alone = run_cluster(TRAIN, protocol, ps=4)
    hosted = run_cluster(TRAIN, protocol, ps=4, ps_processes=2)
    assert alone.said[0] == "PLACES task:0 task:1 task:2 task:3"
    assert alone.said[1].endswith(" 30")
    assert hosted.said == alone.said
    assert "4 ps in 2 processes, 1 worker" in hosted.errors
    assert "the process ps:1 serves ps:1, ps:3" in hosted.errors


# A step adds one to a variable of each server. The process with the servers 0 and 2 kills itself when it is told to,
# once. The worker sees that both are back with what they had a moment ago, in the session that it has.
RETURN = """
import pathlib, signal, threading
if job == "ps":
    raise SystemExit("join() has returned")
counts = []
for ps in range(4):
    with tf.device(f"/job:ps/task:{ps}"):
        counts.append(tf1.get_variable(f"count{ps}", [], tf.int64, tf1.zeros_initializer(), use_resource=ps < 2))
with tf.device(WORKER):
    counted = [tf.identity(tf1.assign_add(count, 1)) for count in counts]


class Sessions(tf1.train.SessionRunHook):
    made = 0

    def after_create_session(self, session, coord):
        Sessions.made += 1
        assert Sessions.made == 1, "a second session"


def snapshots(ps):
    return len(list(pathlib.Path(f"snapshots/ps_{ps}").glob("*.manifest")))


last, lost, until = [0] * 4, set(), time.monotonic() + 90
with tf1.train.MonitoredTrainingSession(server.target, is_chief=True, hooks=[Sessions()]) as session:
    while time.monotonic() < until:
        got = session.run(counted)
        lost |= {ps for ps, count in enumerate(got) if count <= last[ps]}
        last = got
        if not os.path.exists("die") and all(snapshots(ps) >= 2 for ps in range(4)):
            for _ in range(20):  # since the last snapshot: it is seen who is back
                last = session.run(counted)
            pathlib.Path("die").touch()
        if len(pathlib.Path("lives-0").read_text()) == 2 and lost >= {0, 2}:
            break
say("LOST", *sorted(lost))
done()
"""
DIE = """
if job == "ps":
    import signal, threading
    with open(f"lives-{index}", "a") as file:
        file.write("x")
    def die():
        while not os.path.exists("die"):
            time.sleep(0.002)
        os.kill(os.getpid(), signal.SIGKILL)
    if index == 0 and os.path.getsize("lives-0") == 1:
        threading.Thread(target=die, daemon=True).start()
"""


@pytest.mark.slow
@pytest.mark.parametrize("protocol", STAR)
def test_a_process_that_dies_comes_back_with_all_its_tasks(tmp_path, protocol):
    prologue = PROLOGUE.replace("server = tf1.train.Server(", DIE + "server = tf1.train.Server(", 1)
    (tmp_path / "program.py").write_text(prologue + textwrap.dedent(RETURN), encoding="utf-8")
    words = ["run", "--ps", "4", "--ps-processes", "2", "--restarts", "2", "--snapshots", "snapshots"]
    words += ["--snapshot-every", "0.3", "--timeout", "120", "program.py"]
    done = warm.run_command(words, tmp_path, clean_environment(TEST_PROTOCOL=protocol), 150)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "LOST 0 2" in done.stdout
    assert "ps:0 failed: ended by signal 9 (SIGKILL)" in done.stderr
    assert set(re.findall(r"(ps:\d): it goes on with 1 variables", done.stderr)) == {"ps:0", "ps:2"}
    assert (tmp_path / "lives-1").read_text() == "x"


def test_another_process_takes_over_all_its_tasks(tmp_path):
    prologue = PROLOGUE.replace("server = tf1.train.Server(", DIE + "server = tf1.train.Server(", 1)
    program = RETURN.replace('len(pathlib.Path("lives-0").read_text()) == 2 and lost', "lost")
    (tmp_path / "program.py").write_text(prologue + textwrap.dedent(program), encoding="utf-8")
    words = ["run", "--ps", "4", "--ps-processes", "2", "--restarts", "2", "--snapshots", "snapshots"]
    words += ["--snapshot-every", "0.3", "--on-loss", "adopt", "--timeout", "120", "program.py"]
    done = warm.run_command(words, tmp_path, clean_environment(TEST_PROTOCOL="star_server"), 150)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "LOST 0 2" in done.stdout
    assert "ps:0 failed: ended by signal 9 (SIGKILL)" in done.stderr
    assert "ps:1 is to adopt ps:0, ps:1 is to adopt ps:2" in done.stderr
    for task in ("ps:0", "ps:2"):
        assert re.search(f"{task} is served by the process of ps:1, at .*, epoch 2", done.stderr)
    assert (tmp_path / "lives-0").read_text() == "x"
    assert (tmp_path / "lives-1").read_text() == "x"


def test_a_process_without_takers_is_started_again(tmp_path):
    prologue = PROLOGUE.replace("server = tf1.train.Server(", DIE + "server = tf1.train.Server(", 1)
    (tmp_path / "program.py").write_text(prologue + textwrap.dedent(RETURN), encoding="utf-8")
    words = ["run", "--ps", "4", "--ps-processes", "2", "--restarts", "2", "--snapshots", "snapshots"]
    words += ["--snapshot-every", "0.3", "--on-loss", "adopt", "--timeout", "120", "program.py"]
    environment = clean_environment(TEST_PROTOCOL="star_server", FUSEWIRE_SECRET="")  # without one, no order is taken
    done = warm.run_command(words, tmp_path, environment, 150)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "it takes no orders, as its cluster has no secret" in done.stderr
    assert (tmp_path / "lives-0").read_text() == "xx"


# ---- the command ----

SHOW = 'echo "$FUSEWIRE_TASKS;$TF_CONFIG"; sleep 1'


def shown(done):
    """{label: (FUSEWIRE_TASKS, TF_CONFIG)}"""
    found = {}
    for line in done.ok().splitlines():
        label, _, text = line.partition(" | ")
        tasks, _, config = text.partition(";")
        found[label.strip()] = (tasks, json.loads(config))
    return found


@pytest.mark.once
def test_each_process_learns_its_tasks(fusewire_command):
    found = shown(fusewire_command("run", "--ps", "5", "--ps-processes", "2", "--chief", "--", "sh", "-c", SHOW))
    assert {label: tasks for label, (tasks, _) in found.items()} == {
        "ps:0": "ps:0,ps:2,ps:4",
        "ps:1": "ps:1,ps:3",
        "chief": "",
        "worker:0": "",
    }
    [cluster] = {json.dumps(config["cluster"]) for _, config in found.values()}
    addresses = [address for tasks in json.loads(cluster).values() for address in tasks]
    assert len(set(addresses)) == len(addresses) == 7


@pytest.mark.once
def test_the_tasks_of_a_process_are_at_its_host():
    shape = Shape(5, 2, evaluator=True, ps_processes=2)
    assert shape.tasks() == [("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1), ("evaluator", 0)]
    assert Cluster(shape).listening([7, 8, 9, 7, 8]) == [7, 8, 7, 8, 7, 9, 7]
    assert Cluster(Shape(2, 1, chief=True)).listening([7, 8, 9, 7]) == [7, 8, 9, 7]
    assert str(shape) == "5 ps in 2 processes, 2 workers, an evaluator"
    assert str(Shape(2, 1, ps_processes=1)) == "2 ps in 1 process, 1 worker"


@pytest.mark.once
def test_a_process_with_one_task_is_as_without_the_option(fusewire_command):
    found = shown(fusewire_command("run", "--ps", "3", "--ps-processes", "2", "--", "sh", "-c", SHOW))
    assert found["ps:1"][0] == ""
    words = ["run", "--ps", "2", "--ps-processes", "2", "--protocol", "grpc"]
    found = shown(fusewire_command(*words, "--", "sh", "-c", SHOW))
    assert [tasks for tasks, _ in found.values()] == ["", "", ""]


@pytest.mark.once
@pytest.mark.parametrize(
    ("options", "environment", "told"),
    [
        (["--ps", "2", "--ps-processes", "3"], {}, "--ps-processes 3 with 2 parameter servers: "),
        (["--ps-processes", "2"], {}, "--ps-processes 2 with 1 parameter server: "),
        (["--ps", "4", "--ps-processes", "0"], {}, "--ps-processes 0 with 4 parameter servers: "),
        (["--ranks", "2", "--ps-processes", "2"], {}, "--ranks with --ps-processes: "),
        (["--ps", "4", "--ps-processes", "2", "--protocol", "grpc"], {}, "the protocol is grpc, and "),
        (["--ps", "4", "--ps-processes", "2"], {"FUSEWIRE_PROTOCOL": "grpc"}, "the protocol is grpc, and "),
        (["--ps", "4", "--ps-processes", "2"], {"FUSEWIRE_DISABLE": "1"}, "FUSEWIRE_DISABLE is set, and "),
        (["--ps", "4", "--ps-processes", "2", "--env", "FUSEWIRE_DISABLE=1"], {}, "FUSEWIRE_DISABLE is set, and "),
    ],
)
def test_what_makes_no_sense(fusewire_command, options, environment, told):
    done = fusewire_command("run", *options, "true", **environment)
    assert done.status == 2
    assert told in done.error
    assert "Fix: " in done.error


# ---- a TFJob, whose operator has set TF_CONFIG ----

CLUSTER = {"ps": ["a-ps-0:2222", "a-ps-1:2222"], "worker": ["a-worker-0:2222"]}


def config_of(job, index, cluster=CLUSTER, **more):
    return json.dumps({"cluster": cluster, "task": {"type": job, "index": index}, **more})


@pytest.mark.once
def test_a_tfjob_of_two_servers_has_as_many_tasks_as_are_asked_for(fusewire_command):
    words = ["run", "--inside", "tf", "--ps", "5", "--protocol", "star_server", "sh", "-c", SHOW]
    for job, index, served in (("ps", 0, "ps:0,ps:2,ps:4"), ("ps", 1, "ps:1,ps:3"), ("worker", 0, "")):
        tasks, _, config = fusewire_command(*words, TF_CONFIG=config_of(job, index)).ok().strip().partition(";")
        assert tasks == served
        ps = ["a-ps-0:2222", "a-ps-1:2222", "a-ps-0:2223", "a-ps-1:2223", "a-ps-0:2224"]
        assert json.loads(config) == {
            "cluster": {"ps": ps, "worker": CLUSTER["worker"]},
            "task": {"type": job, "index": index},
            "rpc_layer": "star_server",
        }


@pytest.mark.once
def test_a_tfjob_of_as_many_servers_is_left_as_it_is(fusewire_command):
    given = config_of("ps", 1)
    out = fusewire_command("run", "--inside", "tf", "--ps", "2", "sh", "-c", SHOW, TF_CONFIG=given).ok()
    assert json.loads(out.partition(";")[2]) == json.loads(given)


@pytest.mark.once
def test_a_process_that_was_added_takes_over_its_share(fusewire_command):
    words = ["run", "--inside", "tf", "--ps", "8", "--protocol", "star_server", "sh", "-c"]
    words.append('echo "$FUSEWIRE_ON_SERVED;$FUSEWIRE_TASKS;$TF_CONFIG"')
    cluster = {**CLUSTER, "ps": ["a-ps-0.a:2222", "a-ps-1.a:2222"]}
    before = ["a-ps-0.a:2222", "a-ps-1.a:2222", "a-ps-0.a:2223", "a-ps-1.a:2223", "a-ps-0.a:2224", "a-ps-1.a:2224"]
    before += ["a-ps-0.a:2225", "a-ps-1.a:2225"]

    def found(index, **environment):
        out = fusewire_command(*words, TF_CONFIG=config_of("ps", index, cluster), **environment).ok()
        on_served, tasks, config = out.strip().split(";", 2)
        return on_served, tasks, json.loads(config)

    # Of three processes, the third one; the others are where they were.
    on_served, tasks, config = found(2)
    assert (on_served, tasks) == ("move", "ps:2,ps:5")
    assert config["task"] == {"type": "ps", "index": 2}
    own = {2: f"{socket.gethostname()}.a:2222", 5: f"{socket.gethostname()}.a:2223"}
    assert config["cluster"]["ps"] == [own.get(index, address) for index, address in enumerate(before)]
    # The host that others reach it at; a choice of the user's stays.
    on_served, tasks, config = found(3, FUSEWIRE_ADVERTISE="a-ps-3.a", FUSEWIRE_ON_SERVED="leave")
    assert (on_served, tasks) == ("leave", "ps:3,ps:7")
    assert [config["cluster"]["ps"][index] for index in (3, 7)] == ["a-ps-3.a:2222", "a-ps-3.a:2223"]
    # Those of the first size have what they had.
    assert found(1) == (
        "",
        "ps:1,ps:3,ps:5,ps:7",
        json.loads(
            json.dumps(
                {"cluster": {**cluster, "ps": before}, "task": {"type": "ps", "index": 1}, "rpc_layer": "star_server"}
            )
        ),
    )
    # One task alone is no list.
    on_served, tasks, config = found(7)
    assert (on_served, tasks) == ("move", "")
    assert config["task"]["index"] == 7


@pytest.mark.once
@pytest.mark.parametrize(
    ("options", "config", "told"),
    [
        (
            ["--ps", "4"],
            config_of("ps", 4),
            "ps:4 in TF_CONFIG, with 4 parameter servers: a process serves one or more",
        ),
        (["--ps", "2"], config_of("ps", 2), "Fix: no more than 2 processes"),
        (["--ps", "1"], config_of("ps", 0), "--ps 1: TF_CONFIG has 2 addresses of parameter servers"),
        (["--ps", "4"], config_of("worker", 0, {"worker": ["a:1"]}), "--ps 4: TF_CONFIG has 0 addresses"),
        (["--ps", "4", "--ps-processes", "4"], config_of("ps", 0), "TF_CONFIG has 2 processes for parameter servers"),
        (["--ps", "4"], config_of("ps", 0, rpc_layer="grpc"), "--ps 4: the protocol is grpc, and "),
        (
            ["--ps", "2"],
            config_of("ps", 0, {"ps": ["a:7000"], "worker": ["a:7001"]}),
            "--ps 2: a:7001 is of two tasks",
        ),
        (["--ps", "4"], config_of("ps", 0, {"ps": ["a", "b:1"]}), "'a' in TF_CONFIG is not host:port"),
        (["--ps", "4"], config_of("ps", 0, {"ps": ["a:65534", "b:1"]}), "'a:65534' in TF_CONFIG is not host:port with"),
    ],
)
def test_what_makes_no_sense_in_a_tfjob(fusewire_command, options, config, told):
    done = fusewire_command("run", "--inside", "tf", *options, "true", TF_CONFIG=config)
    assert done.status == 2
    assert told in done.error


# ---- without the command ----


@pytest.mark.parametrize(
    ("protocol", "named", "environment", "told"),
    [
        ("star_server", "ps:0,ps:9", {}, r'FUSEWIRE_TASKS is "ps:0,ps:9": the cluster has no "ps:9"'),
        ("grpc", "ps:0,ps:1", {}, r"is to serve ps:1 too, but everything goes over gRPC"),
        ("star_server", "ps:0,ps:1", {"FUSEWIRE_DISABLE": "1"}, r"FUSEWIRE_TASKS=ps:0,ps:1: FUSEWIRE_DISABLE is set"),
    ],
)
def test_a_server_that_can_t_have_its_tasks_does_not_start(tasks, tmp_path, protocol, named, environment, told):
    cluster = tasks("", protocol)
    server = cluster.start("ps", 0, FUSEWIRE_TASKS=named, **environment)
    assert server.wait(60) != 0
    assert re.search(told, (tmp_path / "ps-0.err").read_text())
