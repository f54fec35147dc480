# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""tensor_fuse and chief_joins as options of tf.compat.v1.ConfigProto.

A ConfigProto has no field for the options and can't be subclassed. We therefore add keywords and properties to its
class, in place, and store the options in an entry of graph_options.rewrite_options.custom_optimizers, the only field
that accepts names unknown to TensorFlow. An option is then part of the message: it is copied, pickled, merged, sent to
servers and read by the plug-in like every other field.
"""

import functools
from typing import Any

from fusewire import settings

OPTIMIZER = "fusewire"  # the entry's name; Grappler skips names that it does not know
TENSOR_FUSE, CHIEF_JOINS = "tensor_fuse", "chief_joins"
VARIABLES = {TENSOR_FUSE: "FUSEWIRE_TENSOR_FUSE", CHIEF_JOINS: "FUSEWIRE_CHIEF_JOINS"}


def install() -> None:
    """Adds our keywords and properties to ConfigProto. A second call has no effect."""
    # Imported here because the package must be importable without TensorFlow.
    from tensorflow.core.protobuf import config_pb2

    config_type = config_pb2.ConfigProto
    if hasattr(config_type, TENSOR_FUSE):
        return
    original_init = config_type.__init__
    original_setattr = config_type.__setattr__

    @functools.wraps(original_init)
    def init(
        self: Any, *arguments: Any, tensor_fuse: bool | None = None, chief_joins: bool | None = None, **fields: Any
    ) -> None:
        original_init(self, *arguments, **fields)
        write_given(self, tensor_fuse=tensor_fuse, chief_joins=chief_joins)

    # The C implementation of protobuf ignores properties on assignment.
    @functools.wraps(original_setattr)
    def set_attribute(self: Any, name: str, value: Any) -> None:
        if name in VARIABLES:
            write(self, name, value)
        else:
            original_setattr(self, name, value)

    config_type.__init__ = init
    config_type.__setattr__ = set_attribute
    config_type.tensor_fuse = property(
        functools.partial(read, name=TENSOR_FUSE),
        doc="Whether receives are fused. If unset, FUSEWIRE_TENSOR_FUSE decides.",
    )
    config_type.chief_joins = property(
        functools.partial(read, name=CHIEF_JOINS),
        doc="Whether a chief joins living parameter servers. If unset, FUSEWIRE_CHIEF_JOINS decides.",
    )


def read(config: Any, name: str) -> bool:
    """The option in force: that of the message, else of the environment, else off."""
    own = None if config is None else read_own(config, name)
    return settings.is_on(VARIABLES[name]) if own is None else own


def read_own(config: Any, name: str) -> bool | None:
    """The option of the message itself, or None. If two messages were merged, the last entry counts."""
    for entry in reversed(config.graph_options.rewrite_options.custom_optimizers):
        if entry.name == OPTIMIZER and name in entry.parameter_map:
            return bool(entry.parameter_map[name].b)
    return None


def write(config: Any, name: str, value: bool) -> None:
    if value not in (False, True):
        raise TypeError(f"{name} must be True or False, not {value!r}")
    optimizers = config.graph_options.rewrite_options.custom_optimizers
    ours = [entry for entry in optimizers if entry.name == OPTIMIZER]
    for entry in ours or [optimizers.add(name=OPTIMIZER)]:
        entry.parameter_map[name].b = bool(value)


def write_given(config: Any, **given: bool | None) -> None:
    """Those that are not None."""
    for name, value in given.items():
        if value is not None:
            write(config, name, value)


def copy_own(source: Any, target: Any) -> None:
    """Copies our options from source to target, unless target has its own."""
    for name in VARIABLES:
        own = read_own(source, name)
        if own is not None and read_own(target, name) is None:
            write(target, name, own)
