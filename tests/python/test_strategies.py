# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""TensorFlow 2's strategies, whose servers and collectives take the protocol from rpc_layer."""

import pytest

# Ring all-reduces of a small and of a large tensor, whose sums are known, and a gather.
MIRRORED = """
import json, os, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "1"
import fusewire
import tensorflow as tf
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
ring = tf.distribute.experimental.CommunicationOptions(
    implementation=tf.distribute.experimental.CommunicationImplementation.RING)
strategy = tf.distribute.MultiWorkerMirroredStrategy(resolver, communication_options=ring)

@tf.function
def step(scale):
    def replica(scale):
        values = [tf.range(5.0) * scale, tf.ones([300000]) * scale]
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, values)
    return strategy.run(replica, args=(scale,))

for turn in range(10):
    small, large = step(tf.constant(float(index + 1 + turn)))
print(small.numpy().tolist(), float(tf.reduce_min(large)), float(tf.reduce_max(large)), flush=True)
print(strategy.gather(tf.constant([index]), axis=0).numpy().tolist(), flush=True)
names = ("calls_in", "calls_out", "collectives")
print("STATS", json.dumps({name: fusewire.stats().get(name, 0) for name in names}), flush=True)
# No rank leaves while another still reads from it; a collective ends at each rank when that has its part.
open(f"done-{index}", "w").close()
ends = time.monotonic() + 60
while not all(os.path.exists(f"done-{each}") for each in range(2)) and time.monotonic() < ends:
    time.sleep(0.02)
os._exit(0)
"""


@pytest.mark.parametrize("protocol", ["grpc", "grpc++"])
def test_mirrored_workers_agree(run_cluster, protocol):
    output = run_cluster(MIRRORED, protocol, ps=0, workers=2, prologue="")
    # 1 and 2 in the first turn, so 10 and 11 in the last.
    sums = "[0.0, 21.0, 42.0, 63.0, 84.0] 21.0 21.0"
    assert sorted(output.said) == ["[0, 1]", "[0, 1]", sums, sums]
    calls = output.stats["calls_in"] + output.stats["calls_out"]
    assert (calls > 0) == (output.stats["collectives"] > 10) == (protocol == "grpc++")


@pytest.mark.parametrize("reactors", ["2", "4"])
def test_mirrored_workers_agree_with_several_reactors_each(run_cluster, reactors):
    output = run_cluster(MIRRORED, "grpc++", ps=0, workers=2, prologue="", FUSEWIRE_WORKER_REACTORS=reactors)
    assert output.said.count("[0, 1]") == 2
    assert output.stats["collectives"] > 10
