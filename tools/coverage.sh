#!/usr/bin/env bash
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Measures how much of the parsers the fuzz targets cover: tools/coverage.sh [RUNS]; by default 20000 executions of each
# target, a tenth of that if an execution simulates a whole world. Prints the rows of the table in docs/reliability.md;
# the sources with their counts go to build/coverage/PARSER.txt. Sanitizers are off, as their branches would count.
set -euo pipefail
cd "$(dirname "$0")/.."

runs=${1:-20000}
tools/deps.sh build test
# parser: the targets that reach it: its sources
parsers=(
  "frames: frame_header frame_reader pipe_liar status_meta: wire/wire.cc pipe/frame_reader.cc"
  "greeting: greeting handshake pipe_liar: wire/hello.cc pipe/handshake.cc"
  "pipe: pipe_session pipe_liar: pipe/pipe.cc pipe/intake.cc pipe/heartbeat.h pipe/sender.cc pipe/frame_writer.cc \
    pipe/window.cc"
  "calls: rpc_session: rpc/peer_calls.cc rpc/client.cc rpc/call.cc"
  "endpoint: p2p_message p2p_session: wire/p2p.cc p2p/core.cc p2p/receives.cc p2p/sends.cc \
    p2p/regions.cc p2p/lane.cc"
  "ring: shm_ring: transport/shm/ring.cc"
  "arena: arena: collective/arena/arena.cc collective/arena/arena_reductions.cc \
    collective/arena/arena_moves.cc collective/arena/loans.cc collective/arena/arena_meeting.cc \
    collective/arena/arena_memory.cc"
  "control: group_control group_session: collective/group/control_message.cc collective/run/fingerprint.cc"
  "group: group_session: collective/group/group_core.cc collective/group/members.cc \
    collective/group/operations.cc collective/group/operation_table.cc collective/group/call_order.cc \
    collective/group/survivors.cc collective/run/schedule_runner.cc collective/run/compiled_schedule.cc"
  "plug-in: tf_heads tf_texts: tf/heads/calls.cc tf/heads/receives.cc tf/server/network.cc"
  "ucx: ucx_control: transport/ucx/control_message.cc"
  "texts: texts: transport/address.cc collective/schedule/choice.cc"
)
targets=$(printf '%s\n' "${parsers[@]}" | cut -d : -f 2 | tr ' ' '\n' | sort -u | xargs)

build=build/coverage
mkdir -p "$build" build/logs
cmake --preset fuzz -B "$build" -DFUSEWIRE_SANITIZE= -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1" \
  -DCMAKE_CXX_FLAGS="-fprofile-instr-generate -fcoverage-mapping" >build/logs/coverage-build.log
for target in $targets; do wanted+=("--target=fuzz_$target"); done
cmake --build "$build" "${wanted[@]}" >>build/logs/coverage-build.log

version=$(clang --version | sed -n 's/.*version \([0-9]*\).*/\1/p')
for target in $targets; do
  case $target in
    rpc_session | p2p_session | pipe_session | arena | group_session) executions=$((runs / 10)) ;;
    *) executions=$runs ;;
  esac
  mkdir -p "$build/$target-learnt"
  LLVM_PROFILE_FILE=$build/$target.raw timeout 600 "$build/bin/fuzz_$target" -runs="$executions" -seed=1 -entropic=0 \
    "$build/$target-learnt" "tests/fuzz/corpus/$target" >"$build/$target.log" 2>&1
done

echo "| parser | targets | sources | lines | branches |"
echo "|---|---|---|---|---|"
for parser in "${parsers[@]}"; do
  IFS=: read -r name reaching files <<<"$parser"
  raws=() cov=()
  for target in $reaching; do
    raws+=("$build/$target.raw")
    cov+=(-object "$build/bin/fuzz_$target")
  done
  for file in $files; do cov+=("src/fusewire/$file"); done
  "llvm-profdata-$version" merge -sparse "${raws[@]}" -o "$build/$name.profile"
  # llvm-cov takes the first program without an option.
  cov=("${cov[@]:1}" "-instr-profile=$build/$name.profile")
  "llvm-cov-$version" show -show-branches=count "${cov[@]}" >"$build/$name.txt" 2>"$build/$name.log"
  "llvm-cov-$version" export -summary-only "${cov[@]}" >"$build/$name.json" 2>>"$build/$name.log"
  /usr/bin/python3 - "$build/$name.json" "$name" "$reaching" "$files" <<'EOF'
import json
import sys

path, name, reaching, files = sys.argv[1:]
with open(path) as file:
    totals = json.load(file)["data"][0]["totals"]
parts = ["{covered} of {count}, {percent:.0f} %".format(**totals[what]) for what in ("lines", "branches")]
shown = ", ".join(f"`{target}`" for target in reaching.split())
print(f"| {name} | {shown} | {', '.join(files.split())} | {parts[0]} | {parts[1]} |")
EOF
done
