# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""fusewire ready, as a readiness probe runs it in the container of a server."""

import json

from processes import free_addresses, wait_until

WAIT = """
say("UP")
time.sleep(60)
"""


def test_a_server_is_ready_once_it_serves(tasks, fusewire_command):
    cluster = tasks(WAIT, "star_server")
    address = cluster.address("ps", 1)
    done = fusewire_command("ready", address)
    assert done.status == 1
    assert f"not yet: {address}: 127.0.0.1 refuses" in done.error
    cluster.start("ps", 1)
    wait_until(lambda: fusewire_command("ready", address).status == 0, 60, "it serves")
    assert fusewire_command("ready", address).ok() == "ps:1 serves\n"
    # The task of TF_CONFIG, at this host; one that is not in the cluster has the port of the others.
    given = {"ps": [address.replace("127.0.0.1", "train-ps-0.train")], "worker": free_addresses(1)}
    for index in (0, 3):
        config = json.dumps({"cluster": given, "task": {"type": "ps", "index": index}})
        assert fusewire_command("ready", TF_CONFIG=config).ok() == "ps:1 serves\n"


def test_what_is_not_ready(fusewire_command):
    for words, config, status, told in (
        (["nowhere"], "", 2, "'nowhere' is not an address"),
        ([], "", 2, "TF_CONFIG names no task"),
        ([], '{"cluster": {}, "task": {"type": "ps", "index": 0}}', 2, "TF_CONFIG names no task"),
        ([], '{"cluster": {"ps": ["a"]}, "task": {"type": "ps", "index": 0}}', 2, "has no address for its task"),
        (["127.0.0.1:1"], "", 1, "not yet: 127.0.0.1:1: 127.0.0.1 refuses"),
    ):
        done = fusewire_command("ready", *words, TF_CONFIG=config)
        assert done.status == status
        assert told in done.error
