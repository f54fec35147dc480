// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A rank against others that write arbitrary bytes into the shared memory.
#include "fusewire/collective/arena/arena_liar_test.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "fusewire/base/clock.h"
#include "fusewire/collective/arena/crew_test.h"

namespace fusewire::collective {
namespace {

// Rank 0 of so many, and the memory in the hands of the others.
struct World {
  explicit World(int ranks) {
    ArenaOptions options;
    options.share_bytes = 64 * 1024;
    const int fd = CreateArenaMemory(ranks, options).value();
    liar = std::make_unique<ArenaLiar>(fd, ranks, options);
    ArenaSeat seat;
    seat.memory = fd;
    seat.ranks = ranks;
    seat.lives.push_back(-1);
    for (int rank = 1; rank < ranks; ++rank) {
      int ends[2] = {-1, -1};
      EXPECT_EQ(::pipe(ends), 0);
      seat.lives.push_back(ends[0]);
      others.push_back(ends[1]);
    }
    arena = std::move(Arena::Join(std::move(seat), options)).value();
    close(fd);
  }
  ~World() {
    for (const int other : others) close(other);
  }
  // Does it again and again beside the calls of `honest`.
  void Beside(const std::function<void()>& lie, const std::function<void()>& honest) {
    std::atomic<bool> over{false};
    std::thread liars([&] {
      while (!over.load()) lie();
    });
    honest();
    over.store(true);
    liars.join();
  }

  std::vector<int> others;
  std::unique_ptr<ArenaLiar> liar;
  std::unique_ptr<Arena> arena;
};

// An arena of one rank once compared its post with that of a second rank, which does not exist.
TEST(ArenaLiar, ARankAloneIgnoresWhatItsPostSays) {
  World world(1);
  uint64_t word = 0;
  world.Beside(
      [&] {
        for (uint64_t stage = 0; stage < ArenaLiar::kTurns; ++stage)
          world.liar->Store(world.liar->PostAt(0, stage) + 8, ++word);
      },
      [&] {
        for (const int64_t end_ns = Clock::Real()->NowNs() + kSecondNs / 2; Clock::Real()->NowNs() < end_ns;) {
          const Status status = Barrier(*world.arena, end_ns + 10 * kSecondNs);
          ASSERT_TRUE(status.ok()) << status.ToString();
        }
      });
}

// The liar comes to every meeting with rank 0's call, and claims to send itself more than any array can hold. Rank 0
// used to meet it once for each part of that.
TEST(ArenaLiar, TheSizeThatARankSendsToItselfIsNotTrusted) {
  World world(2);
  ArenaLiar& liar = *world.liar;
  const auto come = [&liar] {
    for (uint64_t turn = 0; turn < ArenaLiar::kTurns; ++turn) {
      const size_t honest = liar.PostAt(0, turn), post = liar.PostAt(1, turn);
      const uint64_t progress = liar.Load(honest);
      if (liar.Load(post) == progress) continue;
      liar.Store(liar.TableAt(1, turn) + 8, uint64_t{1} << 50);
      liar.Store(liar.TableAt(1, turn) + (ArenaLiar::kSeatsMax + 1) * 8, uint64_t{1} << 50);
      liar.Store(post + 8, liar.Load(honest + 8));
      liar.Store(post + 16, liar.Load(honest + 16));
      liar.Store(post, progress);
    }
  };
  world.Beside(come, [&world] {
    const Status status =
        AllToAll(*world.arena, {0, 0}, {0, 0}, Pieces(), Pieces(), Clock::Real()->NowNs() + kSecondNs);
    EXPECT_TRUE(status.ok()) << status.ToString();
  });
}

}  // namespace
}  // namespace fusewire::collective
