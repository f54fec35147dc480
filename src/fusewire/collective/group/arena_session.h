// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Where the operations of one epoch go: while the ranks have not agreed on an arena, nowhere; then through the arena,
// until it closes; then over messages. Turns are the numbers of operations, the same at all ranks.
// Home: its owner's lock. Owns: the arena, and that of the epoch before until the call in it has returned.
//
//   kUntried -> kAgreeing    the first operation has its turn
//   kAgreeing -> kOpen       all ranks have met in the arena
//   kOpen -> kMessages       a rank has closed the arena, or one has died
//   kUntried, kAgreeing -> kMessages   a rank shares no memory, or has left
//   any -> kUntried          the group has shrunk: the next epoch
// messages_from_ only decreases within an epoch: a turn that goes over messages at one rank does so at all.
#pragma once

#include <cstdint>
#include <memory>

#include "fusewire/base/status.h"
#include "fusewire/collective/arena/arena.h"
#include "fusewire/reactor/cancel.h"

namespace fusewire::collective {

// Cancels the two waits while ranks agree on an arena.
struct Agreement {
  reactor::CancelToken messages, gathering;
};

class ArenaSession {
 public:
  enum class Phase : uint8_t { kUntried, kAgreeing, kOpen, kMessages };
  static bool IsLegal(Phase from, Phase to);

  Phase phase() const { return phase_; }
  uint32_t epoch() const { return epoch_; }
  // Null: not through an arena. It stays until Release.
  Arena* ArenaOf(uint32_t epoch);
  bool agreed() const { return phase_ == Phase::kOpen || phase_ == Phase::kMessages; }
  bool open() const { return phase_ == Phase::kOpen && !arena_->closed(); }

  // The first operation of this epoch has its turn. Null if it isn't the first, or is of another epoch; otherwise an
  // EndAgreeing follows. shared_ptr: it is cancelled without the lock, while its owner may drop it.
  std::shared_ptr<Agreement> BeginAgreeing(uint32_t epoch);
  void EndAgreeing(uint32_t epoch, std::unique_ptr<Arena> arena);
  const std::shared_ptr<Agreement>& agreement() const { return agreement_; }
  // Another rank can't agree: it doesn't come to the gathering.
  void FailAgreement();

  // This turn and all after it go over messages.
  void PassOn(uint32_t epoch, uint64_t turn);
  bool IsPassedOn(uint64_t turn) const { return turn >= messages_from_; }
  // The turn has ended here.
  void SetServed(uint32_t epoch, uint64_t turn) {
    if (epoch == epoch_) served_turns_ = turn + 1;
  }
  bool HasServed(uint64_t turn) const { return turn < served_turns_ && !IsPassedOn(turn); }

  // The call in it ends.
  void Interrupt() {
    if (arena_ != nullptr) arena_->Close();
  }
  // Likewise, and later operations go over messages.
  void Close();
  // If it is still this one. True: it was open.
  bool Close(const Arena& arena);
  // The next epoch. `in_use`: a call in the arena may not have returned; Release follows.
  void Reopen(uint32_t epoch, bool several_ranks, bool in_use);
  void Release() { retired_.reset(); }
  // Otherwise the memory and descriptors of ended groups would add up.
  void Drop() { arena_.reset(); }

 private:
  static constexpr uint64_t kNever = ~uint64_t{0};
  void Enter(Phase phase);

  Phase phase_ = Phase::kUntried;
  uint32_t epoch_ = 0;
  uint64_t served_turns_ = 0;
  uint64_t messages_from_ = kNever;
  bool agreement_failed_ = false;  // at another rank
  // Shared with the thread that agrees, and with one that calls it off.
  std::shared_ptr<Agreement> agreement_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Arena> retired_;
};

}  // namespace fusewire::collective
