// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// An arena whose processes are killed.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/clock.h"
#include "fusewire/base/random.h"
#include "fusewire/base/sanitizers.h"
#include "fusewire/collective/arena/crew_test.h"

namespace fusewire::collective {
namespace {

constexpr int kRanks = 4;
constexpr int64_t kNoticeNsMax = kSecondNs;

// The memory that the test shares with its children.
struct Board {
  std::array<std::atomic<uint64_t>, kRanks> rounds;
  std::array<std::atomic<pid_t>, kRanks> processes;  // of each seat
  std::atomic<int64_t> killed_at_ns;
  std::atomic<int> named;
};

Board* ShareBoard() {
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(memory, MAP_FAILED);
  return static_cast<Board*>(memory);
}

int64_t In(int64_t ns) { return Clock::Real()->NowNs() + ns; }

// Ends a child with a line that the test's log shows.
[[noreturn]] void Fail(int seat, const std::string& why) {
  std::fprintf(stderr, "seat %d: %s\n", seat, why.c_str());
  _exit(1);
}

// The rank that the others would read: known once all have come.
void TellProcess(int seat, Crew* crew, Board* board) {
  board->processes[static_cast<size_t>(seat)].store(getpid());
  std::vector<pid_t> processes;
  for (const auto& process : board->processes) {
    while (process.load() == 0) sched_yield();
    processes.push_back(process.load());
  }
  crew->SetProcesses(std::move(processes));
}

Status SumOnes(Arena& arena, std::vector<float>* array) {
  std::fill(array->begin(), array->end(), 1.0F);
  const Pieces all(array->data(), array->size() * sizeof(float));
  Status status = AllReduce(arena, {}, all, all, In(10 * kSecondNs));
  if (!status.ok()) return status;
  for (const float value : *array) {
    if (value != static_cast<float>(arena.ranks())) return Status::Internal("a wrong sum");
  }
  return status;
}

// Sums until a death stops it; the error names the rank, and the next call returns it at once.
void LiveAs(int seat, Crew* crew, Board* board, int victim, size_t count) {
  TellProcess(seat, crew, board);
  const auto arena = crew->Join(seat);
  for (int other = 0; other < kRanks; ++other) crew->CloseLivesOf(other);
  if (arena == nullptr) Fail(seat, "did not join");
  std::vector<float> array(count);
  Status status;
  while (status.ok()) {
    status = SumOnes(*arena, &array);
    board->rounds[static_cast<size_t>(seat)].fetch_add(1);
  }
  const int64_t killed_at_ns = board->killed_at_ns.load();
  const int64_t took_ns = Clock::Real()->NowNs() - killed_at_ns;
  if (status.code() != Code::kUnavailable) Fail(seat, status.ToString());
  if (status.peer() != "rank " + std::to_string(victim)) Fail(seat, "names the wrong rank: " + status.ToString());
  if (killed_at_ns == 0 || took_ns > kNoticeNsMax) Fail(seat, "noticed after " + std::to_string(took_ns) + " ns");
  const Status after = SumOnes(*arena, &array);
  if (after.code() != Code::kUnavailable) Fail(seat, "a broken arena says: " + after.ToString());
  // A survivor that ended now would count as dead, too.
  board->named.fetch_add(1);
  for (const int64_t until_ns = In(10 * kSecondNs);
       board->named.load() < kRanks - 1 && Clock::Real()->NowNs() < until_ns;)
    sched_yield();
  _exit(0);
}

void KillOneOf(uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  const int victim = static_cast<int>(random.Below(kRanks));
  const size_t count = random.Between(1, 2) == 1 ? 256 : 1 << 18;
  ArenaOptions options;
  options.loans = random.Between(1, 2) == 1 ? LoanRule::kAlways : LoanRule::kMeasured;
  Crew crew(kRanks, options);
  Board* board = ShareBoard();
  std::array<pid_t, kRanks> children{};
  for (int seat = 0; seat < kRanks; ++seat) {
    children[static_cast<size_t>(seat)] = fork();
    if (children[static_cast<size_t>(seat)] == 0) LiveAs(seat, &crew, board, victim, count);
  }
  for (int seat = 0; seat < kRanks; ++seat) crew.CloseLivesOf(seat);
  const uint64_t rounds = random.Between(1, 40);
  const int64_t until_ns = In(10 * kSecondNs);
  while (board->rounds[static_cast<size_t>(victim)].load() < rounds && Clock::Real()->NowNs() < until_ns) sched_yield();
  for (uint64_t spins = random.Below(20000); spins > 0; --spins) board->killed_at_ns.load();
  board->killed_at_ns.store(Clock::Real()->NowNs());
  kill(children[static_cast<size_t>(victim)], SIGKILL);
  for (int seat = 0; seat < kRanks; ++seat) {
    int status = 0;
    ASSERT_EQ(waitpid(children[static_cast<size_t>(seat)], &status, 0), children[static_cast<size_t>(seat)]);
    if (seat == victim) {
      EXPECT_TRUE(WIFSIGNALED(status)) << "it should not have ended by itself";
    } else {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "seat " << seat << " has status " << status;
    }
  }
  munmap(board, sizeof(Board));
}

// Under a sanitizer each process starts slowly; see TEST_TIMEOUT_S.
TEST(ArenaDeath, EverySurvivorNamesARankKilledDuringAnAllReduce) {
  for (uint64_t seed = 1; seed <= (kSanitized ? 15 : 50) && !HasFailure(); ++seed) KillOneOf(seed);
}

// Two die at once: survivors may hear of one of them only.
TEST(ArenaDeath, TwoDieAndTheOthersNameOneOfThem) {
  for (int round = 0; round < 5; ++round) {
    Crew crew(kRanks, {});
    std::array<pid_t, kRanks> children{};
    for (int seat = 0; seat < kRanks; ++seat) {
      children[static_cast<size_t>(seat)] = fork();
      if (children[static_cast<size_t>(seat)] != 0) continue;
      const auto arena = crew.Join(seat);
      for (int other = 0; other < kRanks; ++other) crew.CloseLivesOf(other);
      std::vector<float> array(1000);
      if (seat == 1 || seat == 3) {
        for (int i = 0; i < seat * 3; ++i) static_cast<void>(SumOnes(*arena, &array).ok());
        kill(getpid(), SIGKILL);
      }
      Status status;
      while (status.ok()) status = SumOnes(*arena, &array);
      const bool named =
          status.peer().find("rank 1") != std::string::npos || status.peer().find("rank 3") != std::string::npos;
      if (status.code() != Code::kUnavailable || !named) Fail(seat, status.ToString());
      _exit(0);
    }
    for (int seat = 0; seat < kRanks; ++seat) crew.CloseLivesOf(seat);
    for (int seat = 0; seat < kRanks; ++seat) {
      int status = 0;
      waitpid(children[static_cast<size_t>(seat)], &status, 0);
      if (seat == 0 || seat == 2) {
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "seat " << seat;
      }
    }
  }
}

}  // namespace
}  // namespace fusewire::collective
