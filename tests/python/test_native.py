# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""fusewire/_native.py agrees with the headers of the C API: functions, structures, and the numbers of names."""

import ctypes
import re

import pytest
from conftest import ROOT

from fusewire import _native

pytestmark = pytest.mark.once

PLAIN = {
    "int": ctypes.c_int,
    "size_t": ctypes.c_size_t,
    "int64_t": ctypes.c_int64,
    "uint32_t": ctypes.c_uint32,
    "uint64_t": ctypes.c_uint64,
}


def read(path: str) -> str:
    """The header without comments and directives."""
    text = (ROOT / "include/fusewire" / path).read_text(encoding="utf-8")
    return re.sub(r"//[^\n]*|^\s*#[^\n]*(?:\\\n[^\n]*)*", "", text, flags=re.MULTILINE)


HEADERS = [read("p2p/c_api.h"), read("collective/c_api/group_c_api.h")]
# Calls of the extension has these, and their structures.
OF_CALLS = {"fusewire_group_run", "fusewire_group_start", "fusewire_plan_make", "fusewire_plan_run"}
STRUCTURES_OF_CALLS = {"fusewire_piece", "fusewire_collective_spec", "fusewire_waiting"}
STRUCTURES = {
    name: re.findall(r"\s*([^;]+);", fields)
    for header in HEADERS
    for fields, name in re.findall(r"typedef struct \w+ \{(.*?)\} (\w+);", header, re.DOTALL)
    if name not in STRUCTURES_OF_CALLS
}
FUNCTIONS = {
    name: (result, arguments)
    for header in HEADERS
    for result, name, arguments in re.findall(r"FUSEWIRE_C_API\s+([\w\s*]+?)(\w+)\(((?:[^()]|\([^()]*\))*)\);", header)
    if name not in OF_CALLS
}


def mirror_of(structure: str) -> type[ctypes.Structure]:
    """fusewire_group_options is GroupOptions."""
    return getattr(_native, "".join(word.capitalize() for word in structure.split("_")[1:]))


def declared(text: str) -> tuple[object, str]:
    """The ctypes type of "const uint64_t* counts", and the name."""
    if "(*" in text:
        return ctypes.c_void_p, re.search(r"\(\*(\w+)\)", text)[1]
    words = re.sub(r"\bconst\b", "", text).replace("*", " * ").split()
    name = words.pop() if words[-1] != "*" and len(words) > 1 else ""
    base, stars = words[0], words.count("*")
    if base in PLAIN:
        kind = PLAIN[base]
    elif base == "char":
        kind, stars = ctypes.c_char_p, stars - 1
    elif base in STRUCTURES:
        kind = mirror_of(base)
    elif base == "void" and not stars:
        return None, name
    else:  # memory, and what only the library looks into
        assert base == "void" or f"typedef struct {base} {base};" in "".join(HEADERS), text
        kind, stars = ctypes.c_void_p, stars - 1
    for _ in range(stars):
        kind = ctypes.POINTER(kind)
    return kind, name


def arguments_of(text: str) -> list[str]:
    """The arguments of a function; commas inside an argument's own parentheses don't separate."""
    return [one.strip() for one in re.split(r",(?![^()]*\))", text) if one.strip() != "void"]


def test_every_function_is_there_and_no_other():
    assert len(FUNCTIONS) > 40
    assert set(FUNCTIONS) == set(_native.FUNCTIONS)
    assert sum(header.count("FUSEWIRE_C_API ") for header in HEADERS) == len(FUNCTIONS) + len(OF_CALLS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name):
    result, arguments = FUNCTIONS[name]
    wanted = declared(result)[0], tuple(declared(one)[0] for one in arguments_of(arguments))
    assert _native.FUNCTIONS[name] == wanted
    loaded = getattr(_native.library, name)
    assert (loaded.restype, tuple(loaded.argtypes)) == wanted


def test_every_structure_is_there_and_no_other():
    ours = {kind for kind in vars(_native).values() if isinstance(kind, type) and issubclass(kind, ctypes.Structure)}
    assert len(STRUCTURES) == 2
    assert {mirror_of(name) for name in STRUCTURES} == ours


@pytest.mark.parametrize("name", STRUCTURES)
def test_structure(name):
    ours = [(kind, field.rstrip("_")) for field, kind in mirror_of(name)._fields_]
    assert ours == [declared(field) for field in STRUCTURES[name]]


@pytest.mark.parametrize(
    ("header", "enumeration", "ours"),
    [
        ("base/status.h", "Code", _native.CODES),
        ("collective/kernels/types.h", "CollectiveKind", _native.KINDS),
        ("collective/kernels/types.h", "Type", _native.TYPES),
        ("collective/kernels/types.h", "Op", (*_native.OPERATORS, "user")),
    ],
)
def test_numbers(header, enumeration, ours):
    [body] = re.findall(rf"enum class {enumeration} : uint8_t \{{(.*?)\}};", read(header), re.DOTALL)
    numbers = {name: int(number) for name, number in re.findall(r"k(\w+) = (\d+)", body)}
    assert numbers == {theirs_of(enumeration, name): number for number, name in enumerate(ours)}


def theirs_of(enumeration: str, name: str) -> str:
    """reduce_scatter is kReduceScatter, allreduce kAllReduce, uint8 kU8, bfloat16 kBf16."""
    if enumeration == "Type":
        name = re.sub(r"^(b?[a-z])[a-z]*(\d+)$", lambda found: found[1] + found[2], name)
    if enumeration == "CollectiveKind":
        name = re.sub(r"^all(to)?", lambda found: "all_to_" if found[1] else "all_", name)
    return "".join(word.capitalize() for word in name.split("_"))


def test_names_of_a_table_of_algorithms():
    for number, name in enumerate(_native.KINDS):
        theirs = _native.library.fusewire_collective_kind(number).decode()
        assert theirs.replace("-", "").replace("_", "") == name.replace("_", "")
    assert _native.library.fusewire_collective_kind(len(_native.KINDS)) is None
