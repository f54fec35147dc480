# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""`fusewire doctor`: a healthy machine, and faults that it must report with a fix."""

import json
import pathlib
import shutil
import signal
import socket
import subprocess
import sys

import pytest
import tensorflow as tf
from conftest import FUSEWIRE, clean_environment, run_to_end

import fusewire
from fusewire.doctor import doctor
from fusewire.doctor.network import checks
from fusewire.tf import plugin


def report_of(done) -> dict[str, dict[str, str]]:
    """{name: check}, the worst one if a name occurs more than once; each problem must have a fix."""
    report = json.loads(done.out)
    order = ["ok", "note", "warn", "FAIL"]
    checks = sorted(report["checks"], key=lambda check: order.index(check["status"]))
    assert all(check["fix"] for check in checks if check["status"] in ("warn", "FAIL"))
    assert report["ok"] is all(check["status"] != "FAIL" for check in checks)
    assert done.status == (0 if report["ok"] else 1)
    return {check["name"]: check for check in checks}


def test_healthy(fusewire_command):
    done = fusewire_command("doctor", "--json")
    checks = report_of(done)
    assert done.status == 0
    assert checks["tensorflow"]["value"].startswith(f"{tf.version.VERSION} (git {tf.version.GIT_VERSION}, ")
    assert checks["plug-in"]["status"] == "ok"
    assert checks["self-test"]["status"] == "ok", checks["self-test"]
    assert "a tensor of 1 MiB from a ps to a worker" in checks["self-test"]["value"]
    assert checks["self-test"]["value"].endswith("through shared memory")
    assert checks["wires"]["value"].startswith("auto: shared memory with tasks of this machine and user")
    assert "tcp: reaches every host" in checks["wires"]["value"]
    assert "ucx: " in checks["wires"]["value"]


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_may_close_the_output_early(unbuffered):
    environment = clean_environment(PYTHONUNBUFFERED=unbuffered)
    with subprocess.Popen(
        [FUSEWIRE, "doctor"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait(60) == 128 + signal.SIGPIPE
    assert "Traceback" not in errors
    assert "BrokenPipeError" not in errors


def test_misfit_and_settings_in_words(tmp_path):
    shutil.copytree(pathlib.Path(fusewire.__file__).parent, tmp_path / "fusewire")
    [facts] = tmp_path.glob("fusewire/_lib/*/build.json")
    text = facts.read_text().replace(tf.version.GIT_VERSION, "v0-another")
    facts.unlink()
    facts.write_text(text)
    environment = clean_environment(
        PYTHONPATH=str(tmp_path), FUSEWIRE_PEER_TIMOUT="3", FUSEWIRE_SECRET="hush, hush, hush"
    )
    done = run_to_end([sys.executable, "-m", "fusewire", "doctor"], tmp_path, environment)
    assert done.status == 1
    lines = done.out.splitlines()
    [place] = [number for number, line in enumerate(lines) if "FAIL  plug-in" in line]
    assert "v0-another" in lines[place]
    assert lines[place + 1].strip().startswith("Fix: ")
    assert "did you mean FUSEWIRE_PEER_TIMEOUT?" in done.out
    assert "hush, hush, hush" not in done.out
    assert lines[-1] == "1 to fix, 1 to check."


def test_library_that_kills_the_process(tmp_path):
    """A plug-in that aborts when it is loaded: the doctor survives and reports it."""
    shutil.copytree(pathlib.Path(fusewire.__file__).parent, tmp_path / "fusewire")
    [library] = tmp_path.glob("fusewire/_lib/*/libfusewire_tf.so")
    library.unlink()
    source = tmp_path / "abort.c"
    source.write_text("#include <stdlib.h>\n__attribute__((constructor)) static void Die(void) { abort(); }\n")
    run_to_end(["g++", "-shared", "-fPIC", "-o", library, source], tmp_path).ok()
    done = run_to_end(
        [sys.executable, "-m", "fusewire", "doctor", "--json"], tmp_path, clean_environment(PYTHONPATH=str(tmp_path))
    )
    check = report_of(done)["self-test"]
    assert check["status"] == "FAIL"
    assert "was ended by SIGABRT" in check["value"]


def test_without_tensorflow(tmp_path):
    shutil.copytree(pathlib.Path(fusewire.__file__).parent, tmp_path / "fusewire")
    python = pathlib.Path(sys.base_prefix, "bin/python3")
    environment = clean_environment(PYTHONPATH=str(tmp_path))
    checks = report_of(run_to_end([python, "-m", "fusewire", "doctor", "--json"], tmp_path, environment))
    assert checks["tensorflow"]["status"] == "FAIL"
    # The package has a plug-in: nothing of ours need be installed again.
    assert checks["tensorflow"]["fix"] == f"{python} -m pip install tensorflow-cpu=={tf.version.VERSION}"
    assert checks["plug-in"]["status"] == "note"
    shutil.rmtree(tmp_path / f"fusewire/_lib/tf-{tf.version.VERSION}")
    checks = report_of(run_to_end([python, "-m", "fusewire", "doctor", "--json"], tmp_path, environment))
    newest = plugin.SUPPORTED[-1]
    assert checks["tensorflow"]["fix"].startswith(f"{python} -m pip install tensorflow-cpu=={newest} && ")
    assert checks["plug-in"]["status"] == "FAIL"
    # PyTorch has no need of it.
    (tmp_path / "torch.py").touch()
    checks = report_of(run_to_end([python, "-m", "fusewire", "doctor", "--json"], tmp_path, environment))
    assert [checks[name]["status"] for name in ("tensorflow", "plug-in")] == ["note", "note"]
    assert checks["tensorflow"]["value"] == f"not installed for {python}, and not needed for PyTorch"


def test_a_plugin_that_does_not_load_is_not_called_another_ones():
    why = "Fusewire's plug-in matches the installed TensorFlow but could not be loaded: no symbol"
    [check] = doctor.check_plugin(doctor.Report({"misfit": f"{why}\n  Fix: pip   builds it"}))
    assert (check.status, check.fix) == ("FAIL", "pip")
    assert check.value.endswith(f"; {why}")
    [check] = doctor.check_plugin(doctor.Report({"misfit": "Fusewire has no plug-in for it\n  Fix: pip"}))
    assert check.value.endswith("; none matches the installed TensorFlow")


def test_switched_off(fusewire_command):
    checks = report_of(fusewire_command("doctor", "--json", FUSEWIRE_DISABLE="1"))
    assert checks["switch"] == {
        "name": "switch",
        "status": "warn",
        "value": "FUSEWIRE_DISABLE is set: grpc++ means plain gRPC",
        "fix": "unset FUSEWIRE_DISABLE",
        "page": "fusewire explain doctor#switch",
    }
    assert checks["self-test"]["status"] == "note"


def test_few_descriptors(tmp_path):
    command = ["sh", "-c", f"ulimit -n 256; exec {FUSEWIRE} doctor --json"]
    checks = report_of(run_to_end(command, tmp_path, clean_environment()))
    assert checks["ulimit -n"]["status"] == "warn"
    assert "nofile" in checks["ulimit -n"]["fix"]


@pytest.mark.parametrize(
    ("environment", "status", "told"),
    [
        ({"FUSEWIRE_PS_REACTORS": "1000"}, "warn", "FUSEWIRE_PS_REACTORS=1000, but there are fewer cores"),
        ({"NETWORK_PS_CORE_NUMBER": "1000"}, "warn", "NETWORK_PS_CORE_NUMBER=1000"),
        ({"FUSEWIRE_WORKER_REACTORS": "two"}, "FAIL", "FUSEWIRE_WORKER_REACTORS=two is not a number"),
        ({"FUSEWIRE_PS_REACTORS": "1"}, "ok", "usable"),
    ],
)
def test_cores(environment, status, told):
    *_, last = doctor.check_cores(environment)
    assert last.status == status
    assert told in last.value
    assert bool(last.fix) is (status != "ok")


@pytest.mark.parametrize(("content", "status"), [("4096\n", "ok"), ("128\n", "warn"), ("", "note")])
def test_backlog(tmp_path, content, status):
    file = tmp_path / "somaxconn"
    file.write_text(content)
    assert doctor.check_backlog(str(file)).status == status


@pytest.mark.parametrize(
    ("preloaded", "status", "told"),
    [
        ("", "note", "glibc's"),
        ("libother.so", "note", "glibc's"),
        ("libother.so /usr/lib/libtcmalloc_minimal.so.4", "ok", "tcmalloc"),
        ("libjemalloc.so.2", "ok", "jemalloc"),
    ],
)
def test_malloc(preloaded, status, told):
    check = doctor.check_malloc({"LD_PRELOAD": preloaded})
    assert (check.status, bool(check.fix)) == (status, status == "note")
    assert told in check.value


@pytest.mark.parametrize(
    ("text", "status", "told"),
    [
        ('{"cluster": {"ps": ["a:1"], "worker": ["b:1"]}, "task": {"type": "ps", "index": 0}}', "ok", "1 ps, 1 worker"),
        ('{"cluster": {"ps": ["a:1"]}, "task": {"type": "evaluator", "index": 0}}', "ok", "evaluator:0"),
        ('{"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": 1}}', "FAIL", "this task is ps:1"),
        ('{"cluster": {"ps": ["a:1"]}, "task": {"type": "worker", "index": 0}}', "FAIL", "the cluster has 1 ps"),
        ("{cluster}", "FAIL", "is not valid for TensorFlow"),
        ("[1]", "FAIL", "is not valid for TensorFlow"),
        ("[" * 200000, "FAIL", "is not valid for TensorFlow"),
        ('{"cluster": {}, "task": {"type": "ps", "index": 1e999}}', "FAIL", "is not valid for TensorFlow"),
        ('{"cluster": {"ps": "a:1"}, "task": {}}', "FAIL", "a list, not str"),
        ('{"cluster": {"\\u001b[2J\\n\\ud800": []}, "task": {}}', "ok", r"0 \x1b[2J\n\ud800"),
        (json.dumps({"cluster": {"j" * 9 + str(job): [] for job in range(99999)}, "task": {}}), "ok", "..."),
        (json.dumps({"cluster": {}, "task": {"type": "w" * 99999}}), "FAIL", "..."),
    ],
)
def test_tf_config(text, status, told):
    [check] = doctor.check_tf_config({"TF_CONFIG": text})
    assert check.status == status
    assert told in check.value
    assert len(check.value) < 1000
    assert check.value.isprintable()
    assert bool(check.fix) is (status == "FAIL")


def test_no_tf_config():
    assert list(doctor.check_tf_config({})) == []


@pytest.mark.parametrize(
    ("content", "status"), [("# ours\na:1=b:2\n\n", "note"), ("a:1=b:2\na:1 b:2\n", "FAIL"), ("a=b\n", "FAIL")]
)
def test_endpoint_map(tmp_path, content, status):
    path = tmp_path / ".endpoint_map"
    path.write_text(content)
    path.chmod(0o644)
    [check] = doctor.check_endpoint_map({"TF_SEASTAR_ENDPOINT_MAP_PATH": str(tmp_path)})
    assert check.status == status


def test_an_endpoint_map_that_others_can_write(tmp_path):
    path = tmp_path / ".endpoint_map"
    path.write_text("a:1=b:2\n")
    for file, folder, words in (0o666, 0o755, str(path)), (0o644, 0o775, str(tmp_path)):
        path.chmod(file)
        tmp_path.chmod(folder)
        [check] = doctor.check_endpoint_map({"TF_SEASTAR_ENDPOINT_MAP_PATH": str(tmp_path)})
        assert check.status == "FAIL"
        assert f"others can write {words}" in check.value


SECRET = "hush, hush, hush"


def secret_of(**environment: str) -> tuple[str, str, str]:
    [check] = doctor.check_secret(environment)
    assert check.name == "secret"
    assert "hush" not in f"{check.value} {check.fix}"
    assert bool(check.fix) is bool(check.page) is (check.status != "ok")
    return check.status, check.value, check.fix


def test_a_secret(tmp_path):
    assert list(doctor.check_secret({})) == []
    assert list(doctor.check_secret({"FUSEWIRE_SECRET": "", "FUSEWIRE_STATUS": "127.0.0.1:9477"})) == []
    assert secret_of(FUSEWIRE_SECRET=SECRET) == ("ok", "from FUSEWIRE_SECRET", "")
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n")
    file.chmod(0o400)
    given = secret_of(FUSEWIRE_SECRET_FILE=str(file), FUSEWIRE_STATUS="0.0.0.0:9477")
    assert given == ("ok", f"from FUSEWIRE_SECRET_FILE, {file}", "")
    status, value, fix = secret_of(FUSEWIRE_SECRET_FILE=str(file), FUSEWIRE_SECRET=SECRET)
    assert (status, fix) == ("FAIL", "unset one of them")
    assert "are both set" in value
    status, value, fix = secret_of(FUSEWIRE_STATUS="0.0.0.0:9477")
    assert (status, "the status port stays closed" in value) == ("warn", True)
    assert fix.startswith("openssl rand -hex 32")


@pytest.mark.parametrize(
    ("text", "mode", "what", "fix"),
    [
        ("hush, hush", 0o400, "it has fewer than 16 bytes", "openssl rand -hex 32, the same for all tasks"),
        (SECRET, 0o644, "others can read it", "chmod 400"),
        (SECRET, 0o620, "others can write it", "chmod 400"),
        ("", 0o400, "it is not one line of ASCII text", "openssl rand -hex 32"),
        (None, 0, "No such file or directory", "name a file that this user can read"),
    ],
)
def test_a_file_with_a_bad_secret(tmp_path, text, mode, what, fix):
    file = tmp_path / "secret"
    if text is not None:
        file.write_text(text)
        file.chmod(mode)
    assert secret_of(FUSEWIRE_SECRET_FILE=str(file)) == (
        "FAIL",
        f"FUSEWIRE_SECRET_FILE, {file}: {what}: no task starts with it",
        fix,
    )


def test_a_file_that_this_user_can_not_read(monkeypatch):
    def refused(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.open", refused)  # root, who may run this test, reads any file
    status, value, fix = secret_of(FUSEWIRE_SECRET_FILE="/secret")
    assert (status, fix) == ("FAIL", "name a file that this user can read")
    assert value == "FUSEWIRE_SECRET_FILE, /secret: Permission denied: no task starts with it"


def test_a_bad_secret_in_the_report(fusewire_command):
    check = report_of(fusewire_command("doctor", "--json", FUSEWIRE_SECRET="hush"))["secret"]
    assert check["status"] == "FAIL"
    assert check["value"] == "FUSEWIRE_SECRET: it has fewer than 16 bytes: no task starts with it"
    assert check["page"] == "fusewire explain doctor#secret"


def test_settings_with_their_origin():
    environment = {"NETWORK_PS_CORE_NUMBER": "3", "FUSEWIRE_SECRET": "hush, hush, hush", "FUSEWIRE_LOG": "debug"}
    [check] = doctor.check_settings(environment)
    assert check.value.splitlines() == [
        "FUSEWIRE_PS_REACTORS = 3 (from NETWORK_PS_CORE_NUMBER)",
        "FUSEWIRE_SECRET = (set, not shown)",
        "FUSEWIRE_LOG = debug",
    ]
    [check] = doctor.check_settings({})
    assert "all at their defaults" in check.value


def network(**environment: str) -> dict[str, tuple[str, str, str]]:
    """{setting: (status, value, fix)}."""
    return {one.name.removeprefix("network: "): [one.status, one.value, one.fix] for one in checks(environment)}


LOOPBACK_TASK = '{"cluster": {"ps": ["127.0.0.1:2222"]}, "task": {"type": "ps", "index": 0}}'


def test_the_network_by_default():
    found = network(TF_CONFIG=LOOPBACK_TASK)
    assert [row[0] for row in found.values()] == ["ok"] * 3
    assert found["bind"][1] == "127.0.0.1, this task's host in TF_CONFIG (default): listens on 127.0.0.1"
    assert found["ports"][1].startswith("any free port (default)")
    assert found["advertise"][1].startswith("peers are told 127.0.0.1, this task's host in TF_CONFIG (default)")
    assert network()["bind"][0] == "note"  # nothing is known of a cluster
    wide = '{"cluster": {"ps": ["127.0.0.1:2"], "worker": ["10.9.8.7:2"]}, "task": {"type": "ps", "index": 0}}'
    status, words, fix = network(TF_CONFIG=wide)["bind"]
    assert status == "warn"
    assert "another task is at 10.9.8.7, so a server listens on every interface" in words
    assert "FUSEWIRE_BIND" in fix


@pytest.mark.parametrize(
    "text", ["[", "{}", '{"cluster": {"ps": 3}, "task": {"type": "ps", "index": 1e999}}', "[" * 9999]
)
def test_a_wrong_cluster_does_not_end_the_network_section(text):
    assert [row[0] for row in network(TF_CONFIG=text).values()] == ["note", "ok", "ok"]


def test_the_network_of_an_operator():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen(1)
        port = held.getsockname()[1]
        found = network(FUSEWIRE_BIND="lo", FUSEWIRE_PORTS=str(port), FUSEWIRE_ADVERTISE="localhost:41000")
        assert found["bind"][:2] == ["ok", "FUSEWIRE_BIND=lo: listens on 127.0.0.1"]
        assert found["ports"][0] == "FAIL"
        assert f"FUSEWIRE_PORTS={port}: 0 of 1 free here" in found["ports"][1]
        assert "ss -ltnp" in found["ports"][2]
    assert found["advertise"][0] == "ok"
    assert "peers are told localhost:41000" in found["advertise"][1]
    assert network(FUSEWIRE_ADVERTISE="127.0.0.1:41000")["advertise"][0] == "warn"  # a port that nothing is bound to
    assert network(FUSEWIRE_BIND="127.0.0.0/8")["bind"][1].endswith("listens on 127.0.0.1")
    assert network(FUSEWIRE_BIND="*")["bind"][1].endswith("listens on every interface")


@pytest.mark.parametrize(
    ("setting", "variable", "value"),
    [
        ("bind", "FUSEWIRE_BIND", "eth-none"),
        ("bind", "FUSEWIRE_BIND", "198.51.100.0/24"),
        ("bind", "FUSEWIRE_BIND", "fe80::1"),
        ("ports", "FUSEWIRE_PORTS", "9-8"),
        ("ports", "FUSEWIRE_PORTS", "0"),
        ("ports", "FUSEWIRE_PORTS", "many"),
        ("advertise", "FUSEWIRE_ADVERTISE", "no-such-host.invalid"),
        ("advertise", "FUSEWIRE_ADVERTISE", "host:0"),
        ("advertise", "FUSEWIRE_ADVERTISE", ":5"),
        ("advertise", "FUSEWIRE_ADVERTISE", "*"),
    ],
)
def test_a_wrong_network_setting_is_named_with_its_fix(setting, variable, value):
    status, words, fix = network(**{variable: value})[setting]
    assert status == "FAIL"
    assert words.startswith(f"{variable}={value}")
    assert variable in fix or "ss -ltnp" in fix
