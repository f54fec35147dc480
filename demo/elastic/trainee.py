# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""One task of the elastic demo: Wide & Deep under MonitoredTrainingSession, as people write it.

Nothing here depends on Fusewire: `fusewire run` chooses the protocol. Each process appends to the file
DEMO_FOLDER/JOB-INDEX.events a line for each event, with the time of day:
  BEGAN when pid address   the process has started; its address in the cluster
  SESSION when counts...   a session was created
  STEP when loss counts... a step was acknowledged
  AGAIN when words         an error for which TensorFlow makes a session anew
The counts are this worker's own: each step adds one to a variable on each parameter server, so a count that goes back
says how many steps a server has lost.
"""

import json
import logging
import os
import pathlib
import signal
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "wide_deep"))

import data
import model as wide_deep
import tensorflow as tf

tf1 = tf.compat.v1
BATCH, BATCHES = 64, 1000
# Of each worker, on the parameter servers in turn; as many, whatever the number of those is.
COUNTS = 4
SAVE_S = 5
config = json.loads(os.environ["TF_CONFIG"])
cluster, job, index = config["cluster"], config["task"]["type"], config["task"]["index"]
folder = pathlib.Path(os.environ["DEMO_FOLDER"])
events = os.open(folder / f"{job}-{index}.events", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
asked_to_stop = False


def say(word: str, *more: object) -> None:
    os.write(events, (" ".join([word, f"{time.time():.4f}", *map(str, more)]) + "\n").encode())


class Again(logging.Handler):
    """What MonitoredSession says when it makes a session anew: only its log has the error."""

    def emit(self, record: logging.LogRecord) -> None:
        words = " ".join(record.getMessage().split())
        if words.startswith("An error was raised"):
            say("AGAIN", words[words.find("Error: ") + 7 :][:400])


def report_errors() -> None:
    logger = logging.getLogger("tensorflow")
    for handler in logger.handlers:
        handler.setLevel(logging.WARNING)
    logger.setLevel(logging.INFO)
    logger.addHandler(Again())


class Tell(tf1.train.SessionRunHook):
    def __init__(self, counts: list[tf.Tensor]) -> None:
        self._counts = counts

    def after_create_session(self, session: tf1.Session, coord: object) -> None:
        say("SESSION", *session.run(self._counts))


def stop(*_: object) -> None:
    """The session is closed, and the chief writes a last checkpoint."""
    global asked_to_stop
    asked_to_stop = True


def look_each_second() -> None:
    """A worker that waits for the chief to restore the model looks each second; TensorFlow's default is 30 s."""
    manager = tf1.train.SessionManager
    make = manager.__init__
    manager.__init__ = lambda self, *arguments, **options: make(self, *arguments, **{"recovery_wait_secs": 1} | options)


def build() -> tuple[wide_deep.WideDeep, list[tf.Tensor], list[tf.Tensor]]:
    with tf1.device(tf1.train.replica_device_setter(cluster=cluster, worker_device=f"/job:worker/task:{index}")):
        graph = wide_deep.build()
    mine = []
    for worker in range(len(cluster["worker"])):
        for number in range(COUNTS):
            with tf1.device(f"/job:ps/task:{number % len(cluster['ps'])}"):
                count = tf1.get_variable(f"count_{worker}_{number}", [], tf.int64, tf1.zeros_initializer())
            if worker == index:
                mine.append(count)
    with tf1.device(f"/job:worker/task:{index}"):
        held = [tf.identity(count) for count in mine]
        with tf.control_dependencies([graph.train]):
            added = [tf1.assign_add(count, 1) for count in mine]
    return graph, held, added


def train(target: str) -> None:
    signal.signal(signal.SIGTERM, stop)
    look_each_second()
    report_errors()
    examples = data.Planted().draw(BATCH * BATCHES, 1 + index)
    graph, held, added = build()
    with tf1.train.MonitoredTrainingSession(
        target,
        is_chief=index == 0,
        checkpoint_dir=str(folder / "checkpoints"),
        save_checkpoint_secs=SAVE_S,
        save_summaries_steps=None,
        save_summaries_secs=None,
        log_step_count_steps=None,
        hooks=[Tell(held)],
        # Only this worker and the servers: it does not wait for the other workers.
        config=tf1.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{index}"]),
    ) as session:
        number = 0
        while not asked_to_stop:
            ids, dense, labels = examples.batch(number, BATCH)
            feed = {graph.ids: ids, graph.dense: dense, graph.labels: labels}
            loss, counts, _ = session.run([graph.loss, added, graph.train], feed)
            say("STEP", f"{loss:.4f}", *counts)
            number += 1


def main() -> None:
    say("BEGAN", os.getpid(), cluster[job][index])
    tf1.disable_eager_execution()
    server = tf1.train.Server(cluster, job_name=job, task_index=index)
    if job == "ps":
        server.join()
    train(server.target)
    os._exit(0)  # a stock server can't be ended otherwise


main()
