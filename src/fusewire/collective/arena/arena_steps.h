// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The collectives of an arena, and what they have in common: parts, chunks, copies, and steps between meetings.
// Home: its rank's thread. Fails: as their meetings do.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "fusewire/base/bytes.h"
#include "fusewire/base/check.h"
#include "fusewire/base/status.h"
#include "fusewire/collective/arena/arena_layout.h"
#include "fusewire/collective/arena/arena_meeting.h"
#include "fusewire/collective/arena/loans.h"
#include "fusewire/collective/kernels/arithmetic.h"
#include "fusewire/collective/kernels/spec.h"

namespace fusewire::collective {

constexpr int kNoRoot = -1;
// From this size on, a plain copy would evict everything else from a core's own cache.
constexpr size_t kStreamBytesMin = 4 << 20;

// Parts of shares begin at cache lines: two ranks never write one line.
inline size_t LinesDown(size_t bytes) { return bytes / kCacheLineBytes * kCacheLineBytes; }
inline size_t LinesUp(size_t bytes) { return (bytes + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes; }
inline size_t ChunksOf(size_t bytes, size_t chunk_bytes) { return (bytes + chunk_bytes - 1) / chunk_bytes; }

// A number for each rank, without an allocation.
class PerRank {
 public:
  // Zeros.
  explicit PerRank(size_t ranks) : ranks_(ranks) {
    FUSEWIRE_CHECK(ranks > 0 && ranks <= kArenaRanksMax);
    std::fill(begin(), end(), 0);
  }
  PerRank(const std::vector<size_t>& counts, size_t element) : PerRank(counts.size()) {
    for (size_t rank = 0; rank < ranks_; ++rank) of_[rank] = counts[rank] * element;
  }
  static PerRank Same(size_t ranks, size_t number) {
    PerRank all(ranks);
    std::fill(all.begin(), all.end(), number);
    return all;
  }
  size_t size() const { return ranks_; }
  size_t& operator[](size_t rank) { return of_[rank]; }
  size_t operator[](size_t rank) const { return of_[rank]; }
  size_t* begin() { return of_.data(); }
  size_t* end() { return of_.data() + ranks_; }
  const size_t* begin() const { return of_.data(); }
  const size_t* end() const { return of_.data() + ranks_; }
  size_t sum() const { return std::accumulate(begin(), end(), size_t{0}); }
  size_t largest() const { return *std::max_element(begin(), end()); }

 private:
  const size_t ranks_;
  std::array<size_t, kArenaRanksMax> of_;  // those of `ranks_` are set
};

// Stands for numbers that all ranks know when they compare calls: their sum, and FNV-1a over them.
inline uint64_t PartsOf(const PerRank& bytes) {
  uint64_t digest = 0xcbf29ce484222325ULL;
  for (const size_t one : bytes) digest = (digest ^ one) * 0x100000001b3ULL;
  digest ^= digest >> 32;
  return digest << kPartsBytesBits | (bytes.sum() & kPartsBytesMask);
}

// Of parts that lie one after the other, in the order of ranks.
inline PerRank StartsOf(const PerRank& bytes) {
  PerRank starts(bytes.size());
  for (size_t rank = 1; rank < bytes.size(); ++rank) starts[rank] = starts[rank - 1] + bytes[rank - 1];
  return starts;
}

// The bytes of a block that chunk `chunk` carries.
struct Range {
  size_t from = 0;
  size_t bytes = 0;
};
inline Range ChunkOf(size_t block_bytes, size_t chunk, size_t chunk_bytes) {
  FUSEWIRE_DCHECK(chunk_bytes > 0);
  const size_t from = std::min(chunk * chunk_bytes, block_bytes);
  FUSEWIRE_DCHECK(from <= block_bytes);
  return {from, std::min(chunk_bytes, block_bytes - from)};
}

// A rank's block of an array that holds those of all ranks, in their order.
std::vector<Piece> BlockOf(const Pieces& all, const CollectiveSpec& spec, int rank);

void CopyIn(PieceCursor* from, size_t offset, size_t bytes, uint8_t* to);
void CopyOut(PieceCursor* to, size_t offset, size_t bytes, const uint8_t* from, bool stream);
// A rank's own part: directly from one array to the other, without a share.
void CopyAcross(PieceCursor* from, size_t from_offset, PieceCursor* to, size_t to_offset, size_t bytes, bool stream);

inline uint8_t* StartOf(const Pieces& pieces) {
  return pieces.bytes() == 0 ? nullptr : static_cast<uint8_t*>(pieces.at(0).data);
}
// Whether two arrays, each in one piece, have no byte in common.
inline bool Apart(const uint8_t* a, size_t a_bytes, const uint8_t* b, size_t b_bytes) {
  return a_bytes == 0 || b_bytes == 0 || a + a_bytes <= b || b + b_bytes <= a;
}

class ArenaSteps {
 public:
  ArenaSteps(ArenaMeeting* meeting, Loans* loans)
      : meeting_(meeting), loans_(loans), rank_(meeting->rank()), ranks_(meeting->ranks()) {}

 protected:
  const ArenaMemory& memory() const { return meeting_->memory(); }
  Status Meet(const ArenaCall& call, int64_t deadline_ns, bool first) {
    return first ? loans_->MeetFirst(call, deadline_ns) : meeting_->Meet(call, deadline_ns);
  }

  // Three steps for each chunk, with a meeting after each of the first two. Steps of neighbouring chunks share a stage.
  template <class In, class Middle, class Out>
  Status RunThreeSteps(const ArenaCall& call, size_t chunks, int64_t deadline_ns, In in, Middle middle, Out out) {
    const uint64_t first = meeting_->next_stage();
    for (size_t turn = 0; turn < chunks + 2; ++turn) {
      if (turn < chunks) in(turn, first + turn);
      if (turn >= 1 && turn - 1 < chunks) middle(turn - 1, first + turn - 1);
      if (turn >= 2) out(turn - 2, first + turn - 2);
      if (turn < chunks + 1) FUSEWIRE_TRY(Meet(call, deadline_ns, turn == 0));
    }
    return Status::Ok();
  }
  template <class In, class Out>
  Status RunTwoSteps(const ArenaCall& call, size_t chunks, int64_t deadline_ns, In in, Out out) {
    const uint64_t first = meeting_->next_stage();
    for (size_t turn = 0; turn < chunks + 1; ++turn) {
      if (turn < chunks) in(turn, first + turn);
      if (turn >= 1) out(turn - 1, first + turn - 1);
      if (turn < chunks) FUSEWIRE_TRY(Meet(call, deadline_ns, turn == 0));
    }
    return Status::Ok();
  }

  ArenaMeeting* const meeting_;
  Loans* const loans_;
  const int rank_;
  const int ranks_;
};

// The collectives that move bytes.
class ArenaMoves final : ArenaSteps {
 public:
  ArenaMoves(ArenaMeeting* meeting, Loans* loans) : ArenaSteps(meeting, loans) {}

  Status Run(const CollectiveSpec& spec, const Arrays& arrays, int64_t deadline_ns);

 private:
  struct Parts;

  Status Broadcast(const ArenaCall& call, int root, const Pieces& array, int64_t deadline_ns);
  Status Scatter(const ArenaCall& call, const PerRank& bytes, int root, const Pieces& from, const Pieces& to,
                 int64_t deadline_ns);
  // `is_even`: all ranks know all sizes.
  Status AllToAll(const ArenaCall& call, const PerRank& send_bytes, const PerRank& receive_bytes, bool is_even,
                  const Pieces& from, const Pieces& to, int64_t deadline_ns);
  Status GatherTo(const ArenaCall& call, const PerRank& bytes, int root, const Pieces& from, const Pieces& to,
                  int64_t deadline_ns);
  Status ReadParts(const ArenaCall& call, const LoanPlaces& places, const PerRank& offsets, const PerRank& bytes,
                   const Pieces& to, int64_t deadline_ns);
  Result<size_t> CompareTables(const ArenaCall& call) const;
  PerRank OffsetsAt(uint64_t stage) const;
  void CopyPartsIn(const Parts& parts, size_t chunk, uint64_t stage, PieceCursor* read);
  void CopyPartsOut(const Parts& parts, size_t chunk, uint64_t stage, PieceCursor* write, bool stream);
  Status Exchange(const ArenaCall& call, const Parts& parts, size_t largest, const Pieces& from, const Pieces& to,
                  int64_t deadline_ns);
};

// The collectives that reduce. Owns: where what is read to be reduced lands.
class ArenaReductions final : ArenaSteps {
 public:
  ArenaReductions(ArenaMeeting* meeting, Loans* loans, size_t one_shot_bytes)
      : ArenaSteps(meeting, loans), one_shot_bytes_(one_shot_bytes) {}

  Status Run(const CollectiveSpec& spec, const Arrays& arrays, int64_t deadline_ns);

 private:
  Status ReduceScatter(const CollectiveSpec& spec, const Pieces& from, const Pieces& to, int64_t deadline_ns);
  Status ReduceAll(const ArenaCall& call, const Reduction& reduction, int root, const Pieces& from, const Pieces& to,
                   int64_t deadline_ns);
  Status ReducePlain(const ArenaCall& call, const Reducer& reducer, const uint8_t* from, uint8_t* to, size_t bytes,
                     int64_t deadline_ns);
  Status ReduceOneShot(const ArenaCall& call, const Reducer& reducer, const Pieces& from, const Pieces& to,
                       int64_t deadline_ns);
  Status ReduceSlices(const ArenaCall& call, const Reducer& reducer, int root, const Pieces& from, const Pieces& to,
                      int64_t deadline_ns);
  Status ReduceLoans(const ArenaCall& call, const Reducer& reducer, const Pieces& from, const Pieces& to,
                     const LoanPlaces& places, int64_t deadline_ns);
  // Reduces the given bytes at `offset` of all ranks' arrays, as far as `places` goes.
  Status ReduceLent(const ArenaCall& call, const Reducer& reducer, const uint8_t* own, const LoanPlaces& places,
                    size_t offset, size_t bytes, uint8_t* to);
  void ReduceRuns(const Reducer& reducer, uint64_t stage, size_t share_offset, PieceCursor* from, PieceCursor* to,
                  size_t from_offset, size_t to_offset, size_t bytes, uint8_t* mirror);

  const size_t one_shot_bytes_;
  std::vector<uint8_t> landing_;
};

}  // namespace fusewire::collective
