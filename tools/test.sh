#!/usr/bin/env bash
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Builds and runs the tests: tools/test.sh [PHASE...]; prints the totals last. A PHASE is one of these, or stands for
# several: test (those of make test, the default), rest (what make test leaves out), all (both).
#  of make test:
#   dev    gcc, optimised, all checks on: unit, conformance, simulation and fault tests, and tools/tidy.py; without the
#          tests labelled slow or thorough
#   smoke  a step over each protocol with each TensorFlow of tools/tensorflow-*.lock, and some random programs: the
#          tests of tests/python that are marked smoke
#  of the rest:
#   slow   the tests that dev leaves out
#   asan   the tests of dev and slow under AddressSanitizer with leak detection, and UndefinedBehaviorSanitizer. Without
#          intercept_tls_get_addr: clang 14 takes random bytes for the size of what UCX keeps for each thread
#   tsan   the same tests, without those labelled slow, under clang's ThreadSanitizer
#   fuzz   a million executions of each fuzz target, or FUSEWIRE_FUZZ_RUNS, from its corpus
#   bench  the benchmarks in short form, release build: whether they run, and their results are correct;
#          and the installed library
#   tf     the plug-in and the Python package with each TensorFlow, with the soak's short form; without the smoke tests
#          if the phase smoke is selected as well
#   tf-asan  the plug-in's unit tests under gcc's AddressSanitizer with leak detection, with the oldest TensorFlow
#   tf-tsan  the same tests under clang's ThreadSanitizer; the rooms are compiled as for tsan
# Each phase writes its full output to build/logs/PHASE-test.log.
set -euo pipefail
cd "$(dirname "$0")/.."

test_phases=(dev smoke)
rest_phases=(slow asan tsan fuzz bench tf tf-asan tf-tsan)
smoked=no
phases=()
[ $# -gt 0 ] || set -- test
for word in "$@"; do
  case $word in
    test) phases+=("${test_phases[@]}") ;;
    rest) phases+=("${rest_phases[@]}") ;;
    all) phases+=("${test_phases[@]}" "${rest_phases[@]}") ;;
    *) phases+=("$word") ;;
  esac
  [[ $word != rest && " ${phases[*]} " != *" smoke "* ]] || smoked=yes
done
groups=(build test)
for phase in "${phases[@]}"; do
  case $phase in
    dev | slow | asan | tsan | fuzz) ;;
    bench) groups+=(bench) ;;
    tf) groups+=(tensorflow) ;;
    smoke)
      for lock in tools/tensorflow-*.lock; do
        lock=${lock#tools/}
        groups+=("${lock%.lock}")
      done
      ;;
    tf-asan | tf-tsan) groups+=(tensorflow-2.15.1) ;;  # as the preset says
    *)
      echo "test: no phase named $phase; there are: ${test_phases[*]} ${rest_phases[*]}, and test, rest, all" >&2
      exit 2
      ;;
  esac
done
tools/deps.sh "${groups[@]}"
tools/deps.sh rdma || echo "test: the packages of [rdma] are missing; the RDMA tests are skipped" >&2
mkdir -p build/logs

export FUSEWIRE_UNITY=${FUSEWIRE_UNITY:-ON}  # for a single build; lint and quick compile each file separately
export FUSEWIRE_LTO=${FUSEWIRE_LTO:-OFF}  # speed does not matter here; pip's build is tested as users get it
# A preset can't name the number of processors.
CTEST_PARALLEL_LEVEL=${CTEST_PARALLEL_LEVEL:-$(nproc)}
export CTEST_PARALLEL_LEVEL

# Each phase prints one line with its result, and names its file for the report; a missing file counts as a failure.
results=()
say_result() {
  printf '%-12s %s, %d s\n' "$1" "$(/usr/bin/python3 tools/test_report.py --totals "$2")" $((SECONDS - $3))
}

# The suites of all versions run at the same time: they spend much of it in processes that wait for each other.
run_tensorflow() {
  local phase=$1 version versions=() start name targets=() wanted="not slow"
  # For plugin.sh and the other builds of this phase; the rooms are compiled as for dev, so ccache has them.
  local -x FUSEWIRE_DCHECKS=ON FUSEWIRE_BUILD_TYPE=RelWithDebInfo
  case $phase in
    smoke) wanted="smoke and not slow" ;;
    tf)
      targets=(--target fusewire_tf_tests --target bench_replay)
      [ $smoked = no ] || wanted="not smoke and not slow"
      ;;
  esac
  for version in tools/tensorflow-*.lock; do
    version=${version#tools/tensorflow-}
    version=${version%.lock}
    name=$phase-$version-test
    results+=("$name.xml")
    rm -f "build/logs/$name.xml"
    tools/plugin.sh "$version" || continue
    [ ${#targets[@]} -eq 0 ] || tools/build.sh "tf-$version" "${targets[@]}" || continue
    versions+=("$version")
  done
  start=$SECONDS
  for version in "${versions[@]}"; do
    name=$phase-$version-test
    # Each test has its own time limit, see pyproject.toml; this one is for pytest itself.
    timeout -k 10 2400 ".venv-tf-$version/bin/python" -m pytest --junit-xml "build/logs/$name.xml" \
      -m "$wanted" -o "cache_dir=.cache/pytest-$version" >"build/logs/$name.log" 2>&1 &
    wanted+=" and not once"  # the oldest comes first
  done
  wait
  for version in "${versions[@]}"; do
    say_result "$phase-$version" "build/logs/$phase-$version-test.xml" "$start"
  done
}

# With a kernel that randomizes many address bits, ThreadSanitizer has no room for its shadow memory; switch that off.
unspread() {
  if setarch -R true 2>/dev/null; then setarch -R "$@"; else "$@"; fi
}

# TensorFlow itself is not instrumented: tf-tsan.supp lists the false positives that this causes.
run_plugin_sanitized() {
  local phase=$1 filter='*' start=$SECONDS
  local xml=$PWD/build/logs/$phase-test.xml log=build/logs/$phase-test.log
  results+=("$phase-test.xml")
  rm -f "$xml"
  # Left out: tests that try many inputs on one thread, and those in which TensorFlow creates a function on its threads.
  if [ "$phase" = tf-tsan ]; then
    filter='-FusedAnswer.*:Keys.OfMany*:StarGrouping.OfAnyGraph*:IncomingValues.Never*:Parsers.*:TensorTravels.*'
    filter+=':StarPart.ResultsHave*:ShelfTest.WhoLetsGo*'
    filter+=':ServerTest.*:SessionTest.*'  # gRPC's threads and TensorFlow's whole
  fi
  tools/build.sh "$phase" --target fusewire_tf_tests || return 0
  # A program that crashes after its last test has written a report without failures.
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
    dev) test_arguments=(-LE '^(slow|thorough)$') ;;
    slow)
      preset=dev
      test_arguments=(-L '^(slow|thorough)$')
      ;;
    tsan) wrapper=(unspread) ;;
    fuzz) build_arguments=(-- "-DFUSEWIRE_FUZZ_RUNS=${FUSEWIRE_FUZZ_RUNS:-1000000}") ;;
    bench)
      preset=release
      build_arguments=(--target bench_programs --target bench_collective_programs --target bench_p2p_programs
                       --target fusewire_static --target fusewire_shared
                       -- -DBUILD_TESTING=ON -DFUSEWIRE_BENCH=ON)
      test_arguments=(-L '^(bench-smoke|install)$')
      ;;
  esac
  tools/build.sh "$preset" "${build_arguments[@]}" || return 0
  "${wrapper[@]}" ctest --preset "$preset" "${test_arguments[@]}" --output-junit "$xml" >"$log" 2>&1 || true
  say_result "$phase" "$xml" "$start"
}

for phase in "${phases[@]}"; do
  case $phase in
    smoke | tf) run_tensorflow "$phase" ;;
    tf-asan | tf-tsan) run_plugin_sanitized "$phase" ;;
    *) run_phase "$phase" ;;
  esac
done
exec /usr/bin/python3 tools/test_report.py "${results[@]}" --folder build/logs
