#!/usr/bin/env bash
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Builds the library, without TensorFlow, and installs it with the Python package into the environment of each PyTorch
# VERSION: tools/torch.sh [--release] VERSION... Afterwards .venv-torch-VERSION/bin/python has backend="fusewire".
# tools/framework.sh says how.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/framework.sh
install_for torch PyTorch "$@"
