# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""RunConfig(protocol="grpc++"): Estimator, which TensorFlow 2.15 is the last to have, knows grpc and grpc+verbs only.

It also hands on less than its RunConfig says: a server gets none of session_config but its gpu_options, and a run under
a distribution strategy gets no protocol. Its modules are changed when they are imported, and never imported from here.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, cast

from fusewire.tf import protocol


def install() -> None:
    """Changes the modules of CHANGES as soon as the program imports them; at once if it has."""
    for name, change in CHANGES.items():
        if name in sys.modules:
            change(sys.modules[name])
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """Finds what everybody else finds, and wraps the loader of the modules in CHANGES."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in CHANGES:
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
        self._loader.exec_module(module)
        CHANGES[module.__name__](module)

    def __getattr__(self, name: str) -> Any:  # is_package, get_source and others that inspect asks for
        return getattr(self._loader, name)


def change_run_config(module: Any) -> None:
    protocol.replace(module, "_validate_properties", _validate_properties)


def _validate_properties(original: Callable[[Any], None], run_config: Any) -> None:
    said = run_config._protocol
    if said not in protocol.OURS:
        return original(run_config)
    run_config._protocol = protocol.STOCK
    try:
        return original(run_config)
    finally:
        run_config._protocol = said


def change_training(module: Any) -> None:
    protocol.replace(module._TrainingExecutor, "_start_std_server", _start_std_server)


def _start_std_server(original: Callable[..., Any], self: Any, config: Any) -> Any:
    with protocol.servers_of(config.session_config, config.protocol):
        return original(self, config)


def change_strategies(module: Any) -> None:
    for name in ("train_and_evaluate", "estimator_train", "estimator_evaluate"):
        protocol.replace(module, name, _run_with_strategy)


def _run_with_strategy(original: Callable[..., Any], estimator: Any, *arguments: Any, **keywords: Any) -> Any:
    config = estimator.config
    with protocol.servers_of(config.session_config, config.protocol):
        return original(estimator, *arguments, **keywords)


CHANGES: dict[str, Callable[[Any], None]] = {
    "tensorflow_estimator.python.estimator.run_config": change_run_config,
    "tensorflow_estimator.python.estimator.training": change_training,
    "tensorflow.python.distribute.estimator_training": change_strategies,
}
