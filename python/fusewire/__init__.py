# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""protocol="grpc++" for stock TensorFlow.

    import fusewire
    server = tf.distribute.Server(cluster, job_name="worker", task_index=0, protocol="grpc++")

The plug-in built for the installed TensorFlow is loaded as soon as a process has imported both, in either order. If
there is no such plug-in, the later of the two imports raises MisfitError, an ImportError. Only load() and ConfigProto
import TensorFlow: the command, fusewire.p2p and fusewire.collective start without it and work where it is not
installed.
"""

import importlib
import os
import types
from typing import TYPE_CHECKING, Any

from fusewire.horovod.finder import install_if_set
from fusewire.reporting import progress
from fusewire.tf import config as options
from fusewire.tf.library import is_loaded, stats
from fusewire.tf.loading import load, load_with_tensorflow
from fusewire.tf.patching import when_imported
from fusewire.tf.plugin import MisfitError
from fusewire.tf.prefetch import prefetch
from fusewire.version import VERSION

if TYPE_CHECKING:
    from tensorflow.core.protobuf.config_pb2 import ConfigProto

__all__ = [
    "ConfigProto",
    "MisfitError",
    "__version__",
    "is_loaded",
    "load",
    "prefetch",
    "progress",
    "set_options",
    "stats",
]

__version__ = VERSION


def set_options(
    config: "ConfigProto",
    *,
    tensor_fuse: bool | None = None,
    chief_joins: bool | None = None,
    unique_ids: bool | None = None,
    staleness: int | None = None,
    compression: str | None = None,
    compressed_tables: str | None = None,
) -> "ConfigProto":
    """Sets our options in an existing ConfigProto and returns it. An option that is None is left unchanged.

    tensor_fuse: receives from the same task are fused. chief_joins: a chief that comes back restores no checkpoint over
    parameter servers that are alive and ahead of it (docs/elastic.md). unique_ids: ids that repeat in a lookup are sent
    once. staleness: for how many steps a worker uses a row again that it has pulled; 0: for none. compression: "bf16",
    "int8" or "off", for rows and gradients on their way. compressed_tables: the beginnings of the names of the tables
    that these three mean, with commas between (docs/compression.md).
    """
    options.write_given(
        config,
        tensor_fuse=tensor_fuse,
        chief_joins=chief_joins,
        unique_ids=unique_ids,
        staleness=staleness,
        compression=compression,
        compressed_tables=compressed_tables,
    )
    return config


def __getattr__(name: str) -> Any:
    if name == "ConfigProto":
        load()
        from tensorflow.core.protobuf import config_pb2  # imported here: only this access needs TensorFlow

        return config_pb2.ConfigProto
    raise AttributeError(f"module 'fusewire' has no attribute {name!r}")


def _import_backend(_: types.ModuleType) -> None:
    """It does what FUSEWIRE_TORCH_REPLACES asks for, or says why it can't."""
    importlib.import_module("fusewire.torch")


load_with_tensorflow()
install_if_set()
if os.environ.get("FUSEWIRE_TORCH_REPLACES"):
    when_imported("torch", _import_backend)
