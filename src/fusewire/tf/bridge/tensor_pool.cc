// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/bridge/tensor_pool.h"

#include <algorithm>
#include <new>
#include <utility>

#include <tensorflow/core/platform/mem.h>
#include "fusewire/base/sanitizers.h"

namespace fusewire::tf {

namespace {

constexpr size_t kLine = 64;
constexpr size_t kSmall = 1024, kSmallBits = 10, kSmallSizes = kSmall / kLine;
constexpr size_t kPerPower = 4;
// How often the slabs are asked for memory that nobody wants: once in so many tensors that end.
constexpr unsigned kReturnsPerTrim = 4096;
// A sanitizer has to see each tensor's end.
constexpr bool kKeeps = !kSanitized;

}  // namespace

TensorPool* TensorPool::Global() {
  static auto* pool = new TensorPool;
  return pool;
}

TensorPool::TensorPool(size_t slabs_max) : slabs_(Clock::Real(), kKeeps ? slabs_max : 0) {}

TensorPool::~TensorPool() {
  for (Shard& shard : shards_) {
    MutexLock lock(shard.mutex);
    for (Kept* kept : shard.first) {
      while (kept != nullptr) GiveBack(std::exchange(kept, kept->next));
    }
  }
}

size_t TensorPool::SizeNumber(size_t bytes) {
  if (bytes <= kSmall) return bytes == 0 ? 0 : (bytes - 1) / kLine;
  if (bytes > kBytesMax) return kSizes;
  const size_t last = bytes - 1;
  const auto power = static_cast<size_t>(63 - __builtin_clzll(last));
  return kSmallSizes + (power - kSmallBits) * kPerPower + (last >> (power - 2)) % kPerPower;
}

size_t TensorPool::BytesOf(size_t number) {
  if (number < kSmallSizes) return (number + 1) * kLine;
  const size_t power = kSmallBits + (number - kSmallSizes) / kPerPower;
  return (size_t{1} << power) + ((number - kSmallSizes) % kPerPower + 1) * (size_t{1} << (power - 2));
}

TensorPool::Shard& TensorPool::Mine() { return shards_[ThreadNumber() % kShards]; }

void TensorPool::GiveBack(void* at) {
  if (slabs_.Owns(at)) {
    slabs_.Return(at);
  } else {
    tensorflow::port::AlignedFree(HeaderOf(at)->begin);
  }
}

void* TensorPool::AllocateRaw(size_t alignment, size_t bytes) {
  const bool may_keep = kKeeps && alignment <= kLine;
  const size_t number = may_keep ? SizeNumber(bytes) : kSizes;
  if (number < kSizes) {
    Shard& shard = Mine();
    MutexLock lock(shard.mutex);
    if (Kept* kept = shard.first[number]) {
      shard.first[number] = kept->next;
      shard.bytes -= BytesOf(number);
      return kept;
    }
  }
  if (number < kSizes && BytesOf(number) <= TensorSlabs::kPieceBytesMax) {
    if (void* piece = slabs_.Take(number, BytesOf(number))) return piece;
  }
  // In front of the tensor: a cache line, or as many bytes as keep the tensor aligned.
  const size_t before = std::max(alignment, kLine);
  const size_t wanted = number < kSizes ? BytesOf(number) : bytes;
  if (wanted > SIZE_MAX - before) return nullptr;
  void* begin = tensorflow::port::AlignedMalloc(before + wanted, static_cast<int>(before));
  if (begin == nullptr) return nullptr;
  void* at = static_cast<char*>(begin) + before;
  new (HeaderOf(at)) Header{begin, number};
  return at;
}

void TensorPool::DeallocateRaw(void* at) {
  if (at == nullptr) return;
  const size_t number = slabs_.Owns(at) ? slabs_.NumberOf(at) : HeaderOf(at)->number;
  if (number >= kSizes) return GiveBack(at);
  bool trims = false, keeps = false;
  {
    Shard& shard = Mine();
    MutexLock lock(shard.mutex);
    trims = ++shard.returns % kReturnsPerTrim == 0;
    keeps = shard.bytes + BytesOf(number) <= kKeptMax;
    if (keeps) {
      shard.first[number] = new (at) Kept{shard.first[number]};
      shard.bytes += BytesOf(number);
    }
  }
  if (!keeps) GiveBack(at);
  if (trims) slabs_.Trim();
}

size_t TensorPool::kept() {
  Shard& shard = Mine();
  MutexLock lock(shard.mutex);
  return shard.bytes;
}

std::unique_ptr<PooledDevice> PooledDevice::Of(tensorflow::Device* device) {
  if (device->device_type() != tensorflow::DEVICE_CPU) return nullptr;
  return std::unique_ptr<PooledDevice>(new PooledDevice(device));
}

PooledDevice::PooledDevice(tensorflow::Device* device) : Device(device->env(), device->attributes()), device_(device) {}

tensorflow::Allocator* PooledDevice::GetAllocator(tensorflow::AllocatorAttributes attributes) {
  // An accelerator reads its memory, or another task does.
  if (attributes.gpu_compatible() || attributes.nic_compatible()) return device_->GetAllocator(attributes);
  return TensorPool::Global();
}

}  // namespace fusewire::tf
