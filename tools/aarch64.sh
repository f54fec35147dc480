#!/usr/bin/env bash
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Cross-compiles the library, the Python package and the tests fusewire_NAME_tests for aarch64, to be run under
# qemu-user: tools/aarch64.sh [NAME...]. Afterwards
# build/aarch64-root/usr/bin/python is a Python of that architecture which has the package, and a program runs with:
#   qemu-aarch64 -L build/aarch64-root build/aarch64/bin/NAME
# What Debian's cross compiler does not bring is in build/aarch64-root: Debian's packages for arm64, unpacked, and
# GoogleTest. The machine's own packages, and what apt knows of them, stay as they are.
set -eEuo pipefail
cd "$(dirname "$0")/.."
root=$PWD/build/aarch64-root
packages=(
  libc6 libgcc-s1 libstdc++6 libatomic1    # what every program loads
  libssl-dev libssl3 libucx-dev            # TLS; headers for RDMA
  libpython3.11-dev                        # headers for _calls.abi3.so
  python3.11-minimal libpython3.11-minimal libpython3.11-stdlib zlib1g libexpat1 libffi8 libuuid1 libbz2-1.0 liblzma5
  python3-numpy libblas3 liblapack3 libgfortran5
  python3-pytest python3-pluggy python3-iniconfig python3-packaging python3-attr
)

# download_packages FOLDER: with lists of packages and a cache of their own.
download_packages() {
  local apt
  mkdir -p "$1"/{lists,cache/archives}/partial
  apt=(apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root
    -o "Dir::State::Lists=$1/lists" -o "Dir::Cache=$1/cache" -o Dir::State::status=/dev/null)
  "${apt[@]}" update && (cd "$1" && "${apt[@]}" download "${packages[@]}")
}

build_googletest() {
  cmake -S /usr/src/googletest -B "$1" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/aarch64.cmake" \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$root/usr" -DCMAKE_INSTALL_LIBDIR=lib &&
    cmake --build "$1" --target install
}

# A program in the root that runs this Python under qemu; the Python's own children find it as sys.executable.
write_python() {
  local library=$root/usr/lib/aarch64-linux-gnu
  ln -sf blas/libblas.so.3 lapack/liblapack.so.3 "$library"
  printf '#!/bin/sh\nexport PYTHONHOME=%q\nexec qemu-aarch64 -L %q %q "$@"\n' "$root/usr" "$root" \
    "$root/usr/bin/python3.11" >"$root/usr/bin/python"
  printf '#!/bin/sh\nexec %q -m fusewire "$@"\n' "$root/usr/bin/python" >"$root/usr/bin/fusewire"
  chmod +x "$root"/usr/bin/{python,fusewire}
  rm -f "$root/usr/lib/python3.11/sitecustomize.py"  # a link out of the root
  printf 'import sys\n\nsys.executable = "%s"\n' "$root/usr/bin/python" >"$root/usr/lib/python3.11/sitecustomize.py"
}

make_root() {
  local downloads=$root/downloads package
  rm -rf "$root"
  download_packages "$downloads"
  for package in "$downloads"/*.deb; do dpkg -x "$package" "$root"; done
  build_googletest "$root/googletest"
  write_python
  rm -rf "$downloads" "$root/googletest"
}

tools/deps.sh build test aarch64
mkdir -p build/logs
wanted=$(md5sum "$0")
if [ "$(cat "$root/made-by" 2>/dev/null)" != "$wanted" ]; then
  echo "aarch64: fetching Debian's packages for arm64 ..."
  log=build/logs/aarch64-root.log
  trap 'tail -n 20 "$log" >&2; echo "aarch64: $root was not made; the full output is in $log" >&2' ERR
  make_root >"$log" 2>&1
  trap - ERR
  echo "$wanted" >"$root/made-by"
fi
targets=(--target fusewire_shared --target fusewire_python)
for name in "$@"; do targets+=(--target "fusewire_${name}_tests"); done
tools/build.sh aarch64 "${targets[@]}"
CMAKE_INSTALL_MODE=ABS_SYMLINK_OR_COPY cmake --install build/aarch64 --component python \
  --prefix "$root/usr/lib/python3/dist-packages" >build/logs/aarch64-install.log
