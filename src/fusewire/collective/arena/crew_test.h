// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// For tests: ranks of one arena, as threads of this process or as processes of their own.
// Home: the test's thread. Owns: the memory and the life lines that no rank has taken yet. Fails: as an expectation.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "fusewire/base/clock.h"
#include "fusewire/base/status.h"
#include "fusewire/collective/arena/arena.h"
#include "fusewire/collective/kernels/spec.h"

namespace fusewire::collective {

inline int64_t Soon() { return Clock::Real()->NowNs() + 20 * kSecondNs; }

template <class T>
Pieces Whole(std::vector<T>& array) {
  return Pieces(array.data(), array.size() * sizeof(T));
}

// A call of an arena, as a group makes it.
struct Call : CollectiveSpec {
  Call(CollectiveKind what, const Reduction& reduces, std::vector<size_t> elements, const Pieces& source,
       const Pieces& target, int from_rank = 0) {
    kind = what;
    reduction = reduces;
    counts = std::move(elements);
    from = source;
    to = target;
    root = from_rank;
  }
  Status On(Arena& arena, int64_t deadline_ns = Soon()) const {
    Arrays arrays;
    FUSEWIRE_TRY(CheckSpec(*this, arena.ranks(), arena.rank(), &arrays));
    return arena.Run(*this, arrays, deadline_ns);
  }
};

inline Status Barrier(Arena& arena, int64_t deadline_ns = Soon()) {
  return Call(CollectiveKind::kBarrier, {}, {}, {}, {}).On(arena, deadline_ns);
}
inline Status AllReduce(Arena& arena, const Reduction& reduction, const Pieces& from, const Pieces& to,
                        int64_t deadline_ns = Soon()) {
  const size_t element = CheckType(reduction.type).ok() ? SizeOf(reduction.type) : 1;
  return Call(CollectiveKind::kAllReduce, reduction, {from.bytes() / element}, from, to).On(arena, deadline_ns);
}
// `parts`: the bytes of each rank's part.
inline Status AllGather(Arena& arena, std::vector<size_t> parts, const Pieces& from, const Pieces& to) {
  return Call(CollectiveKind::kAllGather, {Op::kSum, Type::kU8, {}}, std::move(parts), from, to).On(arena);
}
inline Status AllToAll(Arena& arena, std::vector<size_t> send, std::vector<size_t> receive, const Pieces& from,
                       const Pieces& to, int64_t deadline_ns = Soon()) {
  Call call(CollectiveKind::kAllToAll, {Op::kSum, Type::kU8, {}}, std::move(send), from, to);
  call.receives = std::move(receive);
  return call.On(arena, deadline_ns);
}

class Crew {
 public:
  Crew(int ranks, const ArenaOptions& options) : ranks_(ranks), options_(options) {
    Result<int> memory = CreateArenaMemory(ranks, options);
    EXPECT_TRUE(memory.ok()) << memory.status().ToString();
    memory_ = memory.value();
    processes_.assign(static_cast<size_t>(ranks), getpid());
    ends_.assign(static_cast<size_t>(ranks), std::vector<int>(static_cast<size_t>(ranks), -1));
    for (size_t a = 0; a < ends_.size(); ++a) {
      for (size_t b = 0; b < a; ++b) {
        int pair[2];
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        ends_[a][b] = pair[0];
        ends_[b][a] = pair[1];
      }
    }
  }
  ~Crew() {
    for (int rank = 0; rank < ranks_; ++rank) CloseLivesOf(rank);
    close(memory_);
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // Its life lines are the taker's from now on.
  ArenaSeat SeatOf(int rank) {
    ArenaSeat seat;
    seat.memory = memory_;
    seat.rank = rank;
    seat.ranks = ranks_;
    seat.processes = processes_;
    seat.lives = std::exchange(ends_[static_cast<size_t>(rank)], {});
    return seat;
  }
  // In a process of its own: the other ranks' ends of the life lines must end with them alone.
  void CloseLivesOf(int rank) {
    for (const int end : std::exchange(ends_[static_cast<size_t>(rank)], {})) {
      if (end >= 0) close(end);
    }
  }
  std::unique_ptr<Arena> Join(int rank) {
    Result<std::unique_ptr<Arena>> arena = Arena::Join(SeatOf(rank), options_);
    EXPECT_TRUE(arena.ok()) << arena.status().ToString();
    return arena.ok() ? std::move(arena).value() : nullptr;
  }
  int ranks() const { return ranks_; }
  // For ranks that are processes of their own, as each knows them.
  void SetProcesses(std::vector<pid_t> processes) { processes_ = std::move(processes); }

  static void RunThreads(int ranks, const ArenaOptions& options, const std::function<void(Arena&)>& run) {
    Crew crew(ranks, options);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&run, arena = crew.Join(rank)] {
        if (arena != nullptr) run(*arena);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  const int ranks_;
  const ArenaOptions options_;
  int memory_ = -1;
  std::vector<pid_t> processes_;
  std::vector<std::vector<int>> ends_;
};

}  // namespace fusewire::collective
