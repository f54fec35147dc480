#!/usr/bin/env bash
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Builds the wheel that users install without a compiler: tools/wheel.sh [TENSORFLOW...]
# It has a plug-in for each TENSORFLOW, or for each that has a lock: tools/tensorflow-*.lock, which all tests run with,
# and tools/wheels/tensorflow-*.lock. auditwheel checks it, and names the oldest system that it runs on. The result is
# in dist/; tools/test_wheel.sh tries it.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/tensorflow_locks.sh

versions=("$@")
[ ${#versions[@]} -gt 0 ] || mapfile -t versions < <(wheel_versions)
tools/deps.sh build wheel "${versions[@]/#/tensorflow-}"
mkdir -p build/logs

folders=()
for version in "${versions[@]}"; do
  folders+=("$(echo "$PWD/.venv-tf-$version"/lib/python3*/site-packages/tensorflow)")
done
FUSEWIRE_TENSORFLOW=$(IFS=';' && echo "${folders[*]}")
export FUSEWIRE_TENSORFLOW

log=build/logs/wheel.log
echo "wheel: building plug-ins for TensorFlow ${versions[*]} ..."
start=$SECONDS
rm -rf build/wheel
mkdir -p build/wheel dist
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
# Without isolation: .venv-wheel has what pyproject.toml asks for, pinned.
PATH=$PWD/.venv-wheel/bin:$PATH .venv-wheel/bin/python -m pip wheel . --no-deps --no-build-isolation \
  --disable-pip-version-check --wheel-dir build/wheel >"$log" 2>&1 || { tail -n 40 "$log" >&2; exit 1; }

# TensorFlow's libraries are loaded before the plug-in; a copy beside it would be a second TensorFlow.
rm -f dist/fusewire-*.whl
PATH=$PWD/.venv-wheel/bin:$PATH .venv-wheel/bin/auditwheel repair build/wheel/fusewire-*.whl --wheel-dir dist \
  --exclude libtensorflow_framework.so.2 --exclude libtensorflow_cc.so.2 >>"$log" 2>&1 || {
  tail -n 40 "$log" >&2
  exit 1
}
# A plug-in is linked without its TensorFlow's libraries, which may lack a function that TensorFlow's headers declare.
unpacked=$PWD/build/wheel/unpacked
/usr/bin/python3 -m zipfile -e dist/fusewire-*.whl "$unpacked"
for version in "${versions[@]}"; do
  TF_CPP_MIN_LOG_LEVEL=2 PYTHONPATH=$unpacked ".venv-tf-$version/bin/python" -c 'import fusewire; fusewire.load()' \
    >>"$log" 2>&1 || { tail -n 10 "$log" >&2; echo "wheel: not loaded with TensorFlow $version" >&2; exit 1; }
done
for wheel in dist/fusewire-*.whl; do
  echo "wheel: $wheel, $(($(stat -c %s "$wheel") / 1024)) KiB, after $((SECONDS - start)) s"
done
