# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""One task of the scorecard: a parameter server, or a worker with plain sessions that makes steps without pause.

Like trainee.py, it prints a line for each event: STEP when, ERROR when type words (of a step), CLOSED when seconds (the
duration of Session.close(), or STUCK when seconds if that has not returned), then it starts again.
"""

import json
import os
import threading
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "1"
protocol = os.environ["SOAK_PROTOCOL"]
if protocol != "grpc":
    import fusewire  # noqa: F401  registers the protocol

import tensorflow as tf  # noqa: E402

tf1 = tf.compat.v1
tf1.disable_eager_execution()
config = json.loads(os.environ["TF_CONFIG"])
cluster, job, index = config["cluster"], config["task"]["type"], config["task"]["index"]
CLOSE_S = 45.0


def say(word: str, *more: object) -> None:
    os.write(1, (" ".join([word, f"{time.monotonic():.6f}", *map(str, more)]) + "\n").encode())


def close(session: tf1.Session) -> None:
    began = time.monotonic()
    closing = threading.Thread(target=session.close, daemon=True)
    closing.start()
    closing.join(CLOSE_S)
    say("STUCK" if closing.is_alive() else "CLOSED", f"{time.monotonic() - began:.2f}")


def work(target: str) -> None:
    values = int(os.environ.get("SOAK_VALUES", "5000"))
    with tf1.Graph().as_default():
        added = []
        for server in range(len(cluster["ps"])):
            with tf.device(f"/job:ps/task:{server}"):
                for number in range(4):
                    held = tf1.get_variable(f"held_{index}_{server}_{number}", [values], use_resource=False)
                    added.append(tf1.assign_add(held, tf.ones([values])))
        with tf.device(f"/job:worker/task:{index}"):
            total = tf.add_n([tf.reduce_sum(each) for each in added])
            pushed = tf.random.uniform([int(os.environ.get("SOAK_PUSHED", "0"))])
        if pushed.shape[0]:
            with tf.device("/job:ps/task:0"):
                total = [total, tf.reduce_sum(pushed)]
        filters = ["/job:ps", f"/job:worker/task:{index}"]
        session = tf1.Session(target, config=tf1.ConfigProto(device_filters=filters))
        try:
            session.run(tf1.global_variables_initializer())
            while True:
                session.run(total)
                say("STEP")
        except tf.errors.OpError as error:
            say("ERROR", type(error).__name__, " ".join(str(error).split())[:300])
        close(session)


def main() -> None:
    server = tf1.train.Server(cluster, job_name=job, task_index=index, protocol=protocol)
    if job == "ps":
        server.join()
    while True:
        work(server.target)
        time.sleep(0.2)


main()
