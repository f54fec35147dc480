# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Estimator, whose last version is TensorFlow 2.15: RunConfig(protocol="grpc++"), and what reaches its servers."""

import inspect
import json

import pytest
import tensorflow as tf

import fusewire

pytestmark = pytest.mark.skipif(not hasattr(tf, "estimator"), reason="this TensorFlow has no Estimator")


def test_protocol_is_kept():
    config = tf.estimator.RunConfig(protocol="grpc++")
    assert config.protocol == "grpc++"
    assert config.replace(tf_random_seed=7).protocol == "grpc++"
    assert tf.estimator.RunConfig().protocol is None
    assert tf.estimator.RunConfig(protocol="grpc").protocol == "grpc"


def test_what_was_wrong_stays_wrong():
    with pytest.raises(ValueError, match="protocol should be grpc"):
        tf.estimator.RunConfig(protocol="grpc+-")
    with pytest.raises(ValueError, match="keep_checkpoint_max"):
        tf.estimator.RunConfig(protocol="grpc++", keep_checkpoint_max=-1)


def test_modules_are_still_what_they_are():
    from tensorflow_estimator.python.estimator import run_config

    assert "class RunConfig" in inspect.getsource(run_config)
    assert run_config.__spec__.name == "tensorflow_estimator.python.estimator.run_config"


@pytest.mark.parametrize("first", ["fusewire", "tensorflow_estimator.python.estimator.run_config"])
def test_it_is_not_imported_for_nothing_and_may_come_first(run_python, first):
    done = run_python(f"""
        import sys
        import {first}
        before = "tensorflow_estimator.python.estimator.run_config" in sys.modules
        import fusewire, tensorflow as tf
        print(before, tf.estimator.RunConfig(protocol="grpc++").protocol)
    """)
    assert done.ok().split() == [str(first != "fusewire"), "grpc++"]


def server_def_of(monkeypatch, run_config):
    """The ServerDef of Estimator's parameter server."""
    from tensorflow.python.training import server_lib

    seen = []

    class StopError(Exception):
        pass

    def join(server):
        seen.append(server.server_def)
        raise StopError

    monkeypatch.setattr(server_lib.Server, "join", join)
    estimator = tf.estimator.Estimator(lambda features, labels, mode: None, config=run_config)
    spec = tf.estimator.TrainSpec(lambda: None, max_steps=1)
    with pytest.raises(StopError):
        tf.estimator.train_and_evaluate(estimator, spec, tf.estimator.EvalSpec(lambda: None))
    return seen[0]


def test_server_gets_protocol_and_tensor_fuse(monkeypatch, tmp_path):
    cluster = {"chief": ["127.0.0.1:1"], "ps": ["127.0.0.1:0"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "ps", "index": 0}}))
    session_config = fusewire.ConfigProto(tensor_fuse=True)
    config = tf.estimator.RunConfig(str(tmp_path), protocol="grpc++", session_config=session_config)
    server_def = server_def_of(monkeypatch, config)
    assert server_def.protocol == "grpc++"
    assert server_def.default_session_config.tensor_fuse is True

    silent = server_def_of(monkeypatch, tf.estimator.RunConfig(str(tmp_path)))
    assert silent.protocol == "grpc"
    assert not silent.default_session_config.graph_options.rewrite_options.custom_optimizers


def test_server_under_a_distribution_strategy_gets_the_protocol(run_python):
    """run_distribute_coordinator has no protocol: without us, this server uses grpc."""
    done = run_python(
        """
        import fusewire, tensorflow as tf
        from tensorflow.python.training import server_lib
        tf.compat.v1.disable_eager_execution()

        class StopError(BaseException):
            pass

        def join(server):
            print(server.server_def.protocol, server.server_def.default_session_config.tensor_fuse)
            raise StopError

        server_lib.Server.join = join
        strategy = tf.compat.v1.distribute.experimental.ParameterServerStrategy()
        config = tf.estimator.RunConfig("model", protocol="grpc++", train_distribute=strategy,
                                        session_config=fusewire.ConfigProto(tensor_fuse=True))
        estimator = tf.estimator.Estimator(lambda features, labels, mode: None, config=config)
        try:
            tf.estimator.train_and_evaluate(
                estimator, tf.estimator.TrainSpec(lambda: None, max_steps=1), tf.estimator.EvalSpec(lambda: None))
        except StopError:
            pass
    """,
        TF_CONFIG=json.dumps(
            {
                "cluster": {"chief": ["127.0.0.1:1"], "worker": ["127.0.0.1:2"], "ps": ["127.0.0.1:0"]},
                "task": {"type": "ps", "index": 0},
            }
        ),
    )
    assert done.ok().split() == ["grpc++", "True"]
