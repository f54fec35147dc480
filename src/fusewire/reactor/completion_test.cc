// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/reactor/completion.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <thread>
#include <vector>

#include "fusewire/base/random.h"
#include "fusewire/reactor/home_test.h"
#include "fusewire/reactor/reactor.h"

namespace fusewire::reactor {
namespace {

// A thread that drives the loop until it is stopped, so that others have to sleep outside.
class Driver {
 public:
  explicit Driver(Reactor& home)
      : drives_(home.Snapshot().drives), thread_([this, &home] {
          while (!stop_.Wait(home, SoonNs(20 * kMillisecondNs))) {
            // Where the reactor's thread was awake, it had to wait outside itself.
          }
        }) {
    EXPECT_TRUE(Eventually([&] { return home.Snapshot().drives > drives_; }));
  }
  ~Driver() {
    stop_.Done();
    thread_.join();
  }

 private:
  Completion stop_;
  const uint64_t drives_;
  std::thread thread_;
};

TEST(Completion, WhatIsDoneBeforeTheWaitEndsItAtOnce) {
  std::unique_ptr<Reactor> home = StartOne(0);
  Completion completion;
  EXPECT_FALSE(completion.done());
  completion.Done(Status::Refused("no"));
  EXPECT_TRUE(completion.done());
  EXPECT_TRUE(completion.Wait(*home, 0));
  EXPECT_TRUE(completion.Wait(*home, 0));
  EXPECT_EQ(completion.status().code(), Code::kRefused);
}

TEST(Completion, AWaitEndsWhenItIsDoneByAnyThread) {
  std::unique_ptr<Reactor> home = StartOne(0);
  for (const bool driven : {false, true}) {
    for (int round = 0; round < 100; ++round) {
      Completion completion;
      std::unique_ptr<Driver> driver;
      if (driven && round % 10 == 0) driver = std::make_unique<Driver>(*home);
      std::thread other([&completion, round] {
        for (int i = 0; i < round % 7; ++i) std::this_thread::yield();
        completion.Done(Status::Invalid(std::to_string(round)));
      });
      ASSERT_TRUE(completion.Wait(*home, SoonNs()));
      EXPECT_EQ(completion.status().cause(), std::to_string(round));
      other.join();
    }
  }
}

TEST(Completion, MailPostedWithTheWaitIsDeliveredByTheCaller) {
  std::unique_ptr<Reactor> home = StartOne(0);
  struct DoneMail final : Mail {
    void Deliver() override { completion.Done(); }
    Completion completion;
  };
  for (int round = 0; round < 100; ++round) {
    DoneMail mail;
    ASSERT_TRUE(mail.completion.PostAndWait(*home, &mail, SoonNs()));
    EXPECT_TRUE(mail.completion.status().ok());
  }
}

TEST(Completion, AfterADeadlineItMayBeWaitedForAgain) {
  std::unique_ptr<Reactor> home = StartOne(0);
  for (const bool outside : {false, true}) {
    std::unique_ptr<Driver> driver;
    if (outside) driver = std::make_unique<Driver>(*home);
    Completion completion;
    for (const int64_t delay_ns : {int64_t{0}, 100 * kMicrosecondNs, 5 * kMillisecondNs}) {
      const int64_t deadline_ns = SoonNs(delay_ns);
      EXPECT_FALSE(completion.Wait(*home, deadline_ns));
      EXPECT_GE(Clock::Real()->NowNs(), deadline_ns);
    }
    home->Post([&completion] { completion.Done(); });
    EXPECT_TRUE(completion.Wait(*home, SoonNs()));
  }
}

TEST(Completion, TwoThreadsWaitForOneAndADeadlineOfOneLeavesTheOther) {
  std::unique_ptr<Reactor> home = StartOne(0);
  for (int round = 0; round < 50; ++round) {
    Completion completion;
    std::vector<std::thread> waiters;
    std::atomic<int> late{0}, told{0};
    for (int i = 0; i < 4; ++i) {
      waiters.emplace_back([&, i] {
        if (i % 2 == 1) {
          if (!completion.Wait(*home, SoonNs(500 * kMicrosecondNs))) ++late;
          return;
        }
        ASSERT_TRUE(completion.Wait(*home, SoonNs()));
        EXPECT_EQ(completion.status().cause(), "all of you");
        ++told;
      });
    }
    // For threads that drive and threads that sleep: those with a deadline have returned before, or were woken.
    if (round % 2 == 0) {
      EXPECT_TRUE(Eventually([&] { return late == 2; }));
    }
    completion.Done(Status::Invalid("all of you"));
    for (std::thread& waiter : waiters) waiter.join();
    EXPECT_EQ(told, 2);
  }
}

TEST(Completion, ResetMakesItOneForTheNextRound) {
  std::unique_ptr<Reactor> home = StartOne(0);
  Completion completion;
  for (int round = 0; round < 100; ++round) {
    home->Post([&completion, round] { completion.Done(Status::Invalid(std::to_string(round))); });
    ASSERT_TRUE(completion.Wait(*home, SoonNs()));
    EXPECT_EQ(completion.TakeStatus().cause(), std::to_string(round));
    completion.Reset();
    EXPECT_FALSE(completion.done());
  }
}

TEST(Completion, AManualReactorIsTurnedAndThenTheWaitIsOver) {
  std::unique_ptr<Reactor> home = Reactor::MakeManual(Clock::Real());
  Completion mailed, never;
  home->Post([&mailed] { mailed.Done(); });
  EXPECT_TRUE(mailed.Wait(*home));
  EXPECT_FALSE(never.Wait(*home));
}

// ---- signals of the operating system ----

extern "C" void OnUserSignal(int) {}

TEST(Completion, AnInterruptEndsAWaitThatAllowsIt) {
  struct sigaction action = {}, before = {};
  action.sa_handler = OnUserSignal;
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  std::unique_ptr<Reactor> home = StartOne(0);
  for (const bool outside : {false, true}) {
    std::unique_ptr<Driver> driver;
    if (outside) driver = std::make_unique<Driver>(*home);
    Completion completion;
    const pthread_t self = pthread_self();
    std::atomic<bool> stop{false};
    // Again and again: one that comes just before the sleep interrupts nothing.
    std::thread interrupts([&] {
      EXPECT_TRUE(Eventually([&] {
        pthread_kill(self, SIGUSR1);
        return stop.load();
      }));
    });
    const int64_t began_ns = Clock::Real()->NowNs();
    EXPECT_FALSE(completion.Wait(*home, SoonNs(), Idling::kLearned, Interrupts::kEndWait));
    EXPECT_LT(Clock::Real()->NowNs() - began_ns, kTestPatienceNs / 2);
    EXPECT_FALSE(completion.Wait(*home, SoonNs(20 * kMillisecondNs)));
    stop = true;
    interrupts.join();
  }
  ASSERT_EQ(sigaction(SIGUSR1, &before, nullptr), 0);
}

// ---- misuse ----

TEST(CompletionDeathTest, ItIsDoneOnce) {
  EXPECT_DEATH(
      {
        Completion completion;
        completion.Done();
        completion.Done();
      },
      "!done\\(\\)");
}

TEST(CompletionDeathTest, ItsStatusIsReadAfterItsEnd) { EXPECT_DEATH((void)Completion().status(), "done\\(\\)"); }

TEST(CompletionDeathTest, ItIsNotDestroyedWhileAThreadWaits) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        std::unique_ptr<Reactor> home = StartOne(0);
        Driver driver(*home);
        auto* completion = new Completion;  // one thread would reset a unique_ptr that another reads
        std::thread waiter([&home, completion] { (void)completion->Wait(*home, SoonNs(3 * kSecondNs)); });
        // It will sleep outside of the loop, as another thread drives it.
        EXPECT_FALSE(Eventually([] { return false; }, kSecondNs));
        delete completion;
        waiter.join();
      },
      "kDone");
}

// ---- against a model ----

// Threads that wait with and without deadlines, while others make it done at any moment: every wait returns, true if
// and only if it is done, and the deadline was not ignored.
TEST(Completion, AnyMixOfThreadsEndsAsTheModelSays) {
  constexpr int kRounds = 100;
  std::unique_ptr<Reactor> home = StartOne(20 * kMicrosecondNs);
  for (uint64_t seed = 1; seed <= kRounds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    auto completion = std::make_shared<Completion>();  // shared_ptr: the threads end in any order
    std::vector<std::thread> threads;
    const uint64_t waiters = 1 + random.Below(4);
    const int64_t done_after_ns = static_cast<int64_t>(random.Below(200)) * kMicrosecondNs;
    for (uint64_t i = 0; i < waiters; ++i) {
      const bool patient = random.Chance(0.5);
      const int64_t limit_ns = static_cast<int64_t>(random.Below(300)) * kMicrosecondNs;
      threads.emplace_back([completion, &home, patient, limit_ns] {
        const int64_t deadline_ns = SoonNs(patient ? kTestPatienceNs : limit_ns);
        const bool ended = completion->Wait(*home, deadline_ns);
        if (!ended) {
          EXPECT_FALSE(patient);
          EXPECT_GE(Clock::Real()->NowNs(), deadline_ns);
        } else {
          EXPECT_TRUE(completion->done());
          EXPECT_EQ(completion->status().code(), Code::kCancelled);
        }
      });
    }
    threads.emplace_back([completion, &home, done_after_ns, at_home = random.Chance(0.5)] {
      const int64_t at_ns = SoonNs(done_after_ns);
      while (Clock::Real()->NowNs() < at_ns) std::this_thread::yield();
      if (at_home) {
        home->Post([completion] { completion->Done(Status::Cancelled("model")); });
      } else {
        completion->Done(Status::Cancelled("model"));
      }
    });
    for (std::thread& thread : threads) thread.join();
    ASSERT_TRUE(Eventually([&] { return completion->done(); }));
  }
}

}  // namespace
}  // namespace fusewire::reactor
