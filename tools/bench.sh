#!/usr/bin/env bash
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Measures a suite and its peers: tools/bench.sh [SUITE [argument of bench/run.py...]].
# Writes bench/out/SUITE.json and a picture of it.
set -euo pipefail
cd "$(dirname "$0")/.."

# The version that the option --torch names, or the default version.
torch_version() {
  local version=2.15.0
  while [ $# -gt 0 ]; do
    case $1 in
      --torch) version=${2-} ;;
      --torch=*) version=${1#--torch=} ;;
    esac
    shift
  done
  echo "$version"
}

suite=${1:-core}
build=build/release
case $suite in
  core)
    tools/deps.sh build test bench python
    tools/build.sh release --target bench_programs -- -DBUILD_TESTING=ON -DFUSEWIRE_BENCH=ON
    ;;
  collective)
    tools/deps.sh build test bench python
    tools/deps.sh peers || echo "bench: packages of [peers] are missing; their peers are left out" >&2
    tools/deps.sh mpi || echo "bench: Open MPI and MPICH are missing and left out" >&2
    tools/deps.sh oneccl || echo "bench: oneCCL is missing and left out" >&2
    tools/build.sh release --target bench_collective_programs -- -DBUILD_TESTING=ON -DFUSEWIRE_BENCH=ON
    ;;
  p2p)
    tools/deps.sh build test bench python
    # Rows of missing peers are left out.
    tools/deps.sh peers || echo "bench: packages of [peers] are missing; their peers are left out" >&2
    tools/build.sh release --target bench_p2p_programs -- -DBUILD_TESTING=ON -DFUSEWIRE_BENCH=ON
    ;;
  paths)
    tools/deps.sh build test bench python
    tools/deps.sh peers mpi || echo "bench: packages of [peers] or [mpi] are missing; their peers are left out" >&2
    version=$(tools/tensorflow_version.sh "$@")
    tools/plugin.sh --release "$version"
    tools/build.sh "tf-$version-release" --target bench_paths_programs
    build=build/tf-$version-release
    ;;
  ps | mwms)
    tools/deps.sh python
    tools/plugin.sh --release "$(tools/tensorflow_version.sh "$@")"
    ;;
  scale)
    tools/deps.sh python
    version=$(tools/tensorflow_version.sh "$@")
    tools/plugin.sh --release "$version"
    tools/build.sh "tf-$version-release" --target bench_replay
    build=build/tf-$version-release
    ;;
  torch)
    tools/deps.sh python
    tools/deps.sh bench || echo "bench: packages of [bench] are missing; MPI is left out" >&2
    tools/torch.sh --release "$(torch_version "$@")"
    ;;
  *)
    echo "bench: no suite is named $suite; SUITE is one of: core collective p2p paths ps mwms scale torch" >&2
    exit 2
    ;;
esac
exec .venv/bin/python bench/run.py --suite "$suite" --build-dir "$build" --out bench/out "${@:2}"
