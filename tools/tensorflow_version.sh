#!/usr/bin/env bash
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Which TensorFlow is meant: prints what follows --tf among the arguments, or the version that is used by default.
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
