# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Runs tests of torch's that are not in its wheel over gloo and over fusewire, and compares each test's results.

    python tests/torch/run_other_suites.py FOLDER [FILE...] --out DIR       FILE: a path in FOLDER, or how it begins

FOLDER is test/distributed of torch's sources, of the installed version or an older one; bring it yourself. What counts
is which tests pass with gloo and not with fusewire. A test keeps the word "gloo": the process groups that it asks for
are of fusewire, under their real name. What it makes of gloo's own classes (ProcessGroupGloo) stays gloo's. Tests that
are skipped without GPUs run, since many need none. Ranks are forked, not spawned: a test takes some seconds less.

This file is also the plugin of pytest that does so.
"""

import argparse
import collections
import contextlib
import hashlib
import importlib
import json
import os
import pathlib
import pkgutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

BACKENDS = ("gloo", "fusewire")
_BACKEND, _RESULTS = "SUITES_BACKEND", "SUITES_RESULTS"  # variables of the environment, for the plugin


# ---- the plugin: in the process of a file's tests ----


def pytest_configure(config: Any) -> None:
    """Before a file is imported."""
    import multiprocessing

    import torch.distributed.distributed_c10d as c10d
    import torch.multiprocessing

    get_context = multiprocessing.get_context

    def get_fork(method: str | None = None) -> Any:
        return get_context("fork" if method == "spawn" else method)

    for module in (multiprocessing, torch.multiprocessing):
        module.get_context = get_fork
        module.set_start_method = lambda method, force=False: None
    _add_what_older_tests_import()
    _run_on_cpus()
    if os.environ[_BACKEND] == "fusewire":
        _swap(c10d)


def _add_what_older_tests_import() -> None:
    import torch.distributed.tensor as tensor
    import torch.distributed.tensor.placement_types as placements
    import torch.testing._internal.common_distributed as common

    for name in ("skip_if_rocm", "skip_if_rocm_multiprocess"):
        if not hasattr(common, name):
            setattr(common, name, _unchanged)
    for module in pkgutil.walk_packages(tensor.__path__, "torch.distributed.tensor."):
        name = module.name.removeprefix("torch.distributed.tensor.")
        with contextlib.suppress(ImportError):
            new = importlib.import_module(module.name)
            for old in (name, name.replace("._", ".").removeprefix("_")):
                sys.modules.setdefault(f"torch.distributed._tensor.{old}", new)
    specs = importlib.import_module("torch.distributed.tensor._dtensor_spec")
    moved = {"_Partial": placements.Partial, "DTensorSpec": specs.DTensorSpec, "TensorMeta": specs.TensorMeta}
    for old, there in moved.items():
        if not hasattr(placements, old):
            setattr(placements, old, there)


def _run_on_cpus() -> None:
    import torch.testing._internal.common_distributed as common

    common.skip_if_no_gpu = _unchanged
    common.skip_if_lt_x_gpu = lambda *arguments, **named: _unchanged


def _unchanged(function: Any) -> Any:
    return function


def _swap(c10d: Any) -> None:
    import torch.distributed

    import fusewire.torch

    helper = c10d._new_process_group_helper

    def of_fusewire(size: int, rank: Any, ranks: Any, backend: Any, *rest: Any, **named: Any) -> Any:
        if isinstance(named.get("backend_options"), torch.distributed.ProcessGroupGloo._Options):
            named["backend_options"] = None
        return helper(size, rank, ranks, str(backend).replace("gloo", fusewire.torch.NAME), *rest, **named)

    c10d._new_process_group_helper = of_fusewire
    create = fusewire.torch.create

    def noted(*arguments: Any) -> Any:
        if "PYTEST_CURRENT_TEST" in os.environ:
            _mark(os.environ["PYTEST_CURRENT_TEST"]).touch()
        return create(*arguments)

    plugin = c10d.Backend._plugins["FUSEWIRE"]
    c10d.Backend._plugins["FUSEWIRE"] = plugin._replace(creator_fn=noted)


def _mark(test: str) -> pathlib.Path:
    """A file that says that a process of this test made a group of ours."""
    name = hashlib.blake2b(test.rpartition(" (")[0].encode(), digest_size=12).hexdigest()
    return pathlib.Path(os.environ[_RESULTS]).parent / "marks" / name


def pytest_runtest_teardown() -> None:
    """The ranks of later tests are forked from this process."""
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()


def pytest_runtest_logstart(nodeid: str, location: Any) -> None:
    _note(nodeid, "unfinished", 0.0, "")


def pytest_runtest_logreport(report: Any) -> None:
    if report.when == "call" or report.outcome != "passed":
        _note(report.nodeid, report.outcome, report.duration, str(report.longrepr or "")[-4000:])


def _note(test: str, outcome: str, seconds: float, why: str) -> None:
    line = {
        "test": test.partition("::")[2],
        "result": outcome,
        "seconds": round(seconds, 1),
        "ours": _mark(f"{test} (").exists(),
        "why": why,
    }
    with open(os.environ[_RESULTS], "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


# ---- the runner ----


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("files", nargs="*", default=[""])
    parser.add_argument("--out", type=pathlib.Path, required=True, metavar="DIR", help="each file's results and output")
    parser.add_argument("--only", metavar="EXPRESSION", help="as pytest's -k")
    parser.add_argument("--backend", action="append", choices=BACKENDS, help="runs this one only, and compares")
    parser.add_argument("--seconds", type=float, default=600, help="of one file with one backend")
    options = parser.parse_intermixed_args()
    totals: dict[str, collections.Counter[str]] = {}
    differ = False
    for path in sorted(options.folder.rglob("test_*.py")):
        name = str(path.relative_to(options.folder))
        if not name.startswith(tuple(options.files)):
            continue
        for backend in options.backend or BACKENDS:
            _run(path, name, backend, options)
        gloo, ours = (_results(options.out / backend / f"{name}.jsonl") for backend in BACKENDS)
        worse = sorted(test for test in gloo if gloo[test]["result"] == "passed" and _of(ours, test) != "passed")
        differ = differ or bool(worse)
        counts = {backend: _counts(results) for backend, results in zip(BACKENDS, (gloo, ours), strict=True)}
        for backend, found in counts.items():
            totals.setdefault(backend, collections.Counter()).update(found)
        print(f"{name}: gloo {_words(counts['gloo'])}; fusewire {_words(counts['fusewire'])}", flush=True)
        for test in worse:
            print(f"    {_of(ours, test)}: {test}", flush=True)
    for backend, found in totals.items():
        print(f"{backend}: {_words(found)}", flush=True)
    return 1 if differ else 0


def _run(path: pathlib.Path, name: str, backend: str, options: Any) -> None:
    results = options.out / backend / f"{name}.jsonl"
    (results.parent / "marks").mkdir(parents=True, exist_ok=True)
    results.unlink(missing_ok=True)
    here = str(pathlib.Path(__file__).resolve().parent)
    environment = {
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": "40",
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (here, str(path.parent.resolve()), os.environ.get("PYTHONPATH")))),
        _BACKEND: backend,
        _RESULTS: str(results.resolve()),
    }
    command = [sys.executable, "-m", "pytest", "-p", "run_other_suites", "-p", "no:cacheprovider", "--noconftest"]
    command += ["-c", os.devnull, "--rootdir", str(options.folder), "-q", "--tb=short", "--timeout=150", str(path)]
    command += ["-k", options.only] if options.only else []
    with open(results.with_suffix(".log"), "wb") as log:
        process = subprocess.Popen(
            command,
            cwd=options.folder.parent,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        with _ended(process), contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(options.seconds)


@contextlib.contextmanager
def _ended(process: Any) -> Iterator[None]:
    """Ranks of a test may outlive it."""
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
            time.sleep(0.2)
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _results(path: pathlib.Path) -> dict[str, dict[str, Any]]:
    if not path.exists():
        return {}
    found: dict[str, dict[str, Any]] = {}
    with open(path, encoding="utf-8") as file:
        for line in map(json.loads, file):
            if found.get(line["test"], line)["result"] != "failed":  # subtests have reports of their own
                found[line["test"]] = line
    return found


def _of(results: dict[str, dict[str, Any]], test: str) -> str:
    return str(results[test]["result"]) if test in results else "absent"


def _counts(results: dict[str, dict[str, Any]]) -> dict[str, int]:
    counts = dict(collections.Counter(str(one["result"]) for one in results.values()))
    counts["over fusewire"] = sum(one["ours"] and one["result"] == "passed" for one in results.values())
    return counts


def _words(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {what}" for what, count in sorted(counts.items()) if count) or "nothing"


if __name__ == "__main__":
    sys.exit(main())
