// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The collectives that move bytes, as steps between meetings.
#include "fusewire/collective/arena/arena_steps.h"

#include <string>

namespace fusewire::collective {
namespace {

// Of the parts for other ranks.
size_t LargestOf(const PerRank& bytes, size_t me) {
  size_t largest = 0;
  for (size_t rank = 0; rank < bytes.size(); ++rank) {
    if (rank != me) largest = std::max(largest, bytes[rank]);
  }
  return largest;
}

void CopyPieces(const Pieces& from, const Pieces& to) {
  PieceCursor read(from), write(to);
  CopyAcross(&read, 0, &write, 0, to.bytes(), false);
}

}  // namespace

// What a rank sends to each rank, and receives from each; and the room for a part in a share.
struct ArenaMoves::Parts {
  Parts(const PerRank& send_bytes, const PerRank& receive_bytes, size_t part_room)
      : send(send_bytes),
        receive(receive_bytes),
        send_at(StartsOf(send_bytes)),
        receive_at(StartsOf(receive_bytes)),
        room(part_room) {
    FUSEWIRE_DCHECK(room > 0);
  }
  const PerRank &send, &receive;
  const PerRank send_at, receive_at;
  const size_t room;
};

Status ArenaMoves::Run(const CollectiveSpec& spec, const Arrays& arrays, int64_t deadline_ns) {
  const Pieces &input = arrays.input, &output = arrays.output;
  const bool in_place = arrays.in_place;
  const bool is_root = rank_ == spec.root;
  const Reduction moves{Op::kSum, spec.reduction.type, {}};
  const size_t element = SizeOf(spec.reduction.type);
  if (spec.kind == CollectiveKind::kBroadcast) {
    const ArenaCall call = ArenaCall::Of(spec.kind, moves, spec.root, spec.counts[0] * element);
    FUSEWIRE_TRY(Broadcast(call, spec.root, is_root ? input : output, deadline_ns));
    if (is_root && !in_place) CopyPieces(input, output);
    return Status::Ok();
  }
  if (IsEven(spec)) {
    const PerRank each = PerRank::Same(static_cast<size_t>(ranks_), spec.counts[0] * element);
    const ArenaCall call = ArenaCall::Of(spec.kind, moves, kNoRoot, each[0] + 1);
    return AllToAll(call, each, each, /*is_even=*/true, input, output, deadline_ns);
  }
  const PerRank bytes(spec.counts, element);
  if (spec.kind == CollectiveKind::kAllToAll) {
    const ArenaCall call = ArenaCall::Of(spec.kind, moves, kNoRoot, 0);
    return AllToAll(call, bytes, PerRank(spec.receives, element), /*is_even=*/false, input, output, deadline_ns);
  }
  const int root = spec.kind == CollectiveKind::kAllGather ? kNoRoot : spec.root;
  const ArenaCall call = ArenaCall::Of(spec.kind, moves, root, PartsOf(bytes));
  std::vector<Piece> block;
  const auto mine = [&](const Pieces& whole, const Pieces& part) {
    if (!in_place || (root != kNoRoot && !is_root)) return part;
    block = BlockOf(whole, spec, rank_);
    return Pieces(block.data(), block.size());
  };
  if (spec.kind == CollectiveKind::kScatter) return Scatter(call, bytes, root, input, mine(input, output), deadline_ns);
  return GatherTo(call, bytes, root, mine(output, input), output, deadline_ns);
}

Status ArenaMoves::Broadcast(const ArenaCall& call, int root, const Pieces& array, int64_t deadline_ns) {
  PieceCursor cursor(array);
  const size_t bytes = array.bytes();
  const size_t chunk_bytes = memory().share_bytes();
  auto in = [&](size_t chunk, uint64_t stage) {
    if (rank_ != root) return;
    const Range range = ChunkOf(bytes, chunk, chunk_bytes);
    CopyIn(&cursor, range.from, range.bytes, memory().ShareOf(rank_, stage));
    meeting_->counts().copied_in_bytes += range.bytes;
  };
  auto out = [&](size_t chunk, uint64_t stage) {
    if (rank_ == root) return;
    const Range range = ChunkOf(bytes, chunk, chunk_bytes);
    CopyOut(&cursor, range.from, range.bytes, memory().ShareOf(root, stage), bytes >= kStreamBytesMin);
    meeting_->counts().copied_out_bytes += range.bytes;
  };
  const size_t chunks = std::max<size_t>(ChunksOf(bytes, chunk_bytes), 1);
  return RunTwoSteps(call, chunks, deadline_ns, in, out);
}

Status ArenaMoves::GatherTo(const ArenaCall& call, const PerRank& bytes, int root, const Pieces& from, const Pieces& to,
                            int64_t deadline_ns) {
  const auto n = static_cast<size_t>(ranks_);
  const auto me = static_cast<size_t>(rank_);
  const bool wants = root == kNoRoot || root == rank_;
  const PerRank starts = StartsOf(bytes);
  PieceCursor read(from), read_own(from), write(to);
  const size_t chunk_bytes = memory().share_bytes();
  const bool stream = to.bytes() >= kStreamBytesMin;
  const size_t largest = bytes.largest();
  const LoanTurn turn(loans_);
  if (root == kNoRoot) {
    const Way way = FUSEWIRE_TRY(loans_->Begin(call, CollectiveKind::kAllGather, bytes.sum(), largest, deadline_ns));
    if (way == Way::kLoans) {
      LoanPlaces places;
      const uint8_t *const own = StartOf(from), *const all = StartOf(to);
      // In place, it is at its own place already.
      loans_->Offer(from, to, own == all + starts[me] || Apart(own, bytes[me], all, to.bytes()));
      FUSEWIRE_TRY(loans_->MeetFirst(call, deadline_ns));
      if (loans_->AllLend(meeting_->stage(), &places)) {
        CopyAcross(&read_own, 0, &write, starts[me], bytes[me], stream);
        return ReadParts(call, places, PerRank(n), bytes, to, deadline_ns);
      }
    }
  }
  if (wants) CopyAcross(&read_own, 0, &write, starts[me], bytes[me], stream);
  auto in = [&](size_t chunk, uint64_t stage) {
    if (rank_ == root) return;
    const Range range = ChunkOf(bytes[me], chunk, chunk_bytes);
    CopyIn(&read, range.from, range.bytes, memory().ShareOf(rank_, stage));
    meeting_->counts().copied_in_bytes += range.bytes;
  };
  auto out = [&](size_t chunk, uint64_t stage) {
    if (!wants) return;
    for (size_t i = 1; i < n; ++i) {
      const size_t rank = (me + i) % n;
      const Range range = ChunkOf(bytes[rank], chunk, chunk_bytes);
      CopyOut(&write, starts[rank] + range.from, range.bytes, memory().ShareOf(static_cast<int>(rank), stage), stream);
      meeting_->counts().copied_out_bytes += range.bytes;
    }
  };
  return RunTwoSteps(call, std::max<size_t>(ChunksOf(largest, chunk_bytes), 1), deadline_ns, in, out);
}

// Reads the part of each other rank, bytes[r] of them at offsets[r] of its array, to where it belongs. At the last
// meeting nobody reads any more.
Status ArenaMoves::ReadParts(const ArenaCall& call, const LoanPlaces& places, const PerRank& offsets,
                             const PerRank& bytes, const Pieces& to, int64_t deadline_ns) {
  const size_t n = bytes.size();
  const auto me = static_cast<size_t>(rank_);
  const PerRank starts = StartsOf(bytes);
  FUSEWIRE_CHECK(bytes.sum() == to.bytes());
  for (size_t i = 1; i < n; ++i) {
    const size_t rank = (me + i) % n;  // ranks do not all start with the same one
    FUSEWIRE_TRY(loans_->Read(call, static_cast<int>(rank), places.from[rank] + offsets[rank],
                              StartOf(to) + starts[rank], bytes[rank]));
  }
  return loans_->MeetFirst(call, deadline_ns);
}

Status ArenaMoves::Scatter(const ArenaCall& call, const PerRank& bytes, int root, const Pieces& from, const Pieces& to,
                           int64_t deadline_ns) {
  const auto n = static_cast<size_t>(ranks_);
  PerRank send(n), receive(n);
  if (rank_ == root) std::copy(bytes.begin(), bytes.end(), send.begin());
  receive[static_cast<size_t>(root)] = bytes[static_cast<size_t>(rank_)];
  const Parts parts(send, receive, LinesDown(memory().share_bytes() / n));
  return Exchange(call, parts, bytes.largest(), from, to, deadline_ns);
}

Status ArenaMoves::AllToAll(const ArenaCall& call, const PerRank& send_bytes, const PerRank& receive_bytes,
                            bool is_even, const Pieces& from, const Pieces& to, int64_t deadline_ns) {
  const auto n = static_cast<size_t>(ranks_);
  const auto me = static_cast<size_t>(rank_);
  const uint64_t stage = meeting_->next_stage();
  ArenaTable& mine = memory().TableOf(rank_, stage);
  for (size_t rank = 0; rank < n && !is_even; ++rank) {
    mine.send[rank].store(send_bytes[rank], std::memory_order_relaxed);
    mine.receive[rank].store(receive_bytes[rank], std::memory_order_relaxed);
  }
  loans_->Offer(from, to, Apart(StartOf(from), from.bytes(), StartOf(to), to.bytes()));
  // Small parts go along: if those of all ranks are small, the exchange is done with this meeting.
  const Parts parts(send_bytes, receive_bytes, LinesDown(memory().share_bytes() / n));
  const size_t small_max = std::min(kLoanBytesMin - 1, parts.room);
  PieceCursor read(from);
  if (LargestOf(send_bytes, me) <= small_max) CopyPartsIn(parts, 0, stage, &read);
  FUSEWIRE_TRY(meeting_->Meet(call, deadline_ns));
  const size_t largest = is_even ? send_bytes[me] : FUSEWIRE_TRY(CompareTables(call));
  PieceCursor read_own(from), write(to);
  const bool stream = to.bytes() >= kStreamBytesMin;
  if (largest <= small_max) {
    CopyAcross(&read_own, parts.send_at[me], &write, parts.receive_at[me], send_bytes[me], stream);
    CopyPartsOut(parts, 0, stage, &write, stream);
    return Status::Ok();
  }
  const LoanTurn turn(loans_);
  // What the sizes of all parts together are, this rank knows only of its own.
  const Way way = FUSEWIRE_TRY(loans_->Begin(call, CollectiveKind::kAllToAll, largest * n, largest, deadline_ns));
  LoanPlaces places;
  if (way == Way::kLoans && loans_->AllLend(stage, &places)) {
    CopyAcross(&read_own, parts.send_at[me], &write, parts.receive_at[me], send_bytes[me], stream);
    const PerRank offsets = is_even ? PerRank::Same(n, parts.send_at[me]) : OffsetsAt(stage);
    return ReadParts(call, places, offsets, receive_bytes, to, deadline_ns);
  }
  return Exchange(call, parts, largest, from, to, deadline_ns);
}

// Every rank reads all sizes, so that all ranks come to the same result: the largest size, or an error that names two
// ranks that contradict each other.
Result<size_t> ArenaMoves::CompareTables(const ArenaCall& call) const {
  size_t largest = 0;
  for (int sender = 0; sender < ranks_; ++sender) {
    for (int receiver = 0; receiver < ranks_; ++receiver) {
      const size_t sent = memory().TableOf(sender, meeting_->stage()).send[receiver].load(std::memory_order_relaxed);
      const size_t expected =
          memory().TableOf(receiver, meeting_->stage()).receive[sender].load(std::memory_order_relaxed);
      if (sender != receiver) largest = std::max(largest, sent);  // a rank's own part does not use the share
      if (sent == expected) continue;
      return Status::Invalid(meeting_->NameOf(sender) + " sends " + std::to_string(sent) + " bytes to " +
                             meeting_->NameOf(receiver) + ", which wants " + std::to_string(expected))
          .Peer(meeting_->NameOf(sender == rank_ ? receiver : sender))
          .Phase(call.Describe())
          .Next("give the same size at both ranks; no array was changed, and the group stays usable");
    }
  }
  return largest;
}

// Where this rank's part begins in each other rank's array.
PerRank ArenaMoves::OffsetsAt(uint64_t stage) const {
  const auto n = static_cast<size_t>(ranks_);
  PerRank offsets(n);
  for (size_t rank = 0; rank < n; ++rank) {
    const ArenaTable& table = memory().TableOf(static_cast<int>(rank), stage);
    for (size_t before = 0; before < static_cast<size_t>(rank_); ++before)
      offsets[rank] += table.send[before].load(std::memory_order_relaxed);
  }
  return offsets;
}

void ArenaMoves::CopyPartsIn(const Parts& parts, size_t chunk, uint64_t stage, PieceCursor* read) {
  for (size_t rank = 0; rank < parts.send.size(); ++rank) {
    const Range range = ChunkOf(parts.send[rank], chunk, parts.room);
    if (rank == static_cast<size_t>(rank_) || range.bytes == 0) continue;
    CopyIn(read, parts.send_at[rank] + range.from, range.bytes, memory().ShareOf(rank_, stage) + rank * parts.room);
    meeting_->counts().copied_in_bytes += range.bytes;
  }
}

void ArenaMoves::CopyPartsOut(const Parts& parts, size_t chunk, uint64_t stage, PieceCursor* write, bool stream) {
  const size_t n = parts.receive.size();
  const auto me = static_cast<size_t>(rank_);
  for (size_t i = 1; i < n; ++i) {
    const size_t rank = (me + i) % n;
    const Range range = ChunkOf(parts.receive[rank], chunk, parts.room);
    const uint8_t* part = memory().ShareOf(static_cast<int>(rank), stage) + me * parts.room;
    CopyOut(write, parts.receive_at[rank] + range.from, range.bytes, part, stream);
    meeting_->counts().copied_out_bytes += range.bytes;
  }
}

// Each rank's share has a part for every other rank. All ranks know `largest`, which gives the number of chunks.
Status ArenaMoves::Exchange(const ArenaCall& call, const Parts& parts, size_t largest, const Pieces& from,
                            const Pieces& to, int64_t deadline_ns) {
  const auto me = static_cast<size_t>(rank_);
  PieceCursor read(from), read_own(from), write(to);
  const bool stream = to.bytes() >= kStreamBytesMin;
  CopyAcross(&read_own, parts.send_at[me], &write, parts.receive_at[me], parts.send[me], stream);
  auto in = [&](size_t chunk, uint64_t stage) { CopyPartsIn(parts, chunk, stage, &read); };
  auto out = [&](size_t chunk, uint64_t stage) { CopyPartsOut(parts, chunk, stage, &write, stream); };
  return RunTwoSteps(call, std::max<size_t>(ChunksOf(largest, parts.room), 1), deadline_ns, in, out);
}

}  // namespace fusewire::collective
