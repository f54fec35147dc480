# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The protocol of a server, depending on the program and the environment."""

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import tensorflow_server_pb2

import fusewire
from fusewire.tf import protocol

CLUSTER = {"ps": ["127.0.0.1:0"]}


@pytest.mark.parametrize(
    ("said", "environment", "spoken"),
    [
        ("grpc", {}, "grpc"),
        ("grpc++", {}, "grpc++"),
        ("grpc+verbs", {}, "grpc+verbs"),
        ("grpc", {"FUSEWIRE_PROTOCOL": "grpc++"}, "grpc++"),
        ("", {"FUSEWIRE_PROTOCOL": "grpc++"}, "grpc++"),
        ("grpc++", {"FUSEWIRE_PROTOCOL": "grpc"}, "grpc++"),
        ("grpc+verbs", {"FUSEWIRE_PROTOCOL": "grpc++"}, "grpc+verbs"),
        ("grpc", {"FUSEWIRE_PROTOCOL": ""}, "grpc"),
        ("grpc++", {"FUSEWIRE_DISABLE": "1"}, "grpc"),
        ("grpc", {"FUSEWIRE_DISABLE": "1", "FUSEWIRE_PROTOCOL": "grpc++"}, "grpc"),
        ("grpc+verbs", {"FUSEWIRE_DISABLE": "1"}, "grpc+verbs"),
        ("grpc++", {"FUSEWIRE_DISABLE": "0"}, "grpc++"),
    ],
)
def test_effective(monkeypatch, said, environment, spoken):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert protocol.effective(said) == spoken


def test_unknown_protocol_of_the_environment(monkeypatch):
    monkeypatch.setenv("FUSEWIRE_PROTOCOL", "grpc+-")
    with pytest.raises(
        ValueError, match=r"grpc\+-: there is no such protocol\.\n  Fix: set it to one of grpc, grpc\+\+"
    ):
        fusewire.load()


@pytest.mark.parametrize("said", [{}, {"protocol": "grpc"}])
def test_server_of_an_unchanged_program(monkeypatch, said):
    monkeypatch.setenv("FUSEWIRE_PROTOCOL", "grpc++")
    assert tf.distribute.Server(CLUSTER, **said).server_def.protocol == "grpc++"


def test_server_def_of_the_caller_is_not_changed(monkeypatch):
    monkeypatch.setenv("FUSEWIRE_PROTOCOL", "grpc++")
    cluster = tf.train.ClusterSpec(CLUSTER).as_cluster_def()
    given = tensorflow_server_pb2.ServerDef(cluster=cluster, job_name="ps", protocol="grpc")
    assert tf.distribute.Server(given, start=False).server_def.protocol == "grpc++"
    assert given.protocol == "grpc"


def test_without_the_environment_servers_are_as_they_were():
    assert tf.distribute.Server(CLUSTER).server_def.protocol == "grpc"
    assert tf.distribute.Server(CLUSTER, protocol="grpc++").server_def.protocol == "grpc++"
    with pytest.raises(tf.errors.NotFoundError):
        tf.distribute.Server(CLUSTER, protocol="grpc+-")


def test_eager_context(run_python):
    """connect_to_cluster with rpc_layer None and "grpc", and back to what it was."""
    done = run_python(
        """
        import fusewire, tensorflow as tf
        from tensorflow.python.eager import context
        server = tf.distribute.Server({"worker": ["127.0.0.1:0"]})
        address = server.target.removeprefix("grpc://")
        for said in (None, "grpc"):
            tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec({"worker": [address]}), protocol=said)
            with tf.device("/job:worker/task:0"):
                three = int(tf.constant(1) + 2)
            print(server.server_def.protocol, context.get_server_def().protocol, three)
    """,
        FUSEWIRE_PROTOCOL="grpc++",
    )
    assert done.ok().splitlines() == ["grpc++ grpc++ 3"] * 2


def test_session_target_in_our_name():
    server = tf.distribute.Server(CLUSTER, protocol="grpc++")
    target = server.target.replace("grpc://", "grpc++://")
    with tf.Graph().as_default(), tf.compat.v1.Session(target) as session:
        assert session.run(tf.constant(3)) == 3
