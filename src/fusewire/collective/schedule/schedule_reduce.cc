// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Schedules that reduce. If two ranks exchange partial results, the lower rank's comes first on both, so that both get
// the same bits.
#include <bit>
#include <cstddef>
#include <utility>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/collective/schedule/schedule_builder.h"

namespace fusewire::collective {
namespace {

// The sources of a reduction in the order of ranks: `mine` for this rank, for each other rank r its place in scratch.
std::vector<Span> InRankOrder(const Builder& b, Span mine, size_t scratch_stride) {
  std::vector<Span> from;
  for (size_t rank = 0; rank < b.n(); ++rank) {
    from.push_back(rank == b.me() ? mine : Scratch(rank * scratch_stride, mine.count));
  }
  return from;
}

void OneShot(Builder* b) {
  const size_t count = b->count();
  b->SendToAll(0, [&](size_t) { return Input(0, count); });
  b->ReceiveFromAll(0, [&](size_t peer) { return Scratch(peer * count, count); });
  b->Reduce(1, Output(0, count), InRankOrder(*b, Input(0, count), count), true);
}

// This rank receives all parts of its own block, and reduces them into `to`; two stages.
void ReduceMyBlock(Builder* b, const Blocks& blocks, Span to) {
  const size_t count = blocks.count(b->me());
  b->SendToAll(0, [&](size_t peer) { return blocks.Of(Memory::kInput, peer); });
  b->ReceiveFromAll(0, [&](size_t peer) { return Scratch(peer * count, count); });
  b->Reduce(1, to, InRankOrder(*b, blocks.Of(Memory::kInput, b->me()), count), true);
}

void TwoShot(Builder* b) {
  const Blocks blocks = Blocks::Even(b->count(), b->n());
  ReduceMyBlock(b, blocks, blocks.Of(Memory::kOutput, b->me()));
  AppendAllGatherDirect(b, blocks);
}

// Exchanges partial results with `peer` and keeps the sum; two stages.
void ExchangeAndReduce(Builder* b, size_t peer, Span sent, Span kept, bool last) {
  const size_t stage = b->Next();
  const Span landed = Scratch(0, kept.count);
  b->Send(stage, peer, sent);
  b->Receive(stage, peer, landed);
  std::vector<Span> from = {kept, landed};
  if (peer < b->me()) std::swap(from[0], from[1]);
  b->Reduce(stage + 1, kept, std::move(from), last);
}

// Only pow2 ranks take part, the largest power of two up to n. In each of the first pairs of ranks, the even rank sends
// its array to the odd one first, and gets the result afterwards.
struct Fold {
  size_t pow2, extra;
  bool takes_part = true;
  size_t number = 0;  // among those that take part

  explicit Fold(const Builder& b) : pow2(std::bit_floor(b.n())), extra(b.n() - pow2) {
    takes_part = b.me() >= 2 * extra || b.me() % 2 == 1;
    number = b.me() < 2 * extra ? b.me() / 2 : b.me() - extra;
  }
  size_t RankOf(size_t place) const {
    FUSEWIRE_DCHECK(place < pow2);
    return place < extra ? 2 * place + 1 : place + extra;
  }
};

void FoldIn(Builder* b, const Fold& fold) {
  const Span all = Output(0, b->count());
  b->Copy(0, all, Input(0, b->count()));
  if (b->me() >= 2 * fold.extra) return;
  if (!fold.takes_part) return b->Send(1, b->me() + 1, all);
  b->Receive(1, b->me() - 1, Scratch(0, b->count()));
  b->Reduce(2, all, {Scratch(0, b->count()), all}, false);
}

void FoldOut(Builder* b, const Fold& fold) {
  if (b->me() >= 2 * fold.extra) return;
  const Span all = Output(0, b->count());
  const size_t stage = b->Next();
  if (fold.takes_part) return b->Send(stage, b->me() - 1, all);
  b->Receive(stage, b->me() + 1, all);
}

void RecursiveDoubling(Builder* b) {
  const Fold fold(*b);
  FoldIn(b, fold);
  const Span all = Output(0, b->count());
  for (size_t distance = 1; fold.takes_part && distance < fold.pow2; distance *= 2) {
    ExchangeAndReduce(b, fold.RankOf(fold.number ^ distance), all, all, distance * 2 == fold.pow2);
  }
  FoldOut(b, fold);
}

void Rabenseifner(Builder* b) {
  const Fold fold(*b);
  FoldIn(b, fold);
  const Blocks blocks = Blocks::Even(b->count(), fold.pow2);
  auto span = [&blocks](size_t from, size_t to) { return Output(blocks.at(from), blocks.CountOf(from, to)); };
  // Halving: both ranks of a pair hold sums of blocks [from, to), and each keeps one half.
  size_t from = 0;
  size_t to = fold.pow2;
  for (size_t distance = fold.pow2 / 2; fold.takes_part && distance > 0; distance /= 2) {
    const size_t middle = from + distance;
    const bool upper = (fold.number & distance) != 0;
    const Span low = span(from, middle);
    const Span high = span(middle, to);
    ExchangeAndReduce(b, fold.RankOf(fold.number ^ distance), upper ? low : high, upper ? high : low, distance == 1);
    (upper ? from : to) = middle;
  }
  FUSEWIRE_DCHECK(!fold.takes_part || to - from == 1);
  if (fold.takes_part) {
    FUSEWIRE_DCHECK(from == fold.number);
    AppendAllGatherDoubling(b, blocks, fold.pow2, fold.number, [&](size_t number) { return fold.RankOf(number); });
  }
  FoldOut(b, fold);
}

// Rabenseifner's halving, of blocks of given sizes: sums stay in scratch, and what lands lies behind them. In each of
// the first pairs the odd rank has the blocks of both, and sends the even one its own at the end.
void HalvingScatter(Builder* b, const Blocks& blocks, Span mine) {
  const Fold fold(*b);
  const size_t me = b->me(), total = blocks.CountOf(0, b->n());
  if (!fold.takes_part) {
    b->Send(0, me + 1, Input(0, total));
    return b->Receive(1, me + 1, mine);
  }
  const bool has_two = me < 2 * fold.extra;
  if (has_two) {
    b->Receive(0, me - 1, Scratch(total, total));
    b->Reduce(1, Scratch(0, total), {Scratch(total, total), Input(0, total)}, false);
  }
  Memory where = has_two ? Memory::kScratch : Memory::kInput;
  auto span = [&](size_t from, size_t to) {
    auto start = [&](size_t place) { return blocks.at(place < fold.extra ? 2 * place : place + fold.extra); };
    return Span{where, start(from), start(to) - start(from)};
  };
  size_t from = 0, to = fold.pow2;
  for (size_t distance = fold.pow2 / 2; distance > 0; distance /= 2) {
    const size_t middle = from + distance, peer = fold.RankOf(fold.number ^ distance), stage = b->Next();
    const bool upper = (fold.number & distance) != 0, last = distance == 1;
    const Span low = span(from, middle), high = span(middle, to);
    const Span kept = upper ? high : low, landed = Scratch(total, kept.count);
    b->Send(stage, peer, upper ? low : high);
    b->Receive(stage, peer, landed);
    std::vector<Span> sources = {kept, landed};
    if (peer < me) std::swap(sources[0], sources[1]);
    b->Reduce(stage + 1, last && !has_two ? mine : Scratch(kept.at, kept.count), std::move(sources), last);
    where = Memory::kScratch;
    (upper ? from : to) = middle;
  }
  if (!has_two) return;
  const size_t stage = b->Next();
  b->Send(stage, me - 1, blocks.Of(Memory::kScratch, me - 1));
  b->Copy(stage, mine, blocks.Of(Memory::kScratch, me));
}

// Each block goes round the ring, and each rank adds its own array to it; then the sums go round once more. A segment
// is reduced while the next one travels: segment k is k stages behind the first.
void Ring(Builder* b) {
  const size_t n = b->n();
  const size_t me = b->me();
  if (n == 1) return b->Copy(0, Output(0, b->count()), Input(0, b->count()));
  const size_t segments = (b->count() + b->request().segment_count * n - 1) / (b->request().segment_count * n);
  const Blocks parts = Blocks::Even(b->count(), segments == 0 ? 1 : segments);
  size_t scratch = 0;
  for (size_t k = 0; k < segments; ++k) {
    const Blocks blocks = Blocks::Even(parts.count(k), n);
    auto output = [&](size_t block) { return Output(parts.at(k) + blocks.at(block), blocks.count(block)); };
    auto input = [&](size_t block) { return Input(parts.at(k) + blocks.at(block), blocks.count(block)); };
    size_t stage = k;
    for (size_t step = 0; step + 1 < n; ++step) {
      const size_t sent = b->Before(me, step);
      const size_t landed = b->Before(me, step + 1);
      const Span place = Scratch(scratch, blocks.count(landed));
      b->Send(stage, b->After(me, 1), step == 0 ? input(sent) : output(sent));
      b->Receive(stage, b->Before(me, 1), place);
      b->Reduce(stage + 1, output(landed), {place, input(landed)}, step + 2 == n);
      stage += 2;
    }
    for (size_t step = 0; step + 1 < n; ++step, ++stage) {
      b->Send(stage, b->After(me, 1), output(b->Before(me, step + n - 1)));
      b->Receive(stage, b->Before(me, 1), output(b->Before(me, step)));
    }
    scratch += blocks.largest();
  }
}

// Up a tree; `number` counts ranks from the root.
void BinomialReduce(Builder* b, Span sum) {
  const size_t number = b->Before(b->me(), b->root());
  b->Copy(0, sum, Input(0, b->count()));
  for (size_t distance = 1; distance < b->n(); distance *= 2) {
    const size_t stage = b->Next();
    if ((number & distance) != 0) return b->Send(stage, b->Before(b->me(), distance), sum);
    if (number + distance >= b->n()) continue;
    const Span landed = Scratch(b->count(), b->count());
    b->Receive(stage, b->After(b->me(), distance), landed);
    b->Reduce(stage + 1, sum, {sum, landed}, number == 0 && distance * 2 >= b->n());
  }
}

}  // namespace

void BuildAllReduce(Builder* b) {
  switch (b->request().algorithm) {
    case Algorithm::kOneShot: return OneShot(b);
    case Algorithm::kTwoShot: return TwoShot(b);
    case Algorithm::kRecursiveDoubling: return RecursiveDoubling(b);
    case Algorithm::kRabenseifner: return Rabenseifner(b);
    case Algorithm::kRing: return Ring(b);
    case Algorithm::kTwoLevel: return TwoLevelAllReduce(b);
    default: BinomialReduce(b, Output(0, b->count())); return AppendBinomialDown(b);
  }
}

void BuildReduce(Builder* b) {
  if (b->request().algorithm == Algorithm::kTwoLevel) return TwoLevelReduce(b);
  const size_t count = b->count();
  const bool at_root = b->me() == b->root();
  if (b->request().algorithm == Algorithm::kBinomial) {
    return BinomialReduce(b, at_root ? Output(0, count) : Scratch(0, count));
  }
  if (b->request().algorithm == Algorithm::kDirect) {
    if (!at_root) return b->Send(0, b->root(), Input(0, count));
    b->ReceiveFromAll(0, [&](size_t peer) { return Scratch(peer * count, count); });
    return b->Reduce(1, Output(0, count), InRankOrder(*b, Input(0, count), count), true);
  }
  // Each rank reduces a block into scratch memory behind the landed parts; then the root gathers the blocks.
  const Blocks blocks = Blocks::Even(count, b->n());
  const size_t mine = blocks.count(b->me());
  const Span sum = at_root ? blocks.Of(Memory::kOutput, b->me()) : Scratch(b->n() * mine, mine);
  ReduceMyBlock(b, blocks, sum);
  if (!at_root) return b->Send(2, b->root(), sum);
  b->ReceiveFromAll(2, [&](size_t peer) { return blocks.Of(Memory::kOutput, peer); });
}

void BuildReduceScatter(Builder* b) {
  const Blocks blocks(b->request().counts);
  const size_t me = b->me();
  const size_t n = b->n();
  const Span mine = Output(0, blocks.count(me));
  if (b->request().algorithm == Algorithm::kDirect) return ReduceMyBlock(b, blocks, mine);
  if (n == 1) return b->Copy(0, mine, Input(0, blocks.count(0)));
  if (b->request().algorithm == Algorithm::kHalving) return HalvingScatter(b, blocks, mine);
  // Round the ring; the last block that reaches a rank is its own. A sum stays in one half of scratch while the next
  // block lands in the other half.
  const size_t half = blocks.largest();
  for (size_t step = 0; step + 1 < n; ++step) {
    const size_t sent = b->Before(me, step + 1);
    const size_t landed = b->Before(me, step + 2);
    const Span place = Scratch(step % 2 * half, blocks.count(landed));
    const Span own = blocks.Of(Memory::kInput, landed);
    const bool last = step + 2 == n;
    b->Send(2 * step, b->After(me, 1),
            step == 0 ? blocks.Of(Memory::kInput, sent) : Scratch((step - 1) % 2 * half, blocks.count(sent)));
    b->Receive(2 * step, b->Before(me, 1), place);
    b->Reduce(2 * step + 1, last ? mine : place, {place, own}, last);
  }
}

}  // namespace fusewire::collective
