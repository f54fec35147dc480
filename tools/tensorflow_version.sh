#!/usr/bin/env bash
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Prints the TensorFlow version to use: the argument of --tf, or the default version.
set -euo pipefail

version=2.15.1
while [ $# -gt 0 ]; do
  case $1 in
    --tf) version=${2-} ;;
    --tf=*) version=${1#--tf=} ;;
  esac
  shift
done
echo "$version"
