#!/usr/bin/env bash
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Builds the plug-in for one TensorFlow and lays the Python package into its environment: tools/plugin.sh VERSION...
# Afterwards .venv-tf-VERSION/bin/python can import fusewire, and .venv-tf-VERSION/bin/fusewire is the command. What
# lies there are links into this tree: an edited Python file counts at once; a new one, or C++, after the next
# tools/plugin.sh. Users get the same files from pip install, which leaves out the checks that are for tests: they are
# built in here unless FUSEWIRE_DCHECKS=OFF stands in the environment, as where speed is measured.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -eq 0 ]; then
  echo "plugin: which TensorFlow? One or more of:" tools/tensorflow-*.lock >&2
  exit 2
fi
for version in "$@"; do
  if [ ! -f "tools/tensorflow-$version.lock" ]; then
    echo "plugin: no tools/tensorflow-$version.lock; there are:" tools/tensorflow-*.lock >&2
    exit 2
  fi
done
export FUSEWIRE_DCHECKS=${FUSEWIRE_DCHECKS:-ON}
tools/deps.sh build "${@/#/tensorflow-}"

for version in "$@"; do
  venv=$PWD/.venv-tf-$version
  tools/build.sh "tf-$version" --target fusewire_python
  packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  rm -rf "$packages/fusewire"
  CMAKE_INSTALL_MODE=ABS_SYMLINK_OR_COPY cmake --install "build/tf-$version" --component python --prefix "$packages" \
    >"build/logs/tf-$version-install.log"
  for command in fusewire=main fusewire-tune=tune_main; do
    printf '#!%s\nimport sys\n\nfrom fusewire.cli.main import %s\n\nsys.exit(%s())\n' \
      "$venv/bin/python" "${command#*=}" "${command#*=}" >"$venv/bin/${command%=*}"
    chmod +x "$venv/bin/${command%=*}"
  done
done
