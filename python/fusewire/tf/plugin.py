# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The plug-ins in this package. Each fits exactly one build of TensorFlow, and would crash another.

Each plug-in has a build.json that names the TensorFlow it was built for; we compare it with the installed TensorFlow
before we load anything.
"""

import contextlib
import dataclasses
import importlib.metadata
import importlib.util
import json
import pathlib
import shlex
import sys
import urllib.parse
from collections.abc import Sequence
from typing import Any

from fusewire.pages import page
from fusewire.version import VERSION

# A release's wheel has a plug-in for each of these versions of TensorFlow, and trains with each over each protocol
# before it is released. All tests run with the oldest and the newest.
SUPPORTED = ("2.15.1", "2.16.2", "2.17.1", "2.18.1", "2.19.1", "2.20.0", "2.21.0")
LIBRARY = "libfusewire_tf.so"
_FOLDER = pathlib.Path(__file__).absolute().parents[1]  # not resolved: only this file may be a link


class MisfitError(ImportError):
    """There is no plug-in for the installed TensorFlow. The text says which are available and how to install it."""


@dataclasses.dataclass(frozen=True)
class Build:
    """The properties of a TensorFlow build that a plug-in must match."""

    version: str
    git_version: str
    cxx11_abi: int

    def __str__(self) -> str:
        return f"TensorFlow {self.version} (git {self.git_version}, C++11 ABI {self.cxx11_abi})"


@dataclasses.dataclass(frozen=True)
class Plugin:
    """One plug-in of this package."""

    library: pathlib.Path
    build: Build
    fusewire: str

    def __str__(self) -> str:
        return f"{self.build}, Fusewire {self.fusewire}"


def plugins(folder: pathlib.Path | None = None) -> list[Plugin]:
    """The plug-ins in this package: _lib/tf-VERSION/, each with a build.json."""
    found = []
    for path in sorted((folder or _FOLDER / "_lib").glob("*/build.json")):
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
            build = Build(facts["tensorflow"], facts["git_version"], facts["cxx11_abi"])
            found.append(Plugin(path.with_name(LIBRARY), build, facts["fusewire"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise MisfitError(
                f"Fusewire's file {path} can't be read: {error!r}.\n  Fix: {reinstall_command()}   writes it anew\n"
                f"  See: {page('plug-in')}"
            ) from error
    return found


def fitting(build: Build) -> Plugin:
    """The plug-in for this TensorFlow. MisfitError if there is none."""
    available = plugins()
    for plugin in available:
        if plugin.build == build and plugin.fusewire == VERSION and plugin.library.is_file():
            return plugin
    raise MisfitError(misfit_text(build, available))


def misfit_text(build: Build, available: list[Plugin]) -> str:
    lines = [
        "Fusewire has no plug-in for the installed TensorFlow; none was loaded.",
        f"  installed: {build}, for {sys.executable}",
        f"  needed:    a plug-in for {build.version}, of Fusewire {VERSION}",
        f"  available: {'; '.join(map(str, available)) or 'none'}, in {_FOLDER / '_lib'}",
    ]
    lines += [f"  missing:   {plugin.library}" for plugin in available if not plugin.library.is_file()]
    there = [each.build.version for each in available if each.fusewire == VERSION and each.library.is_file()]
    if is_prebuilt() and there:  # with another TensorFlow no compiler is needed
        wanted = build.version if build.version in there else nearest(build.version, there)
        why = "the build that the plug-in fits" if wanted == build.version else "which this wheel has a plug-in for"
        lines += [
            f"  Fix: {pip()} install --force-reinstall {tensorflow_package()}=={wanted}   {why}",
            f"       or build a plug-in for {build.version}: from the sources of Fusewire {VERSION}, with g++ 12",
        ]
    elif build.version in SUPPORTED:
        lines.append(f"  Fix: {reinstall_command()}   installs it again")
    else:
        nearest_version = nearest(build.version)
        install = f"{pip()} install {tensorflow_package()}=={nearest_version}"
        if not any(plugin.build.version == nearest_version for plugin in available):
            install += f" && {reinstall_command()}"
        lines += [
            f"  Fix: Fusewire {VERSION} supports TensorFlow {', '.join(SUPPORTED)}, not {build.version}:",
            f"       {install}",
            f"       or build a plug-in for {build.version}, which is not tested: {reinstall_command()}",
        ]
    lines.append(f"  Until then, FUSEWIRE_DISABLE=1 runs the same program over plain gRPC. See: {page('misfit')}")
    return "\n".join(lines)


def nearest(version: str, among: Sequence[str] = SUPPORTED) -> str:
    """The closest of these versions, the oldest first: the newest that is not newer than `version`, else the oldest."""
    older = [known for known in among if _order(known) <= _order(version)]
    return older[-1] if older else among[0]


def _order(version: str) -> list[int]:
    return [int("".join(filter(str.isdigit, part)) or 0) for part in version.split(".")]


def tensorflow_package() -> str:
    """The one that is installed: another one beside it would overwrite its files."""
    for name in ("tensorflow", "tensorflow-cpu"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            importlib.metadata.version(name)
            return name
    return "tensorflow-cpu"


def pip() -> str:
    return f"{sys.executable} -m pip"


def reinstall_command() -> str:
    """The command that installs this package's files anew: from the wheel, or built from its source."""
    source = installed_from()
    if source is None:  # installed by tools/plugin.sh
        return f"tools/plugin.sh {SUPPORTED[0]} {SUPPORTED[-1]}"
    if is_prebuilt():
        return f"{pip()} install --force-reinstall --no-deps --no-cache-dir {source}"
    # A wheel in pip's cache may have been built for another TensorFlow, and so may the one in a package index.
    return f"{pip()} install --force-reinstall --no-deps --no-cache-dir --no-binary fusewire {source}"


def install_command() -> str:
    """The command that installs a TensorFlow, for an environment that has none, and a plug-in if this package has none
    for it."""
    there = []
    with contextlib.suppress(MisfitError):
        there = [each.build.version for each in plugins() if each.fusewire == VERSION and each.library.is_file()]
    wanted = max(there, key=_order) if there else SUPPORTED[-1]
    return f"{pip()} install {tensorflow_package()}=={wanted}" + ("" if there else f" && {reinstall_command()}")


def is_prebuilt() -> bool:
    """Whether pip installed a wheel that was built elsewhere, and not this source."""
    origin = _origin()
    return origin is not None and origin.get("url", ".whl").endswith(".whl") and "vcs_info" not in origin


def installed_from() -> str | None:
    """The argument that pip was given to install this package. None if pip did not install it."""
    origin = _origin()
    if origin is None:
        return None
    url = origin.get("url", "")
    if "vcs_info" in origin:
        info = origin["vcs_info"]
        return f"'{info.get('vcs', 'git')}+{url}@{info.get('commit_id', '')}'"
    return shlex.quote(urllib.parse.unquote(url.removeprefix("file://"))) if url else f"fusewire=={VERSION}"


def _origin() -> dict[str, Any] | None:
    """What pip has written about where the package came from; {} if from an index, None if pip did not install it."""
    try:
        written = importlib.metadata.distribution("fusewire").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return None
    try:
        return dict(json.loads(written or "{}"))
    except ValueError:
        return {}
