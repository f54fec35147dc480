# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Loads the plug-in and adds our names to TensorFlow's Python modules, once a program has imported both.

A hook waits for the import of TensorFlow: `import fusewire` can't be told from the start of
`import fusewire.collective`, which must not import TensorFlow.
"""

import importlib.util
import multiprocessing.util
import sys

from fusewire import settings
from fusewire.pages import page
from fusewire.tf import config, estimator, joining, library, patching, plugin, protocol
from fusewire.tf.plugin import Build, MisfitError


def load_with_tensorflow() -> None:
    """Loads the plug-in as soon as the program imports TensorFlow, or at once if it already has."""
    is_late = "tensorflow" in sys.modules
    patching.when_imported("tensorflow", lambda _: load())
    if is_late:
        protocol.warn_of_earlier_servers()


def load() -> None:
    """Loads the plug-in, once, and adds our names to TensorFlow's Python modules. MisfitError if no plug-in fits."""
    build = installed_build()
    if not library.is_loaded() and not settings.is_disabled():
        loaded = library.open_library(plugin.fitting(build))
        # TensorFlow does not tell servers that the process ends. Unlike atexit, a Finalize also runs in
        # multiprocessing's children that import us, and does not run in a child forked from here.
        multiprocessing.util.Finalize(None, loaded.fusewire_leave, exitpriority=0)
    protocol.warn_of_misspelt_settings()
    config.install()
    protocol.install()
    estimator.install()
    joining.install()


def installed_build() -> Build:
    """The installed TensorFlow. Imports it without loading the plug-in: that is up to the caller."""
    patching.forget("tensorflow")
    if importlib.util.find_spec("tensorflow") is None:
        raise MisfitError(
            f"Fusewire needs TensorFlow to load its plug-in, and TensorFlow is not installed for {sys.executable}.\n"
            f"  Fix: {plugin.install_command()}\n"
            f"  See: {page('misfit')}"
        )
    import tensorflow as tf  # imported here because this module must be importable without TensorFlow

    return Build(tf.version.VERSION, tf.version.GIT_VERSION, int(tf.sysconfig.CXX11_ABI_FLAG))
