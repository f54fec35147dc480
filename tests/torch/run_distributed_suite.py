# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Runs torch's own suite of collectives, which is part of its wheel, over a backend.

    python tests/torch/run_distributed_suite.py fusewire --out fusewire.json      or gloo, or replaced; --only WORD

The suite names the backends that it knows by hand. Here fusewire counts as one that can do all that gloo can: its name
compares equal to "gloo" too, so every test that gloo passes runs. Where a test asks for a gloo group by its name, it
gets one of fusewire. "replaced" is gloo with fusewire in its place, as -m fusewire.torch puts it there; only the names
of the profiler's events are changed for it. Processes are forked, not spawned: each test then takes a second less.
"""

import argparse
import json
import os
import sys
import tempfile
import time
import unittest
from typing import Any


class Name(str):
    """A backend's name that is also "gloo" for whoever compares it."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) or other == "gloo"

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash("gloo")


class Environment(dict):
    """The environment, with BACKEND as such a name."""

    def __getitem__(self, name: str) -> str:
        return Name("fusewire") if name == "BACKEND" else REAL[name]

    def __getattr__(self, name: str) -> Any:
        return getattr(REAL, name)


REAL = os.environ


def replace() -> None:
    """Puts fusewire in gloo's place."""
    import torch

    import fusewire.torch
    from fusewire.torch import profiling

    def begin(name: str, tensors: Any) -> list[Any] | None:
        if not profiling.is_on():
            return None
        event = torch._C._profiler._RecordFunctionFast(f"gloo:{name}", list(tensors))
        event.__enter__()
        return [event]

    profiling.begin = begin
    fusewire.torch.replace_gloo()


def suite_of(backend: str, ranks: int, folder: str) -> type:
    """The class of all tests."""
    for name in ("barrier", "test_dir", "init_dir"):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    if backend == "replaced":
        backend = "gloo"
        replace()
    os.environ.update(BACKEND=backend, WORLD_SIZE=str(ranks), TEMP_DIR=folder, OMP_NUM_THREADS="1")
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

    import torch.distributed as dist

    if backend == "fusewire":
        from torch.testing._internal.common_distributed import DistTestCases

        import fusewire.torch  # noqa: F401

        for names in DistTestCases.backend_feature.values():
            if "gloo" in names:
                names.add("fusewire")
        DistTestCases.backend_feature["plugin"].add("fusewire")
        os.environ = Environment()  # noqa: B003, as long as the suite is imported
        try:
            import torch.testing._internal.distributed.distributed_test as tests
        finally:
            os.environ = REAL  # noqa: B003
        dist.Backend._plugins["GLOO"] = dist.Backend._plugins["FUSEWIRE"]
        for name, value in vars(tests).items():
            if name.endswith("PROFILING_SUPPORTED_BACKENDS"):
                value.append("fusewire")
    else:
        import torch.testing._internal.distributed.distributed_test as tests

    class Suite(tests.TestDistBackend, tests.DistributedTest._DistTestBase):
        def setUp(self) -> None:
            super().setUp()
            import torch.multiprocessing

            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    Suite.__name__ = Suite.__qualname__ = "Suite"
    Suite.__module__ = "__main__"
    return Suite


class Result(unittest.TextTestResult):
    """Each test with its result and time, as soon as it has ended."""

    def startTest(self, test: Any) -> None:  # noqa: N802
        self.began = time.monotonic()
        super().startTest(test)

    def note(self, test: Any, what: str, why: str = "") -> None:
        name = test.id().rpartition(".")[2]
        results[name] = {"result": what, "seconds": round(time.monotonic() - self.began, 1), "why": why[-3000:]}
        with open(out, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1, sort_keys=True)

    def addSuccess(self, test: Any) -> None:  # noqa: N802
        super().addSuccess(test)
        self.note(test, "passed")

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        super().addFailure(test, err)
        self.note(test, "failed", self._exc_info_to_string(err, test))

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        super().addError(test, err)
        self.note(test, "failed", self._exc_info_to_string(err, test))

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
        super().addSkip(test, reason)
        self.note(test, "skipped", reason)


results: dict[str, dict[str, Any]] = {}
out = os.devnull


def main() -> int:
    global out
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("backend", choices=("fusewire", "gloo", "replaced"))
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--only", action="append", default=[], metavar="WORD", help="tests whose name contains it")
    parser.add_argument("--exactly", metavar="FILE", help="a list of tests, one a line")
    parser.add_argument("--out", default=os.devnull, metavar="FILE", help="the results, as JSON")
    options = parser.parse_args()
    out = options.out
    with tempfile.TemporaryDirectory(prefix="fusewire-suite-") as folder:
        suite = suite_of(options.backend, options.ranks, folder)
        names = unittest.defaultTestLoader.getTestCaseNames(suite)
        if options.exactly:
            with open(options.exactly, encoding="utf-8") as file:
                wanted = set(file.read().split())
            names = [name for name in names if name in wanted]
        if options.only:
            names = [name for name in names if any(word in name for word in options.only)]
        runner = unittest.TextTestRunner(verbosity=2, resultclass=Result)
        runner.run(unittest.TestSuite(suite(name) for name in names))
    counts = {what: sum(one["result"] == what for one in results.values()) for what in ("passed", "failed", "skipped")}
    print(f"{options.backend}: {counts}", flush=True)
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
