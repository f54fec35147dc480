#!/usr/bin/env bash
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Builds the demo as it would be shipped, and runs it. Arguments go to the demo.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/deps.sh build
tools/build.sh release --target fusewire_demo -- -DBUILD_TESTING=OFF
exec build/release/bin/fusewire_demo "$@"
