#!/usr/bin/env bash
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Builds the plug-in for each TensorFlow VERSION and installs it with the Python package into that version's
# environment: tools/plugin.sh [--release|--demo] VERSION... Afterwards .venv-tf-VERSION/bin/python can import fusewire,
# and .venv-tf-VERSION/bin/fusewire is the command. The installed files are links into this tree: an edited Python file
# takes effect at once, a new file or C++ code after the next tools/plugin.sh.
#   --release  as users get it from pip install, for measurements; without it, with debug checks, for tests
#   --demo     almost as fast, and compiled in half the time
# Each has a build folder of its own: changing between them compiles nothing again.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/tensorflow_locks.sh
flavour=
case ${1:-} in --release | --demo) flavour=${1#-} && shift ;; esac  # "-release", the end of the preset's name
presets=$(tensorflow_versions | tr '\n' ' ')

if [ $# -eq 0 ]; then
  echo "plugin: name one or more TensorFlow versions; there are presets for $presets" >&2
  exit 2
fi
for version in "$@"; do
  if ! tensorflow_versions | grep -qx "$version"; then
    echo "plugin: there is no preset for TensorFlow $version, only for $presets" >&2
    exit 2
  fi
done
tools/deps.sh build
rooms=
# While pip unpacks TensorFlow, on one processor, the rooms that need none are compiled.
if [ ! -x ".venv-tf-$1/bin/python" ]; then
  tools/build.sh "tf-$1$flavour" --target fusewire_rooms -- -DFUSEWIRE_TENSORFLOW= &
  rooms=$!
fi
tools/deps.sh "${@/#/tensorflow-}"
[ -z "$rooms" ] || wait "$rooms"

for version in "$@"; do
  venv=$PWD/.venv-tf-$version
  tools/build.sh "tf-$version$flavour" --target fusewire_python
  packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  rm -rf "$packages/fusewire"
  CMAKE_INSTALL_MODE=ABS_SYMLINK_OR_COPY cmake --install "build/tf-$version$flavour" --component python \
    --prefix "$packages" >"build/logs/tf-$version-install.log"
  for command in fusewire=main fusewire-tune=tune_main; do
    printf '#!%s\nimport sys\n\nfrom fusewire.__main__ import %s\n\nsys.exit(%s())\n' \
      "$venv/bin/python" "${command#*=}" "${command#*=}" >"$venv/bin/${command%=*}"
    chmod +x "$venv/bin/${command%=*}"
  done
done
