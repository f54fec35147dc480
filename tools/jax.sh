#!/usr/bin/env bash
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Builds the library, without TensorFlow, and installs it with the Python package into the environment of each JAX
# VERSION: tools/jax.sh [--release] VERSION... Afterwards .venv-jax-VERSION/bin/python has fusewire.jax.
# tools/framework.sh says how.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/framework.sh
install_for jax JAX "$@"
