#!/usr/bin/env bash
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Builds a demo in release mode and runs it: tools/demo.sh [training|wire [argument of the demo...]].
#   training  trains a model on parameter servers over stock grpc, grpc++, grpc++ with tensor_fuse, and star_server
#   wire      exchanges messages and tensors between two processes, and compares with raw sockets
set -euo pipefail
cd "$(dirname "$0")/.."

demo=${1:-training}
[ $# -eq 0 ] || shift
case $demo in
  training)
    version=$(tools/tensorflow_version.sh "$@")
    tools/plugin.sh --demo "$version"
    exec ".venv-tf-$version/bin/python" demo/training/demo.py "$@"
    ;;
  wire)
    tools/deps.sh build
    tools/build.sh release --target fusewire_demo -- -DBUILD_TESTING=OFF
    exec build/release/bin/fusewire_demo "$@"
    ;;
  *)
    echo "demo: no demo is named $demo; use training or wire" >&2
    exit 2
    ;;
esac
