# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The models of the suite `torch`. Each function returns a step, which returns what it has done: 1.0 for a step of
training, the number of tokens for inference. Sizes are such that communication over gloo takes about half of a step."""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn

Step = Callable[[], float]


def _training(model: nn.Module, draw: Callable[[], tuple[torch.Tensor, torch.Tensor]]) -> Step:
    """A step of data-parallel training."""
    parallel = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.01)
    loss_of = nn.MSELoss()

    def step() -> float:
        inputs, wanted = draw()
        optimizer.zero_grad()
        loss_of(parallel(inputs), wanted).backward()
        optimizer.step()
        return 1.0

    return step


def ddp_mlp(rank: int, size: int) -> Step:
    """A wide multi-layer perceptron: 3.1 million parameters, 12 MiB of gradients in one bucket."""
    model = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024))
    return _training(model, lambda: (torch.randn(8, 1024), torch.randn(8, 1024)))


def ddp_transformer(rank: int, size: int) -> Step:
    """A small transformer: 4 layers of width 256."""
    layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    return _training(model, lambda: (torch.randn(2, 16, 256), torch.randn(2, 16, 256)))


class _Exchange(torch.autograd.Function):
    """Rows of the own tables for all samples become rows of all tables for the own samples; backward the reverse."""

    @staticmethod
    def forward(context: object, rows: torch.Tensor) -> torch.Tensor:
        received = torch.empty_like(rows)
        dist.all_to_all_single(received, rows)
        return received

    @staticmethod
    def backward(context: object, gradient: torch.Tensor) -> torch.Tensor:
        received = torch.empty_like(gradient)
        dist.all_to_all_single(received, gradient.contiguous())
        return received


def dlrm(rank: int, size: int) -> Step:
    """DLRM: embedding tables are divided among the ranks, both perceptrons are replicated."""
    tables, rows, width, batch = 8, 20_000, 64, 128  # tables of each rank, samples of each rank
    bags = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum", sparse=True) for _ in range(tables))
    bottom = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(13, 128), nn.ReLU(), nn.Linear(128, width)))
    features = tables * size + 1
    top = nn.parallel.DistributedDataParallel(
        nn.Sequential(nn.Linear(features * features + width, 256), nn.ReLU(), nn.Linear(256, 1))
    )
    dense = torch.optim.SGD([*bottom.parameters(), *top.parameters()], lr=0.01)
    sparse = torch.optim.SGD(bags.parameters(), lr=0.01)
    loss_of = nn.BCEWithLogitsLoss()

    def step() -> float:
        dense.zero_grad()
        sparse.zero_grad()
        ids = torch.randint(rows, (tables, batch * size, 4))  # of all samples, for the own tables
        numbers, clicks = torch.rand(batch, 13), torch.randint(2, (batch, 1)).float()
        own = torch.stack([bag(ids[table]) for table, bag in enumerate(bags)], 1)  # samples of all ranks, own tables
        exchanged = _Exchange.apply(own).view(size, batch, tables, width).transpose(0, 1)
        below = bottom(numbers)
        vectors = torch.cat([below.unsqueeze(1), exchanged.reshape(batch, tables * size, width)], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1)
        loss_of(top(torch.cat([products, below], 1)), clicks).backward()
        dense.step()
        sparse.step()
        return 1.0

    return step


def tp(rank: int, size: int) -> Step:
    """Inference of a transformer whose layers are divided among the ranks, token by token: two all-reduces a layer."""
    width, layers, heads, batch, context = 512, 8, 8, 1, 64
    share = width // size
    torch.set_grad_enabled(False)
    columns = [[torch.randn(width, 3 * share), torch.randn(width, 4 * share)] for _ in range(layers)]
    rows = [[torch.randn(share, width), torch.randn(4 * share, width)] for _ in range(layers)]
    keys = [torch.randn(batch, heads // size, context, width // heads) for _ in range(layers)]
    values = [torch.randn(batch, heads // size, context, width // heads) for _ in range(layers)]

    def step() -> float:
        token = torch.randn(batch, width)
        for layer in range(layers):
            query, key, value = (token @ columns[layer][0]).view(batch, 3, heads // size, 1, -1).unbind(1)
            seen = torch.cat([keys[layer], key], 2), torch.cat([values[layer], value], 2)
            attended = nn.functional.scaled_dot_product_attention(query, *seen).reshape(batch, share) @ rows[layer][0]
            dist.all_reduce(attended)
            token = nn.functional.layer_norm(token + attended, (width,))
            widened = nn.functional.gelu(token @ columns[layer][1]) @ rows[layer][1]
            dist.all_reduce(widened)
            token = nn.functional.layer_norm(token + widened, (width,))
        return float(batch)

    return step


MODELS = {"ddp_mlp": ddp_mlp, "ddp_transformer": ddp_transformer, "dlrm": dlrm, "tp": tp}
