// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Ours: --ranks processes of this program share an arena.
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/collective/loop.h"
#include "bench/collective/our_spec.h"
#include "bench/collective/ranks.h"
#include "bench/harness/harness.h"
#include "fusewire/base/clock.h"
#include "fusewire/collective/arena/arena.h"
#include "fusewire/collective/kernels/spec.h"

namespace fusewire::bench {
namespace {

using collective::Arena;
using collective::ArenaOptions;
using collective::ArenaSeat;
using collective::CollectiveKind;
using collective::CollectiveSpec;
using collective::Pieces;

void Must(const Status& status) {
  if (!status.ok()) Die(status.ToString());
}

constexpr int64_t kDeadlineNs = 60 * kSecondNs;

class ArenaGroup final : public Group {
 public:
  explicit ArenaGroup(std::unique_ptr<Arena> arena) : arena_(std::move(arena)) {}
  int rank() const override { return arena_->rank(); }
  int ranks() const override { return arena_->ranks(); }
  void Barrier() override { Do({}); }
  void Run(const Call& call) override {
    if (call != call_) spec_ = SpecOf(call_ = call, ranks());
    Do(spec_);
  }
  void Broadcast(uint64_t* number) override {
    CollectiveSpec spec;
    spec.kind = CollectiveKind::kBroadcast;
    spec.reduction.type = collective::Type::kU64;
    spec.counts = {1};
    spec.to = Pieces(number, sizeof(*number));
    Do(spec);
  }

 private:
  void Do(const CollectiveSpec& spec) {
    collective::Arrays arrays;
    Must(CheckSpec(spec, ranks(), rank(), &arrays));
    Must(arena_->Run(spec, arrays, fusewire::Clock::Real()->NowNs() + kDeadlineNs));
  }
  std::unique_ptr<Arena> arena_;
  Call call_;
  CollectiveSpec spec_;
};

void LiveAsRank(int rank, const LoopOptions& options, const ArenaOptions& arena_options, int memory,
                const std::vector<std::vector<int>>& lives) {
  for (int other = 0; other < options.ranks; ++other) {
    for (const int end : lives[static_cast<size_t>(other)]) {
      if (other != rank && end >= 0) close(end);
    }
  }
  ArenaSeat seat;
  seat.memory = memory;
  seat.rank = rank;
  seat.ranks = options.ranks;
  seat.lives = lives[static_cast<size_t>(rank)];
  Result<std::unique_ptr<Arena>> arena = Arena::Join(std::move(seat), arena_options);
  Must(arena.status());
  BindRank(rank, options.ranks);
  ArenaGroup group(std::move(arena).value());
  MeasureCollectives(group, options, "fusewire");
}

int RunRanks(const LoopOptions& options) {
  const auto n = static_cast<size_t>(options.ranks);
  ArenaOptions arena_options;
  if (options.slot_bytes > 0) arena_options.share_bytes = options.slot_bytes;
  if (options.one_shot_bytes > 0) arena_options.one_shot_bytes = options.one_shot_bytes;
  Result<int> memory = collective::CreateArenaMemory(options.ranks, arena_options);
  Must(memory.status());
  std::vector<std::vector<int>> lives(n, std::vector<int>(n, -1));
  for (size_t a = 0; a < n; ++a) {
    for (size_t b = 0; b < a; ++b) {
      int pair[2];
      if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) DieOfErrno("socketpair");
      lives[a][b] = pair[0];
      lives[b][a] = pair[1];
    }
  }
  return ForkRanks(options.ranks, [&](int rank) { LiveAsRank(rank, options, arena_options, memory.value(), lives); });
}

}  // namespace
}  // namespace fusewire::bench

int main(int argc, char** argv) { return fusewire::bench::RunRanks(fusewire::bench::ParseLoopOptions(argc, argv)); }
