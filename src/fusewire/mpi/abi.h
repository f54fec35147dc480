// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// MPItrampoline's ABI: its types, and the numbers that it leaves to the library. A program that was compiled against
// MPItrampoline, such as jaxlib, loads the library that MPITRAMPOLINE_LIB names, and looks up MPIABI_X for each MPI_X.
//   a handle         8 bytes
//   MPIABI_Status    24 bytes of the library, then int source, tag and error, and 4 bytes of padding
#pragma once

#include <cstddef>
#include <cstdint>

namespace fusewire::mpi {

// The version of the ABI: one with the same major number that is not older will do.
constexpr int kAbiMajor = 2;
constexpr int kAbiMinor = 10;
constexpr int kAbiPatch = 0;
constexpr size_t kErrorTextBytes = 1024;    // what a caller has room for, the 0 included
constexpr size_t kLibraryTextBytes = 8192;  // likewise

using Handle = uintptr_t;

struct Status {
  uint64_t own[3];
  int source;
  int tag;
  int error;
};
static_assert(sizeof(Status) == 40);
static_assert(offsetof(Status, source) == 24);

// NOLINTBEGIN(readability-identifier-naming): words of the lists
// MPI's names behind a k: number::kSUCCESS, handle::kFLOAT.
namespace number {
#define NUMBER(name, value) constexpr int k##name = value;
#include "fusewire/mpi/abi_numbers.inc"
#undef NUMBER
}  // namespace number

namespace handle {
#define HANDLE(name, value) constexpr Handle k##name = static_cast<Handle>(value);
#include "fusewire/mpi/abi_handles.inc"
#undef HANDLE
}  // namespace handle
// NOLINTEND(readability-identifier-naming)

}  // namespace fusewire::mpi
