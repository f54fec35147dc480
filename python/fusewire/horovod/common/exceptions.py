# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Horovod's exceptions."""

__all__ = ["HorovodInternalError"]


class HorovodInternalError(RuntimeError):
    """A collective failed. Elastic training goes on from the last commit if `code` says that a rank is lost.

    `code`: that of fusewire.p2p.Error, which is the cause of this exception.
    """

    def __init__(self, *words: object, code: str = "") -> None:
        super().__init__(*words)
        self.code = code


class HostsUpdatedInterrupt(RuntimeError):  # noqa: N818, Horovod's name
    """The ranks have changed although no collective has failed. A program may raise it; Fusewire does not."""

    def __init__(self, skip_sync: bool) -> None:
        super().__init__("the ranks have changed: elastic training goes on with those that are there")
        self.skip_sync = skip_sync


class HorovodVersionMismatchError(ImportError):
    """Never raised: nothing here is compiled for one version of a framework."""

    def __init__(self, name: str, version: str, installed_version: str) -> None:
        super().__init__(f"{name} {version} was found, but {installed_version} expected", name=name)
        self.version, self.installed_version = version, installed_version
