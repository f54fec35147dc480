# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Steps per second of frameworks that know nothing of Fusewire, beside the stock runtime: for docs/partners.md.

    .venv-torch-2.14.0/bin/python bench/partners.py     the programs of tests/torch/test_frameworks.py, with more steps
    .venv-tf-2.15.1/bin/python bench/partners.py        examples/keras_ps/train.py, with Keras 2
    .venv-tf-2.21.0/bin/python bench/partners.py        examples/keras_ps/keras_3.py, with Keras 3

Rounds alternate between the two. PyTorch's frameworks come from tools/deps.sh partners.
"""

import argparse
import functools
import importlib.util
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parents[1]
STEPS, EPOCHS, RUN_LIMIT_S = 200, 12, 200.0
# Tells the steps a second of an optimizer: from the median time between the ends of two steps, without the first ones.
TIMING = f"""
import atexit, statistics, time
__doc__ = "A program that is timed."
from torch.optim.optimizer import register_optimizer_step_post_hook
ends = []
register_optimizer_step_post_hook(lambda *_: ends.append(time.perf_counter()))
gaps = lambda: [after - before for before, after in zip(ends, ends[1:])][{STEPS // 10}:]
atexit.register(lambda: say("RATE", 1 / statistics.median(gaps())))
"""
MIDDLE = ("torch.nn.ReLU()", "torch.nn.ReLU(), torch.nn.Linear(1024, 1024), torch.nn.ReLU()")
Measure = Callable[[bool], float]  # steps per second, with Fusewire or without


def changed(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        if old not in text:
            raise ValueError(f"the program has no {old!r} any more")
        text = text.replace(old, new)
    return text


def torch_programs() -> dict[str, str]:
    import test_frameworks as tests

    rows = ("randn(64,", f"randn({16 * STEPS},")  # two ranks, 8 rows each
    wide = (("Linear(8, 16)", "Linear(8, 1024)"), ("Linear(16, 1)", "Linear(1024, 1)"), MIDDLE)
    texts = {
        "accelerate": changed(tests.ACCELERATE, rows),
        "lightning": changed(tests.LIGHTNING, rows, ("max_epochs=2", "max_epochs=1")),
        "transformers": changed(tests.TRAINER, ("steps=6", f"steps={STEPS}")),
    }
    for name in ("accelerate", "lightning"):
        texts[name + ", wide"] = changed(texts[name], *wide)
    bert = (("hidden_size=16", "hidden_size=256"), ("intermediate_size=32", "intermediate_size=1024"))
    texts["transformers, wide"] = changed(texts["transformers"], *bert)
    texts["deepspeed"] = changed(tests.DEEPSPEED, ("randn(2, 8,", f"randn(2, {STEPS},"), ("range(4)", "[2]"))
    wide = (("Linear(16, 32)", "Linear(16, 1024)"), ("Linear(32, 1)", "Linear(1024, 1)"), MIDDLE)
    texts["deepspeed, wide"] = changed(texts["deepspeed"], *wide)
    texts["torchrec"] = (ROOT / "examples/on_torch/torchrec_dlrm.py").read_text(encoding="utf-8")
    texts["torchrec, wide"] = changed(texts["torchrec"], ("1000, 16, 32, 13", "50000, 64, 512, 13"))
    return texts


def torch_cases() -> dict[str, Measure]:
    sys.path.insert(0, str(ROOT / "tests/torch"))
    import test_frameworks as tests
    from test_replacing import said_by

    def measure(name: str, text: str, is_ours: bool) -> float:
        how = {"PYTHONPATH": tests.path_of(name.partition(",")[0]), "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}
        with tempfile.TemporaryDirectory(prefix="fusewire-partners-") as folder:
            words = ["--backend", "gloo", "--steps", str(STEPS)] if "torchrec" in name else []
            text = TIMING + textwrap.dedent(text)
            said = said_by(pathlib.Path(folder), text, *words, over_fusewire=is_ours, DS_ACCELERATOR="cpu", **how)
        return statistics.mean(float(line.split()[1]) for line in said if line.startswith("RATE"))

    return {name: functools.partial(measure, name, text) for name, text in torch_programs().items()}


def keras_cases() -> dict[str, Measure]:
    import tensorflow as tf

    program = "train.py" if tf.__version__.startswith("2.15.") else "keras_3.py"

    def measure(workers: int, is_ours: bool) -> float:
        words = ["--ps", "2", "--workers", str(workers), "--chief", "--protocol", "grpc++" if is_ours else "grpc"]
        command = [pathlib.Path(sys.executable).with_name("fusewire"), "run", *words]
        command += [ROOT / "examples/keras_ps" / program, "--epochs", str(EPOCHS)]
        said = subprocess.run(command, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=True)
        rates = [float(rate) for rate in re.findall(r"loss \S+, (\S+) steps a second", said.stdout)]
        return statistics.median(rates[1:])

    return {f"{program}, {each} workers": functools.partial(measure, each) for each in (1, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description="As the head of this file says.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="the cases whose name this expression matches")
    options = parser.parse_args()
    cases = keras_cases() if importlib.util.find_spec("tensorflow") else torch_cases()
    for name, measure in cases.items():
        if re.search(options.only, name):
            rounds = [(measure(False), measure(True)) for _ in range(options.rounds)]
            stock, ours = (statistics.median(rates) for rates in zip(*rounds, strict=True))
            ratios = sorted(ours / stock for stock, ours in rounds)
            words = f"{stock:.1f} | {ours:.1f} | {statistics.median(ratios):.2f}, {ratios[0]:.2f} to {ratios[-1]:.2f}"
            print(f"| {name} | {words} |", flush=True)


main()
