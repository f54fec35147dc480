// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Collectives of the ranks of one host, in memory that all of them map: no messages, no copies through the kernel.
// Home: each rank's Arena belongs to one thread at a time; ranks are processes, or threads of one. Owns: its mapping,
// and the life lines it was given. Fails: with a Status that names the rank that died, was late, or wants something
// else. After a death or a missed deadline the group is broken: every call says so until all survivors call Shrink().
// What peers write is never trusted: it may spoil results, not memory. See docs/collectives.md.
#ifndef FUSEWIRE_COLLECTIVE_ARENA_ARENA_H_
#define FUSEWIRE_COLLECTIVE_ARENA_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fusewire/base/status.h"
#include "fusewire/collective/kernels/arithmetic.h"
#include "fusewire/collective/kernels/pieces.h"
#include "fusewire/collective/kernels/types.h"

namespace fusewire {
namespace collective {

// One bit each beside an epoch of 16 bits in a word that is written at once.
constexpr int kArenaRanksMax = 48;

struct ArenaOptions {
  // What a rank lays out at a time. Three of them are in turn: written, reduced, read.
  size_t slot_bytes = 256 * 1024;
  // Up to this size every rank reduces everything by itself; above, each reduces a slice for all. 0: chosen by ranks.
  size_t one_shot_bytes = 0;
  // How a waiter spends its time before it sleeps: it spins, if each rank may have a processor of its own; then it
  // gives the processor to whoever wants it, again and again.
  int64_t spin_ns = 5 * 1000;
  int64_t yield_ns = 200 * 1000;
  // Processors for these ranks; 0: those that this process may use.
  int cpus = 0;
};

// Bytes of the memory that `ranks` share.
size_t ArenaBytes(int ranks, const ArenaOptions& options);

// A memfd for `ranks`, sealed against shrinking and growing; the caller's, who hands it to all ranks.
Result<int> CreateArenaMemory(int ranks, const ArenaOptions& options);

// What a rank brings along. `memory` is borrowed for the call of Join.
struct ArenaSeat {
  int memory = -1;
  int rank = 0;
  int ranks = 1;
  // lives[r] is a descriptor that ends when rank r does: a socket or a pipe whose other end r alone holds, or a pidfd.
  // It is asked, never read, and closed with the Arena. -1 for oneself.
  std::vector<int> lives;
  // What errors call the ranks besides their numbers; empty: nothing.
  std::vector<std::string> names;
};

class Arena {
 public:
  static Result<std::unique_ptr<Arena>> Join(ArenaSeat seat, const ArenaOptions& options);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Numbers among those who are left; Shrink() changes them. seat() stays.
  int rank() const { return rank_; }
  int ranks() const { return static_cast<int>(seats_.size()); }
  int seat() const { return seat_; }
  uint64_t epoch() const { return epoch_; }

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

  // All survivors call it after a failure: they agree on who is left and go on, renumbered, in a new epoch.
  Status Shrink(int64_t deadline_ns);

  // Instead of the call that is this rank's turn: it can't be made. All ranks hear of it with kInvalid, and go on.
  Status Decline(int64_t deadline_ns);
  // Any thread. For good: calls under way and to come fail at all ranks, but for those whose last meeting is complete.
  void Close();
  // Any thread. At any rank.
  bool closed() const;
  // Asked now and then by who sleeps in the calls that follow; true ends the call, and breaks the group.
  void SetCalledOff(const std::function<bool()>* called_off) { called_off_ = called_off; }

  // How often all have met, how often this rank slept, and how many bytes it copied into slots and out of them.
  struct Counts {
    uint64_t meetings = 0;
    uint64_t sleeps = 0;
    uint64_t copied_in_bytes = 0;
    uint64_t copied_out_bytes = 0;
    uint64_t reduced_bytes = 0;
  };
  const Counts& counts() const { return counts_; }

 private:
  friend size_t ArenaBytes(int ranks, const ArenaOptions& options);
  friend Result<int> CreateArenaMemory(int ranks, const ArenaOptions& options);
  struct Header;
  struct Post;
  struct RankPosts;
  struct Vote;
  struct Table;
  // What a rank wants, compared word by word.
  struct What {
    uint64_t kind_op_type_root = 0;
    uint64_t amount = 0;  // elements; or a digest, where each rank knows all counts
  };

  Arena() = default;
  static size_t BytesOf(int ranks, size_t slot_bytes);
  static Status WriteHeader(int fd, int ranks, const ArenaOptions& options);
  void SetRanks();
  Status Renumber(uint64_t epoch, uint64_t alive);
  Status Map(const ArenaSeat& seat, const ArenaOptions& options);
  static What WhatOf(Kind kind, const Reduction& reduction, int root, uint64_t amount);
  static std::string Describe(const What& what);

  // Where rank r lays out what it shows at the coming meeting `stage`.
  uint8_t* SlotOf(int rank, uint64_t stage) const;
  Post& PostOf(int rank, uint64_t stage) const;
  Table& TableOf(int rank, uint64_t stage) const;
  uint64_t Progress() const { return (epoch_ << 40) | stage_; }
  std::string NameOf(int rank) const;
  uint64_t next_stage() const { return stage_ + 1; }
  // Shows what was laid out, and waits until all ranks have done so; then compares what they want.
  Status Meet(const What& what, int64_t deadline_ns);
  Status WaitForAll(const What& what, int first_missing, int64_t deadline_ns);
  // From rank *first_missing on; leaves there who is not.
  bool AllArrived(int* first_missing) const;
  Status Compare(const What& mine) const;
  void Ring();
  // Asks every life line; remembers and returns what broke the group.
  Status CheckLives(const What& what, int64_t since_ns);
  // One bit for each seat of this epoch whose life line has not ended.
  uint64_t AliveSeats() const;
  Status Break(Status why);
  // Sleeps until the bell rings, `until_ns` passes, or for no reason; not at all once `complete` says true.
  template <class Complete>
  void SleepOnBell(int64_t until_ns, Complete complete);

  // Three steps for each chunk, a meeting after each of the first two; steps of neighbouring chunks share a stage.
  template <class In, class Middle, class Out>
  Status RunThreeSteps(const What& what, size_t chunks, int64_t deadline_ns, In in, Middle middle, Out out);
  template <class In, class Out>
  Status RunTwoSteps(const What& what, size_t chunks, int64_t deadline_ns, In in, Out out);
  Status ReduceAll(const What& what, const Reduction& reduction, int root, const Pieces& from, const Pieces& to,
                   int64_t deadline_ns);
  Status ReduceTiny(const What& what, const Reducer& reducer, const Pieces& from, const Pieces& to,
                    int64_t deadline_ns);
  Status ReduceOneShot(const What& what, const Reducer& reducer, const Pieces& from, const Pieces& to,
                       int64_t deadline_ns);
  Status ReduceSlices(const What& what, const Reducer& reducer, int root, const Pieces& from, const Pieces& to,
                      int64_t deadline_ns);
  void ReduceRuns(const Reducer& reducer, uint64_t stage, size_t slot_offset, PieceCursor* from, PieceCursor* to,
                  size_t from_offset, size_t to_offset, size_t bytes, uint8_t* mirror);
  Status GatherTo(const What& what, const std::vector<size_t>& bytes, int root, const Pieces& from, const Pieces& to,
                  int64_t deadline_ns);
  Result<size_t> CompareTables(const What& what) const;
  Status Exchange(const What& what, const std::vector<size_t>& send, const std::vector<size_t>& receive, size_t largest,
                  const Pieces& from, const Pieces& to, int64_t deadline_ns);

  uint8_t* memory_ = nullptr;
  size_t memory_bytes_ = 0;
  Header* header_ = nullptr;
  RankPosts* posts_ = nullptr;
  Vote* votes_ = nullptr;
  Table* tables_ = nullptr;
  uint8_t* slots_ = nullptr;
  ArenaOptions options_;
  int seats_at_first_ = 0;
  int seat_ = 0;
  int rank_ = 0;
  bool spins_ = false;
  size_t one_shot_bytes_ = 0;
  std::vector<std::string> names_;    // of each seat
  std::vector<int> seats_;            // of each rank
  std::vector<int> lives_;            // of each seat
  std::vector<int16_t> life_events_;  // which events of each say that it ended
  uint64_t epoch_ = 0;
  uint64_t stage_ = 0;
  const std::function<bool()>* called_off_ = nullptr;
  uint32_t revoked_seen_ = 0;
  Status broken_;
  Counts counts_;
};

}  // namespace collective
}  // namespace fusewire

#endif  // FUSEWIRE_COLLECTIVE_ARENA_ARENA_H_
