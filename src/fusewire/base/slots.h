// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Gives objects names that may be sent to peers, and finds them by name: a slot and the number of times it has been
// used. No map, no lock, no pointer on the wire.
// Home: its owner's. Owns: slots, not members. Fails: Take returns 0 when all slots are in use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fusewire/base/check.h"

namespace fusewire {

// name := generation:u32 slot:u32; never 0. With fewer generation bits the name's upper bits are free.
template <class T, int kGenerationBits = 32>
class Slots {
 public:
  static_assert(kGenerationBits > 1 && kGenerationBits <= 32, "a generation is a u32");

  // `first_generation`: other than 1 if names should be hard to guess, or to test that they wrap.
  explicit Slots(uint32_t slots_max, uint32_t first_generation = 1)
      : slots_max_(slots_max), first_generation_(Valid(first_generation)) {}

  // Adds a member; returns its name, or 0 if all slots are in use.
  uint64_t Take(T* member) {
    FUSEWIRE_DCHECK(member != nullptr);
    uint32_t slot;
    if (!free_.empty()) {
      slot = free_.back();
      free_.pop_back();
    } else {
      if (slots_.size() >= slots_max_) return 0;
      slot = static_cast<uint32_t>(slots_.size());
      slots_.push_back(Slot{nullptr, first_generation_});
    }
    FUSEWIRE_DCHECK(slots_[slot].member == nullptr);
    slots_[slot].member = member;
    ++in_use_;
    return NameOf(slot);
  }

  // Frees the slot; the name is no longer valid.
  void Release(uint64_t name) {
    FUSEWIRE_CHECK(Find(name) != nullptr);
    auto slot = static_cast<uint32_t>(name);
    slots_[slot].member = nullptr;
    // Wraps past 0: a name of 0 is never valid.
    slots_[slot].generation = Valid(slots_[slot].generation + 1);
    free_.push_back(slot);
    --in_use_;
  }

  // Null: the name is no longer valid, or was never given out.
  T* Find(uint64_t name) const {
    auto slot = static_cast<uint32_t>(name);
    if (slot >= slots_.size() || slots_[slot].generation != name >> 32) return nullptr;
    return slots_[slot].member;
  }

  // For a name that Find doesn't find: true if it was given out once; false if it was never given out.
  bool HasPassed(uint64_t name) const {
    auto slot = static_cast<uint32_t>(name);
    auto generation = static_cast<uint32_t>(name >> 32);
    if (slot >= slots_.size() || (generation & kGenerationMax) != generation) return false;
    // Compares distances, because generations wrap: older generations were given out, newer ones were not.
    constexpr int kUnused = 32 - kGenerationBits;
    return static_cast<int32_t>((generation - slots_[slot].generation) << kUnused) < 0;
  }

  uint32_t in_use() const { return in_use_; }

  // The names of all members, for a loop that may remove members.
  std::vector<uint64_t> Names() const {
    std::vector<uint64_t> names;
    for (size_t slot = 0; slot < slots_.size(); ++slot) {
      if (slots_[slot].member != nullptr) names.push_back(NameOf(slot));
    }
    return names;
  }

 private:
  static constexpr uint32_t kGenerationMax = UINT32_MAX >> (32 - kGenerationBits);
  struct Slot {
    T* member = nullptr;
    uint32_t generation = 1;
  };
  static uint32_t Valid(uint32_t generation) {
    generation &= kGenerationMax;
    return generation == 0 ? 1 : generation;
  }
  uint64_t NameOf(size_t slot) const { return static_cast<uint64_t>(slots_[slot].generation) << 32 | slot; }

  const uint32_t slots_max_;
  const uint32_t first_generation_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  uint32_t in_use_ = 0;
};

}  // namespace fusewire
