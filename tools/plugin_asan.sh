#!/usr/bin/env bash
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# The plug-in under AddressSanitizer: its unit tests, and the cases of test_star.py: tools/plugin_asan.sh [VERSION]
# Takes a build of its own (minutes) and is not part of make test. TensorFlow itself is not instrumented: what it
# allocates and we overrun is found, what it overruns is not.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${1:-2.15.1}
tools/plugin.sh "$version"
build=$PWD/build/asan-tf-$version
python=$PWD/.venv-tf-$version/bin/python
mkdir -p build/logs
# abseil's containers have another layout where it sees the sanitizer, and TensorFlow's are without.
cmake --preset "tf-$version" -B "$build" -DFUSEWIRE_SANITIZE=address -DFUSEWIRE_BENCH=OFF \
  -DCMAKE_CXX_FLAGS=-U__SANITIZE_ADDRESS__ >"build/logs/asan-tf-$version.log"
cmake --build "$build" --target fusewire_tf fusewire_tf_tests >>"build/logs/asan-tf-$version.log"

export ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0:allocator_may_return_null=1:alloc_dealloc_mismatch=0
timeout 300 "$build/bin/fusewire_tf_tests" --gtest_brief=1

# The package as it is, with this library in it.
packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
rm -rf "$build/package"
mkdir "$build/package"
cp -rL "$packages/fusewire" "$build/package/"
cp "$build/lib/libfusewire_tf.so" "$build/package/fusewire/_lib/tf-$version/"
cases=$(LD_PRELOAD="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libstdc++.so)" \
  PYTHONPATH=$build/package timeout 600 "$python" tests/python/star_cases.py 2>"build/logs/asan-tf-$version-cases.log" |
  grep -c '^CASE')
if grep -q AddressSanitizer "build/logs/asan-tf-$version-cases.log"; then
  grep -A 20 AddressSanitizer "build/logs/asan-tf-$version-cases.log" >&2
  exit 1
fi
echo "plugin_asan: unit tests and $cases cases, nothing found"
