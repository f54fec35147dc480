// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Gives calls their ids and finds them again: no map, no lock, no pointer on the wire.
// Home: the client's. Owns: slots, not calls. Fails: Take returns false when all slots are in use.
#ifndef FUSEWIRE_RPC_CALL_SLAB_H_
#define FUSEWIRE_RPC_CALL_SLAB_H_

#include <cstdint>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/wire/wire.h"

namespace fusewire {
namespace rpc {

template <class T>
class CallSlab {
 public:
  // `first_generation` is another one than 1 only where a test wants to see generations wrap.
  explicit CallSlab(uint32_t slots_max, uint32_t first_generation = 1)
      : slots_max_(slots_max), first_generation_(first_generation) {}

  bool Take(T* member, wire::CallId* id) {
    uint32_t slot;
    if (!free_.empty()) {
      slot = free_.back();
      free_.pop_back();
    } else {
      if (slots_.size() >= slots_max_) return false;
      slot = static_cast<uint32_t>(slots_.size());
      slots_.push_back(Slot{nullptr, first_generation_});
    }
    slots_[slot].member = member;
    *id = wire::CallId{slot, slots_[slot].generation};
    ++in_use_;
    return true;
  }

  // The slot may be used again; answers to the old id are late from now on.
  void Release(wire::CallId id) {
    FUSEWIRE_CHECK(id.slot < slots_.size());
    Slot& slot = slots_[id.slot];
    FUSEWIRE_CHECK(slot.member != nullptr);
    FUSEWIRE_CHECK(slot.generation == id.generation);
    slot.member = nullptr;
    // Wraps after four thousand million uses of one slot, past 0: an all-zero id names nothing.
    if (++slot.generation == 0) slot.generation = 1;
    free_.push_back(id.slot);
    --in_use_;
  }

  enum class Found {
    kHere,   // in flight
    kLate,   // it has ended
    kNever,  // no such id was ever given out: the peer lies
  };
  Found Find(wire::CallId id, T** member) const {
    if (id.slot >= slots_.size()) return Found::kNever;
    const Slot& slot = slots_[id.slot];
    if (id.generation == slot.generation) {
      *member = slot.member;
      return slot.member == nullptr ? Found::kNever : Found::kHere;
    }
    // Distances, because generations wrap: what is behind us is late, what is ahead was never given out.
    return static_cast<int32_t>(id.generation - slot.generation) < 0 ? Found::kLate : Found::kNever;
  }

  uint32_t in_use() const { return in_use_; }
  // Everybody in flight, for the end.
  std::vector<T*> All() const {
    std::vector<T*> all;
    for (const Slot& slot : slots_) {
      if (slot.member != nullptr) all.push_back(slot.member);
    }
    return all;
  }

 private:
  struct Slot {
    T* member = nullptr;
    uint32_t generation = 1;
  };
  const uint32_t slots_max_;
  const uint32_t first_generation_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  uint32_t in_use_ = 0;
};

}  // namespace rpc
}  // namespace fusewire

#endif  // FUSEWIRE_RPC_CALL_SLAB_H_
