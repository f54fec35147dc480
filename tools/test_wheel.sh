#!/usr/bin/env bash
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Tries the wheel in dist/ as its users do: tools/test_wheel.sh [TENSORFLOW...]; without a TENSORFLOW, each that
# tools/wheel.sh builds for. For each, a fresh environment outside of this tree gets TensorFlow and the wheel, and
# follows the quick start (docs/index.md) line by line; then its program trains over the other protocols too. No
# compiler takes part: PATH has none. Python is the system's. The wheel is bound to no version of it: without a
# TENSORFLOW, each other Python from 3.10 to 3.13 that is found gets the wheel with its extra [tensorflow], and trains.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/tensorflow_locks.sh

wheels=(dist/fusewire-*.whl)
if [ ! -f "${wheels[0]}" ]; then
  echo "test_wheel: dist/ has no wheel; run: make wheel" >&2
  exit 2
fi
wheel=$PWD/${wheels[0]}
versions=("$@")
[ ${#versions[@]} -gt 0 ] || mapfile -t versions < <(wheel_versions)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p build/logs
failed=0

# The program and the commands of the quick start, as they stand there.
awk '/^```python title="train.py"/ { on = 1; next } /^```/ { on = 0 } on' docs/index.md >"$folder/train.py"
mapfile -t commands < <(awk '/^```console/ { on = 1; next } /^```/ { on = 0 }
  on && /^\$ fusewire/ { print substr($0, 3) }' docs/index.md)
if [ ! -s "$folder/train.py" ] || [ ${#commands[@]} -lt 3 ]; then
  echo "test_wheel: docs/index.md has no program train.py, or fewer than 3 commands" >&2
  exit 1
fi
for protocol in grpc++ star_server_lite; do
  commands+=("fusewire run --ps 2 --workers 1 --protocol $protocol train.py")
done

# try_version VERSION: in the empty folder, with nothing of ours in the environment.
try_version() {
  local version=$1 venv=$folder/tf-$1 lock command start first=
  lock=$(tensorflow_lock "$version")
  /usr/bin/python3 -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r "$lock"
  start=$SECONDS
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps "$wheel"
  cp "$folder/train.py" "$venv/"
  cd "$venv"
  for command in "${commands[@]}"; do
    echo "\$ $command"
    # shellcheck disable=SC2086  # one word each
    env -i PATH="$venv/bin" HOME="$folder" TF_CPP_MIN_LOG_LEVEL=2 $command
    if [ -z "$first" ] && [[ $command == "fusewire run "* ]]; then
      first=$((SECONDS - start))
      echo "first training after $first s"
    fi
  done
}

for version in "${versions[@]}"; do
  log=build/logs/wheel-$version.log start=$SECONDS
  (try_version "$version") >"$log" 2>&1 &  # inside of an if, a command that fails would not end it
  if wait $!; then
    echo "test_wheel: TensorFlow $version: $(grep '^first training after' "$log") from the download on;" \
      "${#commands[@]} commands, $((SECONDS - start)) s in all"
  else
    failed=1
    echo "test_wheel: TensorFlow $version: failed; the end of $log:" >&2
    tail -n 30 "$log" >&2
  fi
  rm -rf "$folder/tf-$version"
done

# try_python PYTHON: as try_version, with what pip chooses for fusewire[tensorflow].
try_python() {
  local python=$1 venv=$folder/python command
  "$python" -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "fusewire[tensorflow] @ file://$wheel"
  cp "$folder/train.py" "$venv/"
  cd "$venv"
  for command in "${commands[@]}"; do
    echo "\$ $command"
    # shellcheck disable=SC2086  # one word each
    env -i PATH="$venv/bin" HOME="$folder" TF_CPP_MIN_LOG_LEVEL=2 $command
  done
}

# The Pythons of PATH and of pyenv, but the system's.
other_pythons() {
  local minor found pyenv=${PYENV_ROOT:-$HOME/.pyenv}
  for minor in 10 11 12 13; do
    [ "$(/usr/bin/python3 -c 'import sys; print(sys.version_info.minor)')" != $minor ] || continue
    for found in "$(command -v "python3.$minor" || true)" "$pyenv/versions/3.$minor".*/bin/python; do
      if [ -x "$found" ] && "$found" -c "import sys; sys.exit(sys.version_info.minor != $minor)" 2>/dev/null; then
        echo "$found"
        break
      fi
    done
  done
}

if [ $# -eq 0 ]; then
  for python in $(other_pythons); do
    name=$("$python" -c 'import platform; print(platform.python_version())')
    log=build/logs/wheel-python-$name.log start=$SECONDS
    (try_python "$python") >"$log" 2>&1 &
    if wait $!; then
      echo "test_wheel: Python $name: ${#commands[@]} commands, $((SECONDS - start)) s in all"
    else
      failed=1
      echo "test_wheel: Python $name: failed; the end of $log:" >&2
      tail -n 30 "$log" >&2
    fi
    rm -rf "$folder/python"
  done
fi
exit $failed
