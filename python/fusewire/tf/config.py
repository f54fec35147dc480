# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Our options of a session, as options of tf.compat.v1.ConfigProto.

A ConfigProto has no field for the options and can't be subclassed. We therefore add keywords and properties to its
class, in place, and store the options in an entry of graph_options.rewrite_options.custom_optimizers, the only field
that accepts names unknown to TensorFlow. An option is then part of the message: it is copied, pickled, merged, sent to
servers and read by the plug-in like every other field.
"""

import dataclasses
import functools
import os
from typing import Any

from fusewire import settings

OPTIMIZER = "fusewire"  # the entry's name; Grappler skips names that it does not know
Value = bool | str


@dataclasses.dataclass(frozen=True)
class Option:
    variable: str  # decides if the message does not say it
    text: str
    words: tuple[str, ...] | None = ()  # that it can be; empty: it is True or False; None: any text

    def default(self) -> Value:
        if self.words == ():
            return settings.is_on(self.variable)
        return os.environ.get(self.variable, "") or ("off" if self.words else "")

    def check(self, name: str, value: Any) -> None:
        if self.words == () and value not in (False, True):
            raise TypeError(f"{name} must be True or False, not {value!r}")
        if self.words is None and not isinstance(value, str):
            raise TypeError(f"{name} must be a text, not {value!r}")
        if self.words and value not in self.words:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, self.words))}, not {value!r}")


OPTIONS = {
    "tensor_fuse": Option("FUSEWIRE_TENSOR_FUSE", "Whether receives are fused."),
    "chief_joins": Option("FUSEWIRE_CHIEF_JOINS", "Whether a chief joins living parameter servers."),
    "unique_ids": Option("FUSEWIRE_UNIQUE_IDS", "Whether ids that repeat in a lookup are sent once."),
    "compression": Option("FUSEWIRE_COMPRESSION", "What rows and gradients are on their way.", ("off", "bf16", "int8")),
    "compressed_tables": Option("FUSEWIRE_COMPRESSED_TABLES", "Beginnings of the names of the tables.", None),
}


def install() -> None:
    """Adds our keywords and properties to ConfigProto. A second call has no effect."""
    # Imported here because the package must be importable without TensorFlow.
    from tensorflow.core.protobuf import config_pb2

    config_type = config_pb2.ConfigProto
    if hasattr(config_type, next(iter(OPTIONS))):
        return
    original_init = config_type.__init__
    original_setattr = config_type.__setattr__

    @functools.wraps(original_init)
    def init(self: Any, *arguments: Any, **fields: Any) -> None:
        ours = {name: fields.pop(name) for name in OPTIONS if name in fields}
        original_init(self, *arguments, **fields)
        write_given(self, **ours)

    # The C implementation of protobuf ignores properties on assignment.
    @functools.wraps(original_setattr)
    def set_attribute(self: Any, name: str, value: Any) -> None:
        if name in OPTIONS:
            write(self, name, value)
        else:
            original_setattr(self, name, value)

    config_type.__init__ = init
    config_type.__setattr__ = set_attribute
    for name, option in OPTIONS.items():
        doc = f"{option.text} If unset, {option.variable} decides."
        setattr(config_type, name, property(functools.partial(read, name=name), doc=doc))


def read(config: Any, name: str) -> Value:
    """The option in force: that of the message, else of the environment, else off."""
    own = None if config is None else read_own(config, name)
    return OPTIONS[name].default() if own is None else own


def read_own(config: Any, name: str) -> Value | None:
    """The option of the message itself, or None. If two messages were merged, the last entry counts."""
    for entry in reversed(config.graph_options.rewrite_options.custom_optimizers):
        if entry.name == OPTIMIZER and name in entry.parameter_map:
            value = entry.parameter_map[name]
            return bool(value.b) if OPTIONS[name].words == () else value.s.decode()
    return None


def write(config: Any, name: str, value: Value) -> None:
    OPTIONS[name].check(name, value)
    optimizers = config.graph_options.rewrite_options.custom_optimizers
    ours = [entry for entry in optimizers if entry.name == OPTIMIZER]
    for entry in ours or [optimizers.add(name=OPTIMIZER)]:
        if isinstance(value, str):
            entry.parameter_map[name].s = value.encode()
        else:
            entry.parameter_map[name].b = bool(value)


def write_given(config: Any, **given: Value | None) -> None:
    """Those that are not None."""
    for name, value in given.items():
        if value is not None:
            write(config, name, value)


def copy_own(source: Any, target: Any) -> None:
    """Copies our options from source to target, unless target has its own."""
    for name in OPTIONS:
        own = read_own(source, name)
        if own is not None and read_own(target, name) is None:
            write(target, name, own)
