// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/reactor/reactor.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <future>
#include <map>
#include <set>
#include <string>

#include "fusewire/base/log.h"
#include "fusewire/reactor/process_limits.h"

namespace fusewire::reactor {
namespace {

std::unique_ptr<Pool> StartPool(int reactors) {
  PoolOptions options;
  options.reactors = reactors;
  Result<std::unique_ptr<Pool>> pool = Pool::Start(options);
  EXPECT_TRUE(pool.ok()) << pool.status().ToString();
  return std::move(pool).value();
}

TEST(Pool, HasHalfOfTheProcessorsUnlessTold) {
  std::unique_ptr<Pool> by_itself = StartPool(0);
  EXPECT_GE(by_itself->size(), 1);
  EXPECT_LE(by_itself->size(), std::min(4, std::max(1, UsableCpuCount() / 2)));
  EXPECT_EQ(StartPool(3)->size(), 3);
}

TEST(Pool, ServesItsReactorsInTurn) {
  std::unique_ptr<Pool> pool = StartPool(3);
  std::map<Reactor*, int> turns;
  for (int i = 0; i < 30; ++i) ++turns[&pool->Next()];
  EXPECT_EQ(turns.size(), 3u);
  for (auto& [reactor, count] : turns) EXPECT_EQ(count, 10);
}

TEST(Pool, EachReactorIsAHomeOfItsOwn) {
  std::unique_ptr<Pool> pool = StartPool(3);
  std::set<std::string> names;
  for (int i = 0; i < 3; ++i) {
    Reactor& here = pool->at(i);
    names.insert(here.name());
    std::promise<int> homes;
    here.Post([&] {
      int count = 0;
      for (int k = 0; k < 3; ++k) count += pool->at(k).AtHome() ? 1 << k : 0;
      homes.set_value(count);
    });
    EXPECT_EQ(homes.get_future().get(), 1 << i);
  }
  EXPECT_EQ(names.size(), 3u);
}

TEST(Pool, CloseDeliversWhatWasPostedAndMayBeRepeated) {
  std::unique_ptr<Pool> pool = StartPool(2);
  std::atomic<int> delivered{0};
  for (int i = 0; i < 1000; ++i) pool->Next().Post([&delivered] { ++delivered; });
  pool->Close();
  EXPECT_EQ(delivered, 1000);
  pool->Close();
}

TEST(Pool, AroundAManualReactorIsAPoolOfOne) {
  ManualClock clock;
  std::unique_ptr<Reactor> manual = Reactor::MakeManual(&clock);
  std::unique_ptr<Pool> pool = Pool::Around(manual.get());
  EXPECT_EQ(pool->size(), 1);
  EXPECT_EQ(&pool->Next(), manual.get());
  EXPECT_EQ(&pool->Next(), manual.get());
  pool.reset();
  bool ran = false;
  manual->Post([&ran] { ran = true; });
  EXPECT_TRUE(manual->RunManually());
  EXPECT_TRUE(ran);
}

TEST(Pool, ASharedPoolLeavesTheReactorsToTheirOwner) {
  std::unique_ptr<Pool> pool = StartPool(2);
  std::unique_ptr<Pool> shared = Pool::Share(*pool);
  EXPECT_EQ(shared->size(), 2);
  EXPECT_EQ(&shared->at(1), &pool->at(1));
  shared->Close();
  shared.reset();
  bool ran = false;
  pool->at(1).Run([&ran] { ran = true; });
  EXPECT_TRUE(ran);
}

// A mail asks where its reactor's thread runs; only that thread delivers it here.
TEST(Pool, PinsEachReactorToAProcessorOfItsOwn) {
  int count = std::min(2, static_cast<int>(AllowedCpus().size()));
  PoolOptions options;
  options.reactors = count;
  options.pin = true;
  std::unique_ptr<Pool> pool = std::move(Pool::Start(options)).value();
  std::set<int> seen;
  for (int i = 0; i < count; ++i) {
    std::promise<std::vector<int>> allowed;
    pool->at(i).Post([&allowed] { allowed.set_value(AllowedCpus()); });
    std::vector<int> cpus = allowed.get_future().get();
    EXPECT_EQ(cpus.size(), 1u);
    seen.insert(cpus.begin(), cpus.end());
  }
  EXPECT_EQ(static_cast<int>(seen.size()), count);
}

TEST(Pool, WithMoreReactorsThanProcessorsRunsUnpinnedAndSaysSo) {
  static std::atomic<int> lines{0};
  lines = 0;
  SetLogSink(
      [](LogLevel, const char* line, void*) { lines += std::string(line).find("unpinned") != std::string::npos; },
      nullptr);
  PoolOptions options;
  options.reactors = static_cast<int>(AllowedCpus().size()) + 1;
  options.pin = true;
  std::unique_ptr<Pool> pool = std::move(Pool::Start(options)).value();
  EXPECT_EQ(lines, 1);
  SetLogSink(nullptr, nullptr);
  std::promise<size_t> allowed;
  pool->at(0).Post([&allowed] { allowed.set_value(AllowedCpus().size()); });
  EXPECT_EQ(allowed.get_future().get(), AllowedCpus().size());
}

// A limit of open files that is reached in the middle: no thread and no descriptor is left behind.
TEST(Pool, StartSaysWhyAndLeavesNothingBehind) {
  rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  rlimit low = old;
  low.rlim_cur = 20;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  PoolOptions options;
  options.reactors = 100;
  for (int i = 0; i < 3; ++i) {
    Result<std::unique_ptr<Pool>> pool = Pool::Start(options);
    ASSERT_FALSE(pool.ok());
    EXPECT_EQ(pool.status().code(), Code::kOverloaded);
    EXPECT_NE(pool.status().next(), "");
    EXPECT_EQ(StartPool(1)->size(), 1);
  }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
}

}  // namespace
}  // namespace fusewire::reactor
