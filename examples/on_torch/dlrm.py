# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""DLRM on several ranks: embedding tables are divided among them, both perceptrons are replicated (DDP).

  torchrun --nproc-per-node 2 dlrm.py                      over Fusewire
  torchrun --nproc-per-node 2 dlrm.py --backend gloo       the same losses

Each rank looks up the rows of its tables for the samples of all ranks. An all-to-all exchanges them: each rank then has
the rows of all tables for its own samples. The gradients go the other way.
"""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.nn.functional import all_to_all_single

TABLES, ROWS, WIDTH, BATCH = 4, 1000, 16, 32  # tables and samples of each rank
NUMBERS = 13


class Dlrm(nn.Module):
    def __init__(self, ranks: int) -> None:
        super().__init__()
        self.ranks = ranks
        self.tables = nn.ModuleList(nn.EmbeddingBag(ROWS, WIDTH, mode="sum") for _ in range(TABLES))
        self.below = nn.parallel.DistributedDataParallel(
            nn.Sequential(nn.Linear(NUMBERS, 32), nn.ReLU(), nn.Linear(32, WIDTH), nn.ReLU())
        )
        features = TABLES * ranks + 1
        self.above = nn.parallel.DistributedDataParallel(
            nn.Sequential(nn.Linear(features * features + WIDTH, 32), nn.ReLU(), nn.Linear(32, 1))
        )

    def forward(self, numbers: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """`ids`: of the own tables, for the samples of all ranks: [table, sample, several]."""
        own = torch.stack([table(ids[number]) for number, table in enumerate(self.tables)], 1)
        exchanged = all_to_all_single(torch.empty_like(own), own)
        of_all_tables = exchanged.view(self.ranks, BATCH, TABLES, WIDTH).transpose(0, 1)
        dense = self.below(numbers)
        vectors = torch.cat([dense.unsqueeze(1), of_all_tables.reshape(BATCH, -1, WIDTH)], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1)
        return self.above(torch.cat([products, dense], 1)).squeeze(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="fusewire")
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    dist.init_process_group(options.backend)
    rank, ranks = dist.get_rank(), dist.get_world_size()

    torch.manual_seed(rank)  # each rank has other tables; DDP gives all the perceptrons of rank 0
    model = Dlrm(ranks)
    optimizer = torch.optim.Adagrad(model.parameters(), 0.02)
    draw = torch.Generator().manual_seed(1)  # all ranks draw the samples of all
    for step in range(options.steps):
        ids = torch.randint(ROWS, (TABLES * ranks, BATCH * ranks, 3), generator=draw)
        numbers = torch.rand(BATCH * ranks, NUMBERS, generator=draw)
        clicks = (numbers.sum(1) + ids.float().mean((0, 2)) / ROWS > 7).float()
        mine = slice(rank * BATCH, (rank + 1) * BATCH)
        guessed = model(numbers[mine], ids[rank * TABLES : (rank + 1) * TABLES])
        loss = nn.functional.binary_cross_entropy_with_logits(guessed, clicks[mine])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach()
        dist.all_reduce(mean)
        if rank == 0:
            print(f"step {step}: loss {mean.item() / ranks:.5f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
