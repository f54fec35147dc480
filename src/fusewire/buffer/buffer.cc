// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/buffer/buffer.h"

#include <cstdlib>

namespace fusewire {
namespace {

constexpr size_t kAlignment = 64;  // as Eigen and AVX-512 kernels require of a tensor

void FreeBytes(void* owner, Bytes) { std::free(owner); }

}  // namespace

Buffer Buffer::TryAllocate(size_t size) {
  if (size == 0) return Buffer();
  if (size > SIZE_MAX - kAlignment) return Buffer();
  void* memory = std::aligned_alloc(kAlignment, (size + kAlignment - 1) / kAlignment * kAlignment);
  if (memory == nullptr) return Buffer();
  return Wrap(Bytes(memory, size), memory, FreeBytes);
}

Buffer Buffer::CopyOf(ConstBytes from) {
  Buffer copy = TryAllocate(from.size);
  if (copy.size() == from.size) CopyBytes(copy.bytes(), from);
  return copy;
}

}  // namespace fusewire
