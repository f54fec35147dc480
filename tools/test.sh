#!/usr/bin/env bash
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Builds and runs the tests: tools/test.sh [PHASE...]; without a phase, all of them. Prints the totals last.
#   dev    gcc, optimised, all checks on: unit, conformance, simulation, fault tests, the room rules
#   asan   the same tests under AddressSanitizer with leak detection, and UndefinedBehaviorSanitizer. Without
#          intercept_tls_get_addr: clang 14 takes random bytes for the size of what UCX keeps for each thread
#   tsan   the same tests, less those labelled slow, under clang's ThreadSanitizer
#   fuzz   a million executions of each fuzz target, or FUSEWIRE_FUZZ_RUNS, from its corpus
#   bench  the benchmarks in short form, release build: do they run and check their own results?
#   tf     the plug-in and the Python package, in turn under each TensorFlow of tools/tensorflow-*.lock
#   tf-asan  the plug-in's unit tests under gcc's AddressSanitizer with leak detection, with the oldest of these
#   tf-tsan  the same tests under clang's ThreadSanitizer; its rooms are compiled as for tsan
# Each phase leaves its whole output in build/logs/PHASE-test.log.
set -euo pipefail
cd "$(dirname "$0")/.."

phases=("$@")
[ ${#phases[@]} -gt 0 ] || phases=(dev asan tsan fuzz bench tf tf-asan tf-tsan)
groups=(build test)
for phase in "${phases[@]}"; do
  case $phase in
    dev | asan | tsan | fuzz) ;;
    bench) groups+=(bench) ;;
    tf) groups+=(tensorflow) ;;
    tf-asan | tf-tsan) groups+=(tensorflow-2.15.1) ;;  # as the preset says
    *)
      echo "test: no phase named $phase; there are: dev asan tsan fuzz bench tf tf-asan tf-tsan" >&2
      exit 2
      ;;
  esac
done
tools/deps.sh "${groups[@]}"
tools/deps.sh rdma || echo "test: without what RDMA is tested with" >&2
mkdir -p build/logs

# Each phase prints one line of result, and names its file for the report; one that is missing counts as a failure.
results=()
say_result() {
  printf '%-9s %s, %d s\n' "$1" "$(/usr/bin/python3 tools/test_report.py --totals "$2")" $((SECONDS - $3))
}

# The suites of all versions run at the same time: much of each is processes that wait for one another.
run_tensorflow() {
  local version versions=() start
  local -x FUSEWIRE_DCHECKS=ON  # in what plugin.sh builds, and in what is built beside it
  for version in tools/tensorflow-*.lock; do
    version=${version#tools/tensorflow-}
    version=${version%.lock}
    results+=("tf-$version-test.xml")
    rm -f "build/logs/tf-$version-test.xml"
    { tools/plugin.sh "$version" &&
      tools/build.sh "tf-$version" --target fusewire_tf_tests --target bench_replay; } || continue
    versions+=("$version")
  done
  start=$SECONDS
  local wanted="not slow"  # of the oldest, which comes first
  for version in "${versions[@]}"; do
    # Each test has a time limit of its own, see pyproject.toml; this one is for pytest itself.
    timeout -k 10 2400 ".venv-tf-$version/bin/python" -m pytest --junit-xml "build/logs/tf-$version-test.xml" \
      -m "$wanted" -o "cache_dir=.cache/pytest-$version" >"build/logs/tf-$version-test.log" 2>&1 &
    wanted="not slow and not once"
  done
  wait
  for version in "${versions[@]}"; do say_result "tf-$version" "build/logs/tf-$version-test.xml" "$start"; done
}

# A kernel that spreads addresses widely leaves ThreadSanitizer no room for its shadow; ask it not to.
unspread() {
  if setarch -R true 2>/dev/null; then setarch -R "$@"; else "$@"; fi
}

# TensorFlow itself is not instrumented: what it counts where ThreadSanitizer does not see it stands in tf-tsan.supp.
run_plugin_sanitized() {
  local phase=$1 filter='*' start=$SECONDS
  local xml=$PWD/build/logs/$phase-test.xml log=build/logs/$phase-test.log
  results+=("$phase-test.xml")
  rm -f "$xml"
  # What tries many inputs on one thread; and what has TensorFlow make a function, on threads of its own.
  if [ "$phase" = tf-tsan ]; then
    filter='-FusedAnswer.*:Keys.OfMany*:StarGrouping.OfAnyGraph*:IncomingValues.Never*:Parsers.*:TensorTravels.*'
    filter+=':StarPart.ResultsHave*:ShelfTest.WhoLetsGo*'
  fi
  tools/build.sh "$phase" --target fusewire_tf_tests || return 0
  # One that ends badly without a failed test, as after the last one, left a report that looks well.
  ASAN_OPTIONS=detect_leaks=1:detect_odr_violation=0:allocator_may_return_null=1:alloc_dealloc_mismatch=0 \
    TSAN_OPTIONS=suppressions=$PWD/tools/tf-tsan.supp:second_deadlock_stack=1 \
    unspread timeout -k 10 600 "build/$phase/bin/fusewire_tf_tests" --gtest_filter="$filter" \
    --gtest_output="xml:$xml" >"$log" 2>&1 ||
    grep -q '<failure' "$xml" 2>/dev/null || rm -f "$xml"
  say_result "$phase" "$xml" "$start"
}

run_phase() {
  local phase=$1 preset=$1 start=$SECONDS wrapper=() build_arguments=() test_arguments=()
  local xml=$PWD/build/logs/$phase-test.xml log=build/logs/$phase-test.log
  results+=("$phase-test.xml")
  rm -f "$xml"
  case $phase in
    tsan) wrapper=(unspread) ;;
    fuzz) build_arguments=(-- "-DFUSEWIRE_FUZZ_RUNS=${FUSEWIRE_FUZZ_RUNS:-1000000}") ;;
    bench)
      preset=release
      build_arguments=(--target bench_programs --target bench_collective_programs --target bench_p2p_programs
                       -- -DBUILD_TESTING=ON -DFUSEWIRE_BENCH=ON)
      test_arguments=(-L '^bench-smoke$')
      ;;
  esac
  tools/build.sh "$preset" "${build_arguments[@]}" || return 0
  "${wrapper[@]}" ctest --preset "$preset" "${test_arguments[@]}" --output-junit "$xml" >"$log" 2>&1 || true
  say_result "$phase" "$xml" "$start"
}

for phase in "${phases[@]}"; do
  case $phase in
    tf) run_tensorflow ;;
    tf-asan | tf-tsan) run_plugin_sanitized "$phase" ;;
    *) run_phase "$phase" ;;
  esac
done
exec /usr/bin/python3 tools/test_report.py "${results[@]}" --folder build/logs
