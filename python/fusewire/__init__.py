# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""protocol="grpc++" for stock TensorFlow.

    import fusewire
    server = tf.distribute.Server(cluster, job_name="worker", task_index=0, protocol="grpc++")

The import loads the plug-in that was built for the TensorFlow which is installed, and raises MisfitError, an
ImportError, when there is none. The `fusewire` command, and `python -m fusewire`, load nothing: they work where
TensorFlow does not. So does fusewire.p2p: where there is no TensorFlow at all, the import succeeds, and what needs
TensorFlow raises MisfitError.
"""

import os
import sys
from typing import TYPE_CHECKING, Any

from fusewire.tf import config as options
from fusewire.tf.library import is_loaded, stats
from fusewire.tf.loading import load
from fusewire.tf.plugin import MisfitError, is_only_p2p
from fusewire.version import VERSION

if TYPE_CHECKING:
    from tensorflow.core.protobuf.config_pb2 import ConfigProto

__all__ = ["ConfigProto", "MisfitError", "__version__", "is_loaded", "load", "set_options", "stats"]

__version__ = VERSION


def set_options(config: "ConfigProto", *, tensor_fuse: bool | None = None) -> "ConfigProto":
    """Sets our options in a ConfigProto that stands already; an option that is None stays as it is. Returns config."""
    if tensor_fuse is not None:
        options.write(config, tensor_fuse)
    return config


def __getattr__(name: str) -> Any:
    if name == "ConfigProto":
        from tensorflow.core.protobuf import config_pb2

        load()
        return config_pb2.ConfigProto
    raise AttributeError(f"module 'fusewire' has no attribute {name!r}")


def _is_command() -> bool:
    """True where this package is imported on behalf of `fusewire ...` or `python -m fusewire...`."""
    program = sys.argv[0] if sys.argv else ""
    if program == "-m":  # as it stands while Python looks for the module to run, and imports the packages around it
        module = sys.orig_argv[len(sys.orig_argv) - len(sys.argv)].removeprefix("-m")
        return module.split(".")[0] == "fusewire"
    return os.path.basename(program) == "fusewire"


if not _is_command() and not is_only_p2p():
    load()
