#!/usr/bin/env bash
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# The one-minute loop: builds the preset quick and tests one room: tools/quick.sh [ROOM [argument of ctest...]]
# Without a ROOM, all rooms. A ROOM is a label: base ... collective, or conformance, faults, attack, simulation, fuzz.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/deps.sh build test
tools/build.sh quick
arguments=(-j "${CTEST_PARALLEL_LEVEL:-$(nproc)}")
if [ $# -gt 0 ]; then
  arguments+=(-L "^$1\$")
  shift
fi
exec ctest --preset quick "${arguments[@]}" "$@"
