// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The collectives that reduce, as steps between meetings; see docs/collectives-contract.md for the picture.
#include "fusewire/collective/arena/arena_steps.h"

#include <array>
#include <utility>

namespace fusewire::collective {
namespace {

// When the results of all ranks together are this large, they do not fit into the caches.
constexpr size_t kStreamBytesOfAllMin = 32 << 20;
// Results are copied to the share in runs of this size. A store to a line that other cores have read fetches the line
// first; a copy of whole lines does not.
constexpr size_t kMirrorBytes = 64 * 1024;
// What is read of other ranks' arrays lands in so much memory, which stays in a core's own cache.
constexpr size_t kLandingBytes = 512 * 1024;

void FetchToWrite(const void* line) {
#if defined(__x86_64__)
  // The compiler's own is only for processors that are known to have it; others ignore it.
  __asm__ volatile("prefetchw %0" : : "m"(*static_cast<const uint8_t*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

}  // namespace

Status ArenaReductions::Run(const CollectiveSpec& spec, const Arrays& arrays, int64_t deadline_ns) {
  const auto& [input, output, in_place] = arrays;
  if (spec.kind == CollectiveKind::kReduceScatter) {
    std::vector<Piece> block;
    if (in_place) block = BlockOf(input, spec, rank_);
    return ReduceScatter(spec, input, in_place ? Pieces(block.data(), block.size()) : output, deadline_ns);
  }
  const int root = spec.kind == CollectiveKind::kReduce ? spec.root : kNoRoot;
  const ArenaCall call = ArenaCall::Of(spec.kind, spec.reduction, root, spec.counts[0]);
  const bool wants = root == kNoRoot || root == rank_;
  return ReduceAll(call, spec.reduction, root, input, wants ? output : Pieces(), deadline_ns);
}

Status ArenaReductions::ReduceAll(const ArenaCall& call, const Reduction& reduction, int root, const Pieces& from,
                                  const Pieces& to, int64_t deadline_ns) {
  const Reducer reducer(reduction);
  const bool user = reduction.op == Op::kUser;
  const bool is_plain = root == kNoRoot && from.count() == 1 && to.count() == 1 && !user;
  if (is_plain && from.bytes() <= std::max(kTinyBytesMax, one_shot_bytes_)) {
    return ReducePlain(call, reducer, StartOf(from), StartOf(to), from.bytes(), deadline_ns);
  }
  if (from.bytes() <= one_shot_bytes_) return ReduceOneShot(call, reducer, from, to, deadline_ns);
  if (root != kNoRoot || user) return ReduceSlices(call, reducer, root, from, to, deadline_ns);
  const LoanTurn turn(loans_);
  const size_t bytes = from.bytes();
  const Way way = FUSEWIRE_TRY(
      loans_->Begin(call, CollectiveKind::kAllReduce, bytes, bytes / static_cast<size_t>(ranks_), deadline_ns));
  if (way == Way::kLoans) {
    LoanPlaces places;
    const uint8_t *const a = StartOf(from), *const b = StartOf(to);
    loans_->Offer(from, to, a == b || Apart(a, bytes, b, bytes));
    FUSEWIRE_TRY(loans_->MeetFirst(call, deadline_ns));
    if (loans_->AllLend(meeting_->stage(), &places)) return ReduceLoans(call, reducer, from, to, places, deadline_ns);
  }
  return ReduceSlices(call, reducer, root, from, to, deadline_ns);
}

// As ReduceOneShot. A few bytes travel in the post itself, in one cache line with its progress.
Status ArenaReductions::ReducePlain(const ArenaCall& call, const Reducer& reducer, const uint8_t* from, uint8_t* to,
                                    size_t bytes, int64_t deadline_ns) {
  FUSEWIRE_DCHECK(ranks_ <= kArenaRanksMax);
  const bool is_tiny = bytes <= kTinyBytesMax;
  FUSEWIRE_CHECK(is_tiny || bytes <= memory().share_bytes());
  auto room_of = [&](int rank, uint64_t stage) {
    return is_tiny ? memory().PostOf(rank, stage).tiny : memory().ShareOf(rank, stage);
  };
  CopyPayload(room_of(rank_, meeting_->next_stage()), from, bytes);
  FUSEWIRE_TRY(meeting_->Meet(call, deadline_ns));
  // The other ranks have its next post's line; it comes back while this call ends.
  if (is_tiny) FetchToWrite(&memory().PostOf(rank_, meeting_->next_stage()));
  std::array<const void*, kArenaRanksMax> sources;
  for (int rank = 0; rank < ranks_; ++rank) sources[static_cast<size_t>(rank)] = room_of(rank, meeting_->stage());
  const auto n = static_cast<size_t>(ranks_);
  reducer.Reduce(to, sources.data(), n, bytes / reducer.element_bytes(), n);
  if (is_tiny) return Status::Ok();
  meeting_->counts().copied_in_bytes += bytes;
  meeting_->counts().reduced_bytes += bytes * n;
  return Status::Ok();
}

// One meeting; then every rank that wants the result reduces all of it.
Status ArenaReductions::ReduceOneShot(const ArenaCall& call, const Reducer& reducer, const Pieces& from,
                                      const Pieces& to, int64_t deadline_ns) {
  FUSEWIRE_CHECK(from.bytes() <= memory().share_bytes());
  PieceCursor read(from), write(to);
  const uint64_t stage = meeting_->next_stage();
  CopyIn(&read, 0, from.bytes(), memory().ShareOf(rank_, stage));
  meeting_->counts().copied_in_bytes += from.bytes();
  FUSEWIRE_TRY(meeting_->Meet(call, deadline_ns));
  if (to.bytes() > 0) ReduceRuns(reducer, stage, 0, nullptr, &write, 0, 0, to.bytes(), nullptr);
  return Status::Ok();
}

// Two meetings, and one more for each further chunk: each rank copies in all slices but its own, reduces its own slice
// for all ranks, and copies the others' slices out.
Status ArenaReductions::ReduceSlices(const ArenaCall& call, const Reducer& reducer, int root, const Pieces& from,
                                     const Pieces& to, int64_t deadline_ns) {
  const size_t bytes = from.bytes();
  const size_t chunk_bytes = memory().share_bytes();
  const auto n = static_cast<size_t>(ranks_);
  const auto me = static_cast<size_t>(rank_);
  const bool wants = root == kNoRoot || root == rank_;
  // When streaming, this rank's own slice is copied out of the share like the others'.
  const bool stream = to.bytes() >= kStreamBytesMin && to.bytes() * n >= kStreamBytesOfAllMin && n > 1;
  // A user's function combines into its first source, which must not be this rank's input.
  const bool user = reducer.reduction().op == Op::kUser;
  PieceCursor read(from), read_own(from), write_own(to), write(to);
  auto slice_of = [&](size_t chunk, size_t rank) {
    const Range whole = ChunkOf(bytes, chunk, chunk_bytes);
    const Range slice = ChunkOf(whole.bytes, rank, LinesUp((whole.bytes + n - 1) / n));
    FUSEWIRE_DCHECK(slice.from + slice.bytes <= chunk_bytes);
    return std::pair<size_t, Range>(whole.from, slice);
  };
  auto in = [&](size_t chunk, uint64_t stage) {
    uint8_t* share = memory().ShareOf(rank_, stage);
    for (size_t rank = 0; rank < n; ++rank) {
      const auto [base, slice] = slice_of(chunk, rank);
      if ((rank == me && !user) || slice.bytes == 0) continue;
      CopyIn(&read, base + slice.from, slice.bytes, share + slice.from);
      meeting_->counts().copied_in_bytes += slice.bytes;
    }
  };
  auto middle = [&](size_t chunk, uint64_t stage) {
    const auto [base, slice] = slice_of(chunk, me);
    if (slice.bytes == 0) return;
    const size_t at = base + slice.from;
    uint8_t* mirror = n > 1 && (root != rank_ || stream) ? memory().ShareOf(rank_, stage) + slice.from : nullptr;
    ReduceRuns(reducer, stage, slice.from, user ? nullptr : &read_own, wants && !stream ? &write_own : nullptr, at, at,
               slice.bytes, mirror);
  };
  auto out = [&](size_t chunk, uint64_t stage) {
    if (!wants) return;
    for (size_t i = stream ? 0 : 1; i < n; ++i) {
      const size_t rank = (me + i) % n;  // ranks do not all start with the same share
      const auto [base, slice] = slice_of(chunk, rank);
      if (slice.bytes == 0) continue;
      CopyOut(&write, base + slice.from, slice.bytes, memory().ShareOf(static_cast<int>(rank), stage) + slice.from,
              stream);
      meeting_->counts().copied_out_bytes += slice.bytes;
    }
  };
  return RunThreeSteps(call, ChunksOf(bytes, chunk_bytes), deadline_ns, in, middle, out);
}

// Three meetings, the first of which has been: each rank reduces its own slice, for which it reads the others' arrays,
// and then reads the others' results.
Status ArenaReductions::ReduceLoans(const ArenaCall& call, const Reducer& reducer, const Pieces& from, const Pieces& to,
                                    const LoanPlaces& places, int64_t deadline_ns) {
  const auto n = static_cast<size_t>(ranks_);
  const auto me = static_cast<size_t>(rank_);
  const size_t slice_bytes = LinesUp((from.bytes() + n - 1) / n);
  const Range mine = ChunkOf(from.bytes(), me, slice_bytes);
  uint8_t* const out = StartOf(to);
  FUSEWIRE_TRY(ReduceLent(call, reducer, StartOf(from) + mine.from, places, mine.from, mine.bytes, out + mine.from));
  FUSEWIRE_TRY(meeting_->Meet(call, deadline_ns));
  for (size_t i = 1; i < n; ++i) {
    const size_t rank = (me + i) % n;  // ranks do not all start with the same one
    const Range slice = ChunkOf(from.bytes(), rank, slice_bytes);
    FUSEWIRE_TRY(
        loans_->Read(call, static_cast<int>(rank), places.to[rank] + slice.from, out + slice.from, slice.bytes));
  }
  return meeting_->Meet(call, deadline_ns);
}

Status ArenaReductions::ReduceLent(const ArenaCall& call, const Reducer& reducer, const uint8_t* own,
                                   const LoanPlaces& places, size_t offset, size_t bytes, uint8_t* to) {
  FUSEWIRE_DCHECK(bytes % reducer.element_bytes() == 0);
  const auto n = static_cast<size_t>(ranks_);
  const size_t room = LinesDown(kLandingBytes / n);
  landing_.resize(kLandingBytes);
  std::array<const void*, kArenaRanksMax> sources;
  for (size_t at = 0; at < bytes; at += room) {
    const size_t run = std::min(room, bytes - at);
    for (size_t rank = 0; rank < n; ++rank) {
      uint8_t* const landing = landing_.data() + rank * room;
      const bool is_own = rank == static_cast<size_t>(rank_);
      sources[rank] = is_own ? own + at : landing;
      if (is_own) continue;
      FUSEWIRE_TRY(loans_->Read(call, static_cast<int>(rank), places.from[rank] + offset + at, landing, run));
    }
    reducer.Reduce(to + at, sources.data(), n, run / reducer.element_bytes(), n);
  }
  meeting_->counts().reduced_bytes += bytes * n;
  return Status::Ok();
}

// Reduces `bytes` at `share_offset` of every rank's share. This rank's own bytes are taken from `from` if it is not
// null. The result goes to `to` and `mirror`; one of them may be null.
void ArenaReductions::ReduceRuns(const Reducer& reducer, uint64_t stage, size_t share_offset, PieceCursor* from,
                                 PieceCursor* to, size_t from_offset, size_t to_offset, size_t bytes, uint8_t* mirror) {
  FUSEWIRE_DCHECK(to != nullptr || mirror != nullptr);
  FUSEWIRE_DCHECK(bytes % reducer.element_bytes() == 0);
  FUSEWIRE_DCHECK(ranks_ <= kArenaRanksMax);
  std::array<const void*, kArenaRanksMax> sources;
  const auto n = static_cast<size_t>(ranks_);
  auto reduce = [&](const uint8_t* own, uint8_t* target, size_t done, size_t run) {
    const bool both = target != nullptr && mirror != nullptr;
    size_t piece = run;
    for (size_t at = 0; at < run; at += piece) {
      if (both) piece = std::min(kMirrorBytes, run - at);
      for (int rank = 0; rank < ranks_; ++rank) {
        const uint8_t* share = memory().ShareOf(rank, stage) + share_offset + done;
        sources[static_cast<size_t>(rank)] = (rank == rank_ && own != nullptr ? own : share) + at;
      }
      FUSEWIRE_DCHECK(piece % reducer.element_bytes() == 0);
      reducer.Reduce((target != nullptr ? target : mirror + done) + at, sources.data(), n,
                     piece / reducer.element_bytes(), n);
      if (both) CopyPayload(mirror + done + at, target + at, piece);
    }
  };
  auto with_target = [&](uint8_t* target, size_t done, size_t run) {
    if (from == nullptr) return reduce(nullptr, target, done, run);
    const size_t begin = from_offset + done;
    from->ForRuns(begin, run, [&](const uint8_t* own, size_t at, size_t length) {
      reduce(own, target == nullptr ? nullptr : target + (at - begin), done + (at - begin), length);
    });
  };
  FUSEWIRE_CHECK(share_offset + bytes <= memory().share_bytes());
  meeting_->counts().reduced_bytes += bytes * static_cast<size_t>(ranks_);
  if (to == nullptr) return with_target(nullptr, 0, bytes);
  to->ForRuns(to_offset, bytes,
              [&](uint8_t* target, size_t at, size_t run) { with_target(target, at - to_offset, run); });
}

Status ArenaReductions::ReduceScatter(const CollectiveSpec& spec, const Pieces& from, const Pieces& to,
                                      int64_t deadline_ns) {
  const std::vector<size_t>& counts = spec.counts;
  const Reducer reducer(spec.reduction);
  const size_t element = reducer.element_bytes();
  const auto n = static_cast<size_t>(ranks_);
  const auto me = static_cast<size_t>(rank_);
  const PerRank bytes(counts, element), starts = StartsOf(bytes);
  const size_t part_bytes = LinesDown(memory().share_bytes() / n);
  const size_t largest = bytes.largest();
  const size_t chunks = ChunksOf(largest, part_bytes);
  const bool user = spec.reduction.op == Op::kUser;
  const ArenaCall call = ArenaCall::Of(CollectiveKind::kReduceScatter, spec.reduction, kNoRoot, PartsOf(bytes));
  const LoanTurn turn(loans_);
  if (!user) {
    const Way way =
        FUSEWIRE_TRY(loans_->Begin(call, CollectiveKind::kReduceScatter, bytes.sum(), largest, deadline_ns));
    if (way == Way::kLoans) {
      LoanPlaces places;
      // Others read all but this rank's own part.
      const uint8_t *const a = StartOf(from), *const b = StartOf(to);
      const size_t behind = starts[me] + bytes[me];
      loans_->Offer(from, to,
                    Apart(a, starts[me], b, bytes[me]) && Apart(a + behind, from.bytes() - behind, b, bytes[me]));
      FUSEWIRE_TRY(loans_->MeetFirst(call, deadline_ns));
      if (loans_->AllLend(meeting_->stage(), &places)) {
        FUSEWIRE_TRY(ReduceLent(call, reducer, a + starts[me], places, starts[me], bytes[me], StartOf(to)));
        return meeting_->Meet(call, deadline_ns);
      }
    }
  }
  PieceCursor read(from), read_own(from), write(to);
  auto in = [&](size_t chunk, uint64_t stage) {
    for (size_t rank = 0; rank < n; ++rank) {
      const Range range = ChunkOf(counts[rank] * element, chunk, part_bytes);
      if ((rank == me && !user) || range.bytes == 0) continue;
      CopyIn(&read, starts[rank] + range.from, range.bytes, memory().ShareOf(rank_, stage) + rank * part_bytes);
      meeting_->counts().copied_in_bytes += range.bytes;
    }
  };
  auto out = [&](size_t chunk, uint64_t stage) {
    const Range range = ChunkOf(counts[me] * element, chunk, part_bytes);
    if (range.bytes == 0) return;
    ReduceRuns(reducer, stage, me * part_bytes, user ? nullptr : &read_own, &write, starts[me] + range.from, range.from,
               range.bytes, nullptr);
  };
  return RunTwoSteps(call, std::max<size_t>(chunks, 1), deadline_ns, in, out);
}

}  // namespace fusewire::collective
