// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/base/mutex.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include "fusewire/base/clock.h"

namespace fusewire {
namespace {

struct Counter {
  Mutex mutex;
  CondVar changed;
  int count FUSEWIRE_GUARDED_BY(mutex) = 0;
};

TEST(Mutex, LetsOneThreadInAtATime) {
  Counter counter;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&counter] {
      for (int turn = 0; turn < 10'000; ++turn) {
        MutexLock lock(counter.mutex);
        ++counter.count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  MutexLock lock(counter.mutex);
  EXPECT_EQ(counter.count, 40'000);
}

TEST(MutexLock, IsLetGoOfAndTakenAgain) {
  Counter counter;
  MutexLock lock(counter.mutex);
  lock.Unlock();
  std::thread([&counter] {
    MutexLock other(counter.mutex);
    counter.count = 7;
  }).join();
  lock.Lock();
  EXPECT_EQ(counter.count, 7);
}

TEST(MutexLock, GivesNothingBackTwice) {
  Counter counter;
  {
    MutexLock lock(counter.mutex);
    lock.Unlock();
  }
  MutexLock lock(counter.mutex);
  EXPECT_EQ(counter.count, 0);
}

TEST(CondVar, WakesAThreadThatWaits) {
  Counter counter;
  std::thread other([&counter] {
    MutexLock lock(counter.mutex);
    counter.count = 1;
    counter.changed.NotifyAll();
    while (counter.count == 1) counter.changed.Wait(counter.mutex);
    counter.count = 3;
    counter.changed.NotifyOne();
  });
  {
    MutexLock lock(counter.mutex);
    while (counter.count != 1) counter.changed.Wait(counter.mutex);
    counter.count = 2;
    counter.changed.NotifyAll();
    int64_t deadline_ns = AddNs(Clock::Real()->NowNs(), 30 * kSecondNs);
    while (counter.count != 3 && counter.changed.WaitUntil(counter.mutex, deadline_ns)) {
    }
    EXPECT_EQ(counter.count, 3);
  }
  other.join();
}

TEST(CondVar, GivesUpAtItsDeadlineWithTheLockHeld) {
  Counter counter;
  MutexLock lock(counter.mutex);
  const int64_t deadline_ns = AddNs(Clock::Real()->NowNs(), 2 * kMillisecondNs);
  while (counter.changed.WaitUntil(counter.mutex, deadline_ns)) {
  }
  EXPECT_GE(Clock::Real()->NowNs(), deadline_ns);
  EXPECT_EQ(counter.count, 0);  // which the compiler lets us read
  EXPECT_FALSE(counter.changed.WaitUntil(counter.mutex, deadline_ns));
}

}  // namespace
}  // namespace fusewire
