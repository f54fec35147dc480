# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""A program of torch.distributed under `fusewire run --hosts`: hosts with an sshd each, as network namespaces."""

import json
import pathlib

import pytest
from hosts import Network, network
from processes import clean_environment, process

__all__ = ["network"]  # a fixture
LIMIT_S = 120

# Ranks 0 and 1 share a host, rank 2 has one of its own. Each says the addresses of the machine that it runs on.
PROGRAM = """
import json, os, subprocess, sys
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(sys.argv[1])
rank, size = dist.get_rank(), dist.get_world_size()
tensor = torch.full((300_000,), rank + 1.0)  # more than a message
dist.all_reduce(tensor)
others = [None] * size
dist.all_gather_object(others, (rank, int(os.environ["LOCAL_RANK"])))
torch.manual_seed(1)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
inputs = torch.randn(32, 4, generator=torch.Generator().manual_seed(rank))
for step in range(20):
    optimizer.zero_grad()
    (model(inputs) - inputs.sum(1, keepdim=True)).square().mean().backward()
    optimizer.step()
weights = [weight.item() for weight in model.module.weight.data.flatten()]
group = dist.distributed_c10d._get_default_group()
backend = type(group._get_backend(torch.device("cpu"))).__name__
addresses = subprocess.run(["ip", "-o", "addr"], capture_output=True, text=True, check=True).stdout
said = {"rank": rank, "sum": tensor.unique().tolist(), "others": others, "weights": weights, "backend": backend}
sys.stdout.write(json.dumps(said | {"addresses": addresses}) + "\\n")
dist.destroy_process_group()
"""


@pytest.mark.parametrize("backend", ["gloo", "fusewire"])
def test_ranks_on_two_hosts(network: Network, tmp_path: pathlib.Path, backend: str) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    hosts = f"{network.addresses[0]}:2,{network.addresses[1]}"
    options = ["--hosts", hosts, "--ranks", "3", "--timeout", LIMIT_S - 20, "--env", "OMP_NUM_THREADS=1"]
    options += ["--env", "GLOO_SOCKET_IFNAME=eth0"]  # gloo would listen at what the name of the machine resolves to
    with process(network.command(*options, "train.py", backend), tmp_path, clean_environment()) as started:
        out, error = started.communicate(timeout=LIMIT_S)
    assert started.returncode == 0, out + error[-6000:]
    said = sorted((json.loads(line.partition(" | ")[2]) for line in out.splitlines()), key=lambda one: one["rank"])
    assert [one["rank"] for one in said] == [0, 1, 2]
    for one, place in zip(said, (0, 0, 1), strict=True):
        assert f" {network.addresses[place]}/" in one["addresses"]
        assert one["sum"] == [6.0]
        assert one["others"] == [[0, 0], [1, 1], [2, 0]]
        assert one["weights"] == said[0]["weights"] == pytest.approx([1.0] * 4, abs=0.2)
        assert one["backend"] == {"gloo": "ProcessGroupGloo", "fusewire": "FusewireBackend"}[backend]
