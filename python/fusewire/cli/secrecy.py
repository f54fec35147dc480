# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""What `fusewire doctor` says about the cluster's secret."""

from collections.abc import Iterator, Mapping

from fusewire import machine
from fusewire.cli.report import FAIL, OK, WARN, Check
from fusewire.secret import MAKE, SECRET, SECRET_FILE, SecretError, secret_of_environment


def check_secret(environment: Mapping[str, str]) -> Iterator[Check]:
    """The secret, read as tasks read it. No row if none is set and none is needed."""
    try:
        known = secret_of_environment(environment)
    except SecretError as error:
        yield Check("secret", FAIL, f"{error.what}: no task starts with it", error.fix)
        return
    if known:
        file = environment.get(SECRET_FILE, "")
        yield Check("secret", OK, f"from {SECRET_FILE}, {file}" if file else f"from {SECRET}")
        return
    status = environment.get("FUSEWIRE_STATUS", "")
    place = machine.host_and_port(status)
    if place and not machine.is_loopback(place[0]):
        value = f"none is set, but FUSEWIRE_STATUS={status} is beyond loopback: the status port stays closed"
        fix = f"{MAKE}, the same for all tasks, into a file that {SECRET_FILE} names; or unset FUSEWIRE_STATUS"
        yield Check("secret", WARN, value, fix)
