// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Collectives of the ranks of one host, in memory that all of them map: no messages, no copies through the kernel.
// Home: each rank's Arena belongs to one thread at a time; ranks are processes, or threads of one. Owns: its mapping,
// and the life lines it was given. Fails: with a Status that names the rank that died, was late, or made another call.
// After a death or a missed deadline the arena is broken: every call fails, and the survivors make another arena.
// Bytes that a peer writes are never trusted: they may spoil results, but not memory. See docs/collectives.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fusewire/base/status.h"
#include "fusewire/collective/arena/arena_options.h"
#include "fusewire/collective/kernels/arithmetic.h"
#include "fusewire/collective/kernels/pieces.h"
#include "fusewire/collective/kernels/types.h"
#include "fusewire/reactor/cancel.h"

namespace fusewire::collective {

class ArenaMeeting;
class ArenaMoves;
class ArenaReductions;
class Loans;

class Arena {
 public:
  static Result<std::unique_ptr<Arena>> Join(ArenaSeat seat, const ArenaOptions& options);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  // Every call returns when this rank's part is done, or at `deadline_ns` of Clock::Real(). All ranks make the same
  // calls in the same order. `from` and `to` are the same list of pieces, or do not overlap.
  Status Barrier(int64_t deadline_ns);
  // Each element is reduced in the order of ranks, for every size: all ranks get the same bits, in every run.
  Status AllReduce(const Reduction& reduction, const Pieces& from, const Pieces& to, int64_t deadline_ns);
  Status Reduce(const Reduction& reduction, int root, const Pieces& from, const Pieces& to, int64_t deadline_ns);
  // `from` holds each rank's part one after the other, counts[r] elements for rank r, `to` this rank's own.
  Status ReduceScatter(const Reduction& reduction, const std::vector<size_t>& counts, const Pieces& from,
                       const Pieces& to, int64_t deadline_ns);
  // `from` holds this rank's bytes[rank] bytes, `to` those of all ranks, one after the other. `type` is only compared
  // with the other ranks'.
  Status AllGather(const std::vector<size_t>& bytes, const Pieces& from, const Pieces& to, int64_t deadline_ns,
                   Type type = Type::kU8);
  Status Gather(const std::vector<size_t>& bytes, int root, const Pieces& from, const Pieces& to, int64_t deadline_ns,
                Type type = Type::kU8);
  Status Scatter(const std::vector<size_t>& bytes, int root, const Pieces& from, const Pieces& to, int64_t deadline_ns,
                 Type type = Type::kU8);
  Status Broadcast(int root, const Pieces& array, int64_t deadline_ns, Type type = Type::kU8);
  // send_bytes[r] go to rank r, receive_bytes[r] come from it; arrays hold them one after the other.
  Status AllToAll(const std::vector<size_t>& send_bytes, const std::vector<size_t>& receive_bytes, const Pieces& from,
                  const Pieces& to, int64_t deadline_ns, Type type = Type::kU8);

  // Takes the place of a call that this rank doesn't make: given up (kCancelled), too late (kTimeout), or wrong. The
  // call fails at all ranks, with that code or kInvalid; the arena stays usable.
  Status Decline(Code why, int64_t deadline_ns);
  // Any thread. Permanent: open and later calls fail at all ranks, except those whose last meeting is complete.
  void Close();
  // Any thread. True if any rank has closed it.
  bool closed() const;
  // Later calls ask the token while they sleep; when it is cancelled, the call ends and the arena is broken. Cancel
  // does not wake a sleeper: the token's owner hooks Close to it.
  void SetCancel(reactor::CancelToken* cancel);

  const ArenaCounts& counts() const;

 private:
  explicit Arena(ArenaSeat seat, const ArenaOptions& options);

  const int rank_;
  const int ranks_;
  const std::unique_ptr<ArenaMeeting> meeting_;
  const std::unique_ptr<Loans> loans_;
  const std::unique_ptr<ArenaReductions> reductions_;
  const std::unique_ptr<ArenaMoves> moves_;
};

}  // namespace fusewire::collective
