# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""`fusewire run` with ordinary programs: none of them mentions Fusewire; only the command line does."""

import pathlib
import re
import shutil

import pytest
import tensorflow as tf
from conftest import FUSEWIRE, clean_environment, run_to_end

import fusewire

# The last line of a task: whether its calls used the plug-in.
SAY = """
def say(*words):
    import sys
    fusewire = sys.modules.get("fusewire")
    calls = sum(fusewire.stats().get(name, 0) for name in ("calls_in", "calls_out")) if fusewire else 0
    print(*words, "over Fusewire" if calls else "over gRPC")
"""

# Between-graph replication, the way of TensorFlow 1.
REPLICAS = (
    SAY
    + """
import json, os
import tensorflow as tf
tf1 = tf.compat.v1
tf1.disable_eager_execution()
config = json.loads(os.environ["TF_CONFIG"])
job, index = config["task"]["type"], config["task"]["index"]
server = tf1.train.Server(config["cluster"], job_name=job, task_index=index)
if job == "ps":
    server.join()
place = tf1.train.replica_device_setter(cluster=config["cluster"], worker_device=f"/job:worker/task:{index}")
with tf1.device(place):
    step = tf1.train.get_or_create_global_step()
    weights = tf1.get_variable("weights", [1000], initializer=tf1.zeros_initializer())
    loss = tf.reduce_mean(tf.square(weights - 1.0))
    train = tf1.train.GradientDescentOptimizer(100.0).minimize(loss, global_step=step)
# A worker that has done its part may be gone before another has begun: they must not wait for each other.
apart = tf1.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{index}"])
with tf1.train.MonitoredTrainingSession(server.target, is_chief=index == 0, config=apart,
                                        hooks=[tf1.train.StopAtStepHook(last_step=40)]) as session:
    last = session.run(loss)
    while not session.should_stop():
        _, last = session.run([train, loss])
say("learned" if last < 0.5 else f"still {last}", server.server_def.protocol)
"""
)

# TensorFlow 2's ParameterServerStrategy: workers and parameter servers only serve, the chief works.
STRATEGY = (
    SAY
    + """
import os
os.environ["GRPC_FAIL_FAST"] = "use_caller"
import tensorflow as tf
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    tf.distribute.Server(resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id,
                         protocol=resolver.rpc_layer or "grpc").join()
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    total = tf.Variable(tf.zeros([1000]), aggregation=tf.VariableAggregation.SUM)

@tf.function
def step():
    total.assign_add(tf.ones([1000]))
    return tf.reduce_sum(total)

for _ in range(20):
    coordinator.schedule(step)
coordinator.join()
say("sum", float(tf.reduce_sum(total)))
"""
)

ESTIMATOR = """
import os
import tensorflow as tf
tf1 = tf.compat.v1

def model(features, labels, mode):
    weights = tf1.get_variable("weights", [10], initializer=tf1.zeros_initializer())
    loss = tf.reduce_mean(tf.square(weights - features["x"]))
    step = tf1.train.get_or_create_global_step()
    train = tf1.train.GradientDescentOptimizer(1.0).minimize(loss, global_step=step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

def features():
    return tf.data.Dataset.from_tensors(({"x": tf.ones([10])}, 0)).repeat()

config = tf.estimator.RunConfig("model", protocol="PROTOCOL", save_checkpoints_steps=20,
                                experimental_max_worker_delay_secs=0)
estimator = tf.estimator.Estimator(model, config=config)
tf.estimator.train_and_evaluate(
    estimator,
    tf.estimator.TrainSpec(features, max_steps=60),
    tf.estimator.EvalSpec(features, steps=1, start_delay_secs=0, throttle_secs=0),
)
# The chief saves the last checkpoint; a worker may be done before.
print("step", "ended" if config.task_type == "worker" else estimator.get_variable_value("global_step"))
"""


@pytest.fixture
def run(fusewire_command, tmp_path):
    def run(program: str, *options: str) -> str:
        (tmp_path / "train.py").write_text(program)
        runtime = tmp_path / "runtime"
        runtime.mkdir(mode=0o700)
        done = fusewire_command("run", "--timeout", "80", *options, "train.py", XDG_RUNTIME_DIR=str(runtime))
        assert list(runtime.glob("fusewire/*")) == []  # of servers that were ended neither
        return done.ok()

    return run


@pytest.mark.smoke
@pytest.mark.parametrize("protocol", ["grpc++", "star_server", "star_server_lite"])
def test_an_unchanged_program(run, protocol):
    out = run(REPLICAS, "--ps", "2", "--protocol", protocol)
    assert out == f"worker:0 | learned {protocol} over Fusewire\n"


def test_an_unchanged_program_over_grpc(run):
    out = run(REPLICAS, "--protocol", "grpc")
    assert out == "worker:0 | learned grpc over gRPC\n"


@pytest.mark.parametrize("protocol", ["grpc++", pytest.param("star_server", marks=pytest.mark.slow)])
def test_parameter_server_strategy(run, protocol):
    """Its workers never end: they only serve once they have joined, and the chief ends the job."""
    out = run(STRATEGY, "--ps", "1", "--workers", "2", "--chief", "--protocol", protocol)
    assert re.fullmatch(r"chief +\| sum 20000.0 over \w+\n", out)


@pytest.mark.skipif(not hasattr(tf, "estimator"), reason="this TensorFlow has no Estimator")
@pytest.mark.in_turn(1)
@pytest.mark.parametrize("protocol", ["grpc++", "star_server"])
def test_estimator(run, protocol):
    out = run(ESTIMATOR.replace("PROTOCOL", protocol), "--ps", "1", "--workers", "1", "--chief", "--evaluator")
    ended = sorted(line.split()[0] for line in out.splitlines() if "| step " in line)
    assert ended == ["chief", "evaluator", "worker:0"]
    assert int(re.search(r"chief +\| step (\d+)", out)[1]) >= 60


def test_program_without_a_plugin_that_fits(tmp_path):
    """The program ends when it imports TensorFlow if grpc++ was requested; with grpc, it continues."""
    shutil.copytree(pathlib.Path(fusewire.__file__).parent, tmp_path / "fusewire")
    shutil.rmtree(tmp_path / "fusewire/_lib")
    (tmp_path / "train.py").write_text("import tensorflow\nprint('started')")
    environment = clean_environment(PYTHONPATH=str(tmp_path))
    command = [FUSEWIRE, "run", "--ps", "0", "train.py"]
    done = run_to_end(command, tmp_path, environment | {"FUSEWIRE_PROTOCOL": "grpc++"})
    assert (done.status, done.out) == (1, "")
    assert "worker:0 | Fusewire has no plug-in for the installed TensorFlow" in done.error
    assert re.search(r"^ +Fix: ", done.error, re.MULTILINE)
    done = run_to_end(command, tmp_path, environment)
    assert done.ok() == "worker:0 | started\n"
    assert "worker:0 | The program continues without the plug-in." in done.error
