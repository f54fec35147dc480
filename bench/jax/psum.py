# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Measures jax.lax.psum over Fusewire and over gloo, and the same program without a collective: XLA's own share.

    tools/jax.sh --release 0.10.2
    .venv-jax-0.10.2/bin/python bench/jax/psum.py [--ranks 2] [--rounds 7]

The two take turns, in processes of their own. A figure is the median of the rounds' medians, at rank 0.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

BACKENDS = ("fusewire", "gloo")
SIZES = {64: 2000, 64 << 10: 1000, 4 << 20: 100}  # bytes of each process: how many times
WARM_UPS = 20


def median_us(run, array, times):
    seconds = []
    for _ in range(WARM_UPS + times):
        began = time.perf_counter()
        run(array).block_until_ready()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[WARM_UPS:]) * 1e6


def measure(backend):
    """In each process of a round."""
    if backend == "fusewire":
        import fusewire.jax
    import jax
    import numpy as np

    if backend == "fusewire":
        fusewire.jax.initialize()
    else:
        addresses = os.environ["FUSEWIRE_RANK_ADDRESSES"].split(",")
        rank = int(os.environ["FUSEWIRE_RANK"])
        jax.distributed.initialize(addresses[0], len(addresses), rank, local_device_ids=[0])
    mesh, along = jax.sharding.Mesh(np.array(jax.devices()), ("x",)), jax.sharding.PartitionSpec("x")

    def program(function):
        return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=along, out_specs=along, check_vma=False))

    results = {}
    for size, times in SIZES.items():
        part = np.ones((1, size // 4), np.float32)
        array = jax.make_array_from_process_local_data(jax.sharding.NamedSharding(mesh, along), part)
        results[size] = {
            "psum": median_us(program(lambda one: jax.lax.psum(one, "x")), array, times),
            "alone": median_us(program(lambda one: one + 1), array, times),
        }
    if jax.process_index() == 0:
        print("RESULT", json.dumps(results), flush=True)


def one_round(backend, ranks):
    words = [sys.executable, "-m", "fusewire", "run", "--ranks", str(ranks), __file__, "--measure", backend]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    lines = [line.partition("RESULT ")[2] for line in done.stdout.splitlines() if "RESULT " in line]
    if done.returncode != 0 or len(lines) != 1:
        sys.exit(f"a round over {backend} has failed:\n{done.stdout}{done.stderr}")
    return json.loads(lines[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--measure", choices=BACKENDS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure)
        return
    rounds = {backend: [] for backend in BACKENDS}
    for _ in range(options.rounds):
        for backend in BACKENDS:
            rounds[backend].append(one_round(backend, options.ranks))
    print(f"{'bytes':>9} {'over':>9} {'psum':>10} {'without a collective':>21}   (us; {options.ranks} processes)")
    for size in SIZES:
        for backend, found in rounds.items():
            psum, alone = (statistics.median(one[str(size)][word] for one in found) for word in ("psum", "alone"))
            print(f"{size:>9} {backend:>9} {psum:>10.1f} {alone:>21.1f}")


if __name__ == "__main__":
    main()
