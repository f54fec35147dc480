# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Protection on its way of what leaves a task: TLS, with a certificate at both ends, or checksums."""

import contextlib
import json
import pathlib
import socket
import ssl
import sys
import textwrap

import pytest
from certificates import Certificates
from cluster import run_cluster, tasks
from conftest import FUSEWIRE, clean_environment, run_python, run_to_end
from hostile import Tap
from processes import free_addresses

pytestmark = pytest.mark.once

MARK = "plain words that nobody else may read; "

# The worker sends the words to the parameter server, and reads them there.
SEND_WORDS = f"""
text = np.frombuffer(({MARK!r} * 3000).encode(), np.uint8)
with tf.device(PS):
    kept = tf1.get_variable("kept", [len(text)], tf.uint8, initializer=tf1.zeros_initializer())
with tf.device(WORKER):
    given = tf1.placeholder(tf.uint8, [len(text)])
    sent = given + np.uint8(0)
with tf.device(PS):
    stored = tf1.assign(kept, sent)
with tf.device(WORKER):
    back = kept + np.uint8(0)
with tf1.Session(server.target) as session:
    session.run(kept.initializer)
    for _ in range(3):
        session.run(stored.op, {{given: text}})
    assert session.run(back).tobytes() == text.tobytes()
say_stats("calls_out", "fallback_grpc_calls")
done()
"""


@pytest.fixture
def certificates(tmp_path) -> Certificates:
    return Certificates(tmp_path / "certificates")


def errors_of(cluster) -> str:
    return "".join(path.read_text() for path in cluster._folder.glob("*.err"))


@pytest.mark.parametrize("protocol", ["grpc++", "star_server"])
def test_what_goes_over_the_wire_can_be_read_only_without_tls(tasks, certificates, protocol):
    [data] = free_addresses(1)
    port = int(data.rpartition(":")[2])
    for is_encrypted in (False, True):
        tap = Tap(("127.0.0.1", port))
        settings = certificates.settings("task") if is_encrypted else {}
        cluster = tasks(SEND_WORDS, protocol, FUSEWIRE_TRANSPORT="tcp", **settings)
        cluster.start("ps", 0, FUSEWIRE_PORTS=str(port), FUSEWIRE_ADVERTISE=f"127.0.0.1:{tap.port}")
        cluster.start("ps", 1)
        [said] = cluster.read_until(cluster.start("worker"), "STATS", 60)
        stats = json.loads(said.removeprefix("STATS "))
        assert stats["calls_out"] > 0
        cluster.end()
        tap.close()
        assert len(tap.heard) > 3000 * len(MARK)
        assert (MARK.encode() in tap.heard) is not is_encrypted


def test_a_task_without_tls_or_of_another_authority_is_turned_away(tasks, certificates):
    certificates.authority("other")
    certificates.issue("stranger", "other")
    for wrong, words in (
        ({}, ("FUSEWIRE_TLS", "TLS")),
        (certificates.settings("stranger", "other"), ("certificate",)),
        (certificates.settings("stranger"), ("certificate",)),
    ):
        cluster = tasks(SEND_WORDS, "grpc++", FUSEWIRE_TRANSPORT="tcp", FUSEWIRE_LOG="warn")
        for index in range(2):
            cluster.start("ps", index, **certificates.settings("task"))
        worker = cluster.start("worker", **wrong)
        assert worker.wait(60) != 0
        cluster.end()
        errors = errors_of(cluster)
        assert any(word in errors for word in words), errors[-3000:]
        for path in cluster._folder.glob("*.err"):
            path.unlink()


def test_the_data_port_speaks_tls_1_3_and_nothing_else(tasks, certificates):
    [data] = free_addresses(1)
    host, _, port = data.rpartition(":")
    cluster = tasks(SEND_WORDS, "grpc++", FUSEWIRE_TRANSPORT="tcp", **certificates.settings("task"))
    for index in range(2):
        cluster.start("ps", index, **({"FUSEWIRE_PORTS": port} if index == 0 else {}))
    cluster.read_until(cluster.start("worker"), "STATS", 60)

    def shake(newest: ssl.TLSVersion, with_certificate: bool) -> str:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(certificates.folder / "ca.crt")
        context.maximum_version = newest
        if with_certificate:
            context.load_cert_chain(certificates.folder / "task.crt", certificates.folder / "task.key")
        with socket.create_connection((host, int(port)), 10) as plain, context.wrap_socket(plain) as spoken:
            spoken.settimeout(10)
            spoken.sendall(b"x")
            spoken.recv(1)  # the end, or why it is refused
            return str(spoken.version())

    assert shake(ssl.TLSVersion.MAXIMUM_SUPPORTED, True) == "TLSv1.3"
    with pytest.raises(ssl.SSLError):
        shake(ssl.TLSVersion.TLSv1_2, True)
    with pytest.raises(ssl.SSLError):
        shake(ssl.TLSVersion.MAXIMUM_SUPPORTED, False)
    with socket.create_connection((host, int(port)), 10) as plain:
        plain.sendall(b"GET / HTTP/1.0\r\n\r\n" * 20)
        plain.settimeout(20)
        heard = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := plain.recv(1000):
                heard += piece
    assert b"HTTP" not in heard


@pytest.mark.parametrize(
    ("missing", "words"),
    [("CERT", "no certificate"), ("KEY", "FUSEWIRE_TLS_KEY"), ("CA", "FUSEWIRE_TLS_CA")],
)
def test_a_server_does_not_start_with_half_of_the_settings(run_python, certificates, missing, words):
    settings = certificates.settings("task")
    del settings[f"FUSEWIRE_TLS_{missing}"]
    code = "import fusewire, tensorflow as tf\ntf.distribute.Server({'ps': ['127.0.0.1:0']}, protocol='grpc++')\n"
    done = run_python(code, **settings)
    assert done.status != 0
    assert words in done.error


RANK = """
import numpy as np, fusewire.collective as fw
fw.init()
print(fw.rank(), fw.allreduce(np.ones(100000, np.float32), fw.Sum, timeout=30).sum(), flush=True)
"""


@pytest.mark.parametrize("ranks", [2, 3])
def test_collectives_over_tls(tmp_path, certificates, ranks):
    program = tmp_path / "rank.py"
    program.write_text(RANK)
    environment = clean_environment(FUSEWIRE_TRANSPORT="tcp", **certificates.settings("task"))
    done = run_to_end([FUSEWIRE, "run", "--ranks", ranks, program], tmp_path, environment)
    assert sorted(done.ok().splitlines()) == [f"rank:{one} | {one} {ranks * 100000.0}" for one in range(ranks)]


def test_messages_over_tls(tmp_path, certificates):
    files = certificates.settings("task")
    code = f"""
    import numpy as np
    from fusewire import p2p
    tls = p2p.Tls({files["FUSEWIRE_TLS_CERT"]!r}, {files["FUSEWIRE_TLS_KEY"]!r}, {files["FUSEWIRE_TLS_CA"]!r}, "task")
    a, b = (p2p.Endpoint(name, wire="tcp", tls=tls) for name in "ab")
    to_b, sent, got = a.connect("b", b.address, 10), np.full(1 << 20, 7, np.uint8), np.zeros(1 << 20, np.uint8)
    receive = b.prepare_receive(None, 1, got).post(20)
    a.send(to_b, 1, sent, 20)
    assert receive.wait() == 1 << 20 and (got == 7).all()
    for options in {{}}, {{"checksums": True}}:
        try:
            p2p.Endpoint("c", wire="tcp", **options).connect("b", b.address, 3)
        except p2p.Error as error:
            print(error)
        else:
            raise SystemExit("a peer without TLS was let in")
    print(p2p.try_tls(tls))
    """
    said = run_python_in(tmp_path, code).ok().splitlines()
    assert len(said) == 3, said
    assert "CN=task" in said[2]


def run_python_in(folder: pathlib.Path, code: str):
    program = folder / "program.py"
    program.write_text(textwrap.dedent(code))
    return run_to_end([sys.executable, program], folder, clean_environment())


def test_a_task_without_a_data_port_gets_nothing_unencrypted(tasks, certificates):
    settings = certificates.settings("task")
    cluster = tasks(SEND_WORDS, "grpc++", TEST_PROTOCOL_OF_ps="grpc", **settings)
    for index in range(2):
        cluster.start("ps", index)
    assert cluster.start("worker").wait(60) != 0
    cluster.end()
    errors = errors_of(cluster)
    assert "has no data port" in errors
    assert "nothing goes to it unencrypted" in errors


@pytest.mark.parametrize("is_checked", [False, True])
def test_with_checksums_no_changed_byte_arrives(tasks, is_checked):
    port = int(free_addresses(1)[0].rpartition(":")[2])
    tap = Tap(("127.0.0.1", port), changes=MARK)
    settings = {"FUSEWIRE_CHECKSUM": "1"} if is_checked else {}
    cluster = tasks(SEND_WORDS, "grpc++", FUSEWIRE_TRANSPORT="tcp", FUSEWIRE_LOG="warn", **settings)
    cluster.start("ps", 0, FUSEWIRE_PORTS=str(port), FUSEWIRE_ADVERTISE=f"127.0.0.1:{tap.port}")
    cluster.start("ps", 1)
    worker = cluster.start("worker")
    assert worker.wait(60) != 0
    cluster.end()
    tap.close()
    assert tap.changed
    errors = errors_of(cluster)
    # Without checksums the program finds other words than it sent.
    assert ("AssertionError" in errors) is not is_checked
    assert ("the checksum of a record does not match" in errors) is is_checked


@pytest.mark.parametrize("protocol", ["grpc++", "star_server"])
def test_tensorflow_with_checksums(run_cluster, protocol):
    out = run_cluster(SEND_WORDS, protocol, FUSEWIRE_CHECKSUM="1", FUSEWIRE_TRANSPORT="tcp", ps=2)
    assert out.stats["calls_out"] > 0


def protection(tmp_path: pathlib.Path, **environment: str) -> dict[str, str]:
    done = run_to_end([FUSEWIRE, "doctor", "--json"], tmp_path, clean_environment(**environment))
    [check] = [check for check in json.loads(done.out)["checks"] if check["name"] == "protection"]
    return check


def test_the_doctor_reads_the_certificates(tmp_path, certificates):
    settings = certificates.settings("task")
    assert protection(tmp_path)["status"] == "ok"
    check = protection(tmp_path, **settings)
    assert check["status"] == "ok"
    assert "CN=task" in check["value"]
    certificates.issue("other")
    settings["FUSEWIRE_TLS_KEY"] = certificates.settings("other")["FUSEWIRE_TLS_KEY"]
    check = protection(tmp_path, **settings)
    assert check["status"] == "FAIL"
    assert "FUSEWIRE_TLS_KEY" in check["value"]
