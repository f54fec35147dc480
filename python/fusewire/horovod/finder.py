# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Makes `import horovod...` find fusewire.horovod."""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types
from collections.abc import Mapping, Sequence

_OURS = "fusewire.horovod"


class _Loader(importlib.abc.Loader):
    """Gives a module of ours under a second name, not a second copy of it."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        name = _OURS + spec.name[len("horovod") :]
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            raise ModuleNotFoundError(
                f"{spec.name} is not part of Fusewire, which answers for `import horovod` in this process: see the "
                "table of `fusewire explain horovod` for what to use instead",
                name=spec.name,
            ) from None
        self._spec = module.__spec__
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has set that of the alias


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] != "horovod":
            return None
        return importlib.machinery.ModuleSpec(name, _Loader(), is_package=True)


def install(force: bool = False) -> None:
    """From now on, `import horovod.tensorflow` and the like import Fusewire's modules. If Horovod itself is installed,
    raises ImportError, unless `force`."""
    if any(isinstance(one, _Finder) for one in sys.meta_path):
        return
    if "horovod" in sys.modules:
        raise ImportError("Horovod was imported already: call fusewire.horovod.install() before it", name="horovod")
    if not force and importlib.util.find_spec("horovod") is not None:
        raise ImportError(
            "Horovod itself is installed, and fusewire.horovod does not replace it unasked: uninstall it (pip "
            "uninstall horovod), or call fusewire.horovod.install(force=True), or set FUSEWIRE_HOROVOD=force",
            name="horovod",
        )
    sys.meta_path.insert(0, _Finder())


def install_if_set(environment: Mapping[str, str] = os.environ) -> None:
    """install(), if FUSEWIRE_HOROVOD asks for it."""
    asked = environment.get("FUSEWIRE_HOROVOD", "").lower()
    if asked in ("", "0", "false", "no", "off"):
        return
    if asked not in ("1", "true", "yes", "on", "force"):
        raise ValueError(f"FUSEWIRE_HOROVOD={asked} is not known: set it to 1 or force, or unset it")
    install(asked == "force")
