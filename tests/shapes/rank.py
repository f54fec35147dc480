# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""One rank of a small group on a machine of any shape: small and large
arrays, and one that goes by messages; right values."""

import json
import os
import sys

import numpy as np

import fusewire.collective as c

LIMIT_S = 60.0


def main() -> None:
    if len(sys.argv) > 1:  # by the machine's name instead
        addresses = os.environ["FUSEWIRE_RANK_ADDRESSES"].split(",")
        ports = [address.rpartition(":")[2] for address in addresses]
        os.environ["FUSEWIRE_RANK_ADDRESSES"] = ",".join(f"{sys.argv[1]}:{port}" for port in ports)
    c.init()
    rank, size = c.rank(), c.size()
    expected = size * (size + 1) / 2
    right = True
    for elements in (1, 1000, 500_000):
        mine = np.full(elements, rank + 1, np.float32)
        right = right and bool((c.allreduce(mine, c.Sum, timeout=LIMIT_S) == expected).all())
    named = c.allreduce(np.full(200_000, rank + 1, np.float32), c.Sum, "by messages", timeout=LIMIT_S)
    right = right and bool((named == expected).all())
    arena = c.world().in_arena()  # no longer, once another rank has left
    c.barrier()
    print("RANK", json.dumps({"right": right, "arena": arena}), flush=True)
    c.shutdown()


main()
