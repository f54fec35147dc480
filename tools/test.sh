#!/usr/bin/env bash
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Builds and runs the tests: tools/test.sh [PHASE...]; without a phase, all of them. Prints the totals last.
#   dev    gcc, optimised, all checks on: unit, conformance, simulation, fault tests, the room rules
#   asan   the same tests under AddressSanitizer with leak detection, and UndefinedBehaviorSanitizer
#   tsan   the same tests, less those labelled slow, under clang's ThreadSanitizer
#   fuzz   a million executions of each fuzz target, from its corpus
#   bench  the benchmarks in short form, release build: do they run and check their own results?
# Each phase leaves its whole output in build/logs/PHASE-test.log.
set -euo pipefail
cd "$(dirname "$0")/.."

phases=("$@")
[ ${#phases[@]} -gt 0 ] || phases=(dev asan tsan fuzz bench)
groups=(build test)
for phase in "${phases[@]}"; do
  case $phase in
    dev | asan | tsan | fuzz) ;;
    bench) groups+=(bench) ;;
    *)
      echo "test: no phase named $phase; there are: dev asan tsan fuzz bench" >&2
      exit 2
      ;;
  esac
done
tools/deps.sh "${groups[@]}"
mkdir -p build/logs

# Prints one line of result, and leaves build/logs/PHASE-test.xml for the report; without it the phase counts as failed.
run_phase() {
  local phase=$1 preset=$1 start=$SECONDS wrapper=() build_arguments=() test_arguments=()
  local xml=$PWD/build/logs/$phase-test.xml log=build/logs/$phase-test.log
  rm -f "$xml"
  case $phase in
    tsan)
      # A kernel that spreads addresses widely leaves ThreadSanitizer no room for its shadow; ask it not to.
      if setarch -R true 2>/dev/null; then wrapper=(setarch -R); fi
      ;;
    bench)
      preset=release
      build_arguments=(--target bench_programs -- -DBUILD_TESTING=ON -DFUSEWIRE_BENCH=ON)
      test_arguments=(-L '^bench-smoke$')
      ;;
  esac
  tools/build.sh "$preset" "${build_arguments[@]}" || return 0
  "${wrapper[@]}" ctest --preset "$preset" "${test_arguments[@]}" --output-junit "$xml" >"$log" 2>&1 || true
  printf '%-5s %s, %d s\n' "$phase" "$(/usr/bin/python3 tools/test_report.py --totals "$xml")" $((SECONDS - start))
}

for phase in "${phases[@]}"; do
  run_phase "$phase"
done
exec /usr/bin/python3 tools/test_report.py "${phases[@]/%/-test.xml}" --folder build/logs
