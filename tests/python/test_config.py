# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""tensor_fuse and chief_joins in a ConfigProto, under both implementations of protobuf."""

import copy
import os
import pathlib
import pickle
import sys

import pytest
import tensorflow as tf
from conftest import clean_environment, run_to_end
from google.protobuf import text_format
from google.protobuf.internal import api_implementation
from tensorflow.core.protobuf import config_pb2, tensorflow_server_pb2

import fusewire
from fusewire.tf import config

ConfigProto = tf.compat.v1.ConfigProto
IMPLEMENTATION = "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"


def test_implementation_is_the_one_asked_for():
    assert api_implementation.Type() == os.environ.get(IMPLEMENTATION, "upb")


def test_one_class_under_all_names():
    assert fusewire.ConfigProto is ConfigProto
    assert ConfigProto is config_pb2.ConfigProto


@pytest.mark.parametrize("wanted", [True, False])
def test_keyword_beside_real_fields(wanted):
    made = ConfigProto(tensor_fuse=wanted, allow_soft_placement=True)
    assert made.tensor_fuse is wanted
    assert made.allow_soft_placement
    [entry] = made.graph_options.rewrite_options.custom_optimizers
    assert (entry.name, entry.parameter_map["tensor_fuse"].b) == ("fusewire", wanted)


def test_a_config_without_it_is_untouched():
    made = ConfigProto(allow_soft_placement=True)
    assert made.tensor_fuse is False
    assert made.SerializeToString() == b"\x38\x01"
    assert ConfigProto(tensor_fuse=None) == ConfigProto()


def test_what_was_wrong_stays_wrong():
    with pytest.raises(ValueError, match="nonsense"):
        ConfigProto(nonsense=1)
    with pytest.raises(AttributeError):
        ConfigProto().nonsense = 1
    with pytest.raises(TypeError, match="'yes'"):
        ConfigProto(tensor_fuse="yes")


def test_assignment_and_set_options():
    made = ConfigProto()
    made.tensor_fuse = True
    made.log_device_placement = True
    assert made.tensor_fuse
    assert made.log_device_placement
    assert fusewire.set_options(made, tensor_fuse=False) is made
    assert made.tensor_fuse is False
    assert fusewire.set_options(made).tensor_fuse is False
    assert len(made.graph_options.rewrite_options.custom_optimizers) == 1


def test_it_travels_with_the_message():
    made = ConfigProto(tensor_fuse=True, inter_op_parallelism_threads=3)
    target = ConfigProto()
    target.CopyFrom(made)
    for other in (
        copy.copy(made),
        copy.deepcopy(made),
        pickle.loads(pickle.dumps(made)),
        ConfigProto.FromString(made.SerializeToString()),
        text_format.Parse(text_format.MessageToString(made), ConfigProto()),
        tensorflow_server_pb2.ServerDef(default_session_config=made).default_session_config,
        target,
    ):
        assert other == made
        assert other.tensor_fuse is True
        assert other.inter_op_parallelism_threads == 3


@pytest.mark.parametrize("last", [True, False])
def test_of_two_that_are_merged_the_last_counts(last):
    merged = ConfigProto(tensor_fuse=not last)
    merged.MergeFrom(ConfigProto(tensor_fuse=last))
    assert merged.tensor_fuse is last
    fusewire.set_options(merged, tensor_fuse=not last)
    assert merged.tensor_fuse is not last
    again = ConfigProto()
    again.MergeFrom(merged)
    assert again.tensor_fuse is not last


def test_other_optimizers_stay():
    made = ConfigProto()
    made.graph_options.rewrite_options.custom_optimizers.add(name="other")
    fusewire.set_options(made, tensor_fuse=True)
    assert [entry.name for entry in made.graph_options.rewrite_options.custom_optimizers] == ["other", "fusewire"]


def test_environment_decides_where_the_message_is_silent(monkeypatch):
    monkeypatch.setenv("FUSEWIRE_TENSOR_FUSE", "1")
    assert ConfigProto().tensor_fuse is True
    assert ConfigProto(tensor_fuse=False).tensor_fuse is False
    monkeypatch.setenv("FUSEWIRE_TENSOR_FUSE", "0")
    assert ConfigProto().tensor_fuse is False


def test_two_options_are_one_entry_and_independent(monkeypatch):
    monkeypatch.setenv("FUSEWIRE_CHIEF_JOINS", "1")
    made = ConfigProto(tensor_fuse=True)
    assert (made.tensor_fuse, made.chief_joins) == (True, True)
    made.chief_joins = False
    assert (made.tensor_fuse, made.chief_joins) == (True, False)
    assert fusewire.set_options(made, chief_joins=True).chief_joins is True
    [entry] = made.graph_options.rewrite_options.custom_optimizers
    assert {name: value.b for name, value in entry.parameter_map.items()} == {"tensor_fuse": True, "chief_joins": True}
    target = ConfigProto(chief_joins=False)
    config.copy_own(made, target)
    assert (target.tensor_fuse, target.chief_joins) == (True, False)
    with pytest.raises(TypeError, match="chief_joins must be True or False, not 'yes'"):
        ConfigProto(chief_joins="yes")


def test_installing_twice_changes_nothing():
    init = ConfigProto.__init__
    config.install()
    assert ConfigProto.__init__ is init


def test_a_session_takes_it():
    with tf.Graph().as_default(), tf.compat.v1.Session(config=ConfigProto(tensor_fuse=True)) as session:
        assert session.run(tf.constant(1.0) + 1.0) == 2.0


@pytest.mark.skipif(IMPLEMENTATION in os.environ, reason="this is the inner run")
def test_the_same_in_pure_python():
    environment = clean_environment(**{IMPLEMENTATION: "python"})
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    out = run_to_end(command, pathlib.Path(__file__).parent, environment).ok()
    assert "1 skipped" in out
