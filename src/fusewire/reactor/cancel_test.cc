// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/reactor/cancel.h"

#include <gtest/gtest.h>

#include <algorithm>
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

TEST(Cancel, CallsEveryHookOnceInTheirOrder) {
  CancelToken token;
  std::vector<int> called;
  CancelHook one(&token, [&called] { called.push_back(1); });
  CancelHook two(&token, [&called] { called.push_back(2); });
  EXPECT_FALSE(token.cancelled());
  token.Cancel();
  EXPECT_TRUE(token.cancelled());
  token.Cancel();
  EXPECT_EQ(called, (std::vector<int>{1, 2}));
}

TEST(Cancel, AHookThatComesLateIsCalledAtOnce) {
  CancelToken token;
  token.Cancel();
  bool called = false;
  CancelHook hook(&token, [&called] { called = true; });
  EXPECT_TRUE(called);
}

TEST(Cancel, AHookThatHasGoneIsNotCalled) {
  CancelToken token;
  bool called = false;
  {
    CancelHook hook(&token, [&called] { called = true; });
  }
  token.Cancel();
  EXPECT_FALSE(called);
}

TEST(Cancel, ANullTokenIsNeverCancelled) {
  bool called = false;
  {
    CancelHook hook(nullptr, [&called] { called = true; });
  }
  EXPECT_FALSE(called);
}

// Objects that the hook uses may be destroyed right after the hook.
TEST(Cancel, AHookDoesNotGoWhileItIsCalled) {
  CancelToken token;
  std::atomic<bool> inside{false}, go_on{false}, gone{false};
  auto hook = std::make_unique<CancelHook>(&token, [&] {
    inside = true;
    while (!go_on) std::this_thread::yield();
    EXPECT_FALSE(gone);
  });
  std::thread canceller([&token] { token.Cancel(); });
  EXPECT_TRUE(Eventually([&] { return inside.load(); }));
  std::thread owner([&] {
    hook.reset();
    gone = true;
  });
  EXPECT_FALSE(Eventually([&] { return gone.load(); }, 5 * kMillisecondNs));
  go_on = true;
  owner.join();
  canceller.join();
}

TEST(Cancel, AskingCancelsAndOnlyOnce) {
  int asked = 0, called = 0;
  CancelToken token([&asked] { return ++asked == 3; });
  CancelHook hook(&token, [&called] { ++called; });
  EXPECT_EQ(token.interrupts(), Interrupts::kEndWait);
  EXPECT_EQ(token.NextAskNs(5), 5 + kAskNs);
  EXPECT_FALSE(token.Ask());
  EXPECT_FALSE(token.Ask());
  EXPECT_TRUE(token.Ask());
  EXPECT_TRUE(token.Ask());
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(called, 1);
  CancelToken silent;
  EXPECT_FALSE(silent.Ask());
  EXPECT_EQ(silent.NextAskNs(5), kForeverNs);
  EXPECT_EQ(silent.interrupts(), Interrupts::kGoOn);
}

// From Cancel to the return of a thread that waits: no interval has to pass.
TEST(Cancel, WakesAThreadThatWaitsAtOnce) {
  std::unique_ptr<Reactor> home = std::move(Reactor::Start(Options())).value();
  int64_t quickest_ns = kForeverNs;
  for (int round = 0; round < 20; ++round) {
    CancelToken token;
    std::atomic<int64_t> cancelled_ns{0};
    std::thread canceller([&] {
      EXPECT_FALSE(Eventually([] { return false; }, 2 * kMillisecondNs));  // until it sleeps, mostly
      cancelled_ns = Clock::Real()->NowNs();
      token.Cancel();
    });
    Completion completion;
    {
      CancelHook hook(&token, [&completion] { completion.Done(Status::Cancelled("given up")); });
      ASSERT_TRUE(completion.Wait(*home, SoonNs()));
    }
    quickest_ns = std::min(quickest_ns, Clock::Real()->NowNs() - cancelled_ns);
    canceller.join();
  }
  EXPECT_LT(quickest_ns, 5 * kMillisecondNs);
}

TEST(CancelDeathTest, TheTokenOutlivesItsHooks) {
  EXPECT_DEATH(
      {
        auto token = std::make_unique<CancelToken>();
        CancelHook hook(token.get(), [] {});
        token.reset();
      },
      "hooks_.empty\\(\\)");
}

// Hooks that come and go on many threads while one cancels: each is called at most once, never after it has gone, and
// each that stays is called.
TEST(Cancel, AnyOrderOfHooksAndCancelKeepsThePromise) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CancelToken token;
    std::atomic<bool> go{false};
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        Random random(seed * 10 + t);
        while (!go) std::this_thread::yield();
        for (int i = 0; i < 20; ++i) {
          int called = 0;  // not atomic: the hook's end orders it
          const bool stays = random.Chance(0.3);
          std::atomic<bool> told{false};
          {
            CancelHook hook(&token, [&called, &told] {
              ++called;
              told = true;
            });
            if (stays) {
              ASSERT_TRUE(Eventually([&] { return told.load(); }));
            }
          }
          EXPECT_EQ(called, told ? 1 : 0);
          EXPECT_TRUE(called == 1 || !stays);
        }
      });
    }
    threads.emplace_back([&, seed] {
      Random random(seed);
      while (!go) std::this_thread::yield();
      for (uint64_t i = random.Below(6); i > 0; --i) std::this_thread::yield();
      token.Cancel();
    });
    go = true;
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace fusewire::reactor
