# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""protocol="grpc++" for stock TensorFlow.

    import fusewire
    server = tf.distribute.Server(cluster, job_name="worker", task_index=0, protocol="grpc++")

The plug-in that was built for the TensorFlow which is installed is loaded as soon as a process has imported both, in
either order; MisfitError, an ImportError, comes from the later of the two imports where there is none. Nothing here
imports TensorFlow by itself, but load() and ConfigProto: so the command, fusewire.p2p and fusewire.collective begin
without it, and work where there is none.
"""

from typing import TYPE_CHECKING, Any

from fusewire.tf import config as options
from fusewire.tf.library import is_loaded, stats
from fusewire.tf.loading import load, load_with_tensorflow
from fusewire.tf.plugin import MisfitError
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
        load()
        from tensorflow.core.protobuf import config_pb2  # here, as this is how a program asks for TensorFlow

        return config_pb2.ConfigProto
    raise AttributeError(f"module 'fusewire' has no attribute {name!r}")


load_with_tensorflow()
