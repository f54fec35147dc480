// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/composed.h"

#include <algorithm>
#include <utility>

namespace fusewire {
namespace collective {
namespace {

// One collective that only moves bytes.
Status Move(Group* group, Kind kind, std::vector<size_t> counts, std::vector<size_t> receives, const Pieces& from,
            const Pieces& to, int64_t timeout_ns) {
  Wanted wanted;
  wanted.kind = kind;
  wanted.reduction.type = Type::kU8;
  wanted.counts = std::move(counts);
  wanted.receives = std::move(receives);
  wanted.from = from;
  wanted.to = to;
  wanted.timeout_ns = timeout_ns;
  return group->Run(std::move(wanted));
}

}  // namespace

Result<SparseRows> AllReduceSparse(const SparseShape& shape, const SparseView& mine, Group* group, int64_t timeout_ns) {
  return AllReduceSparse(shape, mine, group->rank(), group->ranks(),
                         [group, timeout_ns](const std::vector<size_t>& bytes, const Pieces& from, const Pieces& to) {
                           return Move(group, Kind::kAllGather, bytes, {}, from, to, timeout_ns);
                         });
}

CompressedAllReduce::CompressedAllReduce(Group* group, Compression compression, size_t count, bool average)
    : group_(group),
      compression_(compression),
      ranks_(static_cast<size_t>(group->ranks())),
      rank_(static_cast<size_t>(group->rank())),
      average_(average),
      lost_(count) {
  for (size_t rank = 0; rank <= ranks_; ++rank)
    starts_.push_back(count / ranks_ * rank + std::min(rank, count % ranks_));
  for (size_t rank = 0; rank < ranks_; ++rank) {
    packed_.push_back(CompressedBytes(compression, starts_[rank + 1] - starts_[rank]));
  }
  const size_t own = starts_[rank_ + 1] - starts_[rank_];
  reduced_lost_.resize(own);
  reduced_.resize(own);
  out_.resize(SumOf(packed_));
  in_.resize(std::max(SumOf(packed_), packed_[rank_] * ranks_));
}

size_t CompressedAllReduce::sent_bytes() const {
  return SumOf(packed_) - packed_[rank_] + packed_[rank_] * (ranks_ - 1);
}

Status CompressedAllReduce::Run(float* array, int64_t timeout_ns) {
  size_t at = 0;
  for (size_t rank = 0; rank < ranks_; ++rank) {
    CompressCall call;
    call.to = out_.data() + at;
    call.from = array + starts_[rank];
    call.residual = lost_.data() + starts_[rank];
    call.count = starts_[rank + 1] - starts_[rank];
    Compress(compression_, call);
    at += packed_[rank];
  }
  FUSEWIRE_TRY(Move(group_, Kind::kAllToAll, packed_, std::vector<size_t>(ranks_, packed_[rank_]),
                    Pieces(out_.data(), out_.size()), Pieces(in_.data(), packed_[rank_] * ranks_), timeout_ns));
  std::vector<const void*> sources;
  for (size_t rank = 0; rank < ranks_; ++rank) sources.push_back(in_.data() + rank * packed_[rank_]);
  DecompressCall sum;
  sum.to = reduced_.data();
  sum.sources = sources.data();
  sum.sources_count = ranks_;
  sum.count = reduced_.size();
  sum.divisor = average_ ? ranks_ : 1;
  DecompressSum(compression_, sum);
  CompressCall again;
  again.to = out_.data();
  again.from = reduced_.data();
  again.residual = reduced_lost_.data();
  again.count = reduced_.size();
  Compress(compression_, again);
  FUSEWIRE_TRY(Move(group_, Kind::kAllGather, packed_, {}, Pieces(out_.data(), packed_[rank_]),
                    Pieces(in_.data(), SumOf(packed_)), timeout_ns));
  at = 0;
  for (size_t rank = 0; rank < ranks_; ++rank) {
    const void* source = in_.data() + at;
    DecompressCall call;
    call.to = array + starts_[rank];
    call.sources = &source;
    call.sources_count = 1;
    call.count = starts_[rank + 1] - starts_[rank];
    DecompressSum(compression_, call);
    at += packed_[rank];
  }
  return Status::Ok();
}

}  // namespace collective
}  // namespace fusewire
