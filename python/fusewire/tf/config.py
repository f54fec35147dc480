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
Value = bool | int | str


@dataclasses.dataclass(frozen=True)
class Option:
    variable: str  # decides if the message does not say it
    text: str
    kind: type[Value] = bool
    words: tuple[str, ...] = ()  # that a text can be; empty: any

    def default(self) -> Value:
        if self.kind is bool:
            return settings.is_on(self.variable)
        word = os.environ.get(self.variable, "")
        if self.kind is int:
            return int(word) if word.isdecimal() else 0
        return word or ("off" if self.words else "")

    def check(self, name: str, value: Any) -> None:
        if self.kind is bool and value not in (False, True):
            raise TypeError(f"{name} must be True or False, not {value!r}")
        if self.kind is int and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
            raise TypeError(f"{name} must be a number of steps, 0 or more, not {value!r}")
        if self.kind is str and not isinstance(value, str):
            raise TypeError(f"{name} must be a text, not {value!r}")
        if self.words and value not in self.words:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, self.words))}, not {value!r}")


OPTIONS = {
    "tensor_fuse": Option("FUSEWIRE_TENSOR_FUSE", "Whether receives are fused."),
    "chief_joins": Option("FUSEWIRE_CHIEF_JOINS", "Whether a chief joins living parameter servers."),
    "unique_ids": Option("FUSEWIRE_UNIQUE_IDS", "Whether ids that repeat in a lookup are sent once."),
    "staleness": Option("FUSEWIRE_STALENESS", "Steps for which a worker uses a row again that it has pulled.", int),
    "compression": Option(
        "FUSEWIRE_COMPRESSION", "What rows and gradients are on their way.", str, ("off", "bf16", "int8")
    ),
    "compressed_tables": Option("FUSEWIRE_COMPRESSED_TABLES", "Beginnings of the names of the tables.", str),
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
            values: dict[type[Value], Value] = {bool: bool(value.b), int: value.i, str: value.s.decode()}
            return values[OPTIONS[name].kind]
    return None


def write(config: Any, name: str, value: Value) -> None:
    OPTIONS[name].check(name, value)
    optimizers = config.graph_options.rewrite_options.custom_optimizers
    ours = [entry for entry in optimizers if entry.name == OPTIMIZER]
    for entry in ours or [optimizers.add(name=OPTIMIZER)]:
        stored, kind = entry.parameter_map[name], OPTIONS[name].kind
        if kind is str:
            stored.s = str(value).encode()
        elif kind is int:
            stored.i = int(value)
        else:
            stored.b = bool(value)


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
