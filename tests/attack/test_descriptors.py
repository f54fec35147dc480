# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Strangers at the data port leave descriptors to TensorFlow's gRPC server, which never accepts again after EMFILE."""

import contextlib
import sys

import pytest
from conftest import clean_environment, process, run_to_end
from hostile import Stranger
from processes import free_addresses

pytestmark = pytest.mark.once

SERVER = """
import resource, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 1024))
import fusewire
import tensorflow as tf
server = tf.distribute.Server({"ps": [sys.argv[1]]}, job_name="ps", protocol="grpc++")
print("ready", flush=True)
server.join()
"""

CLIENT = """
import sys
import tensorflow as tf
tf1 = tf.compat.v1
with tf.Graph().as_default(), tf1.Session("grpc://" + sys.argv[1]) as session:
    print(session.run(tf.constant(4711)))
"""


def test_a_flood_of_connections_does_not_take_the_last_descriptor(tmp_path):
    address, data = free_addresses(2)
    host, _, port = data.rpartition(":")
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "client.py").write_text(CLIENT)
    environment = clean_environment(FUSEWIRE_PORTS=port, CUDA_VISIBLE_DEVICES="")
    command = [sys.executable, tmp_path / "server.py", address]
    with process(command, tmp_path, environment) as server, contextlib.ExitStack() as flood:
        assert server.stdout.readline() == "ready\n"
        for _ in range(1100):
            flood.callback(Stranger((host, int(port))).close)
        done = run_to_end([sys.executable, tmp_path / "client.py", address], tmp_path, clean_environment(), 60)
        assert done.ok() == "4711\n"
