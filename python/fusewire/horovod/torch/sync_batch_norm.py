# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Batch normalization over the batches of all ranks."""

from typing import Any

import torch

from fusewire.horovod.common import basics
from fusewire.horovod.common.ops import Sum
from fusewire.horovod.torch.mpi_ops import allreduce

__all__ = ["SyncBatchNorm"]


class SyncBatchNorm(torch.nn.modules.batchnorm._BatchNorm):  # type: ignore[misc]
    """As torch's BatchNorm, with mean and variance of the batches of all ranks. Unlike Horovod's, it works on CPUs."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats)

    def _check_input_dim(self, input: Any) -> None:
        if input.dim() < 2:
            raise ValueError(f"the input has {input.dim()} dimensions: pass a batch, of at least 2")

    def forward(self, input: Any) -> Any:
        self._check_input_dim(input)
        if basics.size() == 1 or not (self.training or not self.track_running_stats):
            return super().forward(input)
        axes = [axis for axis in range(input.dim()) if axis != 1]
        shape = [1, -1] + [1] * (input.dim() - 2)
        values = input.float()
        count = values.new_tensor([values.numel() / values.shape[1]])
        packed = torch.cat([values.sum(axes), (values * values).sum(axes), count])
        total = allreduce(packed, op=Sum)
        mean, square = (total[:-1] / total[-1].detach()).chunk(2)
        variance = square - mean * mean
        if self.training and self.track_running_stats:
            self._keep(mean.detach(), variance.detach(), total[-1].item())
        result = (values - mean.view(shape)) * torch.rsqrt(variance.view(shape) + self.eps)
        if self.affine:
            result = result * self.weight.view(shape) + self.bias.view(shape)
        return result.to(input.dtype)

    def _keep(self, mean: Any, variance: Any, count: float) -> None:
        self.num_batches_tracked += 1
        share = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        unbiased = variance * (count / max(count - 1, 1))
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), share)
