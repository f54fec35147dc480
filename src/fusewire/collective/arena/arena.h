// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Collectives of the ranks of one host, in memory that all of them map: no messages, no copies through the kernel.
// Home: each rank's Arena belongs to one thread at a time; ranks are processes, or threads of one. Owns: its mapping,
// and the life lines it was given. Fails: with a Status that names the rank that died, was late, or wants something
// else. After a death or a missed deadline it is broken: every call says so, and those who are left make another arena.
// What peers write is never trusted: it may spoil results, not memory. See docs/collectives.md.
#ifndef FUSEWIRE_COLLECTIVE_ARENA_ARENA_H_
#define FUSEWIRE_COLLECTIVE_ARENA_ARENA_H_

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

namespace fusewire {
namespace collective {

struct ArenaCall;
class ArenaMeeting;
class ArenaMemory;

class Arena {
 public:
  static Result<std::unique_ptr<Arena>> Join(ArenaSeat seat, const ArenaOptions& options);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  // Every call returns when this rank's part is done, or by `deadline_ns` of Clock::Real(). All ranks make the same
  // calls in the same order. `from` may be `to`, and both may be lists of pieces; otherwise they do not overlap.
  Status Barrier(int64_t deadline_ns);
  // The order of reduction is that of ranks, element by element, whatever the size: the same bits on every rank, in
  // every run.
  Status AllReduce(const Reduction& reduction, const Pieces& from, const Pieces& to, int64_t deadline_ns);
  Status Reduce(const Reduction& reduction, int root, const Pieces& from, const Pieces& to, int64_t deadline_ns);
  // `from` holds each rank's part one after the other, counts[r] elements for rank r, `to` this rank's own.
  Status ReduceScatter(const Reduction& reduction, const std::vector<size_t>& counts, const Pieces& from,
                       const Pieces& to, int64_t deadline_ns);
  // `from` holds this rank's bytes[rank] bytes, `to` those of all ranks, one after the other. `type` is what ranks
  // compare, no more.
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

  // Instead of the call that is this rank's turn: it can't be made. All ranks hear of it with kInvalid, and go on.
  Status Decline(int64_t deadline_ns);
  // Any thread. For good: calls under way and to come fail at all ranks, but for those whose last meeting is complete.
  void Close();
  // Any thread. At any rank.
  bool closed() const;
  // A call that follows asks the token while it sleeps; once that is cancelled, the call ends, and the arena is broken.
  // Cancel wakes no sleeper here: whoever has a token hooks in Close.
  void SetCancel(reactor::CancelToken* cancel);

  const ArenaCounts& counts() const;

 private:
  explicit Arena(ArenaSeat seat, const ArenaOptions& options);
  const ArenaMemory& memory() const;

  // Three steps for each chunk, a meeting after each of the first two; steps of neighbouring chunks share a stage.
  template <class In, class Middle, class Out>
  Status RunThreeSteps(const ArenaCall& call, size_t chunks, int64_t deadline_ns, In in, Middle middle, Out out);
  template <class In, class Out>
  Status RunTwoSteps(const ArenaCall& call, size_t chunks, int64_t deadline_ns, In in, Out out);
  Status ReduceAll(const ArenaCall& call, const Reduction& reduction, int root, const Pieces& from, const Pieces& to,
                   int64_t deadline_ns);
  Status ReduceTiny(const ArenaCall& call, const Reducer& reducer, const Pieces& from, const Pieces& to,
                    int64_t deadline_ns);
  Status ReduceOneShot(const ArenaCall& call, const Reducer& reducer, const Pieces& from, const Pieces& to,
                       int64_t deadline_ns);
  Status ReduceSlices(const ArenaCall& call, const Reducer& reducer, int root, const Pieces& from, const Pieces& to,
                      int64_t deadline_ns);
  void ReduceRuns(const Reducer& reducer, uint64_t stage, size_t share_offset, PieceCursor* from, PieceCursor* to,
                  size_t from_offset, size_t to_offset, size_t bytes, uint8_t* mirror);
  Status GatherTo(const ArenaCall& call, const std::vector<size_t>& bytes, int root, const Pieces& from,
                  const Pieces& to, int64_t deadline_ns);
  Result<size_t> CompareTables(const ArenaCall& call) const;
  Status Exchange(const ArenaCall& call, const std::vector<size_t>& send, const std::vector<size_t>& receive,
                  size_t largest, const Pieces& from, const Pieces& to, int64_t deadline_ns);

  const int rank_;
  const int ranks_;
  const size_t one_shot_bytes_;
  const std::unique_ptr<ArenaMeeting> meeting_;
};

}  // namespace collective
}  // namespace fusewire

#endif  // FUSEWIRE_COLLECTIVE_ARENA_ARENA_H_
