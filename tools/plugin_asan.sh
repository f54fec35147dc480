#!/usr/bin/env bash
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Runs the Python tests of the plug-in under AddressSanitizer: tools/plugin_asan.sh [VERSION [argument of pytest...]]
# Without arguments, it runs the most important test files. It takes minutes and is not part of make test: run it before
# a release. TensorFlow itself is not instrumented: our overruns of its memory are found, its own are not.
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

# The package with the instrumented library.
packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
rm -rf "$build/package" "$findings"
mkdir -p "$build/package" "$findings"
cp -rL "$packages/fusewire" "$build/package/"
cp "$build/lib/libfusewire_tf.so" "$build/package/fusewire/_lib/tf-$version/"

# A small quarantine of freed memory, so that tests of memory growth don't fail.
options=detect_leaks=0:detect_odr_violation=0:allocator_may_return_null=1:alloc_dealloc_mismatch=0:quarantine_size_mb=32
# Each process writes its findings into its own file.
status=0
LD_PRELOAD="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libstdc++.so)" PYTHONPATH=$build/package \
  ASAN_OPTIONS="$options:log_path=$findings/of" \
  timeout -k 10 3600 "$python" -m pytest -o "cache_dir=.cache/pytest-asan" "${arguments[@]}" || status=$?
if [ -n "$(ls "$findings")" ]; then
  tail -n +1 "$findings"/* | head -n 100 >&2
  echo "plugin_asan: findings above; all are in $findings" >&2
  exit 1
fi
echo "plugin_asan: no findings"
exit "$status"
