#!/usr/bin/env bash
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# The Python tests of the plug-in under AddressSanitizer: tools/plugin_asan.sh [VERSION [argument of pytest...]]
# Without arguments, the files that are the core of it. Minutes, and no part of make test: before a release.
# TensorFlow itself is not instrumented: what it allocates and we overrun is found, what it overruns is not.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${1:-2.15.1}
[ $# -eq 0 ] || shift
arguments=("$@")
[ ${#arguments[@]} -gt 0 ] ||
  arguments=(tests/python/test_{star,protocol,clusters,collective_tensorflow,failures,sessions}.py)
tools/plugin.sh "$version"
build=$PWD/build/tf-asan
python=$PWD/.venv-tf-$version/bin/python
findings=$PWD/build/logs/tf-asan-findings
tools/build.sh tf-asan --target fusewire_tf -- "-DPython_EXECUTABLE=$python"

# The package as it is, with this library in it.
packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
rm -rf "$build/package" "$findings"
mkdir -p "$build/package" "$findings"
cp -rL "$packages/fusewire" "$build/package/"
cp "$build/lib/libfusewire_tf.so" "$build/package/fusewire/_lib/tf-$version/"

# What is freed is kept back, to notice its use, but not so much that tests of growing memory fail.
options=detect_leaks=0:detect_odr_violation=0:allocator_may_return_null=1:alloc_dealloc_mismatch=0:quarantine_size_mb=32
# Each process writes what it finds into a file of its own.
status=0
LD_PRELOAD="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libstdc++.so)" PYTHONPATH=$build/package \
  ASAN_OPTIONS="$options:log_path=$findings/of" \
  timeout -k 10 3600 "$python" -m pytest -o "cache_dir=.cache/pytest-asan" "${arguments[@]}" || status=$?
if [ -n "$(ls "$findings")" ]; then
  tail -n +1 "$findings"/* | head -n 100 >&2
  echo "plugin_asan: findings above, all of them in $findings" >&2
  exit 1
fi
echo "plugin_asan: nothing found"
exit "$status"
