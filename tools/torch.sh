#!/usr/bin/env bash
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Builds the library, without TensorFlow, and installs it with the Python package into the environment of each PyTorch
# VERSION: tools/torch.sh VERSION... Afterwards .venv-torch-VERSION/bin/python has backend="fusewire". The installed
# files are links into this tree, as those of tools/plugin.sh are. Debug checks are built in unless FUSEWIRE_DCHECKS=OFF
# is set, as for measurements.
set -euo pipefail
cd "$(dirname "$0")/.."
known=$(printf '%s\n' tools/torch-*.lock | sed 's/.*torch-//; s/\.lock$//' | sort -V | tr '\n' ' ')

if [ $# -eq 0 ]; then
  echo "torch: name one or more versions of PyTorch; there are locks for $known" >&2
  exit 2
fi
for version in "$@"; do
  if [ ! -f "tools/torch-$version.lock" ]; then
    echo "torch: there is no lock for PyTorch $version, only for $known" >&2
    exit 2
  fi
done
export FUSEWIRE_DCHECKS=${FUSEWIRE_DCHECKS:-ON}
tools/deps.sh build "${@/#/torch-}"
tools/build.sh torch --target fusewire_python

release=$(sed -n 's/^VERSION = "\(.*\)"$/\1/p' python/fusewire/version.py)
for version in "$@"; do
  python=$PWD/.venv-torch-$version/bin/python
  packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  rm -rf "$packages"/fusewire "$packages"/fusewire-*.dist-info
  CMAKE_INSTALL_MODE=ABS_SYMLINK_OR_COPY cmake --install build/torch --component python --prefix "$packages" \
    >"build/logs/torch-$version-install.log"
  # What pip would write: PyTorch finds the backend by its entry point.
  facts=$packages/fusewire-$release.dist-info
  mkdir "$facts"
  printf 'Metadata-Version: 2.1\nName: fusewire\nVersion: %s\n' "$release" >"$facts/METADATA"
  "$python" - pyproject.toml >"$facts/entry_points.txt" <<'END'
import sys
import tomllib

with open(sys.argv[1], "rb") as file:
    groups = tomllib.load(file)["project"]["entry-points"]
for group, points in groups.items():
    print(f"[{group}]", *(f"{name} = {value}" for name, value in points.items()), sep="\n")
END
done
