# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The protocol of a server, depending on the program and the environment."""

import re
import socket
import warnings

import pytest
import tensorflow as tf
from processes import free_addresses
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


# ---- what can't work, or has no effect, is said ----


def test_a_mistyped_protocol_is_told_the_right_one():
    with pytest.raises(
        tf.errors.NotFoundError, match=r'There is no protocol "grp\+\+"\. Fix: protocol="grpc\+\+" \(see'
    ):
        tf.distribute.Server(CLUSTER, protocol="grp++")
    with pytest.raises(tf.errors.NotFoundError, match="Fix: one of grpc, "):
        tf.distribute.Server(CLUSTER, protocol="quic")


@pytest.mark.parametrize("disable", ["0", "1"])
def test_a_mistyped_protocol_is_refused_wherever_it_is_read(monkeypatch, disable):
    monkeypatch.setenv("FUSEWIRE_DISABLE", disable)
    with pytest.raises(tf.errors.NotFoundError, match=r'Fix: protocol="star_server" \(see'):
        protocol.effective("star_sever")
    assert protocol.effective("quic") == "quic"


def test_a_mistyped_rpc_layer_is_told_the_right_one(run_python):
    done = run_python("""
        import fusewire, tensorflow as tf
        server = tf.distribute.Server({"worker": ["127.0.0.1:0"]})
        cluster = tf.train.ClusterSpec({"worker": [server.target.removeprefix("grpc://")]})
        try:
            tf.config.experimental_connect_to_cluster(cluster, protocol="star_sever")
        except tf.errors.NotFoundError as error:
            print(error.message.splitlines()[-1].strip().partition(" (see")[0])
    """)
    assert done.ok() == 'There is no protocol "star_sever". Fix: protocol="star_server"\n'


def test_the_log_says_that_it_works(run_python):
    ps, worker = free_addresses(2)
    done = run_python(
        f"""
        import fusewire, tensorflow as tf
        tf1 = tf.compat.v1
        tf1.disable_eager_execution()
        cluster = {{"ps": ["{ps}"], "worker": ["{worker}"]}}
        servers = [tf.distribute.Server(cluster, job, 0, protocol="grpc++") for job in cluster]
        with tf.device("/job:ps/task:0"):
            three = tf1.get_variable("three", initializer=3.0)
        with tf.device("/job:worker/task:0"):
            six = three * 2
        with tf1.Session(servers[1].target) as session:
            session.run(tf1.global_variables_initializer())
            print(session.run(six))
    """,
        TF_CPP_MIN_LOG_LEVEL="0",
    )
    assert done.ok() == "6.0\n"
    assert re.findall(r"\] fusewire: ps:0: grpc\+\+ over (?:shared memory|TCP)$", done.error, re.MULTILINE)


def test_a_taken_port_says_what_to_do():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(
            tf.errors.UnknownError, match=rf"ps:0 can't listen at {address}: the port is taken.*Fix: `ss"
        ):
            tf.distribute.Server({"ps": [address]}, protocol="grpc++")


@pytest.mark.parametrize(
    ("make", "late"),
    [
        ('server = tf.distribute.Server({"ps": ["127.0.0.1:0"]})', True),
        ("eager = int(tf.constant(3))", False),
    ],
)
def test_an_import_after_the_server_is_said(run_python, make, late):
    done = run_python(f"import tensorflow as tf\n{make}\nimport fusewire")
    assert done.status == 0
    assert done.error.count("came after this process had made its server") == late


def test_a_misspelt_setting_is_said_once(run_python):
    done = run_python(
        "import fusewire, tensorflow\nfusewire.load()", FUSEWIRE_PROTOCL="grpc++", FUSEWIRE_OF_SOMEBODY_ELSE="1"
    )
    assert done.status == 0
    assert done.error.count("no such setting: FUSEWIRE_PROTOCL (did you mean FUSEWIRE_PROTOCOL?) (see") == 1
    assert "SOMEBODY" not in done.error


@pytest.mark.parametrize(
    ("names", "environment", "said"),
    [
        ("star_server", {"FUSEWIRE_PROTOCOL": "grpc++"}, 'the program names protocol="star_server" itself'),
        ("grpc", {"FUSEWIRE_PROTOCOL": "grpc++", "FUSEWIRE_DISABLE": "1"}, "FUSEWIRE_DISABLE is set"),
        ("grpc", {"FUSEWIRE_PROTOCOL": "grpc++"}, None),
        ("grpc++", {"FUSEWIRE_PROTOCOL": "grpc++"}, None),
        ("grpc++", {}, None),
    ],
)
def test_a_setting_without_effect_is_said_once(monkeypatch, names, environment, said):
    monkeypatch.setattr(protocol, "_warned", set())
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        protocol.effective(names)
        protocol.effective(names)
    assert [said in str(each.message) for each in caught] == ([True] if said else [])
