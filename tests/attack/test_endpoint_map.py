# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""A .endpoint_map that somebody else has put into the working directory, to have a task's data sent there."""

import contextlib
import os
import pathlib
import socket
import threading

import pytest
from cluster import tasks

pytestmark = pytest.mark.once

TRAIN = """
with tf1.device(PS):
    kept = tf1.get_variable("kept", [1000], initializer=tf1.ones_initializer())
with tf1.device(WORKER):
    total = tf.reduce_sum(kept)
with tf1.Session(server.target, config=tf1.ConfigProto(operation_timeout_in_ms=20000)) as session:
    session.run(kept.initializer)
    say("TOTAL", session.run(total))
done()
"""


class Thief:
    """Listens where the map says that a task's data port is, and counts its connections."""

    def __init__(self) -> None:
        self.visitors = 0
        self.has_come = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                visitor, _ = self._listener.accept()
                self.visitors += 1
                self.has_come.set()
                visitor.close()

    def close(self) -> None:
        self._listener.close()


def start(cluster, folder: pathlib.Path):
    """The worker alone reads the map."""
    for index in range(2):
        cluster.start("ps", index)
    return cluster.start("worker", TF_SEASTAR_ENDPOINT_MAP_PATH=str(folder))


def said_by_worker(cluster) -> str:
    cluster.end()
    return (cluster._folder / "worker-0.err").read_text()


@pytest.mark.parametrize("way", ["the file", "the folder", "a link"])
def test_a_map_that_others_can_write_is_left_out(tasks, tmp_path, way):
    thief = Thief()
    folder = tmp_path / "map"
    folder.mkdir(mode=0o755)
    cluster = tasks(TRAIN, "grpc++", FUSEWIRE_TRANSPORT="tcp", FUSEWIRE_LOG="warn")
    file = folder / (".endpoint_map" if way != "a link" else "other")
    file.write_text("".join(f"{address}={thief.address}\n" for address in cluster._cluster["ps"]))
    file.chmod(0o666 if way == "the file" else 0o644)
    folder.chmod(0o777 if way == "the folder" else 0o755)
    if way == "a link":
        os.symlink(file, folder / ".endpoint_map")
    worker = start(cluster, folder)
    with contextlib.suppress(pytest.fail.Exception):  # what the thief received says more
        cluster.read_until(worker, "TOTAL 1000.0", 40)
    errors = said_by_worker(cluster)
    thief.close()
    assert thief.visitors == 0, errors
    assert ".endpoint_map is left out: " in errors
    assert ("is a symbolic link" if way == "a link" else "can be written by others: chmod go-w ") in errors


def test_a_map_of_ones_own_is_used_and_said(tasks, tmp_path):
    thief = Thief()
    folder = tmp_path / "map"
    folder.mkdir(mode=0o755)
    cluster = tasks(TRAIN, "grpc++", FUSEWIRE_TRANSPORT="tcp", FUSEWIRE_LOG="warn")
    file = folder / ".endpoint_map"
    file.write_text("".join(f"{address}={thief.address}\n" for address in cluster._cluster["ps"]))
    file.chmod(0o644)
    start(cluster, folder)
    assert thief.has_come.wait(60)
    errors = said_by_worker(cluster)
    thief.close()
    assert f"{file} says where the data ports of 2 tasks are" in errors
