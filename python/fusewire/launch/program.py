# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Runs a Python program for `fusewire run` as Python itself would, and loads the plug-in once it imports TensorFlow.

Its arguments are PIPE program.py argument..., also PIPE -m module argument... and PIPE -c code argument... PIPE is an
open descriptor, on which the task reports to the launcher: see reporting.py.
"""

import builtins
import io
import os
import runpy
import sys
import types
from collections.abc import Callable
from typing import Any

import fusewire
from fusewire import reporting
from fusewire.tf import patching, protocol


def main() -> None:
    pipe = int(sys.argv[1])
    reporting.use_pipe(pipe)
    patching.when_imported("tensorflow", load)
    patching.when_imported("tensorflow.python.training.server_lib", report_joins)
    run(sys.argv[2:])


def load(_: types.ModuleType) -> None:
    """Loads the plug-in. Without one, a program continues over gRPC unless FUSEWIRE_PROTOCOL names one of ours."""
    try:
        fusewire.load()
    except fusewire.MisfitError as error:
        if os.environ.get(protocol.VARIABLE) in protocol.OURS:
            sys.exit(f"{error}")
        print(f"{error}\nThe program continues without the plug-in.", file=sys.stderr)


def report_joins(server_lib: types.ModuleType) -> None:
    def join(original: Callable[..., Any], self: Any) -> Any:
        reporting.report_serving()
        return original(self)

    patching.replace(server_lib.Server, "join", join)


def run(command: list[str]) -> None:
    """Runs the command as `python command...` would. Our own part was started without its place of imports."""
    option, *arguments = command
    if not (getattr(sys.flags, "safe_path", False) or sys.flags.isolated):
        sys.path.insert(0, place_of(option))
    if option == "-m":
        sys.argv = arguments
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        return
    module = types.ModuleType("__main__")
    module.__dict__["__builtins__"] = builtins
    if option == "-c":
        code = compile(arguments[0], "<string>", "exec")
        sys.argv = ["-c", *arguments[1:]]
    else:
        module.__file__ = os.path.abspath(option)
        with io.open_code(module.__file__) as file:
            code = compile(file.read(), module.__file__, "exec")
        sys.argv = command
    sys.modules["__main__"] = module
    try:
        exec(code, module.__dict__)
    except Exception as error:
        # Leave out our own frame: the traceback then begins with the program's.
        trace = error.__traceback__.tb_next if error.__traceback__ else None
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        sys.exit(1)


def place_of(option: str) -> str:
    """Where a program imports from first."""
    if option == "-m":
        return os.getcwd()
    return "" if option == "-c" else os.path.dirname(os.path.realpath(option))
