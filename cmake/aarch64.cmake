# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Debian's cross compiler for aarch64, and qemu-user to run what it makes: the toolchain of the preset aarch64.
# tools/aarch64.sh fills the root with the headers and libraries that the cross compiler does not bring.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH root)
string(APPEND root /build/aarch64-root)
# The compiler looks into the machine's own /usr/include as well, last.
set(CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES ${root}/usr/include ${root}/usr/include/aarch64-linux-gnu)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64;-L;${root})
