# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Frameworks on PyTorch that know nothing of fusewire: their programs, unchanged, have over fusewire the losses that
they have over gloo. TorchRec's is in test_examples.py."""

import pathlib

import pytest
import torch
from conftest import ROOT
from test_replacing import said_by

pytestmark = pytest.mark.skipif(not torch.__version__.startswith("2.14."), reason="one PyTorch is enough")


def path_of(package: str) -> str:
    found = list(ROOT.glob(f".venv-partners/lib/python3*/site-packages/{package}"))
    if not found:
        pytest.skip(f"{package} is not installed: tools/deps.sh partners")
    return str(found[0].parent)


ACCELERATE = """
    import torch, torch.distributed as dist
    from accelerate import Accelerator
    from accelerate.utils import gather_object

    torch.manual_seed(1)
    accelerator = Accelerator(cpu=True)
    data = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, loader = accelerator.prepare(model, optimizer, torch.utils.data.DataLoader(data, batch_size=8))
    losses = []
    for inputs, wanted in loader:
        loss = torch.nn.functional.mse_loss(model(inputs), wanted)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(f"{accelerator.gather(loss).mean().item():.5f}")
    assert gather_object([accelerator.process_index]) == [0, 1]
    accelerator.wait_for_everyone()
    group = dist.distributed_c10d._get_default_group()
    say(type(group._get_backend(torch.device("cpu"))).__name__, accelerator.state.backend, *losses)
    accelerator.end_training()
"""

TRAINER = """
    import torch, torch.distributed as dist
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

    set_seed(1)
    config = BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )
    words = torch.randint(50, (32, 12))
    data = [{"input_ids": one, "labels": int(one.sum() % 2)} for one in words]
    arguments = TrainingArguments(
        "out", use_cpu=True, max_steps=6, logging_steps=1, per_device_train_batch_size=4, report_to="none",
        save_strategy="no", eval_strategy="steps", eval_steps=6, disable_tqdm=True,
    )
    trainer = Trainer(BertForSequenceClassification(config), arguments, train_dataset=data, eval_dataset=data)
    trainer.train()
    log = trainer.state.log_history
    losses = [f"{float(one[key]):.4f}" for one in log for key in ("loss", "eval_loss") if key in one]
    group = dist.distributed_c10d._get_default_group()
    say(type(group._get_backend(torch.device("cpu"))).__name__, dist.get_backend(), *losses)
    dist.destroy_process_group()  # gloo's threads may end a process that does not
"""


LIGHTNING = """
    import torch, torch.distributed as dist
    import lightning

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
            self.losses = []

        def training_step(self, batch, _):
            inputs, wanted = batch
            loss = torch.nn.functional.mse_loss(self.layers(inputs), wanted)
            self.losses.append(f"{self.all_gather(loss.detach()).mean().item():.7f}")
            self.log("loss", loss, sync_dist=True, on_epoch=True)
            return loss

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.01)

    lightning.seed_everything(1, verbose=False)
    data = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
    model = Model()
    trainer = lightning.Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_epochs=2, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )
    trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=8))
    group = dist.distributed_c10d._get_default_group()
    average = trainer.callback_metrics["loss_epoch"].item()
    say(type(group._get_backend(torch.device("cpu"))).__name__, f"{average:.7f}", *model.losses)
    dist.destroy_process_group()
"""

DEEPSPEED = """
    import torch, torch.distributed as dist
    import deepspeed

    # An all-reduce for inference, in C++, which takes a minute to compile.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed(verbose=False)
    torch.manual_seed(1)
    data = torch.randn(2, 8, 8, 16), torch.randn(2, 8, 8, 1)
    losses = []
    for stage in range(4):
        torch.manual_seed(2)
        layers = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
        config = {
            "train_micro_batch_size_per_gpu": 8, "zero_optimization": {"stage": stage},
            "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False,
        }
        optimizer = torch.optim.Adam(layers.parameters(), lr=0.01)
        engine, *_ = deepspeed.initialize(model=layers, optimizer=optimizer, config=config)
        for inputs, wanted in zip(data[0][dist.get_rank()], data[1][dist.get_rank()]):
            loss = torch.nn.functional.mse_loss(engine(inputs), wanted)
            engine.backward(loss)
            engine.step()
            losses.append(f"{loss.item():.7f}")
    group = dist.distributed_c10d._get_default_group()
    say(type(group._get_backend(torch.device("cpu"))).__name__, *losses)
    dist.destroy_process_group()
"""


@pytest.mark.parametrize(
    ("package", "program"),
    [("accelerate", ACCELERATE), ("transformers", TRAINER), ("lightning", LIGHTNING), ("deepspeed", DEEPSPEED)],
    ids=["accelerate", "transformers", "lightning", "deepspeed"],
)
def test_framework_trains_as_over_gloo(tmp_path: pathlib.Path, package: str, program: str) -> None:
    how = {"PYTHONPATH": path_of(package), "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1", "DS_ACCELERATOR": "cpu"}
    stock = said_by(tmp_path, program, over_fusewire=False, **how)
    assert [one.split()[0] for one in stock] == ["ProcessGroupGloo"] * 2
    assert len(stock[0].split()) >= 6
    ours = said_by(tmp_path, program, **how)
    assert ours == [one.replace("ProcessGroupGloo", "FusewireBackend") for one in stock]
