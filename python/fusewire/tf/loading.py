# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Loads the plug-in into TensorFlow, and teaches TensorFlow's Python side our names: when a program has imported both.

A hook waits for the import of TensorFlow, as nothing tells `import fusewire` from the beginning of
`import fusewire.collective`, which must not pay for TensorFlow.
"""

import importlib.util
import multiprocessing.util
import sys

from fusewire import settings
from fusewire.tf import config, estimator, library, patching, plugin, protocol
from fusewire.tf.plugin import SUPPORTED, Build, MisfitError


def load_with_tensorflow() -> None:
    """Loads the plug-in as soon as the program imports TensorFlow; at once if it has."""
    patching.when_imported("tensorflow", lambda _: load())


def load() -> None:
    """Loads the plug-in, once, and teaches TensorFlow's Python side our names. MisfitError when there is none."""
    build = installed_build()
    if not library.is_loaded() and not settings.is_disabled():
        loaded = library.open_library(plugin.fitting(build))
        # TensorFlow tells no server that the process ends. Unlike atexit, this counts in children of multiprocessing
        # that import us too, and not in one that was forked from here.
        multiprocessing.util.Finalize(None, loaded.fusewire_leave, exitpriority=0)
    config.install()
    protocol.install()
    estimator.install()


def installed_build() -> Build:
    """The TensorFlow that runs here; imports it, and nothing of ours: whoever asks for it loads the plug-in himself."""
    patching.forget("tensorflow")
    if importlib.util.find_spec("tensorflow") is None:
        raise MisfitError(
            f"Fusewire is a plug-in of TensorFlow, and {sys.executable} has none.\n"
            f"  Fix: {plugin.pip()} install tensorflow-cpu=={SUPPORTED[-1]} && {plugin.reinstall_command()}"
        )
    import tensorflow as tf  # here, as whoever imports this module may have none

    return Build(tf.version.VERSION, tf.version.GIT_VERSION, int(tf.sysconfig.CXX11_ABI_FLAG))
