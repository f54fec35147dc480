# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Which hosts a command line names, and which tasks go where."""

import pytest

from fusewire.launch.plan import Host, host_of, hosts_of_file, hosts_of_list, place, place_in_blocks

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("a", Host("a")),
        ("a.example:3", Host("a.example", slots=3)),
        ("me@10.0.0.7", Host("10.0.0.7", "me")),
        ("me.too@[fd00::1]:2", Host("fd00::1", "me.too", 2)),
        ("[fe80::1%eth0]", Host("fe80::1%eth0")),
    ],
)
def test_a_host(text, host):
    assert host_of(text) == host


@pytest.mark.parametrize("text", ["", "-oProxyCommand=x", "me@-x", "a:0", "a:x", "a b", "fd00::1", "a;b", "@a", "[x]"])
def test_a_malformed_host(text):
    with pytest.raises(ValueError, match=r"is not a host. Fix: write"):
        host_of(text)


def test_lists_of_hosts():
    assert hosts_of_list("a, b:2,a") == [Host("a", slots=2), Host("b", slots=2)]
    assert hosts_of_list("localhost:4") == [Host("localhost", slots=4)]
    with pytest.raises(ValueError, match=r"localhost is another machine for each of the hosts. Fix: "):
        hosts_of_list("localhost,b")
    with pytest.raises(ValueError, match=r"no host is given. Fix: "):
        hosts_of_list(" , ")


def test_a_hostfile(tmp_path):
    file = tmp_path / "hosts"
    file.write_text("# all\n\na slots=2 max_slots=4\nme@b:3 address=[fd00::7] # the other one\n127.0.0.1 address=c\n")
    found = hosts_of_file(str(file))
    assert found == [Host("a", slots=2), Host("b", "me", 3, "fd00::7"), Host("127.0.0.1", address="c")]
    file.write_text("a\nb slots=many\n")
    with pytest.raises(ValueError, match=r"hosts, line 2: slots=many is not a number of tasks. Fix: slots=2"):
        hosts_of_file(str(file))
    with pytest.raises(ValueError, match=r"--hostfile /absent can't be read: .*Fix: "):
        hosts_of_file("/absent")


def test_tasks_are_spread_by_slots():
    hosts = [Host("a"), Host("b", slots=2), Host("c")]
    assert place(4, hosts) == [1, 0, 1, 2]
    assert place(5, [Host("a"), Host("b"), Host("c")]) == [0, 1, 2, 0, 1]
    assert place_in_blocks(8, hosts) == [0, 0, 1, 1, 1, 1, 2, 2]
    counted = place(40, hosts)
    assert [counted.count(number) for number in range(3)] == [10, 20, 10]
