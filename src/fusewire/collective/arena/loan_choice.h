// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Whether large arrays of an arena's ranks go through shares, or are lent: the others read them where they are, which
// saves a copy. Rank 0 times both ways, for each kind and size of call, and tells the others with each call how the
// next one of that kind and size goes; so all ranks know the way of a call before they meet for it. Home: its rank's
// thread. Owns: what it has measured.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "fusewire/collective/arena/arena_options.h"
#include "fusewire/collective/kernels/types.h"

namespace fusewire::collective {

enum class Way : uint8_t { kShares = 0, kLoans = 1 };

class LoanChoice {
 public:
  LoanChoice(int rank, LoanRule rule) : rank_(rank), rule_(rule) {}

  // A call begins, and these are its kind and size. Its way; at rank 0, the clock starts.
  Way Begin(CollectiveKind kind, size_t bytes);
  // At the first meeting after Begin: rank 0 shows the way of the next such call, and all take it over.
  bool has_to_agree() const { return entry_ != nullptr && !agreed_; }
  Way Next();
  void Agree(uint64_t next);
  // All ranks' arrays had to be in one piece, and they were not.
  void OnRefused();
  // May follow nothing.
  void End();

 private:
  // How rank 0 judges one kind and size of call.
  struct Entry {
    Way way = Way::kLoans;  // of the next call
    // The rest is rank 0's.
    uint32_t calls = 0;
    Way better = Way::kLoans, last = Way::kLoans;
    uint32_t in_a_row = 0;                     // calls that went the last one's way
    std::array<int64_t, 2> costs_ns = {0, 0};  // of each way; 0: not measured
  };
  static constexpr size_t kSizes = 64;

  const int rank_;
  const LoanRule rule_;
  std::array<std::array<Entry, kSizes>, kKinds> entries_;
  // Of the call under way.
  Entry* entry_ = nullptr;
  Way way_ = Way::kShares;
  bool agreed_ = false;
  int64_t since_ns_ = 0;
};

}  // namespace fusewire::collective
