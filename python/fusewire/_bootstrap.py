# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""What the bootstrap of a group needs, whatever store the ranks find each other through: the plan of rank 0, the place
where an endpoint listens, the table of algorithms, and the options of a group for the C API. No NumPy."""

import ctypes
import os
import pathlib
import secrets
import socket
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fusewire import machine, settings
from fusewire._native import CODES, GroupOptions, check, library
from fusewire.p2p import Endpoint, Error, Tls, listening_address
from fusewire.pages import with_page
from fusewire.secret import secret_of_environment

WIRES = ("auto", "tcp", "shm", "ucx", "rdma")


def make_plan(framework: str, *, is_local: bool) -> dict[str, Any]:
    """What rank 0 tells the others: the cluster and its secret, and whether all are on one host. A secret of the
    settings stays there."""
    cluster = os.environ.get("FUSEWIRE_CLUSTER") or f"{framework}-{secrets.token_hex(8)}"
    return {"cluster": cluster, "secret": None if secret_of_environment() else secrets.token_hex(16), "local": is_local}


def endpoint_of_plan(name: str, plan: dict[str, Any], host: str) -> Endpoint:
    """This rank's endpoint, at a free port of the host."""
    secret = plan["secret"] or secret_of_environment()
    return endpoint_of_environment(name, machine.at_port(host, 0), plan["cluster"], secret)


def published(endpoint: Endpoint, host: Callable[[], str]) -> str:
    """The address under which the others find it: not 0.0.0.0, on which it may listen; then it is at the host."""
    listens, _, port = endpoint.address.rpartition(":")
    if listens.strip("[]") not in ("", "0.0.0.0", "::", "*"):
        return endpoint.address
    return machine.at_port(host(), int(port))


def own_address(candidates: Iterable[str | None]) -> str:
    """The first of these addresses of this machine that other hosts can reach. Error: none."""
    for address in candidates:
        if address and not machine.is_loopback(address) and machine.may_bind(address):
            return address
    raise Error(
        CODES.index("unavailable"),
        f"unavailable: no address of this machine ({socket.gethostname()}) is known that other hosts could reach; set "
        "FUSEWIRE_BIND to an interface (eth0), an address or a network (10.0.0.0/8)",
    )


def numbered(hosts: Sequence[str]) -> list[int]:
    """A number for each rank; ranks of the same host have the same number."""
    return [hosts.index(host) for host in hosts]


def place_of_environment(address: str) -> str:
    """Where this rank listens: at its address, unless FUSEWIRE_BIND names another host of this machine; behind NAT, the
    address is that of the gateway."""
    bind = os.environ.get("FUSEWIRE_BIND")
    if not bind:
        return address
    try:
        host = listening_address(bind)
    except Error as error:
        raise ValueError(f'FUSEWIRE_BIND is "{bind}": {error}') from error
    return machine.at_port(host, int(address.rpartition(":")[2]))


def endpoint_of_environment(name: str, address: str, cluster: str | None, secret: str | None) -> Endpoint:
    """An endpoint with the operator's settings: where it listens, its transport and its protection."""
    wire = os.environ.get("FUSEWIRE_TRANSPORT") or "auto"
    if wire not in WIRES:
        words = f'FUSEWIRE_TRANSPORT is "{wire}", which is not one of {", ".join(WIRES)}: set one of them, or none'
        raise ValueError(with_page(words, "setting"))
    return Endpoint(
        name,
        place_of_environment(address),
        cluster=cluster,
        secret=secret,
        wire=wire,
        tls=Tls.of_environment(),
        checksums=settings.is_on("FUSEWIRE_CHECKSUM"),
    )


def table_of_environment() -> str | None:
    path = os.environ.get("FUSEWIRE_COLLECTIVE_TABLE")
    if not path:
        return None
    try:
        return pathlib.Path(path).read_text()
    except OSError as error:
        what = f"FUSEWIRE_COLLECTIVE_TABLE can't be read: {error.strerror}; write it with fusewire-tune, or unset it"
        raise OSError(error.errno, what, path) from error


def make_group(
    endpoint: Endpoint,
    name: str,
    members: Sequence[tuple[str, str]],
    rank: int,
    *,
    reproducible: bool = False,
    hosts: Sequence[int] | None = None,
    table: str | None = None,
    arena: bool = True,
) -> int:
    """Makes a group and returns its handle; collective.Group.make() explains the arguments. Does not wait."""
    handle, count = ctypes.c_void_p(), len(members)
    if hosts is not None and len(hosts) != count:
        raise ValueError(f"{len(hosts)} hosts for {count} members: `hosts` needs one number for each member")
    options = GroupOptions(
        name=name.encode(),
        ranks=count,
        rank=rank,
        names=(ctypes.c_char_p * count)(*(member.encode() for member, _ in members)),
        addresses=(ctypes.c_char_p * count)(*(address.encode() for _, address in members)),
        hosts=None if hosts is None else (ctypes.c_int * count)(*hosts),
        table=None if table is None else table.encode(),
        reproducible=reproducible,
        without_arena=not arena,
    )
    live = endpoint._live(endpoint._handle)
    check(library.fusewire_group_make(live, ctypes.byref(options), ctypes.byref(handle)))
    _show(handle)
    return handle.value or 0


def _show(group: ctypes.c_void_p) -> None:
    """From now on `fusewire top` and `why` see this process as a rank, unless FUSEWIRE_STATUS=off."""
    place, runtime = (os.environ.get(name, "").encode() for name in ("FUSEWIRE_STATUS", "XDG_RUNTIME_DIR"))
    try:
        check(library.fusewire_group_show(group, place, runtime))
    except Error as error:
        warnings.warn(f"`fusewire top` and `why` don't find this rank, which works all the same: {error}", stacklevel=4)
