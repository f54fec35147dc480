# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""tensor_fuse as an option of tf.compat.v1.ConfigProto.

A ConfigProto has no field for it and cannot be subclassed. So its class learns a keyword and a property, in place, and
keeps the option as an entry of graph_options.rewrite_options.custom_optimizers, the one place of the message that takes
names which TensorFlow does not know. From there on it is part of the message: it is copied, pickled, merged, sent to
servers and read by the plug-in like every other field.
"""

import functools
from typing import Any

from fusewire import settings

OPTIMIZER = "fusewire"  # the entry's name; Grappler passes over names that it does not know
PARAMETER = "tensor_fuse"
VARIABLE = "FUSEWIRE_TENSOR_FUSE"


def install() -> None:
    """Teaches ConfigProto our keyword and property; a second time changes nothing."""
    # Here, so that the package can be imported without TensorFlow.
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

    # The C implementation of protobuf looks at no property when something is assigned.
    @functools.wraps(original_setattr)
    def set_attribute(self: Any, name: str, value: Any) -> None:
        if name == "tensor_fuse":
            write(self, value)
        else:
            original_setattr(self, name, value)

    config_type.__init__ = init
    config_type.__setattr__ = set_attribute
    config_type.tensor_fuse = property(read, doc="Whether receives travel fused; the environment decides if unset.")


def read(config: Any) -> bool:
    """The option as it will take effect: the message's own, else the environment's, else off."""
    own = read_own(config)
    return environment_default() if own is None else own


def read_own(config: Any) -> bool | None:
    """What the message itself says. Where two were merged, the entry that came last counts."""
    for entry in reversed(config.graph_options.rewrite_options.custom_optimizers):
        if entry.name == OPTIMIZER and PARAMETER in entry.parameter_map:
            return bool(entry.parameter_map[PARAMETER].b)
    return None


def write(config: Any, tensor_fuse: bool) -> None:
    if tensor_fuse not in (False, True):
        raise TypeError(f"tensor_fuse is True or False, not {tensor_fuse!r}")
    optimizers = config.graph_options.rewrite_options.custom_optimizers
    ours = [entry for entry in optimizers if entry.name == OPTIMIZER]
    for entry in ours or [optimizers.add(name=OPTIMIZER)]:
        entry.parameter_map[PARAMETER].b = bool(tensor_fuse)


def copy_own(source: Any, target: Any) -> None:
    """Gives target our options of source, if target has none."""
    own = read_own(source)
    if own is not None and read_own(target) is None:
        write(target, own)


def environment_default() -> bool:
    return settings.is_on(VARIABLE)
