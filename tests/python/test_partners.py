# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Libraries that people use beside TensorFlow's distributed runtime: they train the same over every protocol."""

import json
import pathlib
import re
import shutil
import sys
import time

import numpy as np
import pytest
import tensorflow as tf
import warm
from cluster import PROLOGUE
from conftest import ROOT, Done, clean_environment, run_to_end
from processes import free_addresses
from test_returns import EVERY_S, follow, kill, training  # noqa: F401  (a fixture)

from fusewire.inspect import inquiry

EXAMPLE = ROOT / "examples/dynamic_embedding"
PROTOCOLS = ("grpc", "grpc++", "star_server", "star_server_lite")
RUN_LIMIT_S = 75.0


@pytest.fixture(scope="module")
def partners() -> pathlib.Path:
    """The folder of their packages."""
    found = list(ROOT.glob(".venv-partners/lib/python3*/site-packages/tensorflow_recommenders_addons"))
    if not found:
        pytest.skip("the partners' packages are not installed: tools/deps.sh partners")
    return found[0].parent


# Runs the example as it stands, in an environment that has TFRA; tells the counters when the worker ends.
RUN_EXAMPLE = """
import atexit, json, runpy, sys
import fusewire
sys.path.insert(0, {example!r})
sys.path.append({partners!r})
names = ("star_runs_out", "calls_out")
atexit.register(lambda: print("STATS", json.dumps({{name: fusewire.stats()[name] for name in names}}), flush=True))
runpy.run_path({example!r} + "/train.py", run_name="__main__")
"""


@pytest.fixture
def train(partners, tmp_path):
    """train(protocol, workers, steps): the output, the losses of the chief, the counters of a worker."""

    def run(protocol: str, workers: int, steps: int, *options: object) -> tuple[str, np.ndarray, dict[str, int]]:
        program = tmp_path / "program.py"
        program.write_text(RUN_EXAMPLE.format(example=str(EXAMPLE), partners=str(partners)))
        losses = tmp_path / "losses"
        words = ["run", "--ps", 2, "--workers", workers, "--protocol", protocol, program, "--steps", steps]
        # A sum must not depend on how many threads share it.
        environment = clean_environment(TF_NUM_INTRAOP_THREADS="1", CUDA_VISIBLE_DEVICES="")
        ended = warm.run_command([*words, "--losses", losses, *options], tmp_path, environment, RUN_LIMIT_S)
        said = Done(ended.returncode, ended.stdout, ended.stderr).ok()
        stats = re.findall(r"STATS (.*)", said)
        return said, np.array(losses.read_text().split(), float), json.loads(stats[-1])

    return run


@pytest.mark.once
def test_ranks_exchange_their_parts_of_dynamic_tables(partners, tmp_path):
    """HvdAllToAllEmbedding over fusewire.horovod: two ranks learn what one learns, each keeping half of the keys."""
    losses, keys = {}, {}
    # Without the other packages of that folder.
    (tmp_path / "packages").mkdir()
    name = "tensorflow_recommenders_addons"
    (tmp_path / "packages" / name).symlink_to(partners / name)
    environment = clean_environment(CUDA_VISIBLE_DEVICES="", PYTHONPATH=str(tmp_path / "packages"))
    for ranks in (1, 2):
        file = tmp_path / f"losses{ranks}"
        words = ["run", "--ranks", ranks, "-m", "fusewire.horovod", EXAMPLE / "all_to_all.py", "--steps", 30]
        command = [sys.executable, "-m", "fusewire", *words, "--losses", file]
        said = run_to_end(command, tmp_path, environment).ok()
        losses[ranks] = np.loadtxt(file)
        keys[ranks] = json.loads(re.search(r"keys of each rank (.*)", said)[1].replace("'", '"'))
    np.testing.assert_allclose(losses[2], losses[1], rtol=1e-5)
    assert losses[1][-1] < losses[1][0] - 0.05
    for table, count in keys[1][0].items():
        parts = [one[table] for one in keys[2]]
        assert sum(parts) == count and min(parts) > count / 4


@pytest.mark.once
def test_dynamic_tables_learn_the_same_over_every_protocol(train, tmp_path):
    """All go on from the tables that were saved over gRPC; each sees 40 new users and articles."""
    _, begun, _ = train("grpc", 1, 40, "--checkpoints", tmp_path / "saved")
    results = {}
    for protocol in PROTOCOLS:
        folder = shutil.copytree(tmp_path / "saved", tmp_path / protocol)
        said, losses, stats = train(protocol, 1, 80, "--checkpoints", folder)
        assert len(losses) == 40
        assert losses[-20:].mean() < begun[:20].mean() - 0.05, protocol
        results[protocol] = losses, re.search(r"loss (\S+); best possible (\S+); (\d+) keys", said).groups()
        assert (stats["calls_out"] > 40) == (protocol != "grpc"), protocol
        assert (stats["star_runs_out"] > 40) == protocol.startswith("star"), protocol
    losses, quality = results["grpc"]
    for protocol in PROTOCOLS[1:]:
        np.testing.assert_allclose(results[protocol][0], losses, rtol=1e-5, err_msg=protocol)
        assert results[protocol][1] == quality, protocol
    assert int(quality[2]) > 200


# Adds one to the vectors of some keys in each step, and reads the sum of all: each step must find what all before it
# have added, or as much less as a killed server has lost.
COUNT = """
tables = de.get_variable("rows", dim=4, devices=[f"/job:ps/task:{each}/CPU:0" for each in range(2)], initializer=0.0)
some, every = tf1.placeholder(tf.int64, [None]), tf.range(200, dtype=tf.int64)
with tf.device("/job:ps/task:0"):
    step = tf1.get_variable("step", [], tf.int64, tf1.zeros_initializer(), use_resource=True)
with tf.device(WORKER):
    add = tables.upsert(some, tables.lookup(some) + 1.0)
    with tf.control_dependencies([add, tf1.assign_add(step, 1)]):
        found = tf.reduce_sum(tables.lookup(every), 1) / 4.0
last, made, ended = np.zeros(200), 0, []
with tf1.Session(server.target) as session:
    session.run(tf1.global_variables_initializer())
    say("TRAINS")
    while not os.path.exists("enough"):
        keys = np.random.RandomState(made).randint(0, 200, 30)
        now = session.run(found, {some: np.unique(keys)})
        wanted = last + np.isin(np.arange(200), keys)
        assert (now <= wanted).all(), (now, wanted)
        for ps in range(2):
            if (now < wanted)[ps::2].any():
                say("LOST", ps, (wanted - now).sum(), 0)
        last, made = now, made + 1
        if made % 50 == 0:
            say("STEP", time.time())
say("DONE")
done()
"""


@pytest.mark.once
@pytest.mark.parametrize("protocol", PROTOCOLS[2:])
def test_servers_with_dynamic_tables_come_back_and_move(training, partners, tmp_path, protocol):  # noqa: F811
    addons = f"sys.path.append({str(partners)!r})\nfrom tensorflow_recommenders_addons import dynamic_embedding as de\n"
    secret = "a secret of the tests with partners"
    cluster, servers, worker = training(protocol, COUNT, before_server=addons, FUSEWIRE_SECRET=secret)
    assert follow(cluster, worker) == []
    for task, to in ((1, 0), (0, 1), (1, 1), (0, 0)):
        said = inquiry.give_order(cluster.address("ps", to), f"move ps:{task} 5000", secret)
        assert f"ps:{task} is served" in said
        assert follow(cluster, worker) == []
    for index in (0, 1):
        time.sleep(3 * EVERY_S)
        kill(servers[index])
        servers[index] = cluster.start("ps", index)
        assert {int(ps) for _, ps, *_ in follow(cluster, worker)} <= {index}
        assert "it goes on with" in (tmp_path / f"ps-{index}.err").read_text()
    (tmp_path / "enough").touch()
    cluster.read_until(worker, "DONE", 60)


@pytest.mark.once
def test_workers_share_dynamic_tables(train):
    # On a busy machine, one may have taken the last step before the other is ready: then there are more of them.
    for wanted in (100, 1000, 4000):
        said, losses, _ = train("star_server", 2, wanted)
        steps = [int(count) for count in re.findall(r"(\d+) steps here", said)]
        assert len(steps) == 2
        # A worker finishes a step that it has begun, even if the other one has reached the last step meanwhile.
        assert wanted <= sum(steps) < wanted + 5
        if min(steps) > 0:
            break
    assert min(steps) > 0
    assert np.isfinite(losses).all()


# tf.data service in a job of TensorFlow 1's kind: the dispatcher beside the first parameter server, and one of its
# workers beside each. Each element goes to one training worker, which adds it to a variable on a parameter server.
SERVE_DATA = """
import json, os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "1"
import fusewire
fusewire.load()
import tensorflow as tf
service = tf.data.experimental.service
place = json.loads(os.environ["TF_CONFIG"])["task"]
address = os.environ["DISPATCHER"]
if place["type"] == "ps":
    if place["index"] == 0:
        dispatcher = service.DispatchServer(service.DispatcherConfig(port=int(address.rpartition(":")[2])))
        assert dispatcher.target == "grpc://" + address.replace("127.0.0.1", "localhost"), dispatcher.target
    preparer = service.WorkerServer(service.WorkerConfig(dispatcher_address=address))
"""
READ_DATA = """
WORKERS, ELEMENTS = 2, 400
with tf1.device(place):
    seen = tf1.get_variable("seen", [ELEMENTS], initializer=tf1.zeros_initializer())
    done_reading = tf1.get_variable("done", [], initializer=tf1.zeros_initializer())
with tf1.device(WORKER):
    data = tf.data.Dataset.range(ELEMENTS).map(lambda number: (number, number % 2)).batch(4)
    data = data.apply(service.distribute(service.ShardingPolicy.DYNAMIC, "grpc://" + address, job_name="all"))
    iterator = tf1.data.make_initializable_iterator(data)
    numbers, odd = iterator.get_next()
    update = tf1.scatter_add(seen, numbers, tf.ones_like(numbers, tf.float32))
leave = tf1.assign_add(done_reading, 1.0)
unready = tf1.report_uninitialized_variables()
ends = time.monotonic() + 60
apart = tf1.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{index}"])
with tf1.Session(server.target, config=apart) as session:
    if index == 0:
        session.run(tf1.global_variables_initializer())
    while len(session.run(unready)) > 0 and time.monotonic() < ends:
        time.sleep(0.05)
    session.run(iterator.initializer)
    try:
        while True:
            session.run(update)
    except tf.errors.OutOfRangeError:
        session.run(leave)
    while session.run(done_reading) < WORKERS and time.monotonic() < ends:
        time.sleep(0.05)
    counts = session.run(seen)
say("each once" if (counts == 1).all() else f"counts {counts.tolist()}")
if index == 0:
    say_stats("calls_out", "star_runs_out")
done()
"""


@pytest.mark.once
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_data_service_feeds_a_cluster(run_cluster, protocol):
    [address] = free_addresses(1)
    output = run_cluster(READ_DATA, protocol, ps=2, workers=2, prologue=SERVE_DATA + PROLOGUE, DISPATCHER=address)
    assert output.said.count("each once") == 2, output.said
    assert (output.stats["calls_out"] > 0) == (protocol != "grpc")
    assert (output.stats["star_runs_out"] > 0) == protocol.startswith("star")


# Runs the program as it stands, with the partners' packages; tells the counters when it ends.
RUN_PROGRAM = """
import atexit, json, runpy, sys
import fusewire
sys.path[0] = {folder!r}
sys.path += {path!r}
names = ("star_runs_out", "calls_out")
atexit.register(lambda: print("STATS", json.dumps({{name: fusewire.stats()[name] for name in names}}), flush=True))
sys.argv[0] = {program!r}
runpy.run_path({program!r}, run_name="__main__")
"""
CLICK_MODELS = ("DeepFM", "xDeepFM", "DCN", "AutoInt")


def run_program(tmp_path: pathlib.Path, path: list[str], program: str, *words: object) -> tuple[str, dict[str, int]]:
    """Runs `program` of examples/ by `fusewire run` with these words; returns the output and the chief's counters."""
    whole = ROOT / "examples" / program
    (tmp_path / "program.py").write_text(RUN_PROGRAM.format(folder=str(whole.parent), path=path, program=str(whole)))
    words = ["run", *(tmp_path / "program.py" if word == program else word for word in words)]
    # A sum must not depend on how many threads share it.
    environment = clean_environment(TF_NUM_INTRAOP_THREADS="1", CUDA_VISIBLE_DEVICES="")
    ended = warm.run_command(words, tmp_path, environment, RUN_LIMIT_S)
    said = Done(ended.returncode, ended.stdout, ended.stderr).ok()
    [stats] = re.findall(r"chief +\| STATS (.*)", said)
    return said, json.loads(stats)


@pytest.mark.once
@pytest.mark.parametrize(
    "words",
    [
        *(["estimator/clicks.py", "--steps", 150, "--columns", 6, "--model", name] for name in CLICK_MODELS),
        ["estimator/ranking.py", "--steps", 100],
    ],
    ids=lambda words: words[-1] if "--model" in words else "TensorFlow Ranking",
)
def test_estimators_learn_the_same_over_every_protocol(partners, tmp_path, words):
    """Of DeepCTR and of TensorFlow Ranking. Neither they nor the programs know about us.

    Over ours, to the last bit. Two runs over stock gRPC differ from each other in the last digits, about one in four of
    DCN and xDeepFM.
    """
    losses = {}
    for protocol in PROTOCOLS:
        cluster = ["--ps", 2, "--workers", 0, "--chief", "--protocol", protocol]
        said, stats = run_program(tmp_path, [str(partners)], words[0], *cluster, *words)
        losses[protocol] = re.findall(r"loss (\S+)", said)
        assert (stats["calls_out"] > 40) == (protocol != "grpc"), protocol
        assert (stats["star_runs_out"] > 40) == protocol.startswith("star"), protocol
    assert losses["grpc++"] == losses["star_server"] == losses["star_server_lite"]
    numbers = np.array(losses["star_server"], float)
    assert len(numbers) == words[2]
    np.testing.assert_allclose(numbers, np.array(losses["grpc"], float), rtol=1e-6)
    assert numbers[-20:].mean() < 0.95 * numbers[:20].mean()


def test_keras_learns_the_same_over_every_protocol_and_from_a_data_service(request, tmp_path):
    # Keras 2 is part of TensorFlow 2.15; with a newer one it comes from the partners' packages.
    path = [] if tf.__version__.startswith("2.15.") else [str(request.getfixturevalue("partners"))]
    program = "keras_ps/train.py"
    losses = []
    served = ["--data-service", *free_addresses(1)]
    for protocol, options in (("grpc", []), ("grpc++", served), ("star_server", [])):
        words = ["--ps", 2, "--workers", 1, "--chief", "--protocol", protocol, program, "--epochs", 3, *options]
        said, stats = run_program(tmp_path, path, program, *words)
        losses.append(np.array(re.findall(r"loss ([\d.e-]+)", said), float))
        assert "tables on /job:ps/replica:0/task:0/device:CPU:0 /job:ps/replica:0/task:1/device:CPU:0" in said
        assert (stats["calls_out"] > 100) == (protocol != "grpc")
        assert len(losses[-1]) == 3 and losses[-1][-1] < 0.8 * losses[-1][0]
        np.testing.assert_allclose(losses[-1], losses[0], rtol=1e-5, err_msg=f"{protocol} {options}")


@pytest.mark.skipif(tf.__version__.startswith("2.15."), reason="Keras 3 is for TensorFlow 2.16 and newer")
def test_keras_3_learns_the_same_over_every_protocol(tmp_path):
    """In a loop of its own: Keras 3 has no DatasetCreator, so its fit() works with no ParameterServerStrategy."""
    losses = {}
    for protocol in ("grpc", "grpc++", "star_server"):
        words = ["--ps", 2, "--workers", 1, "--chief", "--protocol", protocol, "keras_ps/keras_3.py", "--epochs", 3]
        said, stats = run_program(tmp_path, [], "keras_ps/keras_3.py", *words)
        assert "variables on /job:ps/replica:0/task:0/device:CPU:0 /job:ps/replica:0/task:1/device:CPU:0" in said
        assert (stats["calls_out"] > 100) == (protocol != "grpc")
        losses[protocol] = re.findall(r"loss ([\d.e-]+)", said)
        assert losses[protocol] == losses["grpc"], protocol
    assert len(losses["grpc"]) == 3
    assert float(losses["grpc"][-1]) < 0.8 * float(losses["grpc"][0])
