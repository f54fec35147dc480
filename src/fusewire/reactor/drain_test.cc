// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "fusewire/base/random.h"
#include "fusewire/reactor/completion.h"
#include "fusewire/reactor/home_test.h"
#include "fusewire/reactor/reactor.h"

namespace fusewire::reactor {
namespace {

TEST(Drain, IsOverAtOnceWhereNothingIsOpen) {
  std::unique_ptr<Reactor> home = StartOne();
  Drain drain("calls");
  EXPECT_TRUE(drain.Wait(*home, 0).ok());
  home->Run([&drain] {
    drain.Open();
    drain.Close();
  });
  EXPECT_EQ(drain.open(), 0u);
  EXPECT_TRUE(drain.Wait(*home, 0).ok());
}

TEST(Drain, EndsWithTheLastThatIsOpen) {
  std::unique_ptr<Reactor> home = StartOne();
  Drain drain("calls");
  home->Run([&drain] {
    for (int i = 0; i < 3; ++i) drain.Open();
  });
  std::atomic<bool> drained{false};
  std::thread waiter([&] {
    EXPECT_TRUE(drain.Wait(*home, SoonNs()).ok());
    drained = true;
  });
  for (int left = 2; left >= 0; --left) {
    EXPECT_FALSE(drained);
    home->Run([&drain] { drain.Close(); });
    EXPECT_EQ(drain.open(), static_cast<uint64_t>(left));
  }
  waiter.join();
  EXPECT_TRUE(drained);
}

TEST(Drain, TheDeadlineNamesWhatIsStillOpen) {
  std::unique_ptr<Reactor> home = StartOne();
  Drain drain("calls of client ps:0");
  home->Run([&drain] {
    drain.Open();
    drain.Open();
  });
  const Status late = drain.Wait(*home, SoonNs(2 * kMillisecondNs));
  EXPECT_EQ(late.code(), Code::kTimeout);
  EXPECT_NE(late.ToString().find("2 calls of client ps:0"), std::string::npos) << late.ToString();
  // And it may be waited for again.
  home->Post([&drain] {
    drain.Close();
    drain.Close();
  });
  EXPECT_TRUE(drain.Wait(*home, SoonNs()).ok());
}

TEST(Drain, TellsAllThatWait) {
  std::unique_ptr<Reactor> home = StartOne();
  Drain drain("messages");
  home->Run([&drain] { drain.Open(); });
  std::vector<std::thread> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back([&, i] {
      const Status status = drain.Wait(*home, SoonNs(i == 0 ? kMillisecondNs : kTestPatienceNs));
      EXPECT_TRUE(i == 0 || status.ok()) << status.ToString();
    });
  }
  waiters[0].join();
  home->Run([&drain] { drain.Close(); });
  for (size_t i = 1; i < waiters.size(); ++i) waiters[i].join();
}

TEST(Drain, OfAManualReactorIsTurnedByTheWait) {
  std::unique_ptr<Reactor> home = Reactor::MakeManual(Clock::Real());
  Drain drain("operations");
  home->Run([&drain] { drain.Open(); });
  EXPECT_FALSE(drain.Wait(*home, kForeverNs).ok());
  home->Post([&drain] { drain.Close(); });
  EXPECT_TRUE(drain.Wait(*home, kForeverNs).ok());
}

// Many open and close, on the way home from many threads; the wait is over once as many have closed as have opened.
TEST(Drain, CountsWhatAnyThreadSendsHome) {
  std::unique_ptr<Reactor> home = StartOne();
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Drain drain("things");
    constexpr int kThreads = 3, kEach = 100;
    std::atomic<int> closed{0};
    home->Run([&drain] { drain.Open(); });
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        Random random(seed * 10 + t);
        for (int i = 0; i < kEach; ++i) {
          home->Post([&drain] { drain.Open(); });
          if (random.Chance(0.05)) std::this_thread::yield();
          home->Post([&drain, &closed] {
            ++closed;
            drain.Close();
          });
        }
      });
    }
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) (void)drain.Wait(*home, SoonNs(50 * kMicrosecondNs));
      ASSERT_TRUE(drain.Wait(*home, SoonNs()).ok());
      EXPECT_EQ(closed, kThreads * kEach);
    });
    for (int t = 0; t < kThreads; ++t) threads[static_cast<size_t>(t)].join();
    home->Run([&drain] { drain.Close(); });
    threads.back().join();
    EXPECT_TRUE(drain.empty());
  }
}

TEST(DrainDeathTest, ClosesNoMoreThanWasOpened) { EXPECT_DEATH(Drain("calls").Close(), "open\\(\\) > 0"); }

}  // namespace
}  // namespace fusewire::reactor
