// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Schedules that only move bytes.
#include <bit>

#include "fusewire/collective/schedule/schedule_builder.h"

namespace fusewire::collective {
namespace {

// Visits `many` blocks from `first` on, modulo n, as at most two runs.
template <class Visit>
void ForRuns(const Blocks& blocks, size_t n, size_t first, size_t many, Visit visit) {
  const size_t until_end = std::min(many, n - first);
  visit(Output(blocks.at(first), blocks.CountOf(first, first + until_end)));
  if (many > until_end) visit(Output(0, blocks.CountOf(0, many - until_end)));
}

// After round k each rank has the blocks of 2^k ranks, beginning with its own.
void Bruck(Builder* b, const Blocks& blocks) {
  // Among a power of two ranks, doubling sends one message a round: the blocks that a rank has are one run.
  if (std::has_single_bit(b->n()))
    return AppendAllGatherDoubling(b, blocks, b->n(), b->me(), [](size_t rank) { return rank; });
  for (size_t have = 1; have < b->n(); have *= 2) {
    const size_t many = std::min(have, b->n() - have);
    const size_t stage = b->Next();
    const size_t to = b->Before(b->me(), have);
    const size_t from = b->After(b->me(), have);
    ForRuns(blocks, b->n(), b->me(), many, [&](Span span) { b->Send(stage, to, span); });
    ForRuns(blocks, b->n(), from, many, [&](Span span) { b->Receive(stage, from, span); });
  }
}

// Part i is for the rank that comes i ranks after its sender. For each bit that is set in i it moves on by that many
// ranks, in one message with all other parts that have this bit.
void BruckAllToAll(Builder* b) {
  const size_t count = b->count();
  std::vector<Span> parts;  // where each is now
  for (size_t i = 0; i < b->n(); ++i) parts.push_back(Input(b->After(b->me(), i) * count, count));
  b->Copy(0, Output(b->me() * count, count), parts[0]);
  size_t scratch = 0;
  for (size_t distance = 1; distance < b->n(); distance *= 2) {
    const size_t pack = distance == 1 ? 0 : b->Next();
    size_t packed = 0;
    for (size_t i = distance; i < b->n(); ++i) {
      if ((i & distance) != 0) b->Copy(pack, Scratch(scratch + count * packed++, count), parts[i]);
    }
    const Span sent = Scratch(scratch, count * packed), received = Scratch(scratch + sent.count, sent.count);
    const size_t exchange = b->Next();
    b->Send(exchange, b->After(b->me(), distance), sent);
    b->Receive(exchange, b->Before(b->me(), distance), received);
    scratch += 2 * sent.count;
    for (size_t i = distance, at = received.at; i < b->n(); ++i) {
      if ((i & distance) == 0) continue;
      parts[i] = Scratch(at, count);
      at += count;
    }
  }
  const size_t last = b->Next();
  for (size_t i = 1; i < b->n(); ++i) b->Copy(last, Output(b->Before(b->me(), i) * count, count), parts[i]);
}

void ScatterGatherBroadcast(Builder* b) {
  const Blocks blocks = Blocks::Even(b->count(), b->n());
  const Span mine = blocks.Of(Memory::kOutput, b->me());
  const bool at_root = b->me() == b->root();
  if (at_root) {
    b->Copy(0, Output(0, b->count()), Input(0, b->count()));
    b->SendToAll(0, [&](size_t peer) { return blocks.Of(Memory::kInput, peer); });
  } else {
    b->Receive(0, b->root(), mine);
  }
  // The root has all blocks: no rank sends to it.
  b->SendToAll(1, [&](size_t peer) { return peer == b->root() ? Span() : mine; });
  if (!at_root) b->ReceiveFromAll(1, [&](size_t peer) { return blocks.Of(Memory::kOutput, peer); });
}

void Chain(Builder* b) {
  const size_t number = b->Before(b->me(), b->root());
  const size_t segments = (b->count() + b->request().segment_count - 1) / b->request().segment_count;
  const Blocks parts = Blocks::Even(b->count(), std::max<size_t>(segments, 1));
  if (number == 0) b->Copy(0, Output(0, b->count()), Input(0, b->count()));
  for (size_t k = 0; k < segments; ++k) {
    const Span span = parts.Of(Memory::kOutput, k);
    // Segment k reaches rank r of the chain in stage k + r - 1, and leaves it in the next.
    if (number > 0) b->Receive(k + number - 1, b->Before(b->me(), 1), span);
    if (number + 1 < b->n())
      b->Send(k + number, b->After(b->me(), 1), number == 0 ? parts.Of(Memory::kInput, k) : span);
  }
}

}  // namespace

void AppendBinomialDown(Builder* b) {
  const size_t number = b->Before(b->me(), b->root());
  const Span all = Output(0, b->count());
  for (size_t distance = std::bit_ceil(b->n()) / 2; distance > 0; distance /= 2) {
    const size_t stage = b->Next();
    if (number % (2 * distance) == 0 && number + distance < b->n()) b->Send(stage, b->After(b->me(), distance), all);
    if (number % (2 * distance) == distance) b->Receive(stage, b->Before(b->me(), distance), all);
  }
}

void AppendAllGatherDirect(Builder* b, const Blocks& blocks) {
  const size_t stage = b->Next();
  b->SendToAll(stage, [&](size_t) { return blocks.Of(Memory::kOutput, b->me()); });
  b->ReceiveFromAll(stage, [&](size_t peer) { return blocks.Of(Memory::kOutput, peer); });
}

void AppendAllGatherRing(Builder* b, const Blocks& blocks) {
  for (size_t step = 0; step + 1 < b->n(); ++step) {
    const size_t stage = b->Next();
    const size_t sent = b->Before(b->me(), step);
    const size_t landed = b->Before(b->me(), step + 1);
    b->Send(stage, b->After(b->me(), 1), blocks.Of(Memory::kOutput, sent));
    b->Receive(stage, b->Before(b->me(), 1), blocks.Of(Memory::kOutput, landed));
  }
}

void BuildAllGather(Builder* b) {
  if (b->request().algorithm == Algorithm::kTwoLevel) return TwoLevelAllGather(b);
  const Blocks blocks(b->request().counts);
  b->Copy(0, blocks.Of(Memory::kOutput, b->me()), Input(0, blocks.count(b->me())));
  switch (b->request().algorithm) {
    case Algorithm::kRing: return AppendAllGatherRing(b, blocks);
    case Algorithm::kBruck: return Bruck(b, blocks);
    default: return AppendAllGatherDirect(b, blocks);
  }
}

void BuildGather(Builder* b) {
  const Blocks blocks(b->request().counts);
  const size_t me = b->me();
  if (me != b->root()) return b->Send(0, b->root(), Input(0, blocks.count(me)));
  b->Copy(0, blocks.Of(Memory::kOutput, me), Input(0, blocks.count(me)));
  b->ReceiveFromAll(0, [&](size_t peer) { return blocks.Of(Memory::kOutput, peer); });
}

void BuildScatter(Builder* b) {
  const Blocks blocks(b->request().counts);
  const size_t me = b->me();
  if (me != b->root()) return b->Receive(0, b->root(), Output(0, blocks.count(me)));
  b->Copy(0, Output(0, blocks.count(me)), blocks.Of(Memory::kInput, me));
  b->SendToAll(0, [&](size_t peer) { return blocks.Of(Memory::kInput, peer); });
}

void BuildBroadcast(Builder* b) {
  switch (b->request().algorithm) {
    case Algorithm::kScatterGather: return ScatterGatherBroadcast(b);
    case Algorithm::kChain: return Chain(b);
    case Algorithm::kTwoLevel: return TwoLevelBroadcast(b);
    default: break;
  }
  if (b->me() == b->root()) b->Copy(0, Output(0, b->count()), Input(0, b->count()));
  AppendBinomialDown(b);
}

void BuildAllToAll(Builder* b) {
  if (b->request().algorithm == Algorithm::kBruck) return BruckAllToAll(b);
  const bool is_even = IsEven(b->request());
  const Blocks sends(is_even ? std::vector<size_t>(b->n(), b->count()) : b->request().counts);
  const Blocks receives = is_even ? sends : Blocks(b->request().receives);
  const size_t me = b->me();
  const bool pairwise = b->request().algorithm == Algorithm::kPairwise;
  b->Copy(0, receives.Of(Memory::kOutput, me), sends.Of(Memory::kInput, me));
  for (size_t i = 1; i < b->n(); ++i) {
    const size_t to = b->After(me, i);
    const size_t from = b->Before(me, i);
    const size_t stage = pairwise ? i : 0;
    b->Send(stage, to, sends.Of(Memory::kInput, to));
    b->Receive(stage, from, receives.Of(Memory::kOutput, from));
  }
}

void BuildBarrier(Builder* b) {
  for (size_t distance = 1; distance < b->n(); distance *= 2) {
    b->Signal(b->Next(), b->After(b->me(), distance), b->Before(b->me(), distance));
  }
}

}  // namespace fusewire::collective
