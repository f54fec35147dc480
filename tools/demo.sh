#!/usr/bin/env bash
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Builds a demo in release mode and runs it: tools/demo.sh [training|elastic|wire [argument of the demo...]].
#   training  trains a model on parameter servers over stock grpc, grpc++, grpc++ with tensor_fuse, and star_server
#   elastic   trains while parameter servers are killed, moved and doubled, over Fusewire and over stock TensorFlow
#   wire      exchanges messages and tensors between two processes, and compares with raw sockets
set -euo pipefail
cd "$(dirname "$0")/.."

demo=${1:-training}
[ $# -eq 0 ] || shift
case $demo in
  training | elastic)
    version=$(tools/tensorflow_version.sh "$@")
    tools/plugin.sh --demo "$version"
    program=demo/training/demo.py
    [ "$demo" = training ] || program=demo/elastic/elastic.py
    exec ".venv-tf-$version/bin/python" "$program" "$@"
    ;;
  wire)
    tools/deps.sh build
    tools/build.sh release --target fusewire_demo -- -DBUILD_TESTING=OFF
    exec build/release/bin/fusewire_demo "$@"
    ;;
  *)
    echo "demo: no demo is named $demo; use training, elastic or wire" >&2
    exit 2
    ;;
esac
