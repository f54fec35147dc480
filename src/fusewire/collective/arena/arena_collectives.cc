// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The collectives, as steps between meetings; see docs/collectives.md for the picture.
#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/collective/arena/arena.h"
#include "fusewire/collective/arena/arena_call.h"
#include "fusewire/collective/arena/arena_layout.h"
#include "fusewire/collective/arena/arena_meeting.h"

namespace fusewire {
namespace collective {
namespace {

constexpr int kNoRoot = -1;
// From this size on, a plain copy would evict everything else from a core's own cache.
constexpr size_t kStreamBytesMin = 4 << 20;
// The same for the results of an all-reduce, of all ranks together.
constexpr size_t kStreamBytesOfAllMin = 32 << 20;
// Results are copied to the share in runs of this size. A store to a line that other cores have read fetches the line
// first; a copy of whole lines does not.
constexpr size_t kMirrorBytes = 64 * 1024;

// Parts of shares begin at cache lines: two ranks never write one line.
size_t LinesDown(size_t bytes) { return bytes / kCacheLineBytes * kCacheLineBytes; }
size_t LinesUp(size_t bytes) { return (bytes + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes; }
size_t ChunksOf(size_t bytes, size_t chunk_bytes) { return (bytes + chunk_bytes - 1) / chunk_bytes; }

// Stands for a list that all ranks know when they compare calls: its sum, and FNV-1a over its numbers.
uint64_t PartsOf(const std::vector<size_t>& bytes) {
  uint64_t digest = 0xcbf29ce484222325ULL;
  for (const size_t one : bytes) digest = (digest ^ one) * 0x100000001b3ULL;
  digest ^= digest >> 32;
  return digest << kPartsBytesBits | (SumOf(bytes) & kPartsBytesMask);
}

Reduction Moves(Type type) { return Reduction{Op::kSum, type, {}}; }

// The bytes of a block that chunk `chunk` carries.
struct Range {
  size_t from = 0;
  size_t bytes = 0;
};
Range ChunkOf(size_t block_bytes, size_t chunk, size_t chunk_bytes) {
  FUSEWIRE_DCHECK(chunk_bytes > 0);
  const size_t from = std::min(chunk * chunk_bytes, block_bytes);
  FUSEWIRE_DCHECK(from <= block_bytes);
  return {from, std::min(chunk_bytes, block_bytes - from)};
}

Status CheckBytes(const char* which, size_t has, size_t needs) {
  if (has == needs) return Status::Ok();
  return Status::Invalid(std::string("`") + which + "` has " + std::to_string(has) + " bytes, and should have " +
                         std::to_string(needs))
      .Next("give arrays of the size that follows from the counts");
}

Status CheckList(const char* which, size_t has, size_t ranks) {
  if (has == ranks) return Status::Ok();
  return Status::Invalid(std::string("`") + which + "` has " + std::to_string(has) + " numbers, and should have " +
                         std::to_string(ranks))
      .Next("give a number for each rank");
}

Status CheckRoot(int root, int ranks) {
  if (root >= 0 && root < ranks) return Status::Ok();
  return Status::Invalid("`root` is " + std::to_string(root) + ", and `ranks` is " + std::to_string(ranks))
      .Next("give a rank of the group, from 0 to " + std::to_string(ranks - 1));
}

Status CheckPieces(const Pieces& pieces, size_t element_bytes) {
  for (size_t i = 0; i < pieces.count(); ++i) {
    if (pieces.at(i).bytes % element_bytes == 0) continue;
    return Status::Invalid("piece " + std::to_string(i) + " has " + std::to_string(pieces.at(i).bytes) +
                           " bytes, which is not a multiple of an element's " + std::to_string(element_bytes))
        .Next("cut arrays between elements");
  }
  return Status::Ok();
}

void CopyIn(PieceCursor* from, size_t offset, size_t bytes, uint8_t* to) {
  from->ForRuns(offset, bytes, [to, offset](const uint8_t* data, size_t at, size_t run) {
    CopyPayload(to + (at - offset), data, run);
  });
}

void CopyOut(PieceCursor* to, size_t offset, size_t bytes, const uint8_t* from, bool stream) {
  auto* const copy = stream ? StreamPayload : CopyPayload;
  to->ForRuns(offset, bytes,
              [copy, from, offset](uint8_t* data, size_t at, size_t run) { copy(data, from + (at - offset), run); });
}

// A rank's own part: directly from one array to the other, without a share.
void CopyAcross(PieceCursor* from, size_t from_offset, PieceCursor* to, size_t to_offset, size_t bytes, bool stream) {
  auto* const copy = stream ? StreamPayload : CopyPayload;
  to->ForRuns(to_offset, bytes, [&](uint8_t* data, size_t at, size_t run) {
    const size_t begin = from_offset + (at - to_offset);
    from->ForRuns(begin, run, [copy, data, begin](const uint8_t* source, size_t source_at, size_t length) {
      uint8_t* target = data + (source_at - begin);
      if (target != source) copy(target, source, length);
    });
  });
}

}  // namespace

inline const ArenaMemory& Arena::memory() const { return meeting_->memory(); }

template <class In, class Middle, class Out>
Status Arena::RunThreeSteps(const ArenaCall& call, size_t chunks, int64_t deadline_ns, In in, Middle middle, Out out) {
  const uint64_t first = meeting_->next_stage();
  for (size_t turn = 0; turn < chunks + 2; ++turn) {
    if (turn < chunks) in(turn, first + turn);
    if (turn >= 1 && turn - 1 < chunks) middle(turn - 1, first + turn - 1);
    if (turn >= 2) out(turn - 2, first + turn - 2);
    if (turn < chunks + 1) FUSEWIRE_TRY(meeting_->Meet(call, deadline_ns));
  }
  return Status::Ok();
}

template <class In, class Out>
Status Arena::RunTwoSteps(const ArenaCall& call, size_t chunks, int64_t deadline_ns, In in, Out out) {
  const uint64_t first = meeting_->next_stage();
  for (size_t turn = 0; turn < chunks + 1; ++turn) {
    if (turn < chunks) in(turn, first + turn);
    if (turn >= 1) out(turn - 1, first + turn - 1);
    if (turn < chunks) FUSEWIRE_TRY(meeting_->Meet(call, deadline_ns));
  }
  return Status::Ok();
}

Status Arena::Barrier(int64_t deadline_ns) {
  return meeting_->Meet(ArenaCall::Of(CollectiveKind::kBarrier, {}, kNoRoot, 0), deadline_ns);
}

// --- reductions ---

Status Arena::AllReduce(const Reduction& reduction, const Pieces& from, const Pieces& to, int64_t deadline_ns) {
  FUSEWIRE_TRY(CheckType(reduction.type));
  FUSEWIRE_TRY(CheckBytes("to", to.bytes(), from.bytes()));
  const ArenaCall call =
      ArenaCall::Of(CollectiveKind::kAllReduce, reduction, kNoRoot, from.bytes() / SizeOf(reduction.type));
  return ReduceAll(call, reduction, kNoRoot, from, to, deadline_ns);
}

Status Arena::Reduce(const Reduction& reduction, int root, const Pieces& from, const Pieces& to, int64_t deadline_ns) {
  FUSEWIRE_TRY(CheckType(reduction.type));
  FUSEWIRE_TRY(CheckRoot(root, ranks()));
  if (rank_ == root) FUSEWIRE_TRY(CheckBytes("to", to.bytes(), from.bytes()));
  const ArenaCall call = ArenaCall::Of(CollectiveKind::kReduce, reduction, root, from.bytes() / SizeOf(reduction.type));
  return ReduceAll(call, reduction, root, from, rank_ == root ? to : Pieces(), deadline_ns);
}

Status Arena::ReduceAll(const ArenaCall& call, const Reduction& reduction, int root, const Pieces& from,
                        const Pieces& to, int64_t deadline_ns) {
  FUSEWIRE_TRY(CheckReduction(reduction));
  const Reducer reducer(reduction);
  FUSEWIRE_TRY(CheckPieces(from, reducer.element_bytes()));
  FUSEWIRE_TRY(CheckPieces(to, reducer.element_bytes()));
  const bool user = reduction.op == Op::kUser;
  if (root == kNoRoot && from.bytes() <= kTinyBytesMax && from.count() == 1 && to.count() == 1 && !user) {
    return ReduceTiny(call, reducer, from, to, deadline_ns);
  }
  if (from.bytes() <= one_shot_bytes_) return ReduceOneShot(call, reducer, from, to, deadline_ns);
  return ReduceSlices(call, reducer, root, from, to, deadline_ns);
}

// A few bytes travel in the post itself, in one cache line with its progress.
Status Arena::ReduceTiny(const ArenaCall& call, const Reducer& reducer, const Pieces& from, const Pieces& to,
                         int64_t deadline_ns) {
  const size_t bytes = from.bytes();
  FUSEWIRE_CHECK(bytes <= kTinyBytesMax);
  FUSEWIRE_DCHECK(to.bytes() == bytes);
  FUSEWIRE_DCHECK(ranks() <= kArenaRanksMax);
  CopyPayload(memory().PostOf(rank_, meeting_->next_stage()).tiny, from.at(0).data, bytes);
  FUSEWIRE_TRY(meeting_->Meet(call, deadline_ns));
  std::array<const void*, kArenaRanksMax> sources;
  for (int rank = 0; rank < ranks(); ++rank)
    sources[static_cast<size_t>(rank)] = memory().PostOf(rank, meeting_->stage()).tiny;
  ReduceCall reduce_call;
  reduce_call.to = to.at(0).data;
  reduce_call.sources = sources.data();
  reduce_call.sources_count = static_cast<size_t>(ranks());
  reduce_call.count = bytes / reducer.element_bytes();
  reduce_call.divisor = reducer.averages() ? static_cast<uint64_t>(ranks()) : 1;
  reducer.Reduce(reduce_call);
  return Status::Ok();
}

// One meeting; then every rank that wants the result reduces all of it.
Status Arena::ReduceOneShot(const ArenaCall& call, const Reducer& reducer, const Pieces& from, const Pieces& to,
                            int64_t deadline_ns) {
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
Status Arena::ReduceSlices(const ArenaCall& call, const Reducer& reducer, int root, const Pieces& from,
                           const Pieces& to, int64_t deadline_ns) {
  const size_t bytes = from.bytes();
  const size_t chunk_bytes = memory().share_bytes();
  const auto n = static_cast<size_t>(ranks());
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

// Reduces `bytes` at `share_offset` of every rank's share. This rank's own bytes are taken from `from` if it is not
// null. The result goes to `to` and `mirror`; one of them may be null.
void Arena::ReduceRuns(const Reducer& reducer, uint64_t stage, size_t share_offset, PieceCursor* from, PieceCursor* to,
                       size_t from_offset, size_t to_offset, size_t bytes, uint8_t* mirror) {
  FUSEWIRE_DCHECK(to != nullptr || mirror != nullptr);
  FUSEWIRE_DCHECK(bytes % reducer.element_bytes() == 0);
  FUSEWIRE_DCHECK(ranks() <= kArenaRanksMax);
  std::array<const void*, kArenaRanksMax> sources;
  ReduceCall reduce_call;
  reduce_call.sources = sources.data();
  reduce_call.sources_count = static_cast<size_t>(ranks());
  reduce_call.divisor = reducer.averages() ? static_cast<uint64_t>(ranks()) : 1;
  auto reduce = [&](const uint8_t* own, uint8_t* target, size_t done, size_t run) {
    const bool both = target != nullptr && mirror != nullptr;
    size_t piece = run;
    for (size_t at = 0; at < run; at += piece) {
      if (both) piece = std::min(kMirrorBytes, run - at);
      for (int rank = 0; rank < ranks(); ++rank) {
        const uint8_t* share = memory().ShareOf(rank, stage) + share_offset + done;
        sources[static_cast<size_t>(rank)] = (rank == rank_ && own != nullptr ? own : share) + at;
      }
      reduce_call.to = (target != nullptr ? target : mirror + done) + at;
      FUSEWIRE_DCHECK(piece % reducer.element_bytes() == 0);
      reduce_call.count = piece / reducer.element_bytes();
      reducer.Reduce(reduce_call);
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
  meeting_->counts().reduced_bytes += bytes * static_cast<size_t>(ranks());
  if (to == nullptr) return with_target(nullptr, 0, bytes);
  to->ForRuns(to_offset, bytes,
              [&](uint8_t* target, size_t at, size_t run) { with_target(target, at - to_offset, run); });
}

Status Arena::ReduceScatter(const Reduction& reduction, const std::vector<size_t>& counts, const Pieces& from,
                            const Pieces& to, int64_t deadline_ns) {
  FUSEWIRE_TRY(CheckReduction(reduction));
  const Reducer reducer(reduction);
  const size_t element = reducer.element_bytes();
  const auto n = static_cast<size_t>(ranks());
  const auto me = static_cast<size_t>(rank_);
  FUSEWIRE_TRY(CheckList("counts", counts.size(), n));
  FUSEWIRE_TRY(CheckBytes("from", from.bytes(), SumOf(counts) * element));
  FUSEWIRE_TRY(CheckBytes("to", to.bytes(), counts[me] * element));
  FUSEWIRE_TRY(CheckPieces(from, element));
  FUSEWIRE_TRY(CheckPieces(to, element));
  std::vector<size_t> bytes, starts(n, 0);
  for (const size_t count : counts) bytes.push_back(count * element);
  for (size_t rank = 1; rank < n; ++rank) starts[rank] = starts[rank - 1] + bytes[rank - 1];
  const size_t part_bytes = LinesDown(memory().share_bytes() / n);
  const size_t chunks = ChunksOf(*std::max_element(counts.begin(), counts.end()) * element, part_bytes);
  const bool user = reduction.op == Op::kUser;
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
  return RunTwoSteps(ArenaCall::Of(CollectiveKind::kReduceScatter, reduction, kNoRoot, PartsOf(bytes)),
                     std::max<size_t>(chunks, 1), deadline_ns, in, out);
}

// --- moving ---

Status Arena::Broadcast(int root, const Pieces& array, int64_t deadline_ns, Type type) {
  FUSEWIRE_TRY(CheckRoot(root, ranks()));
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
  return RunTwoSteps(ArenaCall::Of(CollectiveKind::kBroadcast, Moves(type), root, bytes), chunks, deadline_ns, in, out);
}

Status Arena::AllGather(const std::vector<size_t>& bytes, const Pieces& from, const Pieces& to, int64_t deadline_ns,
                        Type type) {
  const ArenaCall call = ArenaCall::Of(CollectiveKind::kAllGather, Moves(type), kNoRoot, PartsOf(bytes));
  return GatherTo(call, bytes, kNoRoot, from, to, deadline_ns);
}

Status Arena::Gather(const std::vector<size_t>& bytes, int root, const Pieces& from, const Pieces& to,
                     int64_t deadline_ns, Type type) {
  FUSEWIRE_TRY(CheckRoot(root, ranks()));
  const ArenaCall call = ArenaCall::Of(CollectiveKind::kGather, Moves(type), root, PartsOf(bytes));
  return GatherTo(call, bytes, root, from, to, deadline_ns);
}

Status Arena::GatherTo(const ArenaCall& call, const std::vector<size_t>& bytes, int root, const Pieces& from,
                       const Pieces& to, int64_t deadline_ns) {
  const auto n = static_cast<size_t>(ranks());
  const auto me = static_cast<size_t>(rank_);
  const bool wants = root == kNoRoot || root == rank_;
  FUSEWIRE_TRY(CheckList("bytes", bytes.size(), n));
  FUSEWIRE_TRY(CheckBytes("from", from.bytes(), bytes[me]));
  if (wants) FUSEWIRE_TRY(CheckBytes("to", to.bytes(), SumOf(bytes)));
  std::vector<size_t> starts(n, 0);
  for (size_t rank = 1; rank < n; ++rank) starts[rank] = starts[rank - 1] + bytes[rank - 1];
  PieceCursor read(from), read_own(from), write(to);
  const size_t chunk_bytes = memory().share_bytes();
  const bool stream = to.bytes() >= kStreamBytesMin;
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
  const size_t chunks = ChunksOf(*std::max_element(bytes.begin(), bytes.end()), chunk_bytes);
  return RunTwoSteps(call, std::max<size_t>(chunks, 1), deadline_ns, in, out);
}

Status Arena::Scatter(const std::vector<size_t>& bytes, int root, const Pieces& from, const Pieces& to,
                      int64_t deadline_ns, Type type) {
  FUSEWIRE_TRY(CheckRoot(root, ranks()));
  const auto n = static_cast<size_t>(ranks());
  const auto me = static_cast<size_t>(rank_);
  FUSEWIRE_TRY(CheckList("bytes", bytes.size(), n));
  if (rank_ == root) FUSEWIRE_TRY(CheckBytes("from", from.bytes(), SumOf(bytes)));
  std::vector<size_t> send(n, 0), receive(n, 0);
  if (rank_ == root) send = bytes;
  receive[static_cast<size_t>(root)] = bytes[me];
  const ArenaCall call = ArenaCall::Of(CollectiveKind::kScatter, Moves(type), root, PartsOf(bytes));
  return Exchange(call, send, receive, *std::max_element(bytes.begin(), bytes.end()), from, to, deadline_ns);
}

Status Arena::AllToAll(const std::vector<size_t>& send_bytes, const std::vector<size_t>& receive_bytes,
                       const Pieces& from, const Pieces& to, int64_t deadline_ns, Type type) {
  const auto n = static_cast<size_t>(ranks());
  FUSEWIRE_TRY(CheckList("send_bytes", send_bytes.size(), n));
  FUSEWIRE_TRY(CheckList("receive_bytes", receive_bytes.size(), n));
  FUSEWIRE_TRY(CheckBytes("from", from.bytes(), SumOf(send_bytes)));
  const ArenaCall call = ArenaCall::Of(CollectiveKind::kAllToAll, Moves(type), kNoRoot, 0);
  ArenaTable& mine = memory().TableOf(rank_, meeting_->next_stage());
  for (size_t rank = 0; rank < n; ++rank) {
    mine.send[rank].store(send_bytes[rank], std::memory_order_relaxed);
    mine.receive[rank].store(receive_bytes[rank], std::memory_order_relaxed);
  }
  FUSEWIRE_TRY(meeting_->Meet(call, deadline_ns));
  Result<size_t> largest = CompareTables(call);
  if (!largest.ok()) return largest.status();
  return Exchange(call, send_bytes, receive_bytes, largest.value(), from, to, deadline_ns);
}

// Every rank reads all sizes, so that all ranks come to the same result: the largest size, or an error that names two
// ranks that contradict each other.
Result<size_t> Arena::CompareTables(const ArenaCall& call) const {
  size_t largest = 0;
  for (int sender = 0; sender < ranks(); ++sender) {
    for (int receiver = 0; receiver < ranks(); ++receiver) {
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

// Each rank's share has a part for every other rank. All ranks know `largest`, which gives the number of chunks.
Status Arena::Exchange(const ArenaCall& call, const std::vector<size_t>& send, const std::vector<size_t>& receive,
                       size_t largest, const Pieces& from, const Pieces& to, int64_t deadline_ns) {
  FUSEWIRE_TRY(CheckBytes("to", to.bytes(), SumOf(receive)));
  const auto n = static_cast<size_t>(ranks());
  const auto me = static_cast<size_t>(rank_);
  std::vector<size_t> send_at(n, 0), receive_at(n, 0);
  for (size_t rank = 1; rank < n; ++rank) {
    send_at[rank] = send_at[rank - 1] + send[rank - 1];
    receive_at[rank] = receive_at[rank - 1] + receive[rank - 1];
  }
  PieceCursor read(from), read_own(from), write(to);
  const size_t part_bytes = LinesDown(memory().share_bytes() / n);
  FUSEWIRE_DCHECK(part_bytes > 0);
  const bool stream = to.bytes() >= kStreamBytesMin;
  if (send[me] > 0) CopyAcross(&read_own, send_at[me], &write, receive_at[me], send[me], stream);
  auto in = [&](size_t chunk, uint64_t stage) {
    for (size_t rank = 0; rank < n; ++rank) {
      const Range range = ChunkOf(send[rank], chunk, part_bytes);
      if (rank == me || range.bytes == 0) continue;
      CopyIn(&read, send_at[rank] + range.from, range.bytes, memory().ShareOf(rank_, stage) + rank * part_bytes);
      meeting_->counts().copied_in_bytes += range.bytes;
    }
  };
  auto out = [&](size_t chunk, uint64_t stage) {
    for (size_t i = 1; i < n; ++i) {
      const size_t rank = (me + i) % n;
      const Range range = ChunkOf(receive[rank], chunk, part_bytes);
      const uint8_t* part = memory().ShareOf(static_cast<int>(rank), stage) + me * part_bytes;
      CopyOut(&write, receive_at[rank] + range.from, range.bytes, part, stream);
      meeting_->counts().copied_out_bytes += range.bytes;
    }
  };
  return RunTwoSteps(call, std::max<size_t>(ChunksOf(largest, part_bytes), 1), deadline_ns, in, out);
}

}  // namespace collective
}  // namespace fusewire
