// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Gives things names that may travel, and finds them again: a slot and how often it has been used.
// Home: the endpoint's. Owns: slots, not members. Fails: Take returns 0 when all slots are in use.
#ifndef FUSEWIRE_P2P_SLOTS_H_
#define FUSEWIRE_P2P_SLOTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fusewire/base/check.h"

namespace fusewire {
namespace p2p {

// name := generation:u31 slot:u32, so bit 63 is free; never 0.
template <class T>
class Slots {
 public:
  // `first_generation`: another one than 1 where names should be hard to guess, or a test wants to see them wrap.
  explicit Slots(uint32_t slots_max, uint32_t first_generation = 1)
      : slots_max_(slots_max), first_generation_(Valid(first_generation)) {}

  uint64_t Take(T* member) {
    uint32_t slot;
    if (!free_.empty()) {
      slot = free_.back();
      free_.pop_back();
    } else {
      if (slots_.size() >= slots_max_) return 0;
      slot = static_cast<uint32_t>(slots_.size());
      slots_.push_back(Slot{nullptr, first_generation_});
    }
    slots_[slot].member = member;
    ++in_use_;
    return static_cast<uint64_t>(slots_[slot].generation) << 32 | slot;
  }
  void Release(uint64_t name) {
    FUSEWIRE_CHECK(Find(name) != nullptr);
    Slot& slot = slots_[static_cast<uint32_t>(name)];
    slot.member = nullptr;
    slot.generation = Valid(slot.generation + 1);
    free_.push_back(static_cast<uint32_t>(name));
    --in_use_;
  }
  // Null: it has ended, or never was.
  T* Find(uint64_t name) const {
    auto slot = static_cast<uint32_t>(name);
    if (slot >= slots_.size() || slots_[slot].generation != name >> 32) return nullptr;
    return slots_[slot].member;
  }
  uint32_t in_use() const { return in_use_; }
  // The names of all, for the end.
  std::vector<uint64_t> Names() const {
    std::vector<uint64_t> names;
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].member != nullptr) names.push_back(static_cast<uint64_t>(slots_[i].generation) << 32 | i);
    }
    return names;
  }

 private:
  struct Slot {
    T* member = nullptr;
    uint32_t generation = 1;
  };
  static uint32_t Valid(uint32_t generation) {
    generation &= 0x7fffffff;
    return generation == 0 ? 1 : generation;
  }
  const uint32_t slots_max_;
  const uint32_t first_generation_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  uint32_t in_use_ = 0;
};

}  // namespace p2p
}  // namespace fusewire

#endif  // FUSEWIRE_P2P_SLOTS_H_
