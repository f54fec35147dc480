# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""tensor_fuse as an option of tf.compat.v1.ConfigProto.

A ConfigProto has no field for the option and can't be subclassed. We therefore add a keyword and a property to its
class, in place, and store the option as an entry of graph_options.rewrite_options.custom_optimizers, the only field
that accepts names unknown to TensorFlow. The option is then part of the message: it is copied, pickled, merged, sent to
servers and read by the plug-in like every other field.
"""

import functools
from typing import Any

from fusewire import settings

OPTIMIZER = "fusewire"  # the entry's name; Grappler skips names that it does not know
PARAMETER = "tensor_fuse"
VARIABLE = "FUSEWIRE_TENSOR_FUSE"


def install() -> None:
    """Adds our keyword and property to ConfigProto. A second call has no effect."""
    # Imported here because the package must be importable without TensorFlow.
    from tensorflow.core.protobuf import config_pb2

    config_type = config_pb2.ConfigProto
    if hasattr(config_type, "tensor_fuse"):
        return
    original_init = config_type.__init__
    original_setattr = config_type.__setattr__

    @functools.wraps(original_init)
    def init(self: Any, *arguments: Any, tensor_fuse: bool | None = None, **fields: Any) -> None:
        original_init(self, *arguments, **fields)
        if tensor_fuse is not None:
            write(self, tensor_fuse)

    # The C implementation of protobuf ignores properties on assignment.
    @functools.wraps(original_setattr)
    def set_attribute(self: Any, name: str, value: Any) -> None:
        if name == "tensor_fuse":
            write(self, value)
        else:
            original_setattr(self, name, value)

    config_type.__init__ = init
    config_type.__setattr__ = set_attribute
    config_type.tensor_fuse = property(read, doc="Whether receives are fused. If unset, FUSEWIRE_TENSOR_FUSE decides.")


def read(config: Any) -> bool:
    """The option in force: that of the message, else of the environment, else off."""
    own = read_own(config)
    return environment_default() if own is None else own


def read_own(config: Any) -> bool | None:
    """The option of the message itself, or None. If two messages were merged, the last entry counts."""
    for entry in reversed(config.graph_options.rewrite_options.custom_optimizers):
        if entry.name == OPTIMIZER and PARAMETER in entry.parameter_map:
            return bool(entry.parameter_map[PARAMETER].b)
    return None


def write(config: Any, tensor_fuse: bool) -> None:
    if tensor_fuse not in (False, True):
        raise TypeError(f"tensor_fuse must be True or False, not {tensor_fuse!r}")
    optimizers = config.graph_options.rewrite_options.custom_optimizers
    ours = [entry for entry in optimizers if entry.name == OPTIMIZER]
    for entry in ours or [optimizers.add(name=OPTIMIZER)]:
        entry.parameter_map[PARAMETER].b = bool(tensor_fuse)


def copy_own(source: Any, target: Any) -> None:
    """Copies our options from source to target, unless target has its own."""
    own = read_own(source)
    if own is not None and read_own(target) is None:
        write(target, own)


def environment_default() -> bool:
    return settings.is_on(VARIABLE)
