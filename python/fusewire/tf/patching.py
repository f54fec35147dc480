# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Patches functions and modules of TensorFlow, each only once, without importing a module for it."""

import functools
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, cast


def replace(owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
    """Makes owner.name(...) call wrapper(original, ...). A second call has no effect."""
    original = getattr(owner, name)
    if hasattr(original, "__fusewire__"):
        return

    @functools.wraps(original)
    def replaced(*arguments: Any, **keywords: Any) -> Any:
        return wrapper(original, *arguments, **keywords)

    replaced.__fusewire__ = True  # type: ignore[attr-defined]
    setattr(owner, name, replaced)


def when_imported(name: str, change: Callable[[ModuleType], None]) -> None:
    """Calls change(module) as soon as the program imports that module, or at once if it already has."""
    if name in sys.modules:
        change(sys.modules[name])
    _changes[name] = change
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def forget(name: str) -> None:
    """Cancels when_imported() for that module."""
    _changes.pop(name, None)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds what the other finders find, and wraps the loaders of the modules to patch."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in _changes:
            return None
        for finder in sys.meta_path:
            find_spec = getattr(finder, "find_spec", None)
            spec = find_spec(name, path, target) if find_spec and finder is not self else None
            if spec is not None and spec.loader is not None:
                spec.loader = _Loader(spec.loader)
                return cast(importlib.machinery.ModuleSpec, spec)
        return None


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: Any):
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return cast(ModuleType | None, self._loader.create_module(spec))

    def exec_module(self, module: ModuleType) -> None:
        # Restore the original loader: other code that inspects the module must not see ours.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        if change := _changes.get(module.__name__):
            change(module)

    def __getattr__(self, name: str) -> Any:  # is_package, get_source and others that users of a spec call
        return getattr(self._loader, name)


_changes: dict[str, Callable[[ModuleType], None]] = {}
_finder = _Finder()
