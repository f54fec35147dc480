# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# How everything of ours is compiled. A project that embeds us gets fusewire_include, and keeps its own flags.

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_CXX_EXTENSIONS OFF)

find_program(FUSEWIRE_CCACHE ccache)
if(FUSEWIRE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${FUSEWIRE_CCACHE})
endif()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

# What a user of a room needs.
add_library(fusewire_include INTERFACE)
target_include_directories(fusewire_include INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_compile_features(fusewire_include INTERFACE cxx_std_17)
target_link_libraries(fusewire_include INTERFACE Threads::Threads)

# What our own code is compiled with.
add_library(fusewire_flags INTERFACE)
target_compile_options(
  fusewire_flags INTERFACE -Wall -Wextra -Wshadow -Wundef -Wvla -Wnon-virtual-dtor -Woverloaded-virtual
                           -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(fusewire_flags INTERFACE -Wthread-safety -Werror=thread-safety)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # gcc 12 sees an overlap in every "text" + std::string at -O3 (its bug 105651), and more of the kind in tests.
  target_compile_options(fusewire_flags INTERFACE -Wno-restrict)
  target_compile_options(fusewire_flags INTERFACE $<$<CONFIG:Release>:-Wno-array-bounds -Wno-stringop-overflow>)
  # A spinning round trip over shared memory took 0.49 or 0.55 us, by where its loops came to lie.
  target_compile_options(fusewire_flags INTERFACE $<$<CONFIG:Release>:-falign-functions=64 -falign-loops=32>)
endif()

# A failed check names its file; where that was built is nobody's business.
set(FUSEWIRE_NO_PATHS -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/src/= -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/include/=)

if(FUSEWIRE_DCHECKS)
  target_compile_definitions(fusewire_flags INTERFACE FUSEWIRE_DCHECKS)
endif()

# What is built only where its headers are. Asked each time, and not by __has_include: neither ninja nor ccache notices
# headers that have come since.
include(CheckCXXSourceCompiles)
macro(fusewire_has name source)
  unset(FUSEWIRE_HAS_${name} CACHE)
  set(CMAKE_REQUIRED_QUIET ON)
  check_cxx_source_compiles("${source}\nint main() {}" FUSEWIRE_HAS_${name})
  target_compile_definitions(fusewire_flags INTERFACE FUSEWIRE_HAS_${name}=$<BOOL:${FUSEWIRE_HAS_${name}}>)
endmacro()
fusewire_has(UCX "#include <ucp/api/ucp.h>")
fusewire_has(TLS "#include <openssl/ssl.h>\n#if OPENSSL_VERSION_NUMBER < 0x30000000L\n#error too old\n#endif")

if(FUSEWIRE_LTO)
  # A message crosses eight rooms in calls of few instructions each.
  set(CMAKE_INTERPROCEDURAL_OPTIMIZATION ON)
  if(FUSEWIRE_LIBRARY AND NOT FUSEWIRE_TENSORFLOW)
    target_compile_options(fusewire_flags INTERFACE -ffat-lto-objects)  # users of libfusewire.a need no LTO
  endif()
endif()

if(FUSEWIRE_SANITIZE)
  list(JOIN FUSEWIRE_SANITIZE "," sanitizers)
  target_compile_options(fusewire_flags INTERFACE -fsanitize=${sanitizers} -fno-sanitize-recover=all)
  target_link_options(fusewire_flags INTERFACE -fsanitize=${sanitizers})
  if("undefined" IN_LIST FUSEWIRE_SANITIZE)
    # This check opens a pipe to see whether memory is there: it cries wolf in tests that run out of descriptors.
    target_compile_options(fusewire_flags INTERFACE -fno-sanitize=vptr)
  endif()
endif()
if(FUSEWIRE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "FUSEWIRE_FUZZ needs clang, which brings libFuzzer; use cmake --preset fuzz")
  endif()
  target_compile_options(fusewire_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
