#!/usr/bin/env bash
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Trains under random faults from a seed: tools/soak.sh [argument of tests/soak/run.py...] [--tf VERSION]
# Without --protocol, over grpc++, star_server, star_server_lite and, for comparison, stock grpc, one after the other.
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(tools/tensorflow_version.sh "$@")
tools/plugin.sh "$version"
arguments=()
protocols=(grpc++ star_server star_server_lite grpc)
while [ $# -gt 0 ]; do
  case $1 in
    --tf) shift ;;
    --tf=*) ;;
    --protocol) protocols=("$2"); shift ;;
    *) arguments+=("$1") ;;
  esac
  shift
done
failed=()
for protocol in "${protocols[@]}"; do
  ".venv-tf-$version/bin/python" tests/soak/run.py --protocol "$protocol" "${arguments[@]}" || failed+=("$protocol")
done
# Stock grpc runs for comparison: its failures are not ours.
for protocol in "${failed[@]}"; do
  [ "$protocol" = grpc ] || { echo "soak: failed over ${failed[*]}; see the reports above" >&2; exit 1; }
done
