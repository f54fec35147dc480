# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The models of examples/recommend: training gives the same bits over every protocol, and resumes across protocols."""

import pathlib
import re
import shutil
import sys
from dataclasses import dataclass

import numpy as np
import pytest
import warm
from conftest import ROOT, Done, clean_environment

sys.path.append(str(ROOT / "examples" / "recommend"))

from goals import GOALS
from shop import CATEGORY_OF, HISTORY, ITEMS, NONE, RECALL_AT, Shop, recall

EXAMPLE = ROOT / "examples" / "recommend"
# Those that begin, the first of which all others are held against; and who goes on from whose checkpoint.
PROTOCOLS = ("grpc", "grpc++", "star_server")
GO_ON = (("grpc++", "star_server_lite"), ("star_server", "grpc"))
STEPS, SAVED_AT = 100, 50
RUN_LIMIT_S = 75.0
# A continued training has its variables on other servers: no loss may differ.
ELSEWHERE = (1, "--ref-variables")
# The least that so few steps reach. By chance: an AUC of 0.5, a recall of 0.1.
REACHED = {"AUC": 0.7, "recall@10": 0.3}


@dataclass(frozen=True)
class Run:
    losses: list[str]
    quality: float
    best: float


def train(folder: pathlib.Path, model: str, protocol: str, ps: int, *options: object) -> Run:
    folder.mkdir(parents=True, exist_ok=True)
    command = ["run", "--ps", ps, "--workers", 1, EXAMPLE / "train.py", "--model", model]
    command += ["--protocol", protocol, "--steps", STEPS, "--losses", folder / "losses", *options]
    # A sum must not depend on how many threads share it.
    environment = clean_environment(TF_NUM_INTRAOP_THREADS="1", CUDA_VISIBLE_DEVICES="")
    ended = warm.run_command(command, folder, environment, RUN_LIMIT_S)
    said = Done(ended.returncode, ended.stdout, ended.stderr).ok()
    quality = re.search(rf"{GOALS[model].measure} (\S+); best possible (\S+)$", said, re.MULTILINE)
    assert quality, said
    return Run((folder / "losses").read_text().split(), float(quality[1]), float(quality[2]))


def saved(folder: pathlib.Path, step: int, to: pathlib.Path) -> pathlib.Path:
    """A checkpoint folder as if training had ended at that step."""
    to.mkdir()
    for path in folder.glob(f"model.ckpt-{step}.*"):
        shutil.copy(path, to)
    (to / "checkpoint").write_text(f'model_checkpoint_path: "model.ckpt-{step}"\n')
    return to


MODELS = [pytest.param(model, marks=() if model == "dlrm" else pytest.mark.once) for model in GOALS]


@pytest.mark.in_turn(2)
@pytest.mark.parametrize("model", MODELS)
def test_all_protocols_learn_the_same_and_go_on_from_each_other(tmp_path, model):
    runs = {}
    for protocol in PROTOCOLS:
        options = ("--checkpoints", tmp_path / protocol / "saved", "--save-steps", SAVED_AT)
        runs[protocol] = train(tmp_path / protocol, model, protocol, 2, *options)
    first = runs[PROTOCOLS[0]]
    assert len(first.losses) == len(set(first.losses)) == STEPS
    assert REACHED[GOALS[model].measure] < first.quality < first.best
    for protocol in PROTOCOLS[1:]:
        assert runs[protocol] == first, protocol
    for before, after in GO_ON:
        checkpoint = saved(tmp_path / before / "saved", SAVED_AT, tmp_path / before / "halfway")
        went_on = train(tmp_path / before / "on", model, after, *ELSEWHERE, "--checkpoints", checkpoint)
        assert went_on == Run(first.losses[SAVED_AT:], first.quality, first.best), f"{before}, then {after}"


def test_two_workers_share_the_steps(fusewire_command, tmp_path):
    program = (EXAMPLE / "train.py", "--model", "dlrm", "--steps", 200, "--losses", tmp_path / "losses")
    said = fusewire_command("run", "--ps", 2, "--workers", 2, *program).ok()
    steps = [int(count) for count in re.findall(r"(\d+) steps here", said)]
    assert len(steps) == 2
    # A worker finishes a step that it has begun, even if the other one has reached the last step meanwhile.
    assert 200 <= sum(steps) < 205
    assert len((tmp_path / "losses").read_text().split()) in steps


# In one process: a cluster, one step of each model on it, and what TensorFlow made of the step's graph.
COUNT_MESSAGES = f"""
import os, sys
sys.path[:0] = [{str(EXAMPLE)!r}, {str(ROOT / "tests" / "python")!r}]
import tensorflow as tf
from processes import free_addresses
from goals import GOALS
from messages import Partitions
from replica import Replica

tf1 = tf.compat.v1
tf1.disable_eager_execution()
tf1.disable_control_flow_v2()
addresses = free_addresses(5)
for cluster in ({{"ps": addresses[:1], "worker": addresses[1:2]}}, {{"ps": addresses[2:4], "worker": addresses[4:]}}):
    servers = [tf1.train.Server(cluster, job, index) for job in cluster for index in range(len(cluster[job]))]
    place = tf1.train.replica_device_setter(cluster=cluster, worker_device="/job:worker/task:0")
    for model in GOALS:
        with tf.Graph().as_default(), tf1.device(place), tf1.Session(servers[-1].target) as session:
            replica = Replica(model, 0, ref_variables=False)
            session.run([tf1.global_variables_initializer(), tf1.tables_initializer()])
            traced = tf1.RunMetadata()

            class Traced:
                def run(self, fetches, feed):
                    options = tf1.RunOptions(output_partition_graphs=True)
                    return session.run(fetches, feed, options=options, run_metadata=traced)

            replica.train(Traced())
            print(model, len(cluster["ps"]), Partitions(traced.partition_graphs).messages_in_a_row(), flush=True)
os._exit(0)
"""


def test_messages_that_stand_in_a_row_are_as_many_as_the_readme_says(run_python):
    said = [line.split() for line in run_python(COUNT_MESSAGES, CUDA_VISIBLE_DEVICES="").ok().splitlines()]
    for servers, rows in (("1", [5, 7, 5, 5, 5]), ("2", [5, 8, 5, 6, 5])):
        counted = {model: int(count) for model, its, count in said if its == servers}
        assert counted == dict(zip(GOALS, rows, strict=True))


# In one process too: what a step of each model takes when servers run their parts of it.
COUNT_CALLS = f"""
import os, sys
sys.path[:0] = [{str(EXAMPLE)!r}, {str(ROOT / "tests" / "python")!r}]
import fusewire
import tensorflow as tf
from processes import free_addresses
from goals import GOALS
from replica import Replica

tf1 = tf.compat.v1
tf1.disable_eager_execution()
for protocol in ("star_server", "star_server_lite"):
    for count in (1, 2):
        addresses = free_addresses(count + 1)
        cluster = {{"ps": addresses[:count], "worker": addresses[count:]}}
        servers = [tf1.train.Server(cluster, job, index, protocol=protocol)
                   for job in cluster for index in range(len(cluster[job]))]
        place = tf1.train.replica_device_setter(cluster=cluster, worker_device="/job:worker/task:0")
        for model in GOALS:
            with tf.Graph().as_default(), tf1.device(place), tf1.Session(servers[-1].target) as session:
                replica = Replica(model, 0, ref_variables=False)
                session.run([tf1.global_variables_initializer(), tf1.tables_initializer()])
                replica.train(session)
                before = fusewire.stats()
                replica.train(session)
                after = fusewire.stats()
                counts = [after[name] - before[name] for name in ("star_runs_out", "recvs")]
                print(protocol, count, model, *counts, flush=True)
os._exit(0)
"""


def test_calls_are_as_many_as_the_round_trips_of_the_readme_need(run_python):
    calls = {}
    for line in run_python(COUNT_CALLS, CUDA_VISIBLE_DEVICES="").ok().splitlines():
        protocol, servers, model, count, recvs = line.split()
        calls[protocol, int(servers), model] = int(count)
        assert recvs == "0", line
    # A server answers once in each round trip. With one server, the step is counted where it is applied.
    for servers, counts in ((1, [2, 3, 2, 2, 2]), (2, [5, 8, 5, 6, 5])):
        assert [calls["star_server", servers, model] for model in GOALS] == counts
        for model, count in zip(GOALS, counts, strict=True):
            assert calls["star_server_lite", servers, model] <= count


def test_same_seed_stream_and_number_draw_the_same():
    for draw in (Shop.clicks, Shop.purchases):
        first, again = draw(Shop(), 100, 3, 5), draw(Shop(), 100, 3, 5)
        assert all(np.array_equal(first.columns[name], again.columns[name]) for name in first.columns)
        for other in (draw(Shop(), 100, 3, 6), draw(Shop(), 100, 4, 5), draw(Shop(seed=2), 100, 3, 5)):
            assert not np.array_equal(first.columns["item"], other.columns["item"])


def test_labels_come_as_often_as_the_planted_scores_say():
    examples = Shop().clicks(20_000, 0)
    chances = 1 / (1 + np.exp(-examples.planted))
    deviation = np.sqrt(np.sum(chances * (1 - chances)))
    assert abs(examples.columns["label"].sum() - chances.sum()) < 5 * deviation


def test_items_are_bought_as_often_as_their_share_says():
    examples = Shop().purchases(20_000, 0)
    items, share = examples.columns["item"], examples.columns["share"]
    best_selling = np.bincount(items, minlength=ITEMS).argmax()
    assert np.mean(items == best_selling) == pytest.approx(share[items == best_selling][0], rel=0.15)


def test_histories_are_filled_up_at_the_end_and_stay_in_a_category():
    history = Shop().clicks(2000, 0).columns["history"]
    there = history != NONE
    lengths = there.sum(axis=1)
    assert lengths.min() == 1 and lengths.max() == HISTORY
    assert np.array_equal(there, np.arange(HISTORY) < lengths[:, np.newaxis])
    both = there[:, 1:]
    stays = CATEGORY_OF[history[:, 1:]] == CATEGORY_OF[history[:, :-1]]
    assert 0.85 < stays[both].mean() < 0.95


def test_recall_is_the_share_of_rows_whose_item_is_among_the_best():
    scores = np.tile(np.arange(ITEMS, dtype=float), (4, 1))
    assert recall(np.array([ITEMS - 1, ITEMS - RECALL_AT, ITEMS - RECALL_AT - 1, 0]), scores) == 0.5
