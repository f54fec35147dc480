// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Callers that wait for the loop, and that run it themselves meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "fusewire/reactor/home_test.h"
#include "fusewire/reactor/reactor.h"

namespace fusewire::reactor {
namespace {

// Without spinning the thread is asleep as soon as it has nothing to do.
std::unique_ptr<Reactor> StartParked() {
  Options options;
  options.spin_ns_max = 0;
  std::unique_ptr<Reactor> reactor = std::move(Reactor::Start(options)).value();
  Task nothing = [] {};
  EXPECT_TRUE(Eventually([&] { return reactor->TryRunHere(nothing); }));
  return reactor;
}

int64_t DeadlineNs() { return Clock::Real()->NowNs() + kTestPatienceNs; }

struct SignalMail final : Mail {
  void Deliver() override {
    thread = std::this_thread::get_id();
    waiter.Signal();
  }
  Waiter waiter;
  std::thread::id thread;
};

// Asks until the answer is given by this very thread, as it is while nobody else wants the loop.
bool DriveOnce(Reactor& reactor) {
  return Eventually([&] {
    SignalMail mail;
    EXPECT_TRUE(reactor.PostAndWait(&mail, &mail.waiter, DeadlineNs()));
    return mail.thread == std::this_thread::get_id();
  });
}

TEST(ReactorWait, ACallerRunsTheIdleLoopItself) {
  std::unique_ptr<Reactor> reactor = StartParked();
  EXPECT_TRUE(DriveOnce(*reactor));
  EXPECT_GT(reactor->Snapshot().drives, 0u);
  EXPECT_FALSE(reactor->AtHome());
}

TEST(ReactorWait, ManyMailsAreDeliveredInTheirOrder) {
  std::unique_ptr<Reactor> reactor = StartParked();
  std::vector<int> delivered;
  struct Numbered final : Mail {
    void Deliver() override { to->push_back(number); }
    std::vector<int>* to = nullptr;
    int number = 0;
  };
  Numbered first, second;
  first.to = second.to = &delivered;
  second.number = 1;
  SignalMail last;
  Mail* const mails[] = {&first, &second, &last};
  EXPECT_TRUE(reactor->PostAndWait(mails, 3, &last.waiter, DeadlineNs()));
  EXPECT_THAT(delivered, testing::ElementsAre(0, 1));
}

TEST(ReactorWait, ATaskRunsOnTheSpotWhenTheLoopIsIdle) {
  std::unique_ptr<Reactor> reactor = StartParked();
  std::thread::id ran_on;
  Task task = [&] { ran_on = std::this_thread::get_id(); };
  EXPECT_TRUE(Eventually([&] { return reactor->TryRunHere(task); }));
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST(ReactorWait, InsideAnotherLoopNothingRunsOnTheSpot) {
  std::unique_ptr<Reactor> here = StartParked(), there = StartParked();
  AskHome(*here, [&] {
    bool ran = false;
    Task task = [&ran] { ran = true; };
    EXPECT_FALSE(there->TryRunHere(task));
    EXPECT_FALSE(ran);
    EXPECT_TRUE(static_cast<bool>(task));  // untouched: it can still be posted
    SignalMail mail;
    EXPECT_TRUE(there->PostAndWait(&mail, &mail.waiter, DeadlineNs()));
    EXPECT_NE(mail.thread, std::this_thread::get_id());
  });
}

TEST(ReactorWait, ASignalThatIsThereAlreadyEndsTheWaitAtOnce) {
  std::unique_ptr<Reactor> reactor = StartParked();
  Waiter waiter;
  waiter.Signal();
  EXPECT_TRUE(waiter.signalled());
  EXPECT_TRUE(reactor->Wait(&waiter, 0));
}

TEST(ReactorWait, TheDeadlineEndsTheWait) {
  std::unique_ptr<Reactor> reactor = StartParked();
  for (int64_t delay_ns : {int64_t{0}, 100 * kMicrosecondNs, 30 * kMillisecondNs}) {
    Waiter waiter;
    int64_t deadline_ns = Clock::Real()->NowNs() + delay_ns;
    EXPECT_FALSE(reactor->Wait(&waiter, deadline_ns));
    EXPECT_GE(Clock::Real()->NowNs(), deadline_ns);
    // The same while somebody else runs the loop.
    Waiter others;
    std::atomic<bool> inside{false};
    std::thread driver([&] {
      reactor->Post([&] { inside = true; });
      EXPECT_TRUE(reactor->Wait(&others, DeadlineNs()));
    });
    EXPECT_TRUE(Eventually([&] { return inside.load(); }));
    deadline_ns = Clock::Real()->NowNs() + delay_ns;
    EXPECT_FALSE(reactor->Wait(&waiter, deadline_ns));
    EXPECT_GE(Clock::Real()->NowNs(), deadline_ns);
    others.Signal();
    driver.join();
  }
}

// The signal comes from a thread that has nothing to do with the loop, while the caller sleeps inside of it.
TEST(ReactorWait, ASignalFromAnywhereWakesADriver) {
  std::unique_ptr<Reactor> reactor = StartParked();
  for (int round = 0; round < 300; ++round) {
    auto waiter = std::make_unique<Waiter>();
    std::atomic<bool> inside{false};
    std::thread other([&] {
      for (int i = 0; !inside || i < round % 50; ++i) std::this_thread::yield();
      waiter->Signal();
    });
    reactor->Post([&] { inside = true; });
    ASSERT_TRUE(reactor->Wait(waiter.get(), DeadlineNs()));
    other.join();
  }
}

TEST(ReactorWait, ADriverServesTimersAndInput) {
  std::unique_ptr<Reactor> reactor = StartParked();
  EXPECT_TRUE(DriveOnce(*reactor));
  std::unique_ptr<Waiter> waiter = std::make_unique<Waiter>();
  Bell bell([&] { waiter->Signal(); });
  Timer timer([&] { bell.Ring(); });
  Task task = [&] {
    EXPECT_TRUE(reactor->Watch(bell.fd(), EPOLLIN, &bell).ok());
    reactor->Arm(&timer, 2 * kMillisecondNs);
  };
  EXPECT_TRUE(Eventually([&] { return reactor->TryRunHere(task); }));
  EXPECT_TRUE(reactor->Wait(waiter.get(), DeadlineNs()));
  AskHome(*reactor, [&] { reactor->Unwatch(bell.fd(), &bell); });
}

// A wait that had to end outside of the loop goes on inside of it.
TEST(ReactorWait, ACallerThatSleptOutsideReadsInputWhenItDrives) {
  std::unique_ptr<Reactor> reactor = StartParked();
  auto waiter = std::make_unique<Waiter>();
  Bell bell([&] { waiter->Signal(); });
  AskHome(*reactor, [&] { return reactor->Watch(bell.fd(), EPOLLIN, &bell).ok(); });
  Waiter others;
  std::atomic<bool> inside{false};
  std::thread driver([&] {
    reactor->Post([&] { inside = true; });
    EXPECT_TRUE(reactor->Wait(&others, DeadlineNs()));
  });
  EXPECT_TRUE(Eventually([&] { return inside.load(); }));
  EXPECT_FALSE(reactor->Wait(waiter.get(), Clock::Real()->NowNs() + kMillisecondNs));
  others.Signal();
  driver.join();
  const uint64_t drives = reactor->Snapshot().drives;
  std::thread peer([&] {
    EXPECT_TRUE(Eventually([&] { return reactor->Snapshot().drives > drives; }));
    bell.Ring();
  });
  EXPECT_TRUE(reactor->Wait(waiter.get(), DeadlineNs()));
  peer.join();
  AskHome(*reactor, [&] { reactor->Unwatch(bell.fd(), &bell); });
}

// A caller has taken the loop from the thread and has left, and then an event comes: the thread gets it, with or
// without timers that would wake it by chance.
TEST(ReactorWait, MailForAnIdleLoopIsServedAtOnce) {
  for (bool with_timer : {false, true}) {
    std::unique_ptr<Reactor> reactor = StartParked();
    Bell bell([] {});
    std::atomic<bool> fired{false};
    Timer timer([&] { fired = true; });
    Timer far([] {});
    AskHome(*reactor, [&] {
      if (with_timer) reactor->Arm(&far, 3600 * kSecondNs);
      return reactor->Watch(bell.fd(), EPOLLIN, &bell).ok();
    });
    for (uint64_t round = 1; round <= 50; ++round) {
      ASSERT_TRUE(DriveOnce(*reactor));
      bell.Ring();
      ASSERT_TRUE(Eventually([&] { return bell.rung == round; }));
      ASSERT_TRUE(DriveOnce(*reactor));
      EXPECT_TRUE(AskHome(*reactor, [] { return true; }));
      ASSERT_TRUE(DriveOnce(*reactor));
      fired = false;
      Task arm = [&] { reactor->Arm(&timer, 200 * kMicrosecondNs); };
      ASSERT_TRUE(Eventually([&] { return reactor->TryRunHere(arm); }));
      ASSERT_TRUE(Eventually([&] { return fired.load(); }));
    }
    AskHome(*reactor, [&] { reactor->Unwatch(bell.fd(), &bell); });
  }
}

// While callers return at once, the thread polls by the clock. What arrives after they have stopped is still served.
TEST(ReactorWait, WhatComesAfterManyQuickCallsIsServedSoon) {
  std::unique_ptr<Reactor> reactor = StartParked();
  Bell bell([] {});
  std::atomic<int> served{0};
  Timer timer([&] { ++served; });
  AskHome(*reactor, [&] { return reactor->Watch(bell.fd(), EPOLLIN, &bell).ok(); });
  auto call_often = [&] {
    for (int i = 0; i < 100; ++i) {
      SignalMail mail;
      EXPECT_TRUE(reactor->PostAndWait(&mail, &mail.waiter, DeadlineNs()));
    }
  };
  for (int round = 1; round <= 50; ++round) {
    call_often();
    bell.Ring();
    ASSERT_TRUE(Eventually([&] { return bell.rung == static_cast<uint64_t>(round); }));
    call_often();
    reactor->Post([&] { ++served; });
    ASSERT_TRUE(Eventually([&] { return served == 2 * round - 1; }));
    call_often();
    Task arm = [&] { reactor->Arm(&timer, 200 * kMicrosecondNs); };
    ASSERT_TRUE(Eventually([&] { return reactor->TryRunHere(arm); }));
    ASSERT_TRUE(Eventually([&] { return served == 2 * round; }));
  }
  AskHome(*reactor, [&] { reactor->Unwatch(bell.fd(), &bell); });
}

// The answer and more input come in one turn: the caller takes its answer and leaves the rest behind.
TEST(ReactorWait, WhatIsLeftBehindIsServedByTheThread) {
  std::unique_ptr<Reactor> reactor = StartParked();
  Bell bell([] {});
  AskHome(*reactor, [&] { return reactor->Watch(bell.fd(), EPOLLIN, &bell).ok(); });
  for (uint64_t round = 1; round <= 200; ++round) {
    Waiter waiter;
    Task task = [&] {
      bell.Ring();
      waiter.Signal();
    };
    if (!reactor->TryRunHere(task)) reactor->Post(std::move(task));
    EXPECT_TRUE(reactor->Wait(&waiter, DeadlineNs()));
    ASSERT_TRUE(Eventually([&] { return bell.rung == round; }));
  }
  AskHome(*reactor, [&] { reactor->Unwatch(bell.fd(), &bell); });
}

TEST(ReactorWait, ManyMayWaitAtOnce) {
  std::unique_ptr<Reactor> reactor = StartParked();
  std::vector<std::thread> callers;
  for (int i = 0; i < 6; ++i) {
    callers.emplace_back([&] {
      for (int k = 0; k < 300; ++k) {
        SignalMail mail;
        ASSERT_TRUE(reactor->PostAndWait(&mail, &mail.waiter, DeadlineNs()));
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

// One waits for something that comes late. It does not keep the loop from those who wait for something that comes now.
TEST(ReactorWait, ACallerThatWaitsForLongMakesWay) {
  for (const bool busy_poll : {false, true}) {
    for (const Idling idling : {Idling::kLearned, Idling::kSpins, Idling::kYields}) {
      Options options;
      options.spin_ns_max = busy_poll ? 50 * kMicrosecondNs : 0;
      options.busy_poll = busy_poll;
      std::unique_ptr<Reactor> reactor = std::move(Reactor::Start(options)).value();
      Waiter late;
      std::atomic<bool> inside{false};
      std::thread patient([&] {
        SignalMail mail;
        EXPECT_TRUE(reactor->PostAndWait(&mail, &mail.waiter, DeadlineNs()));
        reactor->Post([&] { inside = true; });
        EXPECT_TRUE(reactor->Wait(&late, DeadlineNs(), idling));
      });
      EXPECT_TRUE(Eventually([&] { return inside.load(); }));
      for (int round = 0; round < 20; ++round) EXPECT_TRUE(DriveOnce(*reactor));
      reactor->Post([&] { late.Signal(); });
      patient.join();
    }
  }
}

// Also with nobody at home after the other caller has left: what the patient one waits for wakes the thread.
TEST(ReactorWait, ACallerThatMadeWayGetsItsSignal) {
  std::unique_ptr<Reactor> reactor = StartParked();
  for (uint64_t round = 1; round <= 20; ++round) {
    Waiter late;
    Bell bell([&] { late.Signal(); });
    AskHome(*reactor, [&] { return reactor->Watch(bell.fd(), EPOLLIN, &bell).ok(); });
    std::atomic<bool> inside{false};
    std::thread patient([&] {
      reactor->Post([&] { inside = true; });
      EXPECT_TRUE(reactor->Wait(&late, DeadlineNs()));
    });
    EXPECT_TRUE(Eventually([&] { return inside.load(); }));
    EXPECT_TRUE(DriveOnce(*reactor));
    bell.Ring();
    patient.join();
    AskHome(*reactor, [&] { reactor->Unwatch(bell.fd(), &bell); });
  }
}

TEST(ReactorWait, BusyPollingGivesTheLoopToACaller) {
  Options options;
  options.busy_poll = true;
  std::unique_ptr<Reactor> reactor = std::move(Reactor::Start(options)).value();
  EXPECT_TRUE(DriveOnce(*reactor));
  Bell bell([] {});
  AskHome(*reactor, [&] { return reactor->Watch(bell.fd(), EPOLLIN, &bell).ok(); });
  for (uint64_t round = 1; round <= 20; ++round) {
    SignalMail mail;
    EXPECT_TRUE(reactor->PostAndWait(&mail, &mail.waiter, DeadlineNs()));
    bell.Ring();
    ASSERT_TRUE(Eventually([&] { return bell.rung == round; }));
  }
  AskHome(*reactor, [&] { reactor->Unwatch(bell.fd(), &bell); });
}

// ---- the beginning and the end ----

TEST(ReactorWait, AReactorMayBeDrivenBeforeItsThreadIsUp) {
  for (int round = 0; round < 100; ++round) {
    std::unique_ptr<Reactor> reactor = std::move(Reactor::Start(Options())).value();
    SignalMail mail;
    ASSERT_TRUE(reactor->PostAndWait(&mail, &mail.waiter, DeadlineNs()));
  }
}

TEST(ReactorWait, CloseEndsTheLoopUnderADriver) {
  for (int round = 0; round < 20; ++round) {
    std::unique_ptr<Reactor> reactor = StartParked();
    Waiter waiter;
    std::atomic<bool> inside{false};
    std::atomic<bool> answered{false};
    std::thread driver([&] {
      reactor->Post([&] { inside = true; });
      answered = reactor->Wait(&waiter, DeadlineNs());
    });
    EXPECT_TRUE(Eventually([&] { return inside.load(); }));
    reactor->Close();
    reactor->Join();
    EXPECT_FALSE(answered);
    // The wait goes on: mail is still delivered, on the thread that sends it.
    reactor->Post([&] { waiter.Signal(); });
    driver.join();
    EXPECT_TRUE(answered);
  }
}

TEST(ReactorWait, CloseIsNotLostWhateverTheLoopDoes) {
  for (int round = 0; round < 200; ++round) {
    Options options;
    options.spin_ns_max = round % 2 == 0 ? 0 : 50 * kMicrosecondNs;
    std::unique_ptr<Reactor> reactor = std::move(Reactor::Start(options)).value();
    std::atomic<bool> stop{false};
    std::thread caller([&] {
      while (!stop) {
        SignalMail mail;
        EXPECT_TRUE(reactor->PostAndWait(&mail, &mail.waiter, DeadlineNs()));
      }
    });
    uint64_t calls = round % 3 == 0 ? 0 : 4;
    EXPECT_TRUE(Eventually([&] { return reactor->Snapshot().mails >= calls; }));
    reactor->Close();
    reactor->Join();
    stop = true;
    caller.join();
  }
}

}  // namespace
}  // namespace fusewire::reactor
