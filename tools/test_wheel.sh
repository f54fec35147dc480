#!/usr/bin/env bash
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Tries the wheel in dist/ as its users do: tools/test_wheel.sh [TENSORFLOW|python3.N...]. Without arguments: each
# TensorFlow that tools/wheel.sh builds for, each Python from 3.10 to 3.13 that is found.
# For each TensorFlow, a fresh environment outside of this tree gets it and the wheel, and follows the quick start
# (docs/index.md) line by line; then its program trains over the other protocols too. No compiler takes part: PATH has
# none. Python is the system's; each other one gets the wheel with its extra [tensorflow], and does the same. For each
# Python, pip must find what the other extras ask for.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/tensorflow_locks.sh

wheels=(dist/fusewire-*.whl)
if [ ! -f "${wheels[0]}" ]; then
  echo "test_wheel: dist/ has no wheel; run: make wheel" >&2
  exit 2
fi
wheel=$PWD/${wheels[0]}
versions=()
minors=()
for word in "$@"; do
  case $word in
    python3.*) minors+=("${word#python3.}") ;;
    *) versions+=("$word") ;;
  esac
done
if [ $# -eq 0 ]; then
  mapfile -t versions < <(wheel_versions)
  minors=(10 11 12 13)
fi
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

venv=$folder/venv
install() { "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"; }

with_tensorflow() {
  local lock
  lock=$(tensorflow_lock "$1")
  /usr/bin/python3 -m venv "$venv"
  install --require-hashes --only-binary :all: -r "$lock"
  install --no-index --no-deps "$wheel"
}

with_python() {
  local extra extras=(torch ray)
  "$1" -m venv "$venv"
  # JAX 0.10 is for no older Python.
  ! "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || extras+=(jax)
  for extra in "${extras[@]}"; do
    echo "\$ pip install 'fusewire[$extra]' --dry-run"
    install --dry-run "fusewire[$extra] @ file://$wheel"
  done
  install "fusewire[tensorflow] @ file://$wheel"
}

# With nothing of ours in the environment.
follow_quick_start() {
  local command start=$SECONDS first=
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

# try NAME VERSION [PYTHON]: NAME is TensorFlow or Python.
try() {
  local log=build/logs/wheel-$1-$2.log start=$SECONDS
  {  # in a process: inside of an if, a command that fails would not end it
    if [ "$1" = TensorFlow ]; then with_tensorflow "$2"; else with_python "$3"; fi
    follow_quick_start
  } >"$log" 2>&1 &
  if wait $!; then
    echo "test_wheel: $1 $2: $(grep '^first training after' "$log") from the installation on;" \
      "${#commands[@]} commands, $((SECONDS - start)) s in all"
  else
    failed=1
    echo "test_wheel: $1 $2: failed; the end of $log:" >&2
    tail -n 30 "$log" >&2
  fi
  rm -rf "$venv"
}

# python_of MINOR: that of PATH or of pyenv. A shim of pyenv is there for versions that it does not start.
python_of() {
  local found
  for found in "$(command -v "python3.$1" || true)" "${PYENV_ROOT:-$HOME/.pyenv}/versions/3.$1".*/bin/python; do
    if [ -x "$found" ] && "$found" -c "import sys; sys.exit(sys.version_info.minor != $1)" 2>/dev/null; then
      echo "$found"
      return
    fi
  done
  return 1
}

for version in "${versions[@]}"; do try TensorFlow "$version"; done
for minor in "${minors[@]}"; do
  if python=$(python_of "$minor"); then
    try Python "3.$minor" "$python"
  else
    echo "test_wheel: Python 3.$minor: not found, not tried" >&2
  fi
done
exit $failed
