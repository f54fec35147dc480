# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""`fusewire run --hosts` in a lab: hosts with an sshd, processes and mounts of their own, around a switch that is the
launcher's machine.

    from hosts import network          # a fixture
    network.command("--hosts", network.names, "program.py")
"""

import contextlib
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import lab
import pytest
from processes import wait_until

SSHD = pathlib.Path("/usr/sbin/sshd")
PORT = 4022
START_S = 30.0
CONFIG = """
Port {port}
ListenAddress {address}
{listen6}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
UseDNS no
PrintMotd no
LogLevel ERROR
"""
# What follows is the same as on a machine of its own.
FIRST = """
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir /run/sshd
exec {sshd} -D -e -f {config}
"""


def why_not() -> str:
    """Why there can be no hosts here; "" if there can."""
    if reason := lab.why_not():
        return reason
    for command in ("ssh", "ssh-keygen"):
        if shutil.which(command) is None:
            return f"there is no command {command}: tools/deps.sh tensorflow"
    return "" if SSHD.exists() else "openssh-server is not installed: tools/deps.sh tensorflow"


class Network:
    """A machine for the launcher, and hosts."""

    def __init__(self, folder: pathlib.Path, count: int):
        self.folder = folder
        for name in ("host_key", "key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
        self._log = (folder / "log").open("ab")
        self._lab = lab.Lab(count, apart=True, first=self._sshd, log=self._log)
        self.launcher, self.hosts = self._lab.middle, self._lab.hosts
        self.addresses = [host.address for host in self.hosts]
        self.addresses6 = [host.address6 for host in self.hosts]
        for address in self.addresses:
            knock = self.launcher.words("bash", "-c", f"</dev/tcp/{address}/{PORT}")
            wait_until(
                lambda knock=knock: subprocess.run(knock, stderr=subprocess.DEVNULL, check=False).returncode == 0,
                START_S,
                f"no sshd at {address}",
            )

    def _sshd(self, number: int) -> str:
        address, address6 = lab.Lab.addresses_of(number)
        listen6 = f"ListenAddress [{address6}]:{PORT}" if pathlib.Path("/proc/net/if_inet6").exists() else ""
        config = self.folder / f"sshd-{number}"
        config.write_text(CONFIG.format(port=PORT, address=address, listen6=listen6, folder=self.folder))
        return FIRST.format(sshd=SSHD, config=config)

    @property
    def names(self) -> str:
        return ",".join(self.addresses)

    def ssh(self, port: int = PORT) -> str:
        trust = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
        return f"ssh -F none -p {port} -i {self.folder}/key {trust}"

    def command(self, *words: object) -> list[object]:
        """`fusewire run WORDS...` on the launcher's machine."""
        run = [sys.executable, "-m", "fusewire", "run", "--ssh", self.ssh(), "--python", sys.executable]
        return [*self.launcher.words(*run), *words]

    def cut(self, number: int, cut: bool = True) -> None:
        """Pulls the cable of a host, or puts it back."""
        self._lab.links[number].set_up(not cut)

    def end(self) -> None:
        self._log.close()
        self._lab.end()


@contextlib.contextmanager
def make(count: int) -> Iterator[Network]:
    if reason := why_not():
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="hosts-") as folder:
        made = Network(pathlib.Path(folder), count)
        try:
            yield made
        finally:
            made.end()


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    """Three hosts."""
    with make(3) as made:
        yield made
