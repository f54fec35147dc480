// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Meetings of the ranks of an arena: each rank shows its part and its call, and none continues before all have.
// Home: one thread at a time; Close and closed from any. Owns: the mapping, and the life lines.
// Fails: with a Status that names the rank that died, was late, or made another call. After a death, a missed deadline
// or a close it is broken: every further meeting fails. Meetings are numbered from 1. stage_ is the last one that this
// rank has reached; another rank is at most one ahead.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fusewire/base/status.h"
#include "fusewire/collective/arena/arena_memory.h"
#include "fusewire/collective/arena/arena_options.h"
#include "fusewire/collective/kernels/types.h"
#include "fusewire/reactor/cancel.h"

namespace fusewire::collective {

// The call that a rank makes, as two words that ranks compare before they touch a byte.

// If every rank knows the sizes of all parts, `amount` is the sum of their bytes, with a digest of the sizes above it.
constexpr int kPartsBytesBits = 44;
constexpr uint64_t kPartsBytesMask = (uint64_t{1} << kPartsBytesBits) - 1;

struct ArenaCall {
  static constexpr uint64_t kDeclined = ~uint64_t{0};

  static ArenaCall Of(CollectiveKind kind, const Reduction& reduction, int root, uint64_t amount);
  // The call of a rank that doesn't make its own: its caller gave it up (kCancelled), its turn came too late
  // (kTimeout), or it can't be made.
  static ArenaCall Declined(Code why) { return {kDeclined, static_cast<uint64_t>(why)}; }
  // Why a call fails that this one is compared with.
  Code CodeOfDifference() const;
  bool operator==(const ArenaCall& other) const = default;
  // "all-reduce sum of 12 f32"
  std::string Describe() const;
  // What its rank does: "wants all-reduce sum of 12 f32"
  std::string Says() const;

  uint64_t kind_op_type_root = 0;
  uint64_t amount = 0;  // elements, or bytes and a digest, see kPartsBytesBits; or why it was declined
};

// The observer of long waits in an arena, for `fusewire why`.
// Home: the thread that waits. It is called only before a rank sleeps, after its spin.
class ArenaWaits {
 public:
  // This rank has waited since since_ns for those whose bits are set; again with others as they come; 0: all have come.
  virtual void OnWait(int64_t since_ns, uint64_t missing) = 0;

 protected:
  ~ArenaWaits() = default;
};

class ArenaMeeting {
 public:
  ArenaMeeting(ArenaSeat seat, const ArenaOptions& options);
  // Called first, and once.
  Status Join(int memory);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  std::string NameOf(int rank) const;
  const ArenaMemory& memory() const { return memory_; }
  ArenaTable& TableOf(int rank, uint64_t stage) const { return memory_.TableOf(rank, stage); }
  uint64_t stage() const { return stage_; }
  uint64_t next_stage() const { return stage_ + 1; }
  ArenaCounts& counts() { return counts_; }
  const ArenaCounts& counts() const { return counts_; }

  // Shows this rank's part, waits until all ranks have shown theirs, and compares their calls.
  Status Meet(const ArenaCall& call, int64_t deadline_ns);
  // Another rank's memory could not be read: has it ended? If not, why. Either breaks the arena.
  Status FailToRead(int rank, const ArenaCall& call, const Status& why);
  void Close();
  bool closed() const;
  void SetCancel(reactor::CancelToken* cancel) { cancel_ = cancel; }

 private:
  Status WaitForAll(const ArenaCall& call, int first_missing, int64_t deadline_ns);
  // Looks from rank *first_missing on, and stores the first rank that has not arrived there.
  bool AllArrived(int* first_missing) const;
  // One bit for each rank that has not arrived.
  uint64_t Missing() const;
  Status Compare(const ArenaCall& mine);
  void Ring();
  // Checks every life line; stores and returns the error if a rank has ended.
  Status CheckLives(const ArenaCall& call, int64_t since_ns);
  Status Break(Status why);
  // Sleeps until the bell rings or `until_ns`; may wake spuriously, and does not sleep if `complete` returns true.
  // False: a signal of the operating system has interrupted it.
  template <class Complete>
  bool SleepOnBell(int64_t until_ns, Complete complete);

  const int rank_;
  const int ranks_;
  const ArenaOptions options_;
  const std::vector<std::string> names_;
  const LifeLines lives_;
  ArenaWaits* const waits_;
  ArenaMemory memory_;
  bool spins_ = false;
  uint64_t stage_ = 0;
  reactor::CancelToken* cancel_ = nullptr;
  uint32_t revoked_seen_ = 0;
  Status broken_;
  ArenaCounts counts_;
};

}  // namespace fusewire::collective
