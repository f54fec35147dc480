#!/usr/bin/env bash
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Configures and builds one preset, quietly: tools/build.sh PRESET [--target NAME]... [-- -DNAME=VALUE...]
# FUSEWIRE_UNITY=ON in the environment: unity builds, which are faster for a single build from scratch.
# FUSEWIRE_LTO=OFF: no link-time optimisation, which is faster to build, for builds whose speed does not matter.
# FUSEWIRE_BUILD_TYPE=RelWithDebInfo: of a Release preset, the same code less optimised, for the same purpose.
# FUSEWIRE_DCHECKS=ON: with debug checks, which are too expensive for every message, for tests.
# The output goes to build/logs/PRESET-build.log; it is shown if the build fails.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=$1
shift
build_arguments=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  build_arguments+=("$1")
  shift
done
[ $# -eq 0 ] || shift

# Presets share ccache's results; the folder in the debug information may be that of another preset.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

mkdir -p build/logs
log=build/logs/$preset-build.log
echo "build $preset ..."
start=$SECONDS
[ -z "${FUSEWIRE_BUILD_TYPE:-}" ] || set -- "-DCMAKE_BUILD_TYPE=$FUSEWIRE_BUILD_TYPE" "$@"
[ -z "${FUSEWIRE_LTO:-}" ] || set -- "-DFUSEWIRE_LTO=$FUSEWIRE_LTO" "$@"
[ -z "${FUSEWIRE_DCHECKS:-}" ] || set -- "-DFUSEWIRE_DCHECKS=$FUSEWIRE_DCHECKS" "$@"
[ -z "${FUSEWIRE_UNITY:-}" ] || set -- "-DFUSEWIRE_UNITY=$FUSEWIRE_UNITY" "$@"
# -k 0: one run shows every file that fails, not only the first one.
if ! { cmake --preset "$preset" "$@" && cmake --build --preset "$preset" "${build_arguments[@]}" -- -k 0; } \
  >"$log" 2>&1; then
  { grep -E -A 3 'error:|CMake Error|undefined reference' "$log" || tail -n 30 "$log"; } | head -n 60 | cut -c 1-300 >&2
  echo "build $preset failed; the full output is in $log" >&2
  exit 1
fi
echo "build $preset done in $((SECONDS - start)) s"
