# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""`fusewire run --restarts` under TensorFlow: a worker and a parameter server die once, and training goes on."""

import re

import pytest
import warm
from conftest import clean_environment

pytestmark = [pytest.mark.once, pytest.mark.slow]
DEADLINE_S = 150.0
# The worker dies at step 40 of its first life. The parameter server dies once the worker, in its second life, is at
# step 80; the session then restores the checkpoint.
TRAIN = """
import json, os, pathlib, signal, sys, threading, time
import fusewire
import tensorflow as tf
tf1 = tf.compat.v1
tf1.disable_eager_execution()
tf1.logging.set_verbosity("ERROR")
config = json.loads(os.environ["TF_CONFIG"])
cluster, job, index = config["cluster"], config["task"]["type"], config["task"]["index"]
lives = pathlib.Path(f"lives-{job}")
with lives.open("a") as file:
    file.write("x")
life = len(lives.read_text())
server = tf1.train.Server(cluster, job_name=job, task_index=index)
if job == "ps":
    def die():
        while not os.path.exists("step-80"):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGKILL)
    if life == 1:
        threading.Thread(target=die, daemon=True).start()
    server.join()
with tf1.device(tf1.train.replica_device_setter(cluster=cluster, worker_device="/job:worker/task:0")):
    weights = tf1.get_variable("weights", [1000], initializer=tf1.zeros_initializer())
    loss = tf.reduce_mean(tf.square(weights - 1.0))
    step = tf1.train.get_or_create_global_step()
    train = tf1.train.GradientDescentOptimizer(1.0).minimize(loss, global_step=step)
first = None
with tf1.train.MonitoredTrainingSession(
    server.target, checkpoint_dir="checkpoints", save_checkpoint_steps=10, save_checkpoint_secs=None
) as session:
    while not session.should_stop():
        now = int(session.run([train, step])[1])
        first = now if first is None else first
        if life == 1 and now >= 40:
            os.kill(os.getpid(), signal.SIGKILL)
        if now >= 80:
            pathlib.Path("step-80").touch()
        if now >= 80 and len(pathlib.Path("lives-ps").read_text()) == 2 and now >= 200:
            break
        time.sleep(0.01)
print(f"life {life} began at {first}, ended at {now}", flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("protocol", ["grpc++", "star_server"])
def test_training_goes_on(tmp_path, protocol):
    (tmp_path / "train.py").write_text(TRAIN)
    words = ["run", "--ps", "1", "--workers", "1", "--protocol", protocol, "--restarts", "2", "--log-dir", "logs"]
    environment = clean_environment(FUSEWIRE_PEER_TIMEOUT="5")
    done = warm.run_command([*words, "--timeout", "120", "train.py"], tmp_path, environment, DEADLINE_S, cold=True)
    assert done.returncode == 0, done.stdout + done.stderr
    [said] = re.findall(r"worker:0 \| life (\d) began at (\d+), ended at (\d+)", done.stdout)
    life, first, last = map(int, said)
    assert (life, last >= 200) == (2, True)
    assert 40 <= first <= 42  # it is the chief, and has joined the servers
    assert "worker:0 failed: ended by signal 9 (SIGKILL)" in done.stderr
    assert "ps:0 failed: ended by signal 9 (SIGKILL)" in done.stderr
    assert (tmp_path / "logs/ps-0.1.log").exists()
