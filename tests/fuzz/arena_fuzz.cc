// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// input := ranks:u8 op[...]      op := what:u8 argument:u8[...] A rank that makes every kind of call. Before each one,
// the others write arbitrary values into the shared memory: their progress, their calls, sizes, the bell, the header.
// Each call returns, soon after its deadline at the latest, and nothing is read or written outside the arrays and the
// shared memory.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"
#include "fusewire/collective/arena/arena.h"
#include "fusewire/collective/arena/arena_liar_test.h"
#include "fusewire/collective/kernels/spec.h"
#include "fusewire/transport/shm/peer_process.h"
#include "op_bytes.h"

namespace fusewire::collective {
namespace {

constexpr size_t kOpsMax = 24;
constexpr int64_t kPatienceNs = 100 * 1000;
constexpr size_t kShareBytes = 64 * 1024;
constexpr size_t kCounts[] = {0, 1, 3, 5, 100, 3000, 9000, 20000};
constexpr CollectiveKind kCalls[] = {
    CollectiveKind::kBarrier,       CollectiveKind::kAllReduce, CollectiveKind::kReduce,
    CollectiveKind::kReduceScatter, CollectiveKind::kAllGather, CollectiveKind::kGather,
    CollectiveKind::kScatter,       CollectiveKind::kBroadcast, CollectiveKind::kAllToAll};
constexpr size_t kTurns = ArenaLiar::kTurns, kSeats = ArenaLiar::kSeatsMax;

class Ranks {
 public:
  explicit Ranks(OpBytes* in) : in_(*in), ranks_(2 + in_.Next() % 3) {
    options_.share_bytes = kShareBytes;
    options_.spin_ns = options_.yield_ns = 0;
    Join(in_.Next() % ranks_);
  }
  ~Ranks() { Leave(); }

  void Run() {
    for (size_t ops = 0; !in_.empty() && ops < kOpsMax; ++ops) {
      const uint8_t what = in_.Next();
      if (what % 4 == 3) {
        Lie(what / 4);
        continue;
      }
      ComeAlong(what / 64);
      const int64_t begin_ns = Clock::Real()->NowNs();
      Status status = Call(what / 4 % 16);
      if (!status.ok()) FUSEWIRE_CHECK(!status.cause().empty());
      FUSEWIRE_CHECK(Clock::Real()->NowNs() - begin_ns < 5 * kSecondNs);
      if (!status.ok() && status.code() != Code::kInvalid) Renew();
    }
  }

 private:
  void Join(int own) {
    const int fd = CreateArenaMemory(ranks_, options_).value();
    liar_ = std::make_unique<ArenaLiar>(fd, ranks_, options_);
    ArenaSeat seat;
    seat.memory = fd;
    seat.rank = own;
    seat.ranks = ranks_;
    for (int rank = 0; rank < ranks_; ++rank) {
      int ends[2] = {-1, -1};
      if (rank != seat.rank) FUSEWIRE_CHECK(pipe(ends) == 0);
      seat.lives.push_back(ends[0]);
      seat.processes.push_back(getpid());
      others_.push_back(ends[1]);
    }
    seat_ = seat.rank;
    arena_ = Arena::Join(std::move(seat), options_).value();
    close(fd);
  }
  void Leave() {
    arena_.reset();
    for (const int other : others_) {
      if (other >= 0) close(other);
    }
    others_.clear();
  }
  template <class Word>
  void Store(size_t at, Word word) {
    liar_->Store(at, word);
  }
  size_t PostAt(int seat, uint64_t stage) const { return liar_->PostAt(seat, stage); }
  size_t TableAt(int seat, uint64_t stage) const { return liar_->TableAt(seat, stage); }

  // The others seem to be at the coming three meetings, and to want what we shall want, or something else.
  void ComeAlong(int how) {
    const uint64_t next = arena_->counts().meetings + 1;
    for (uint64_t stage = next; stage < next + kTurns && how > 0; ++stage) {
      for (int seat = 0; seat < ranks_; ++seat) {
        if (seat == seat_) continue;
        Store(PostAt(seat, stage), stage);
        if (how == 2) Store(PostAt(seat, stage) + 8, in_.Word());
      }
    }
    same_ = how == 2 ? 0 : 1;
    if (how == 3) LendAlong(next);
  }
  // And they lend: first their probes, then that they can read, then an array at any address.
  void LendAlong(uint64_t next) {
    const uint64_t address = in_.Word();
    for (int seat = 0; seat < ranks_; ++seat) {
      if (seat == seat_) continue;
      const auto word = [&](uint64_t stage, size_t which) { return TableAt(seat, stage) + (2 * kSeats + which) * 8; };
      Store(word(next, 0), transport::ProbeAddress());
      Store(word(next, 1), transport::ProbeWord());
      for (uint64_t stage = next + 1; stage < next + kTurns; ++stage) {
        Store(word(stage, 0), address);
        Store(word(stage, 1), address);
        Store(word(stage, 2), uint64_t{1});
        Store(word(stage, 3), uint64_t{1});
      }
    }
  }
  void Lie(uint8_t which) {
    const int seat = in_.Next() % ranks_;
    const uint64_t stage = in_.Next();
    switch (which % 8) {
      case 0:
      case 1: return Store(PostAt(seat, stage) + in_.Next() % 8 * 8, in_.Word());
      case 2: return Store(TableAt(seat, stage) + in_.Next() % (2 * kSeats + 4) * 8, in_.Word());
      case 3: return Store(ArenaLiar::kBell, static_cast<uint32_t>(in_.Word()));
      case 4: return Store(ArenaLiar::kRevoked, static_cast<uint32_t>(in_.Next()));
      case 5: return Store(ArenaLiar::kClosed, uint32_t{in_.Next() % 8 == 0 ? 1U : 0U});
      case 6: return Store(in_.Next() % 4 * 8, in_.Word());  // the header, which was checked once
      default: {
        if (others_[static_cast<size_t>(seat)] >= 0) close(std::exchange(others_[static_cast<size_t>(seat)], -1));
      }
    }
  }
  // As a group does: after what breaks it, another arena takes its place.
  void Renew() {
    Leave();
    Join(seat_);
  }

  // The rank writes its call into its own post only when it meets. A rehearsal that no other rank attends makes the
  // call known before, for others that are to agree.
  Status Call(int kind) {
    const int64_t deadline_ns = Clock::Real()->NowNs() + kPatienceNs;
    const size_t count = in_.OneOf(kCounts);
    const auto n = static_cast<size_t>(arena_->ranks());
    const int root = in_.Next() % (arena_->ranks() + 1);
    std::vector<float> from(count), to(count), all(count * n);
    const auto pieces = [](std::vector<float>& of) { return Pieces(of.data(), of.size() * sizeof(float)); };
    Reduction reduction;
    reduction.type = Type::kF32;
    reduction.op = static_cast<Op>(in_.Next() % 4);
    CopyWhat(kind, reduction, root, count);
    CollectiveSpec spec;
    spec.kind = kCalls[kind % 9];
    spec.reduction = reduction;
    spec.root = root;
    const bool is_one = spec.kind == CollectiveKind::kAllReduce || spec.kind == CollectiveKind::kReduce ||
                        spec.kind == CollectiveKind::kBroadcast;
    if (spec.kind != CollectiveKind::kBarrier) spec.counts.assign(is_one ? 1 : n, count);
    const bool splits = spec.kind == CollectiveKind::kReduceScatter || spec.kind == CollectiveKind::kScatter;
    const bool joins = spec.kind == CollectiveKind::kAllGather || spec.kind == CollectiveKind::kGather;
    std::vector<float> got(count * n);
    const bool is_exchange = spec.kind == CollectiveKind::kAllToAll;
    if (is_exchange) {
      spec.receives = spec.counts;
      AgreeOnTables(count * sizeof(float));
    }
    spec.from = pieces(splits || is_exchange ? all : from);
    spec.to = pieces(is_exchange ? got : joins ? all : to);
    Arrays arrays;
    FUSEWIRE_TRY(CheckSpec(spec, arena_->ranks(), arena_->rank(), &arrays));
    return arena_->Run(spec, arrays, deadline_ns);
  }
  // Two ranks that agree see the same words: kind, op, type and root in one, elements in the other.
  void CopyWhat(int kind, const Reduction& reduction, int root, size_t count) {
    if (same_ == 0) return;
    const CollectiveKind what = kCalls[kind % 9];
    const bool reduces = Reduces(what), rooted = what == CollectiveKind::kReduce || what == CollectiveKind::kGather ||
                                                 what == CollectiveKind::kScatter || what == CollectiveKind::kBroadcast;
    const bool typeless = what == CollectiveKind::kBarrier;
    const auto type = typeless ? Reduction().type : reduction.type;
    const auto op = reduces ? reduction.op : Op::kSum;
    const uint64_t word = static_cast<uint64_t>(what) | static_cast<uint64_t>(op) << 8 |
                          static_cast<uint64_t>(type) << 16 |
                          static_cast<uint64_t>(static_cast<uint32_t>(rooted ? root : -1)) << 32;
    uint64_t amount = 0;
    if (what == CollectiveKind::kAllReduce || what == CollectiveKind::kReduce) amount = count;
    if (what == CollectiveKind::kBroadcast) amount = count * sizeof(float);
    if (what == CollectiveKind::kReduceScatter || what == CollectiveKind::kAllGather ||
        what == CollectiveKind::kGather || what == CollectiveKind::kScatter)
      amount = PartsOf(count * sizeof(float));
    const uint64_t next = arena_->counts().meetings + 1;
    for (uint64_t stage = next; stage < next + kTurns; ++stage) {
      for (int seat = 0; seat < ranks_; ++seat) {
        if (seat == seat_) continue;
        Store(PostAt(seat, stage) + 8, word);
        Store(PostAt(seat, stage) + 16, amount);
      }
    }
  }
  uint64_t PartsOf(size_t each) const {
    uint64_t digest = 0xcbf29ce484222325ULL;
    for (int rank = 0; rank < arena_->ranks(); ++rank) digest = (digest ^ each) * 0x100000001b3ULL;
    digest ^= digest >> 32;
    return digest << 44 | (each * static_cast<uint64_t>(arena_->ranks()) & ((uint64_t{1} << 44) - 1));
  }
  void AgreeOnTables(uint64_t each) {
    const uint8_t how = in_.Next();
    const uint64_t next = arena_->counts().meetings + 1;
    for (int seat = 0; seat < ranks_; ++seat) {
      for (size_t i = 0; i < 2 * kSeats; ++i) Store(TableAt(seat, next) + i * 8, each);
    }
    // For its own part, a rank may give any size: the same one twice.
    const int other = (seat_ + 1) % ranks_;
    const uint64_t huge = in_.Word();
    if (how % 4 != 0) return;
    Store(TableAt(other, next) + static_cast<size_t>(other) * 8, huge);
    Store(TableAt(other, next) + (kSeats + static_cast<size_t>(other)) * 8, huge);
  }

  OpBytes& in_;
  const int ranks_;
  ArenaOptions options_;
  std::unique_ptr<ArenaLiar> liar_;
  std::vector<int> others_;  // the other ends of life lines
  int seat_ = 0;
  int same_ = 0;
  std::unique_ptr<Arena> arena_;
};

}  // namespace
}  // namespace fusewire::collective

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 2000) return 0;
  fusewire::OpBytes in(data, size);
  fusewire::collective::Ranks(&in).Run();
  return 0;
}
