# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""What the package offers can be read without running it: help() before init(), a description, types."""

import ast
import inspect
import pydoc
import subprocess
import sys
import typing

import pytest
from conftest import ROOT

import fusewire
from fusewire import collective, mpi, p2p

pytestmark = pytest.mark.once


def public(module):
    """(name, object) of what a module offers, and of the methods of its classes."""
    for name in module.__all__:
        if name == "ConfigProto":  # TensorFlow's
            continue
        found = getattr(module, name)
        yield name, found
        for its, method in vars(found).items() if inspect.isclass(found) else ():
            if not its.startswith("_"):
                yield f"{name}.{its}", method


def function_of(found):
    """The function behind it; None if it is not one: a number, or an object that the program uses as it is."""
    if isinstance(found, property):
        return found.fget
    found = getattr(found, "__func__", found)
    return found if inspect.isfunction(found) else None


MODULES = [fusewire, collective, p2p, mpi]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_each_public_name_describes_itself_before_init(module):
    assert not collective.is_initialized()
    for name, found in public(module):
        function = function_of(found)
        if function is not None or inspect.isclass(found):
            assert inspect.getdoc(found), f"{name} has no description"
            assert pydoc.render_doc(found, renderer=pydoc.plaintext)
        if function is None:
            continue
        typing.get_type_hints(function, localns={"ConfigProto": object})  # TensorFlow is not loaded
        signature = inspect.signature(function)
        assert signature.return_annotation is not inspect.Signature.empty, f"{name} does not say what it returns"
        missing = [one.name for one in signature.parameters.values() if one.annotation is inspect.Parameter.empty]
        assert missing in ([], ["self"], ["cls"]), f"{name}: {missing} have no types"


def test_each_function_of_jax_describes_itself():
    """Read, not imported: JAX has an environment of its own."""
    functions = {
        node.name: node
        for node in ast.parse((ROOT / "python/fusewire/jax/ranks.py").read_text()).body
        if isinstance(node, ast.FunctionDef)
    }
    for name in "initialize", "prepare", "shutdown":
        node = functions[name]
        given = [*node.args.args, *node.args.kwonlyargs]
        assert ast.get_docstring(node) and node.returns and all(one.annotation for one in given), name


def test_a_function_of_the_world_is_one_before_init():
    assert inspect.signature(collective.broadcast) == inspect.signature(collective.Group.broadcast.__get__(object()))
    with pytest.raises(RuntimeError, match=r"not a rank yet: call fusewire.collective.init\(\) first"):
        collective.allreduce([1.0])


def test_the_api_reference_is_made_of_these_sources():
    """After a change: tools/api_reference.py > docs/api.md."""
    made = subprocess.run([sys.executable, ROOT / "tools/api_reference.py"], capture_output=True, text=True, check=True)
    assert (ROOT / "docs/api.md").read_text(encoding="utf-8") == made.stdout
    for wanted in ("### Group", "Group.allreduce(", "### init", "Endpoint.send(", "initialize("):
        assert wanted in made.stdout
