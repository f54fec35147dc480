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
#   tsan   the same tests under clang's ThreadSanitizer, without those labelled slow and those that have one thread
#   fuzz   a million executions of each fuzz target, or FUSEWIRE_FUZZ_RUNS, from its corpus
#   bench  the benchmarks in short form: whether they run, and their results are correct; and the installed library
#   tf     the plug-in and the Python package with each TensorFlow, with the soak's short form; without the smoke tests
#          if the phase smoke is selected as well
#   tf-asan  the plug-in's unit tests under gcc's AddressSanitizer with leak detection, with the oldest TensorFlow
#   tf-tsan  the same tests under clang's ThreadSanitizer; the rooms are compiled as for tsan
#   torch  backend="fusewire" with each PyTorch of tools/torch-*.lock, an environment of 5 GB each
#   jax    fusewire.jax with each JAX of tools/jax-*.lock, an environment of 0.5 GB each
#   aarch64  the unit and conformance tests and those of fusewire.p2p and fusewire.collective, cross-compiled and under
#          qemu-user; without those of tools/aarch64-left-out.txt. No turn of CI has it
# With CI_TURN, a number, phase tf runs a quarter of its test files with each TensorFlow, and phases torch and jax run
# with one PyTorch and one JAX: the other quarters and the other ones are other turns'.
# Each phase writes its full output to build/logs/PHASE-test.log. A few tests whose expectations were not met
# get a second try, alone, when their phase is over: some need the processors in time, and others share the machine.
# Those that pass then are named as flaky. tools/test_report.py says which tests have no second try.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/tensorflow_locks.sh

test_phases=(dev smoke)
rest_phases=(slow asan tsan fuzz bench torch jax tf tf-asan tf-tsan aarch64)
smoked=no
[ -z "${CI_TURN:-}" ] || smoked=yes  # .ci/run has run them before
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
    dev | slow | asan | tsan | fuzz | torch | jax) ;;
    bench | aarch64) groups+=("$phase") ;;
    tf) groups+=(tensorflow) ;;
    smoke)
      for version in $(tensorflow_versions); do groups+=("tensorflow-$version"); done
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
if [[ " ${groups[*]} " == *" tensorflow "* ]]; then
  for group in observe partners; do
    tools/deps.sh $group || echo "test: the packages of [$group] are missing; the tests with them are skipped" >&2
  done
fi
if [[ " ${phases[*]} " == *" torch "* ]]; then
  tools/deps.sh partners || echo "test: the packages of [partners] are missing; the tests with them are skipped" >&2
fi
declare -A installed=([torch]="" [jax]="")  # the versions that are there, in words
for framework in torch jax; do
  [[ " ${phases[*]} " == *" $framework "* ]] || continue
  mapfile -t known < <(printf '%s\n' tools/$framework-*.lock | sed "s/.*$framework-//; s/\.lock$//" | sort -V)
  [ -z "${CI_TURN:-}" ] || known=("${known[$((CI_TURN / 2 % ${#known[@]}))]}")  # CI has each in every second turn
  for version in "${known[@]}"; do
    if tools/deps.sh "$framework-$version"; then
      installed[$framework]+="$version "
    else
      echo "test: $framework $version can't be installed, see above; the tests with it are skipped" >&2
    fi
  done
done
mkdir -p build/logs

# A preset can't name the number of processors.
CTEST_PARALLEL_LEVEL=${CTEST_PARALLEL_LEVEL:-$(nproc)}
export CTEST_PARALLEL_LEVEL

# Each phase prints one line with its result, and names its file for the report; a missing file counts as a failure.
results=()
say_result() {
  printf '%-12s %s, %d s\n' "$1" "$(/usr/bin/python3 tools/test_report.py --totals "$2")" $((SECONDS - $3))
}

# run_tests NAME WHAT LIMIT_S COMMAND...: writes build/logs/NAME-WHAT.xml and .log. Each test has its own time limit,
# see pyproject.toml and CMakePresets.json; this one is for pytest or ctest itself.
run_tests() {
  local name=$1 what=$2 limit_s=$3
  local log=$PWD/build/logs/$name-$what
  shift 3
  rm -f "$log.xml"
  case $1 in
    */python) set -- "$@" --junit-xml "$log.xml" -o "cache_dir=.cache/pytest-$name" ;;
    *) set -- "$@" --output-junit "$log.xml" ;;
  esac
  timeout -k 10 "$limit_s" "$@" >"$log.log" 2>&1 || true
}

# second_try NAME COMMAND...: the command runs the failed tests of NAME again.
second_try() {
  local name=$1
  shift
  rm -f "build/logs/$name-again.xml"
  ! /usr/bin/python3 tools/test_report.py --chance "build/logs/$name-test.xml" || run_tests "$name" again 600 "$@"
}

# A phase is built while the one before it is tested: tests wait for timers and for each other, so they leave the
# processors idle for a third of the time. Such a build gets only that time.
declare -A builds=()  # the process that builds a phase
preset_of() {
  case $1 in
    slow) echo dev ;;
    jax) echo torch ;;  # the same library
    *) echo "$1" ;;
  esac
}
begin_build() {
  build_phase "$1" &
  builds[$1]=$!
}
# begin_build_of_next NEXT PHASE: unless there is none, or it has the folder in which PHASE is tested.
begin_build_of_next() {
  local next=$1
  [ -n "$next" ] && [ -z "${builds[$next]:-}" ] && [ "$(preset_of "$next")" != "$(preset_of "$2")" ] || return 0
  {
    renice -n 19 -p "$BASHPID" >/dev/null
    build_phase "$next"
  } &
  builds[$next]=$!
}
await_build() { wait "${builds[$1]}"; }

build_phase() {
  local phase=$1
  case $phase in
    smoke | tf) build_for_tensorflow "$phase" ;;
    tf-asan | tf-tsan) tools/build.sh "$phase" --target fusewire_tf_tests ;;
    torch | jax) tools/build.sh torch --target fusewire_python ;;
    aarch64) tools/aarch64.sh "${aarch64_tests[@]}" ;;
    fuzz) tools/build.sh fuzz -- "-DFUSEWIRE_FUZZ_RUNS=${FUSEWIRE_FUZZ_RUNS:-1000000}" ;;
    bench)
      tools/build.sh bench --target bench_programs --target bench_paths_programs --target bench_p2p_programs \
        --target fusewire_static --target fusewire_shared
      ;;
    *) tools/build.sh "$(preset_of "$phase")" ;;
  esac
}

# has_units PHASE VERSION: whether it runs the plug-in's unit tests; tf-asan, if it is selected, runs the oldest's.
has_units() {
  [ "$1" = tf ] && { [[ " ${phases[*]} " != *" tf-asan "* ]] || [ "$2" != "$(tensorflow_versions | head -n 1)" ]; }
}

# All versions at the same time: they begin with precompiling TensorFlow's headers, on one processor. The build of each
# leaves a file, so that one that fails does not keep the others from their tests.
built_for() { echo "build/logs/$1-$2-built"; }
build_for_tensorflow() {
  local phase=$1 version targets building=() one
  for version in $(tensorflow_versions); do
    targets=(--target fusewire_python)
    [ "$phase" = smoke ] || targets+=(--target bench_replay)
    ! has_units "$phase" "$version" || targets+=(--target fusewire_tf_tests)
    rm -f "$(built_for "$phase" "$version")"
    { tools/build.sh "tf-$version" "${targets[@]}" && touch "$(built_for "$phase" "$version")"; } &
    building+=($!)
  done
  for one in "${building[@]}"; do wait "$one" || true; done
}

# The suites of all versions run at the same time: they spend much of it in processes that wait for each other. No phase
# is built meanwhile: processes that poll take twice as long if they have to share the processors with compilers.
run_tensorflow() {
  local phase=$1 version suite suites=() built=() start without position=0 wanted="not slow"
  if [ "$phase" = smoke ]; then
    wanted="smoke and not slow"
  elif [ $smoked = yes ]; then
    wanted="not smoke and not slow"
  fi
  for version in $(tensorflow_versions); do
    results+=("$phase-$version-test.xml")
    rm -f "build/logs/$phase-$version-test.xml"
  done
  await_build "$phase"
  for version in $(tensorflow_versions); do
    if [ -e "$(built_for "$phase" "$version")" ] && tools/plugin.sh "$version" >/dev/null; then
      built+=("$version")
    fi
  done
  start=$SECONDS
  for version in "${built[@]}"; do
    without=()
    [ "$phase" = smoke ] || has_units "$phase" "$version" || without=(--deselect tests/python/test_units.py::test_unit)
    # With a space, pytest would take the number for a file, and so find no conftest.py.
    if [ "$phase" = tf ] && [ -n "${CI_TURN:-}" ]; then
      without+=("--quarter=$(((CI_TURN + 2 * position) % 4))")
      position=$((position + 1))
    fi
    run_tests "$phase-$version" test 2400 ".venv-tf-$version/bin/python" -m pytest -m "$wanted" "${without[@]}" &
    suites+=($!)
    wanted+=" and not once"  # the oldest comes first
  done
  for suite in "${suites[@]}"; do wait "$suite" || true; done
  for version in "${built[@]}"; do
    second_try "$phase-$version" ".venv-tf-$version/bin/python" -m pytest --last-failed
    say_result "$phase-$version" "build/logs/$phase-$version-test.xml" "$start"
  done
}

# One version after the other: each of their tests starts several processes.
run_framework() {
  local framework=$1 version start tests=()
  await_build "$framework" || true
  begin_build_of_next "$2" "$framework"
  for version in ${installed[$framework]}; do
    results+=("$framework-$version-test.xml")
    rm -f "build/logs/$framework-$version-test.xml"
    "tools/$framework.sh" "$version" >/dev/null || continue
    start=$SECONDS
    tests=(".venv-$framework-$version/bin/python" -m pytest "tests/$framework")
    run_tests "$framework-$version" test 1200 "${tests[@]}"
    second_try "$framework-$version" "${tests[@]}" --last-failed
    say_result "$framework-$version" "build/logs/$framework-$version-test.xml" "$start"
  done
}

# With a kernel that randomizes many address bits, ThreadSanitizer has no room for its shadow memory; switch that off.
unspread=()
! setarch -R true 2>/dev/null || unspread=(setarch -R)

# TensorFlow itself is not instrumented: tf-tsan.supp lists the false positives that this causes.
run_plugin_sanitized() {
  local phase=$1 filter='*' start
  local xml=$PWD/build/logs/$phase-test.xml log=build/logs/$phase-test.log
  results+=("$phase-test.xml")
  rm -f "$xml"
  # Left out: tests that try many inputs on one thread, and those in which TensorFlow creates a function on its threads.
  if [ "$phase" = tf-tsan ]; then
    filter='-FusedAnswer.*:Keys.OfMany*:StarGrouping.OfAnyGraph*:IncomingValues.Never*:Parsers.*:TensorTravels.*'
    filter+=':StarPart.ResultsHave*:ShelfTest.WhoLetsGo*'
    filter+=':ServerTest.*:SessionTest.*:HostingTest.*:ServerSnapshotsTest.*'  # gRPC's threads and TensorFlow's whole
  fi
  # TensorFlow leaks what a server has prepared whose port is taken.
  [ "$phase" = tf-tsan ] || filter='-HostingTest.*'
  await_build "$phase" || return 0
  begin_build_of_next "$2" "$phase"
  start=$SECONDS
  # A program that crashes after its last test has written a report without failures.
  ASAN_OPTIONS=detect_leaks=1:detect_odr_violation=0:allocator_may_return_null=1:alloc_dealloc_mismatch=0 \
    LSAN_OPTIONS=suppressions=$PWD/tools/tf-lsan.supp:print_suppressions=0 \
    TSAN_OPTIONS=suppressions=$PWD/tools/tf-tsan.supp:second_deadlock_stack=1 \
    "${unspread[@]}" timeout -k 10 600 "build/$phase/bin/fusewire_tf_tests" --gtest_filter="$filter" \
    --gtest_output="xml:$xml" >"$log" 2>&1 || {
    echo "exit code $?" >>"$log"  # 124: the time limit; above 128: a signal
    grep -q '<failure' "$xml" 2>/dev/null || rm -f "$xml"
  }
  say_result "$phase" "$xml" "$start"
}

aarch64_tests=(base wire buffer observe reactor transport loopback pipe task rpc p2p collective mpi conformance)
left_out_under_qemu() { sed 's/ *#.*//; /^$/d' tools/aarch64-left-out.txt; }

# Each program at once: under qemu it takes longer to start one than to run most of its tests.
run_aarch64() {
  local name xml start without tests
  for name in "${aarch64_tests[@]}" python; do
    results+=("aarch64-$name-test.xml")
    rm -f "build/logs/aarch64-$name-test.xml"
  done
  await_build aarch64 || return 0
  start=$SECONDS
  without=$(left_out_under_qemu | grep -v :: | paste -s -d :)
  for name in "${aarch64_tests[@]}"; do
    xml=$PWD/build/logs/aarch64-$name-test.xml
    timeout -k 10 600 qemu-aarch64 -L build/aarch64-root "build/aarch64/bin/fusewire_${name}_tests" \
      --gtest_filter="-$without" --gtest_output="xml:$xml" >"build/logs/aarch64-$name-test.log" 2>&1 || true
    say_result "aarch64-$name" "$xml" "$start"
    start=$SECONDS
  done
  mapfile -t tests < <(left_out_under_qemu | grep :: | sed 's/^/--deselect=/')
  tests=("$PWD/build/aarch64-root/usr/bin/python" -m pytest tests/python/test_{native,p2p,collective}.py "${tests[@]}")
  run_tests aarch64-python test 1200 "${tests[@]}"
  second_try aarch64-python "${tests[@]}" --last-failed
  say_result aarch64-python build/logs/aarch64-python-test.xml "$start"
}

run_phase() {
  local phase=$1 start wrapper=() test_arguments=() tests=()
  results+=("$phase-test.xml")
  rm -f "build/logs/$phase-test.xml"
  case $phase in
    dev) test_arguments=(-LE '^(slow|thorough)$') ;;
    slow) test_arguments=(-L '^(slow|thorough)$') ;;
    tsan) wrapper=("${unspread[@]}") ;;
  esac
  await_build "$phase" || return 0
  begin_build_of_next "$2" "$phase"
  start=$SECONDS
  tests=("${wrapper[@]}" ctest --preset "$(preset_of "$phase")")
  run_tests "$phase" test 3000 "${tests[@]}" "${test_arguments[@]}"
  second_try "$phase" "${tests[@]}" --rerun-failed -j 1
  say_result "$phase" "build/logs/$phase-test.xml" "$start"
}

for i in "${!phases[@]}"; do
  phase=${phases[$i]}
  next=${phases[$((i + 1))]:-}
  [ -n "${builds[$phase]:-}" ] || begin_build "$phase"
  case $phase in
    smoke | tf) run_tensorflow "$phase" ;;
    torch | jax) run_framework "$phase" "$next" ;;
    tf-asan | tf-tsan) run_plugin_sanitized "$phase" "$next" ;;
    aarch64) run_aarch64 ;;
    *) run_phase "$phase" "$next" ;;
  esac
done
exec /usr/bin/python3 tools/test_report.py "${results[@]}" --folder build/logs
