// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Buffer is memory with a release function that runs exactly once.
// Home: its holder's; it may be moved to and destroyed on any thread.
// Owns: its bytes, through one Release. Fails: TryAllocate returns an empty Buffer when there is no memory.
// See docs/buffers.md.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "fusewire/base/bytes.h"

namespace fusewire {

class Buffer {
 public:
  // Releases the memory. Cheap, never blocks, runs on the thread that destroys the Buffer.
  using Release = void (*)(void* owner, Bytes bytes);

  Buffer() = default;
  // Memory of another owner, by reference: we call `release(owner, bytes)` when we are done with it. A null release
  // means that the memory outlives all uses (static data, or memory of a test).
  static Buffer Wrap(Bytes bytes, void* owner, Release release) { return Buffer(bytes, owner, release); }
  // The same for read-only memory that is sent. Don't write through bytes().
  static Buffer WrapReadOnly(ConstBytes bytes, void* owner, Release release) {
    return Buffer(Bytes(const_cast<uint8_t*>(bytes.data), bytes.size), owner, release);
  }
  // New memory, aligned for tensors (64 bytes), not zeroed. Empty if there is none; also for size 0.
  static Buffer TryAllocate(size_t size);
  // Memory for the segments of one body, each as TryAllocate makes it. Small ones share an allocation, which lives as
  // long as one of them. False: no memory is left, and `out` is empty.
  static bool TryAllocateAll(const std::vector<size_t>& sizes, std::vector<Buffer>* out);
  // A copy of a small piece of memory; for tests, examples and heads.
  static Buffer CopyOf(ConstBytes from);

  Buffer(Buffer&& other) noexcept
      : bytes_(std::exchange(other.bytes_, Bytes())),
        owner_(std::exchange(other.owner_, nullptr)),
        release_(std::exchange(other.release_, nullptr)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      Drop();
      bytes_ = std::exchange(other.bytes_, Bytes());
      owner_ = std::exchange(other.owner_, nullptr);
      release_ = std::exchange(other.release_, nullptr);
    }
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { Drop(); }

  Bytes bytes() const { return bytes_; }
  size_t size() const { return bytes_.size; }
  bool empty() const { return bytes_.size == 0; }

  // Whether its memory was allocated here, for it alone, and is not lent by another owner.
  bool is_own() const;

  // Releases the memory now.
  void Drop() {
    if (release_ == nullptr) {
      bytes_ = Bytes();
      return;
    }
    Release release = std::exchange(release_, nullptr);
    release(std::exchange(owner_, nullptr), std::exchange(bytes_, Bytes()));
  }

 private:
  Buffer(Bytes bytes, void* owner, Release release) : bytes_(bytes), owner_(owner), release_(release) {}

  Bytes bytes_;
  void* owner_ = nullptr;
  Release release_ = nullptr;
};

// The segments of a message's body, in order.
using Buffers = std::vector<Buffer>;

// The sum of their sizes.
inline uint64_t TotalBytes(const Buffers& buffers) {
  uint64_t sum = 0;
  for (const Buffer& buffer : buffers) sum += buffer.size();
  return sum;
}

}  // namespace fusewire
