# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""TorchRec's own DLRM on CPUs, its tables divided among the ranks by TorchRec's planner, over Fusewire.

pip install torchrec fbgemm-gpu-cpu
torchrun --nproc-per-node 2 torchrec_dlrm.py             --backend gloo: the same losses
"""

import argparse

import torch
import torch.distributed as dist
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from torchrec.distributed import DistributedModelParallel
from torchrec.models.dlrm import DLRM, DLRMTrain
from torchrec.optim.keyed import KeyedOptimizerWrapper

TABLES, ROWS, WIDTH, BATCH, NUMBERS = 8, 1000, 16, 32, 13


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="fusewire")
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    dist.init_process_group(options.backend)
    rank = dist.get_rank()

    torch.manual_seed(0)
    configs = [
        EmbeddingBagConfig(
            name=f"table_{one}", embedding_dim=WIDTH, num_embeddings=ROWS, feature_names=[f"feature_{one}"]
        )
        for one in range(TABLES)
    ]
    model = DLRM(
        EmbeddingBagCollection(tables=configs),
        dense_in_features=NUMBERS,
        dense_arch_layer_sizes=[32, WIDTH],
        over_arch_layer_sizes=[32, 1],
    )
    parallel = DistributedModelParallel(DLRMTrain(model), device=torch.device("cpu"))
    dense = KeyedOptimizerWrapper(
        dict(parallel.named_parameters()), lambda parameters: torch.optim.Adagrad(parameters, 0.02)
    )
    draw = torch.Generator().manual_seed(100 + rank)
    for step in range(options.steps):
        numbers = torch.rand(BATCH, NUMBERS, generator=draw)
        lengths = torch.randint(1, 4, (TABLES * BATCH,), generator=draw)
        ids = torch.randint(ROWS, (int(lengths.sum()),), generator=draw)
        sparse = KeyedJaggedTensor.from_lengths_sync([f"feature_{one}" for one in range(TABLES)], ids, lengths)
        clicks = (numbers.sum(1) > NUMBERS / 2).float()
        dense.zero_grad()
        loss, _ = parallel(_Batch(numbers, sparse, clicks))
        loss.backward()
        dense.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0:
            print(f"step {step}: loss {mean.item() / dist.get_world_size():.5f}", flush=True)
    dist.destroy_process_group()


class _Batch:
    """What DLRMTrain reads of a batch."""

    def __init__(self, numbers: torch.Tensor, sparse: KeyedJaggedTensor, clicks: torch.Tensor) -> None:
        self.dense_features, self.sparse_features, self.labels = numbers, sparse, clicks


if __name__ == "__main__":
    main()
