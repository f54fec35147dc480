// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Collectives of the ranks of one host, in memory that all of them map: no messages, no copies through the kernel.
// Home: each rank's Arena belongs to one thread at a time; ranks are processes, or threads of one. Owns: its mapping,
// and the life lines it was given. Fails: with a Status that names the rank that died, was late, or made another call.
// After a death or a missed deadline the arena is broken: every call fails, and the survivors make another arena.
// Bytes that a peer writes are never trusted: they may spoil results, but not memory. See docs/collectives-contract.md.
#pragma once

#include <cstdint>
#include <memory>

#include "fusewire/base/status.h"
#include "fusewire/collective/arena/arena_meeting.h"
#include "fusewire/collective/arena/arena_options.h"
#include "fusewire/collective/arena/arena_steps.h"
#include "fusewire/collective/arena/loans.h"
#include "fusewire/collective/kernels/spec.h"
#include "fusewire/reactor/cancel.h"

namespace fusewire::collective {

class Arena {
 public:
  static Result<std::unique_ptr<Arena>> Join(ArenaSeat seat, const ArenaOptions& options);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  int rank() const { return meeting_.rank(); }
  int ranks() const { return meeting_.ranks(); }

  // Returns when this rank's part is done, or at `deadline_ns` of Clock::Real(). All ranks make the same calls in the
  // same order. `arrays` are those that CheckSpec has found; input and output are the same list of pieces, or do not
  // overlap. Each element is reduced in the order of ranks, for every size: all ranks get the same bits, in every run.
  Status Run(const CollectiveSpec& spec, const Arrays& arrays, int64_t deadline_ns);

  // Takes the place of a call that this rank doesn't make: given up (kCancelled), too late (kTimeout), or wrong. The
  // call fails at all ranks, with that code or kInvalid; the arena stays usable.
  Status Decline(Code why, int64_t deadline_ns) { return meeting_.Meet(ArenaCall::Declined(why), deadline_ns); }
  // Any thread. Permanent: open and later calls fail at all ranks, except those whose last meeting is complete.
  void Close() { meeting_.Close(); }
  // Any thread. True if any rank has closed it.
  bool closed() const { return meeting_.closed(); }
  // Later calls ask the token while they sleep; when it is cancelled, the call ends and the arena is broken. Cancel
  // does not wake a sleeper: the token's owner hooks Close to it.
  void SetCancel(reactor::CancelToken* cancel) { meeting_.SetCancel(cancel); }

  const ArenaCounts& counts() const { return meeting_.counts(); }

 private:
  Arena(ArenaSeat seat, const ArenaOptions& options);

  ArenaMeeting meeting_;
  Loans loans_;
  ArenaReductions reductions_;
  ArenaMoves moves_;
};

}  // namespace fusewire::collective
