# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Parameter servers that are killed, and come back with the variables of their last snapshot."""

import pathlib
import pickle
import signal

import numpy as np
import pytest
from processes import wait_until

EVERY_S = 0.2
# One operation of a step writes each of these. Adam writes its slots by two, and a snapshot may come between them.
WHOLE = ("rows", "dense", "old")
# Of every kind that a parameter server holds: dense layers, rows with sparse updates, the slots of Adam, a reference
# variable, texts, a table. What a step makes of them is the same in each run, and is written down after each step.
MODEL = """
import pickle
with tf.device("/job:ps/task:0"):
    rows = tf1.get_variable("rows", [500, 8], initializer=tf1.zeros_initializer(), use_resource=True)
    dense = tf1.get_variable("dense", [8, 3], initializer=tf1.ones_initializer(), use_resource=True)
    old = tf1.get_variable("old", [40], initializer=tf1.zeros_initializer(), use_resource=False)
    text = tf1.get_variable("text", [2], tf.string, tf1.constant_initializer(["begun", "b"]), use_resource=True)
    which = tf1.placeholder(tf.int64, [None])
    loss = tf.reduce_sum(tf.square(tf.matmul(tf.nn.embedding_lookup(rows, which), dense) - 1.0))
    aged = tf1.assign_add(old, tf.ones([40]))
    train = tf1.train.AdamOptimizer(0.01).minimize(loss)
    seen = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1, name="seen")
    see = seen.insert(which, which * 2)
kept = {v.op.name: v for v in tf1.global_variables()}
kept["seen"] = seen.lookup(tf.range(500, dtype=tf.int64))
session = tf1.Session(server.target)
"""
TRAIN = (
    MODEL
    + """
session.run(tf1.global_variables_initializer())
step = 0
with open("history", "wb") as file:
    pickle.dump(session.run(kept), file)
    while not os.path.exists("pause"):
        step += 1
        session.run([train, aged.op, see], {which: np.random.RandomState(step).randint(0, 500, 30)})
        pickle.dump(session.run(kept), file)
        file.flush()
        if step == 5:
            say("TRAINS")
say("PAUSED")
time.sleep(60)
"""
)
READ = (
    MODEL
    + """
with open("read", "wb") as file:
    pickle.dump((session.run(kept), fusewire.stats()), file)
say("READ")
done()
"""
)


class Training:
    """A worker and two parameter servers, of which the first holds the model."""

    def __init__(self, tasks, folder: pathlib.Path, protocol: str) -> None:
        self._tasks = tasks
        self._folder = folder
        self._protocol = protocol
        self.snapshots = folder / "snapshots" / "ps_0"
        settings = {"FUSEWIRE_SNAPSHOTS": str(folder / "snapshots"), "FUSEWIRE_SNAPSHOT_EVERY": str(EVERY_S)}
        self.cluster = tasks(TRAIN, protocol, **settings)
        self.server = self.cluster.start("ps", 0)
        self.cluster.start("ps", 1)
        self.worker = self.cluster.start("worker")
        self.cluster.read_until(self.worker, "TRAINS", 60)

    def pause(self) -> None:
        (self._folder / "pause").touch()
        self.cluster.read_until(self.worker, "PAUSED", 60)

    def newest(self) -> int:
        return max((int(path.name.split(".")[0]) for path in self.snapshots.glob("*.manifest")), default=0)

    def wait_for_snapshots(self, count: int) -> None:
        before = wait_until(self.newest, 30, "the first snapshot")
        wait_until(lambda: self.newest() >= before + count, 30, f"{count} snapshots after {before}")

    def kill(self) -> None:
        for task in (self.server, self.worker):
            task.send_signal(signal.SIGKILL)
            task.wait()

    def restart(self) -> None:
        self.server = self.cluster.start("ps", 0)

    def history(self) -> list[dict[str, np.ndarray]]:
        steps = []
        with (self._folder / "history").open("rb") as file:
            while True:
                try:
                    steps.append(pickle.load(file))
                except (EOFError, pickle.UnpicklingError):  # the last may be cut off
                    return steps

    def read(self) -> dict[str, np.ndarray]:
        """All variables, through a new session of a new worker."""
        (self._folder / "program.py").write_text(
            (self._folder / "program.py").read_text().split("import pickle")[0] + READ, encoding="utf-8"
        )
        worker = self.cluster.start("worker")
        self.cluster.read_until(worker, "READ", 60)
        with (self._folder / "read").open("rb") as file:
            return pickle.load(file)[0]

    def errors(self) -> str:
        return (self._folder / "ps-0.err").read_text()


@pytest.fixture
def training(tasks, tmp_path):
    return lambda protocol: Training(tasks, tmp_path, protocol)


def assert_equal(read: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert read.keys() == expected.keys()
    for name, value in expected.items():
        assert np.array_equal(read[name], value), name


def steps_of(name: str, read: dict[str, np.ndarray], history: list[dict[str, np.ndarray]]) -> list[int]:
    """After which steps the variable had the value that was read."""
    return [step for step, values in enumerate(history) if np.array_equal(values[name], read[name])]


@pytest.mark.parametrize("protocol", ["star_server", "star_server_lite", "grpc++"])
def test_a_killed_server_comes_back_with_its_variables(training, protocol):
    job = training(protocol)
    job.pause()
    job.wait_for_snapshots(2)
    job.kill()
    assert 2 <= len(list(job.snapshots.glob("*.manifest"))) <= 3
    job.restart()
    assert_equal(job.read(), job.history()[-1])
    assert "ps:0: it goes on with " in job.errors()
    before = job.newest()
    wait_until(lambda: job.newest() > before, 30, "its next snapshot")


def test_what_a_kill_costs_is_said_and_in_no_variable_is_half_a_step(training):
    job = training("star_server")
    job.wait_for_snapshots(3)
    job.kill()
    job.restart()
    read, history = job.read(), job.history()
    count = read["old"][0]  # of steps
    assert (read["old"] == count).all()
    assert 5 <= count <= len(history)  # the step that was under way is not in the history
    for name in WHOLE:
        # Another step may have run while the snapshot was written, but not many.
        steps = steps_of(name, read, history)
        assert steps or count >= len(history) - 2, f"{name} has a value that it never had"
        assert not steps or abs(steps[-1] - count) <= 5 or steps[-1] == len(history) - 1, f"{name}: {steps} and {count}"
    print(f"{len(history) - 1 - count:g} of {len(history) - 1} steps are lost")


def test_a_damaged_snapshot_is_not_taken(training):
    job = training("star_server")
    job.pause()
    job.wait_for_snapshots(2)
    job.kill()
    states = sorted(job.snapshots.glob("*.state"))
    with states[-1].open("r+b") as file:
        file.seek(states[-1].stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 1]))
    job.restart()
    read, history = job.read(), job.history()
    for name in WHOLE:
        assert steps_of(name, read, history), f"{name} has a value that it never had"
    assert "can't be restored" in job.errors()
    assert "the one before it is tried" in job.errors()


# ---- `fusewire run --snapshots` ----


def test_run_tells_its_tasks_where_and_how_often(fusewire_command, tmp_path):
    told = "echo told: $FUSEWIRE_SNAPSHOTS $FUSEWIRE_SNAPSHOT_EVERY $FUSEWIRE_RECOVERY"
    words = ["--ps", "0", "--", "sh", "-c", told]
    given = ["run", "--restarts", "1", "--snapshots"]
    assert f"told: {tmp_path}/here 120" in fusewire_command(*given, "here", *words).ok()
    told = fusewire_command(*given, "hdfs://there/x", "--snapshot-every", "0.5", *words, FUSEWIRE_RECOVERY="7").ok()
    assert "told: hdfs://there/x 0.5 7" in told
