# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""RunConfig(protocol="grpc++") for Estimator, which accepts only grpc and grpc+verbs and ends with TensorFlow 2.15.

Estimator also drops parts of its RunConfig: a server gets only the gpu_options of session_config, and a run under a
distribution strategy gets no protocol. We patch its modules when the program imports them, and never import them here.
"""

from collections.abc import Callable
from typing import Any

from fusewire.tf import patching, protocol


def install() -> None:
    for name, change in CHANGES.items():
        patching.when_imported(name, change)


def change_run_config(module: Any) -> None:
    patching.replace(module, "_validate_properties", _validate_properties)


def _validate_properties(original: Callable[[Any], None], run_config: Any) -> None:
    wanted = run_config._protocol
    if wanted not in protocol.OURS:
        return original(run_config)
    run_config._protocol = protocol.STOCK
    try:
        return original(run_config)
    finally:
        run_config._protocol = wanted


def change_training(module: Any) -> None:
    patching.replace(module._TrainingExecutor, "_start_std_server", _start_std_server)


def _start_std_server(original: Callable[..., Any], self: Any, config: Any) -> Any:
    with protocol.servers_of(config.session_config, config.protocol):
        return original(self, config)


def change_strategies(module: Any) -> None:
    for name in ("train_and_evaluate", "estimator_train", "estimator_evaluate"):
        patching.replace(module, name, _run_with_strategy)


def _run_with_strategy(original: Callable[..., Any], estimator: Any, *arguments: Any, **keywords: Any) -> Any:
    config = estimator.config
    with protocol.servers_of(config.session_config, config.protocol):
        return original(estimator, *arguments, **keywords)


CHANGES: dict[str, Callable[[Any], None]] = {
    "tensorflow_estimator.python.estimator.run_config": change_run_config,
    "tensorflow_estimator.python.estimator.training": change_training,
    "tensorflow.python.distribute.estimator_training": change_strategies,
}
