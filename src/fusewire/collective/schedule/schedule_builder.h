// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Compiles schedules, and has what their algorithms are written with: spans, blocks, and a builder of stages.
// Home: the thread that compiles. Owns: the schedule that it builds. Fails: Compile, with a Status that names the
// invalid field.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/base/status.h"
#include "fusewire/collective/schedule/schedule.h"

namespace fusewire::collective {

Result<Schedule> Compile(const Request& request);

inline Span Input(size_t at, size_t count) { return {Memory::kInput, at, count}; }
inline Span Output(size_t at, size_t count) { return {Memory::kOutput, at, count}; }
inline Span Scratch(size_t at, size_t count) { return {Memory::kScratch, at, count}; }

// Blocks that lie one after the other.
class Blocks {
 public:
  explicit Blocks(const std::vector<size_t>& counts) {
    starts_.push_back(0);
    for (const size_t count : counts) starts_.push_back(starts_.back() + count);
  }
  // `count` elements in `blocks` blocks whose sizes differ by at most one.
  static Blocks Even(size_t count, size_t blocks) {
    FUSEWIRE_DCHECK(blocks > 0);
    std::vector<size_t> counts(blocks, count / blocks);
    for (size_t i = 0; i < count % blocks; ++i) ++counts[i];
    return Blocks(counts);
  }
  size_t at(size_t block) const {
    FUSEWIRE_DCHECK(block < starts_.size());
    return starts_[block];
  }
  size_t count(size_t block) const {
    FUSEWIRE_DCHECK(block + 1 < starts_.size());
    return starts_[block + 1] - starts_[block];
  }
  Span Of(Memory memory, size_t block) const { return {memory, at(block), count(block)}; }
  // Of blocks [from, to).
  size_t CountOf(size_t from, size_t to) const {
    FUSEWIRE_DCHECK(from <= to);
    FUSEWIRE_DCHECK(to < starts_.size());
    return starts_[to] - starts_[from];
  }
  size_t largest() const {
    size_t most = 0;
    for (size_t i = 0; i + 1 < starts_.size(); ++i) most = std::max(most, count(i));
    return most;
  }

 private:
  std::vector<size_t> starts_;
};

// Puts steps into stages by their numbers, and creates missing stages. Empty messages are left out, at both ends alike.
class Builder {
 public:
  explicit Builder(const Request& request)
      : request_(request), n_(static_cast<size_t>(request.ranks)), me_(static_cast<size_t>(request.rank)) {}

  const Request& request() const { return request_; }
  size_t n() const { return n_; }
  size_t me() const { return me_; }
  size_t root() const { return static_cast<size_t>(request_.root); }
  size_t count() const {
    FUSEWIRE_DCHECK(!request_.counts.empty());
    return request_.counts[0];
  }
  // The rank `steps` after `rank`, modulo the number of ranks.
  size_t After(size_t rank, size_t steps) const { return (rank + steps) % n_; }
  size_t Before(size_t rank, size_t steps) const { return (rank + n_ - steps % n_) % n_; }
  // The number of a new stage behind all others.
  size_t Next() const { return schedule_.stages.size(); }

  void Send(size_t stage, size_t peer, Span span) { Message(stage, Step::Do::kSend, peer, span); }
  void Receive(size_t stage, size_t peer, Span span) { Message(stage, Step::Do::kReceive, peer, span); }
  // One to each other rank, or from each: span_of(peer).
  template <class SpanOf>
  void SendToAll(size_t stage, SpanOf span_of) {
    for (size_t i = 1; i < n_; ++i) Send(stage, After(me_, i), span_of(After(me_, i)));
  }
  template <class SpanOf>
  void ReceiveFromAll(size_t stage, SpanOf span_of) {
    for (size_t i = 1; i < n_; ++i) Receive(stage, Before(me_, i), span_of(Before(me_, i)));
  }
  // An empty message that is sent nevertheless.
  void Signal(size_t stage, size_t to, size_t from) {
    Put(stage, Step::Do::kSend).peer = static_cast<int>(to);
    Put(stage, Step::Do::kReceive).peer = static_cast<int>(from);
  }
  void Reduce(size_t stage, Span to, std::vector<Span> from, bool last) {
    if (to.count == 0) return;
    FUSEWIRE_DCHECK(!from.empty());
    Step& step = Put(stage, Step::Do::kReduce);
    step.span = to;
    step.from = std::move(from);
    step.last = last;
  }
  void Copy(size_t stage, Span to, Span from) {
    if (to.count == 0) return;
    FUSEWIRE_DCHECK(to.count == from.count);
    Step& step = Put(stage, Step::Do::kCopy);
    step.span = to;
    step.from = {from};
  }
  // Adds a stage behind all others.
  void Add(Stage stage) { schedule_.stages.push_back(std::move(stage)); }
  Schedule Take() { return std::move(schedule_); }

 private:
  Step& Put(size_t stage, Step::Do what) {
    if (schedule_.stages.size() <= stage) schedule_.stages.resize(stage + 1);
    schedule_.stages[stage].emplace_back();
    schedule_.stages[stage].back().what = what;
    return schedule_.stages[stage].back();
  }
  void Message(size_t stage, Step::Do what, size_t peer, Span span) {
    if (span.count == 0) return;
    FUSEWIRE_DCHECK(peer < n_);
    FUSEWIRE_DCHECK(peer != me_);
    Step& step = Put(stage, what);
    step.peer = static_cast<int>(peer);
    step.span = span;
  }

  const Request& request_;
  const size_t n_;
  const size_t me_;
  Schedule schedule_;
};

// schedule_reduce.cc
void BuildAllReduce(Builder* builder);
void BuildReduce(Builder* builder);
void BuildReduceScatter(Builder* builder);
// schedule_move.cc
void BuildAllGather(Builder* builder);
void BuildGather(Builder* builder);
void BuildScatter(Builder* builder);
void BuildBroadcast(Builder* builder);
void BuildAllToAll(Builder* builder);
void BuildBarrier(Builder* builder);
// schedule_levels.cc
void TwoLevelAllReduce(Builder* builder);
void TwoLevelBroadcast(Builder* builder);
void TwoLevelReduce(Builder* builder);
void TwoLevelAllGather(Builder* builder);
// The second half of other schedules. Sends the root's output down a tree to all ranks.
void AppendBinomialDown(Builder* builder);
// Each rank's own block is already at its place in the output.
void AppendAllGatherDirect(Builder* builder, const Blocks& blocks);
void AppendAllGatherRing(Builder* builder, const Blocks& blocks);
// Among 2^k ranks that are numbered from 0, of which this one is `number`: each round, it exchanges all blocks that it
// has with the rank whose number differs in one bit. Block i is that of number i.
template <class RankOf>
void AppendAllGatherDoubling(Builder* builder, const Blocks& blocks, size_t ranks, size_t number, RankOf rank_of) {
  for (size_t have = 1; have < ranks; have *= 2) {
    const size_t stage = builder->Next();
    const size_t other = number ^ have, peer = rank_of(other);
    auto run_of = [&](size_t owner) {
      const size_t first = owner / have * have;
      return Output(blocks.at(first), blocks.CountOf(first, first + have));
    };
    builder->Send(stage, peer, run_of(number));
    builder->Receive(stage, peer, run_of(other));
  }
}

}  // namespace fusewire::collective
