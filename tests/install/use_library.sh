#!/usr/bin/env bash
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Installs the library of a build folder into a folder of its own, and builds and runs examples against it: through the
# CMake package and through pkg-config, shared and static, as C++17; and the C API as C. HEADERS has the public
# headers, VERSION is what a program asks for.
#   tests/install/use_library.sh CMAKE BUILD COMPILER EXAMPLES HEADERS VERSION
set -euo pipefail
cmake=$1 build=$2 compiler=$3 examples=$4 headers=$5 version=$6
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
prefix=$folder/prefix

"$cmake" --install "$build" --component library --prefix "$prefix" >"$folder/install.log"
libdir=$(dirname "$(find "$prefix" -name libfusewire.a)")
if ! diff -r "$headers" "$prefix/include" || [ ! -f "$prefix/include/fusewire/rpc/rpc.h" ]; then
  echo "what is installed is not the public headers, neither more nor less" >&2
  exit 1
fi
# Only what is ours is to be seen.
if nm -DC --defined-only "$libdir/libfusewire.so" | awk '{$1=$2=""; print $0}' |
  grep -v -E '^ *(fusewire|guard variable|(vtable|typeinfo|typeinfo name) for fusewire|non-virtual thunk to )'; then
  echo "the names above are to be seen in libfusewire.so, and are not ours" >&2
  exit 1
fi

mkdir "$folder/use"
cp "$examples/p2p.cc" "$folder/use/"
cat >"$folder/use/CMakeLists.txt" <<LISTS
cmake_minimum_required(VERSION 3.16)
project(use CXX)
find_package(Fusewire ${version} REQUIRED)
add_executable(use_shared p2p.cc)
target_link_libraries(use_shared fusewire::fusewire)
add_executable(use_static p2p.cc)
target_link_libraries(use_static fusewire::static)
LISTS
"$cmake" -S "$folder/use" -B "$folder/use/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$compiler" \
  -DCMAKE_CXX_STANDARD=17 >"$folder/configure.log"
"$cmake" --build "$folder/use/build" >"$folder/build.log" || { cat "$folder/build.log" && exit 1; }
timeout 30 "$folder/use/build/use_shared"
timeout 30 "$folder/use/build/use_static"

if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH=$libdir/pkgconfig
  read -ra flags <<<"$(pkg-config --cflags --libs fusewire)"
  "$compiler" -std=c++17 "$examples/p2p.cc" "${flags[@]}" -pthread -Wl,-rpath,"$libdir" -o "$folder/pc_shared"
  timeout 30 "$folder/pc_shared"
  read -ra flags <<<"$(pkg-config --cflags --static fusewire)"
  "$compiler" -std=c++17 "$examples/p2p.cc" "${flags[@]}" "$libdir/libfusewire.a" -pthread -o "$folder/pc_static"
  timeout 30 "$folder/pc_static"
fi
# Neither the examples nor the public headers need anything that is not installed.
for example in "$examples"/*.cc; do "$compiler" -std=c++17 -fsyntax-only -I"$prefix/include" "$example"; done
(cd "$prefix/include" && find . -name '*.h' | sed 's|^\./\(.*\)|#include "\1"|') >"$folder/all.cc"
"$compiler" -std=c++17 -fsyntax-only -I"$prefix/include" "$folder/all.cc"
for header in fusewire/p2p/c_api.h fusewire/collective/c_api/group_c_api.h; do
  echo "#include \"$header\"" | "$compiler" -x c -std=c99 -pedantic-errors -fsyntax-only -I"$prefix/include" -
done
echo "ok: found and used"
