// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The memory of an arena as a rank sees it that keeps no promise: words at any place. See arena_layout.h.
// Home: any thread. Owns: its mapping.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "fusewire/base/check.h"
#include "fusewire/collective/arena/arena.h"

namespace fusewire::collective {

class ArenaLiar {
 public:
  static constexpr size_t kTurns = 3, kSeatsMax = 48;
  static constexpr size_t kBell = 64, kRevoked = 128, kClosed = 132;

  ArenaLiar(int fd, int ranks, const ArenaOptions& options) : ranks_(ranks), bytes_(ArenaBytes(ranks, options)) {
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    FUSEWIRE_CHECK(memory != MAP_FAILED);
    memory_ = static_cast<uint8_t*>(memory);
  }
  ~ArenaLiar() { munmap(memory_, bytes_); }
  ArenaLiar(const ArenaLiar&) = delete;
  ArenaLiar& operator=(const ArenaLiar&) = delete;

  // A post: how far a rank has come, what it wants, of how much, and what is tiny.
  size_t PostAt(int seat, uint64_t stage) const {
    return 4096 + static_cast<size_t>(seat) * 256 + static_cast<size_t>(stage % kTurns) * 64;
  }
  // The bytes that a seat sends to each seat, and behind kSeatsMax of them those that it expects.
  size_t TableAt(int seat, uint64_t stage) const {
    return PostAt(ranks_, 0) + (static_cast<size_t>(seat) * kTurns + static_cast<size_t>(stage % kTurns)) * 832;
  }

  template <class Word>
  void Store(size_t at, Word word) {
    At<Word>(at).store(word, std::memory_order_seq_cst);
  }
  uint64_t Load(size_t at) const { return At<uint64_t>(at).load(std::memory_order_seq_cst); }

 private:
  template <class Word>
  std::atomic<Word>& At(size_t at) const {
    FUSEWIRE_CHECK(at + sizeof(Word) <= bytes_);
    FUSEWIRE_CHECK(at % sizeof(Word) == 0);
    return *reinterpret_cast<std::atomic<Word>*>(memory_ + at);
  }

  const int ranks_;
  const size_t bytes_;
  uint8_t* memory_ = nullptr;
};

}  // namespace fusewire::collective
