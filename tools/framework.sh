# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by tools/torch.sh and tools/jax.sh, at the top of the tree: install_for FRAMEWORK TITLE [--release] VERSION...
# builds the library, without TensorFlow, and installs it with the Python package into .venv-FRAMEWORK-VERSION of each
# version. The installed files are links into this tree, as those of tools/plugin.sh are. --release: as users get it,
# for measurements; without it, with debug checks, for tests.

install_for() {
  local framework=$1 title=$2 preset=torch known version python packages facts release
  shift 2
  if [ "${1:-}" = --release ]; then
    preset=torch-release
    shift
  fi
  known=$(printf '%s\n' tools/"$framework"-*.lock | sed "s/.*$framework-//; s/\.lock$//" | sort -V | tr '\n' ' ')
  if [ $# -eq 0 ]; then
    echo "$framework: name one or more versions of $title; there are locks for $known" >&2
    exit 2
  fi
  for version in "$@"; do
    if [ ! -f "tools/$framework-$version.lock" ]; then
      echo "$framework: there is no lock for $title $version, only for $known" >&2
      exit 2
    fi
  done
  tools/deps.sh build "${@/#/$framework-}"
  tools/build.sh "$preset" --target fusewire_python

  release=$(cat "build/$preset/python/version")
  for version in "$@"; do
    python=$PWD/.venv-$framework-$version/bin/python
    packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    rm -rf "$packages"/fusewire "$packages"/fusewire-*.dist-info
    CMAKE_INSTALL_MODE=ABS_SYMLINK_OR_COPY cmake --install "build/$preset" --component python --prefix "$packages" \
      >"build/logs/$framework-$version-install.log"
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
}
