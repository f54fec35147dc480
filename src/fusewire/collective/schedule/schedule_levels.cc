// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Schedules in two levels: among the ranks of a host, and between hosts. Each is a sequence of flat schedules, among
// some of the ranks and on parts of the arrays.
#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/collective/schedule/schedule_builder.h"

namespace fusewire::collective {
namespace {

// Ranks by host; hosts in the order of their first ranks.
class Hosts {
 public:
  explicit Hosts(const Builder& b) : host_of_(b.n()), index_of_(b.n()) {
    const std::vector<int>& names = b.request().hosts;
    std::vector<int> known;
    for (size_t rank = 0; rank < b.n(); ++rank) {
      const int name = names.empty() ? 0 : names[rank];
      const auto found = static_cast<size_t>(std::find(known.begin(), known.end(), name) - known.begin());
      if (found == known.size()) {
        known.push_back(name);
        ranks_.emplace_back();
      }
      host_of_[rank] = found;
      index_of_[rank] = ranks_[found].size();
      ranks_[found].push_back(rank);
    }
  }
  size_t count() const { return ranks_.size(); }
  size_t HostOf(size_t rank) const { return host_of_[rank]; }
  size_t IndexOf(size_t rank) const { return index_of_[rank]; }
  const std::vector<size_t>& RanksOf(size_t host) const { return ranks_[host]; }
  size_t smallest() const {
    size_t least = ranks_[0].size();
    for (const auto& ranks : ranks_) least = std::min(least, ranks.size());
    return least;
  }
  // The rank on `host` that receives the block of `rank`, which is on another host, for all ranks of `host`.
  size_t DelegateOf(size_t rank, size_t host) const { return ranks_[host][index_of_[rank] % ranks_[host].size()]; }
  // One rank of each host: the root on its own host, the first rank on each other host.
  std::vector<size_t> LeadersFor(size_t root) const {
    std::vector<size_t> leaders;
    for (const auto& ranks : ranks_) leaders.push_back(ranks[0]);
    leaders[host_of_[root]] = root;
    return leaders;
  }

 private:
  std::vector<size_t> host_of_;
  std::vector<size_t> index_of_;
  std::vector<std::vector<size_t>> ranks_;
};

// A flat collective among some ranks of the whole, this rank included.
struct Among {
  CollectiveKind kind;
  Algorithm algorithm;
  const std::vector<size_t>& ranks;
  size_t root = 0;  // as a rank of the whole
  std::vector<size_t> counts;
  bool in_place = false;
  bool last = false;  // its reductions are the last ones
  // Its arrays, as spans of the whole's.
  Span input;
  Span output;
};

void Append(Builder* b, const Among& what) {
  auto index = [&what](size_t rank) {
    return static_cast<int>(std::find(what.ranks.begin(), what.ranks.end(), rank) - what.ranks.begin());
  };
  Request request;
  request.kind = what.kind;
  request.algorithm = what.algorithm;
  request.ranks = static_cast<int>(what.ranks.size());
  request.rank = index(b->me());
  FUSEWIRE_CHECK(request.rank < request.ranks);  // this rank is one of them
  const bool has_root = what.kind == CollectiveKind::kBroadcast || what.kind == CollectiveKind::kReduce;
  request.root = has_root ? index(what.root) : 0;
  request.counts = what.counts;
  request.in_place = what.in_place;
  request.segment_count = b->request().segment_count;
  Result<Schedule> flat = Compile(request);
  FUSEWIRE_CHECK(flat.ok());  // the request above is always valid
  auto ours = [&what](Span span) {
    if (span.memory == Memory::kScratch) return span;
    const Span& array = span.memory == Memory::kInput ? what.input : what.output;
    FUSEWIRE_DCHECK(span.at + span.count <= array.count);
    return Span{array.memory, array.at + span.at, span.count};
  };
  Schedule schedule = std::move(flat).value();
  for (Stage& stage : schedule.stages) {
    for (Step& step : stage) {
      step.span = ours(step.span);
      for (Span& span : step.from) span = ours(span);
      if (step.peer >= 0) step.peer = static_cast<int>(what.ranks[static_cast<size_t>(step.peer)]);
      step.last = step.last && what.last;
    }
    b->Add(std::move(stage));
  }
}

}  // namespace

// The array has as many blocks as the smallest host has ranks. On each host, its rank k sums block k. The ranks k of
// all hosts sum block k between hosts. Then each host's ranks gather all blocks. So a host sends no more to other hosts
// than a single rank would.
void TwoLevelAllReduce(Builder* b) {
  const Hosts hosts(*b);
  const std::vector<size_t>& mine = hosts.RanksOf(hosts.HostOf(b->me()));
  const size_t index = hosts.IndexOf(b->me());
  const size_t lanes = hosts.smallest();
  const Blocks blocks = Blocks::Even(b->count(), lanes);
  std::vector<size_t> counts(mine.size(), 0);
  for (size_t lane = 0; lane < lanes; ++lane) counts[lane] = blocks.count(lane);
  const Span own = index < lanes ? blocks.Of(Memory::kOutput, index) : Span();
  const bool one_host = hosts.count() == 1;
  Append(b, {CollectiveKind::kReduceScatter, Algorithm::kDirect, mine, 0, counts, false, one_host, Input(0, b->count()),
             own});
  if (index < lanes && !one_host) {
    std::vector<size_t> lane;
    for (size_t host = 0; host < hosts.count(); ++host) lane.push_back(hosts.RanksOf(host)[index]);
    Append(b, {CollectiveKind::kAllReduce, b->request().between, lane, 0, {own.count}, true, true, own, own});
  }
  const Span all = Output(0, b->count());
  Append(b, {CollectiveKind::kAllGather, Algorithm::kDirect, mine, 0, counts, true, false, all, all});
}

// From the root to one rank of each host, then from that rank to the others of its host.
void TwoLevelBroadcast(Builder* b) {
  const Hosts hosts(*b);
  const std::vector<size_t> leaders = hosts.LeadersFor(b->root());
  const size_t host = hosts.HostOf(b->me());
  const Span all = Output(0, b->count());
  const std::vector<size_t> counts{b->count()};
  if (leaders[host] == b->me()) {
    Append(b, {CollectiveKind::kBroadcast, b->request().between, leaders, b->root(), counts, false, false,
               Input(0, b->count()), all});
  }
  Append(b, {CollectiveKind::kBroadcast, Algorithm::kBinomial, hosts.RanksOf(host), leaders[host], counts, true, false,
             all, all});
}

// The reverse: one rank of each host gets the host's sum, and the root gets the sum of these.
void TwoLevelReduce(Builder* b) {
  const Hosts hosts(*b);
  const std::vector<size_t> leaders = hosts.LeadersFor(b->root());
  const size_t host = hosts.HostOf(b->me());
  const std::vector<size_t>& mine = hosts.RanksOf(host);
  const size_t count = b->count();
  const bool one_host = hosts.count() == 1;
  // Behind the scratch memory into which the others' arrays land.
  const Span sum =
      b->me() == b->root() ? Output(0, count) : Scratch((std::max(mine.size(), leaders.size()) + 1) * count, count);
  const std::vector<size_t> counts{count};
  Append(b, {CollectiveKind::kReduce, Algorithm::kDirect, mine, leaders[host], counts, false, one_host, Input(0, count),
             sum});
  if (leaders[host] != b->me() || one_host) return;
  Append(b, {CollectiveKind::kReduce, b->request().between, leaders, b->root(), counts, true, true, sum, sum});
}

// Each block is sent once to each other host, to a delegate that sends it on to the other ranks of its host.
void TwoLevelAllGather(Builder* b) {
  const Hosts hosts(*b);
  const Blocks blocks(b->request().counts);
  auto block = [&blocks](size_t rank) { return blocks.Of(Memory::kOutput, rank); };
  const size_t me = b->me();
  const size_t here = hosts.HostOf(me);
  b->Copy(0, block(me), Input(0, blocks.count(me)));
  auto is_neighbour = [&](size_t rank) { return rank != me && hosts.HostOf(rank) == here; };
  for (size_t i = 1; i < b->n(); ++i) {
    const size_t to = b->After(me, i);
    const size_t from = b->Before(me, i);
    if (is_neighbour(to) || (hosts.HostOf(to) != here && hosts.DelegateOf(me, hosts.HostOf(to)) == to)) {
      b->Send(1, to, block(me));
    }
    if (is_neighbour(from) || (hosts.HostOf(from) != here && hosts.DelegateOf(from, here) == me)) {
      b->Receive(1, from, block(from));
    }
  }
  for (size_t rank = 0; rank < b->n(); ++rank) {
    if (hosts.HostOf(rank) == here) continue;
    const size_t delegate = hosts.DelegateOf(rank, here);
    for (const size_t neighbour : hosts.RanksOf(here)) {
      if (neighbour == me) continue;
      if (delegate == me) b->Send(2, neighbour, block(rank));
      if (delegate == neighbour) b->Receive(2, neighbour, block(rank));
    }
  }
}

}  // namespace fusewire::collective
