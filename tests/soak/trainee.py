# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""One task of the soak: a parameter server, or a worker that trains until it is ended, and reports every step.

Its standard output is a file with a line for each event, with the monotonic clock:
  BEGAN when, READY when                    the process has started; its server has
  RESTORING when, RESTORED when             the chief restores a checkpoint into all servers, has done so or failed
  SESSION when counts... low high global    a session was created: the values of its variables
  STEP when counts... low high global loss  a step was acknowledged
  SAVED when global                         the chief has written a checkpoint
  FOUND when tear...                        in what it has restored: of each worker's block, largest less smallest
  AGAIN when words                          an error for which TensorFlow makes a session anew
  ERROR when type words                     an error that ended the program's loop, which starts again
Each worker counts its steps in its own variable on every parameter server: an acknowledged step must have been
applied once, a failed one at most once. Its block of weights grows by one with each step, in all elements.
"""

import faulthandler
import json
import logging
import os
import signal
import time

faulthandler.register(signal.SIGUSR1, all_threads=True)
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "1"
protocol = os.environ["SOAK_PROTOCOL"]
if protocol != "grpc" or "FUSEWIRE_CHIEF_JOINS" in os.environ:
    import fusewire  # noqa: F401  registers the protocol

import tensorflow as tf  # noqa: E402

tf1 = tf.compat.v1
tf1.disable_eager_execution()
config = json.loads(os.environ["TF_CONFIG"])
cluster, job, index = config["cluster"], config["task"]["type"], config["task"]["index"]
chief = index == 0
SAVE_STEPS = 200
BLOCK = 20000


def say(word: str, *more: object) -> None:
    os.write(1, (" ".join([word, f"{time.monotonic():.3f}", *map(str, more)]) + "\n").encode())


def session_config() -> object:
    # Only this worker and the servers: it neither waits for other workers nor fails with them.
    return tf1.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{index}"])


class Again(logging.Handler):
    """What MonitoredSession says when it makes a session anew: only its log has the error."""

    def emit(self, record: logging.LogRecord) -> None:
        words = " ".join(record.getMessage().split())
        if words.startswith("An error was raised"):
            say("AGAIN", words[words.find("Error: ") + 7 :][:600])


def report_errors() -> None:
    logger = logging.getLogger("tensorflow")
    for handler in logger.handlers:
        handler.setLevel(logging.WARNING)
    logger.setLevel(logging.INFO)
    logger.addHandler(Again())


def recover_soon() -> None:
    """Polls for the restored model every second, not every half minute."""
    manager = tf1.train.SessionManager
    make = manager.__init__
    manager.__init__ = lambda self, *arguments, **options: make(self, *arguments, **{"recovery_wait_secs": 1} | options)


class Model:
    def __init__(self) -> None:
        servers, workers = len(cluster["ps"]), len(cluster["worker"])
        zeros = tf1.zeros_initializer()

        def variable(
            name: str, shape: list[int], kind: tf.DType, server: int, initializer: object = zeros
        ) -> tf.Tensor:
            with tf.device(f"/job:ps/task:{server}"):
                return tf1.get_variable(name, shape, kind, initializer, use_resource=False)

        counts = [
            [variable(f"count_{worker}_{server}", [], tf.int64, server) for server in range(servers)]
            for worker in range(workers)
        ][index]
        blocks = [variable(f"block_{worker}", [BLOCK], tf.float32, worker % servers) for worker in range(workers)]
        noise = tf1.random_normal_initializer(stddev=0.1, seed=1)
        embedding = variable("embedding", [2000, 16], tf.float32, 0, noise)
        dense = variable("dense", [16, 16], tf.float32, servers - 1, noise)
        with tf.device(f"/job:ps/task:{index % servers}"):
            grown = tf1.assign_add(blocks[index], tf.ones([BLOCK]), use_locking=True)
        added = []
        for server, count in enumerate(counts):
            with tf.device(f"/job:ps/task:{server}"):
                added.append(tf1.assign_add(count, 1, use_locking=True))
        with tf.device(f"/job:worker/task:{index}"):
            rows = tf.random.uniform([64], 0, 2000, tf.int32)
            found = tf.matmul(tf.nn.embedding_lookup(embedding, rows), dense)
            loss = tf.reduce_mean(tf.square(found - 1.0))
            self.held = [*counts, tf.reduce_min(blocks[index]), tf.reduce_max(blocks[index])]
            told = [*added, tf.reduce_min(grown), tf.reduce_max(grown)]
        with tf.device("/job:ps/task:0"):
            self.steps = tf1.train.get_or_create_global_step()
        self.held.append(self.steps)
        train = tf1.train.GradientDescentOptimizer(0.05).minimize(loss, global_step=self.steps)
        self.step = [train, [*told, self.steps, loss]]


class Tell(tf1.train.SessionRunHook):
    def __init__(self, model: Model) -> None:
        self._model = model

    def after_create_session(self, session: tf1.Session, coordinator: object) -> None:
        held = session.run(self._model.held)
        if chief and held[-1] == 0:  # begun anew
            say("FOUND", *[0.0] * len(cluster["worker"]))
        say("SESSION", *held)


def tears_of(path: str) -> list[float]:
    """TensorFlow saves a variable without its lock: a step that adds to it meanwhile may be in a part of what is saved,
    and stays so after each restore."""
    saved = tf1.train.load_checkpoint(path)
    blocks = [saved.get_tensor(f"block_{worker}") for worker in range(len(cluster["worker"]))]
    return [float(block.max() - block.min()) for block in blocks]


class Saver(tf1.train.Saver):
    def restore(self, session: tf1.Session, path: str) -> None:
        say("RESTORING")
        try:
            super().restore(session, path)
            say("FOUND", *tears_of(path))
        finally:
            say("RESTORED")


class Saved(tf1.train.CheckpointSaverListener):
    def after_save(self, session: tf1.Session, global_step_value: int) -> None:
        say("SAVED", global_step_value)


def train(target: str) -> None:
    with tf1.Graph().as_default():
        model = Model()
        hooks = [Tell(model)]
        scaffold = tf1.train.Scaffold(saver=Saver(sharded=True, max_to_keep=2))
        if chief:
            folder = os.environ["SOAK_CHECKPOINTS"]
            creator = tf1.train.ChiefSessionCreator(scaffold, target, session_config(), checkpoint_dir=folder)
            hooks.append(
                tf1.train.CheckpointSaverHook(folder, save_steps=SAVE_STEPS, listeners=[Saved()], scaffold=scaffold)
            )
        else:
            creator = tf1.train.WorkerSessionCreator(scaffold, target, session_config())
        with tf1.train.MonitoredSession(creator, hooks) as session:
            while True:
                say("STEP", *session.run(model.step)[1])


def main() -> None:
    say("BEGAN")
    server = tf1.train.Server(cluster, job_name=job, task_index=index, protocol=protocol)
    say("READY")
    if job == "ps":
        server.join()
    recover_soon()
    report_errors()
    while True:
        try:
            train(server.target)
        except tf.errors.OpError as error:
            say("ERROR", type(error).__name__, " ".join(str(error).split())[:300])
            time.sleep(0.5)


main()
