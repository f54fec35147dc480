#!/usr/bin/env bash
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Configures and builds one preset, quietly: tools/build.sh PRESET [--target NAME]... [-- -DNAME=VALUE...]
# The output goes to build/logs/PRESET-build.log; it is shown if the build fails. A terminal shows how many of the files
# are compiled and how long the rest may take; elsewhere a line says so from time to time.
set -euo pipefail
PROGRESS_S=15
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

# Copies ninja's output to the log, and tells its progress from "[7/34] ...". The first files are the longest, so that
# the estimate is too high rather than too low.
tell_progress() {
  local line finished total now said=$SECONDS text
  while IFS= read -r line; do
    printf '%s\n' "$line" >>"$log"
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
    finished=${BASH_REMATCH[1]} total=${BASH_REMATCH[2]} now=$((SECONDS - start))
    text="build $preset: $finished of $total"
    [ "$now" -lt 5 ] || [ "$finished" -eq 0 ] || text+=", about $((now * (total - finished) / finished)) s left"
    if [ -t 1 ]; then
      printf '\r\033[K%s' "$text"
    elif [ $((SECONDS - said)) -ge $PROGRESS_S ]; then
      said=$SECONDS
      echo "$text"
    fi
  done
  [ ! -t 1 ] || printf '\r\033[K'
}

# -k 0: one run shows every file that fails, not only the first one.
if ! { cmake --preset "$preset" "$@" >"$log" 2>&1 &&
  cmake --build --preset "$preset" "${build_arguments[@]}" -- -k 0 2>&1 | tell_progress; }; then
  { grep -E -A 3 'error:|CMake Error|undefined reference' "$log" || tail -n 30 "$log"; } | head -n 60 | cut -c 1-300 >&2
  echo "build $preset failed; the full output is in $log" >&2
  exit 1
fi
echo "build $preset done in $((SECONDS - start)) s"
