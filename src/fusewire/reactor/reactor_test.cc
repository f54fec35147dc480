// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/reactor/reactor.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fusewire/base/log.h"
#include "fusewire/reactor/home_test.h"
#include "fusewire/reactor/process_limits.h"

namespace fusewire::reactor {
namespace {

std::unique_ptr<Reactor> StartReactor(const Options& options = Options()) {
  Result<std::unique_ptr<Reactor>> reactor = Reactor::Start(options);
  FUSEWIRE_CHECK(reactor.ok());
  return std::move(reactor).value();
}

// ---- mail ----

TEST(Reactor, DeliversInOrderOfEachSender) {
  std::unique_ptr<Reactor> reactor = StartReactor();
  constexpr int kSenders = 4, kMails = 5000;
  std::vector<int> last(kSenders, -1);
  std::atomic<int> delivered{0};
  std::vector<std::thread> senders;
  for (int sender = 0; sender < kSenders; ++sender) {
    senders.emplace_back([&, sender] {
      for (int i = 0; i < kMails; ++i) {
        reactor->Post([&, sender, i] {
          EXPECT_TRUE(reactor->AtHome());
          EXPECT_EQ(last[static_cast<size_t>(sender)], i - 1);
          last[static_cast<size_t>(sender)] = i;
          ++delivered;
        });
      }
    });
  }
  for (std::thread& sender : senders) sender.join();
  EXPECT_TRUE(Eventually([&] { return delivered == kSenders * kMails; }));
  EXPECT_EQ(reactor->Snapshot().mails, uint64_t{kSenders * kMails});
}

TEST(Reactor, HomeIsWhereTheLoopRuns) {
  std::unique_ptr<Reactor> one = StartReactor(), other = StartReactor();
  EXPECT_FALSE(one->AtHome());
  EXPECT_TRUE(AskHome(*one, [&] { return one->AtHome() && !other->AtHome(); }));
  Task task = [&] { EXPECT_TRUE(one->AtHome()); };
  EXPECT_TRUE(Eventually([&] { return one->TryRunHere(task); }));
  EXPECT_FALSE(one->AtHome());
}

TEST(Reactor, PostAfterTheEndIsDelivered) {
  std::unique_ptr<Reactor> reactor = StartReactor();
  reactor->Close();
  reactor->Join();
  int delivered = 0;
  for (int i = 0; i < 10; ++i) reactor->Post([&] { delivered += reactor->AtHome() ? 1 : 100; });
  EXPECT_EQ(delivered, 10);
}

TEST(Reactor, PostsThatRaceWithTheEndAreDelivered) {
  for (int round = 0; round < 100; ++round) {
    std::unique_ptr<Reactor> reactor = StartReactor();
    std::atomic<int> delivered{0};
    std::vector<std::thread> senders;
    for (int sender = 0; sender < 3; ++sender) {
      senders.emplace_back([&] {
        for (int i = 0; i < 200; ++i) reactor->Post([&] { ++delivered; });
      });
    }
    reactor->Close();
    for (std::thread& sender : senders) sender.join();
    reactor->Join();
    EXPECT_TRUE(Eventually([&] { return delivered == 600; }));
  }
}

TEST(Reactor, OneHomePostsToAnotherThatHasEnded) {
  std::unique_ptr<Reactor> alive = StartReactor(), ended = StartReactor();
  ended->Close();
  ended->Join();
  bool here = AskHome(*alive, [&] {
    bool there = false;
    ended->Post([&] { there = ended->AtHome() && !alive->AtHome(); });
    return there && alive->AtHome();
  });
  EXPECT_TRUE(here);
}

// Two that have ended, and mail that sends mail to the other: the senders must not wait for each other.
TEST(Reactor, EndedReactorsMayPostToEachOther) {
  for (int round = 0; round < 200; ++round) {
    std::unique_ptr<Reactor> one = StartReactor(), other = StartReactor();
    for (Reactor* reactor : {one.get(), other.get()}) {
      reactor->Close();
      reactor->Join();
    }
    std::atomic<int> ready{0}, delivered{0};
    auto talk = [&](Reactor* from, Reactor* to) {
      ++ready;
      while (ready < 2) std::this_thread::yield();
      for (int i = 0; i < 50; ++i) {
        from->Post([&, to] {
          ++delivered;
          to->Post([&] { ++delivered; });
        });
      }
    };
    std::thread there([&] { talk(one.get(), other.get()); }), back([&] { talk(other.get(), one.get()); });
    there.join();
    back.join();
    EXPECT_EQ(delivered, 200);
  }
}

// ---- descriptors ----

TEST(Reactor, ReportsReadyDescriptors) {
  std::unique_ptr<Reactor> reactor = StartReactor();
  Bell bell([&] { EXPECT_TRUE(reactor->AtHome()); });
  AskHome(*reactor, [&] { return reactor->Watch(bell.fd(), EPOLLIN, &bell).ok(); });
  EXPECT_EQ(reactor->Snapshot().watched, 1u);
  for (uint64_t i = 1; i <= 100; ++i) {
    bell.Ring();
    ASSERT_TRUE(Eventually([&] { return bell.rung == i; }));
  }
  AskHome(*reactor, [&] { reactor->Unwatch(bell.fd(), &bell); });
  EXPECT_EQ(reactor->Snapshot().watched, 0u);
  bell.Ring();
  AskHome(*reactor, [] { return true; });
  EXPECT_EQ(bell.rung, 100u);
}

TEST(Reactor, WatchSaysWhatTheKernelRefuses) {
  std::unique_ptr<Reactor> reactor = StartReactor();
  Bell bell([] {});
  Status watched = AskHome(*reactor, [&] { return reactor->Watch(1 << 20, EPOLLIN, &bell); });
  EXPECT_FALSE(watched.ok());
  EXPECT_NE(watched.phase(), "");
  ManualClock clock;
  std::unique_ptr<Reactor> manual = Reactor::MakeManual(&clock);
  Task task = [&] { EXPECT_EQ(manual->Watch(bell.fd(), EPOLLIN, &bell).code(), Code::kInvalid); };
  EXPECT_TRUE(manual->TryRunHere(task));
}

// Three bells ring at once; whichever is heard first takes the other two away.
TEST(Reactor, WhatWasUnwatchedInTheSameBatchIsNotHeard) {
  for (int round = 0; round < 50; ++round) {
    std::unique_ptr<Reactor> reactor = StartReactor();
    std::vector<std::unique_ptr<Bell>> bells;
    int heard = 0;
    auto take_others_away = [&] {
      ++heard;
      for (auto& bell : bells) {
        if (bell == nullptr || bell->rung > 0) continue;
        reactor->Unwatch(bell->fd(), bell.get());
        bell.reset();
      }
    };
    AskHome(*reactor, [&] {
      for (int i = 0; i < 3; ++i) {
        bells.push_back(std::make_unique<Bell>(take_others_away));
        bells.back()->Ring();
        EXPECT_TRUE(reactor->Watch(bells.back()->fd(), EPOLLIN, bells.back().get()).ok());
      }
    });
    EXPECT_TRUE(Eventually([&] { return AskHome(*reactor, [&] { return heard > 0; }); }));
    EXPECT_EQ(AskHome(*reactor, [&] { return heard; }), 1);
    AskHome(*reactor, [&] {
      for (auto& bell : bells) {
        if (bell != nullptr) reactor->Unwatch(bell->fd(), bell.get());
      }
    });
  }
}

// As above, but the number of the descriptor that went is given to another at once: the event was not meant for that.
TEST(Reactor, AReusedDescriptorDoesNotHearItsPredecessorsEvents) {
  struct Witness final : FdHandler {
    void OnEvents(uint32_t) override { ++events; }
    int events = 0;
  };
  std::unique_ptr<Reactor> reactor = StartReactor();
  Bell quiet([] {});
  for (int round = 0; round < 50; ++round) {
    std::unique_ptr<Bell> bells[2];
    Witness witness;
    int taken = -1;
    auto take = [&](int other) {
      if (taken >= 0) return;
      taken = other;
      int fd = bells[other]->fd();
      reactor->Unwatch(fd, bells[other].get());
      EXPECT_EQ(dup2(quiet.fd(), fd), fd);
      EXPECT_TRUE(reactor->Watch(fd, EPOLLIN, &witness).ok());
    };
    AskHome(*reactor, [&] {
      for (int i = 0; i < 2; ++i) {
        bells[i] = std::make_unique<Bell>([&take, i] { take(1 - i); });
        bells[i]->Ring();
        EXPECT_TRUE(reactor->Watch(bells[i]->fd(), EPOLLIN, bells[i].get()).ok());
      }
    });
    ASSERT_TRUE(Eventually([&] { return AskHome(*reactor, [&] { return taken >= 0; }); }));
    AskHome(*reactor, [&] {
      EXPECT_EQ(witness.events, 0);
      reactor->Unwatch(bells[taken]->fd(), &witness);
      reactor->Unwatch(bells[1 - taken]->fd(), bells[1 - taken].get());
    });
  }
}

// ---- each gets its turn ----

// Mail that posts itself again, until it is stopped.
class Flood {
 public:
  explicit Flood(Reactor* reactor) : reactor_(*reactor) {}
  ~Flood() {
    stop_ = true;
    EXPECT_TRUE(Eventually([this] { return ended_.load(); }));
  }
  void Start() {
    reactor_.Post([this] { Again(); });
  }

 private:
  void Again() {
    if (stop_) {
      ended_ = true;
    } else {
      Start();
    }
  }
  Reactor& reactor_;
  std::atomic<bool> stop_{false}, ended_{false};
};

TEST(Reactor, MailWithoutEndDoesNotHoldUpInputAndTimers) {
  std::unique_ptr<Reactor> reactor = StartReactor();
  Bell bell([] {});
  std::atomic<bool> fired{false};
  Timer timer([&fired] { fired = true; });
  {
    Flood flood(reactor.get());
    flood.Start();
    AskHome(*reactor, [&] {
      reactor->Arm(&timer, kMillisecondNs);
      return reactor->Watch(bell.fd(), EPOLLIN, &bell).ok();
    });
    bell.Ring();
    EXPECT_TRUE(Eventually([&] { return fired && bell.rung > 0; }));
  }
  AskHome(*reactor, [&] { reactor->Unwatch(bell.fd(), &bell); });
}

TEST(Reactor, MailWithoutEndDoesNotHoldACallerCaptive) {
  std::unique_ptr<Reactor> reactor = StartReactor();
  {
    Flood flood(reactor.get());
    bool started = false;
    EXPECT_TRUE(Eventually([&] {
      Task task = [&] {
        started = true;
        flood.Start();
      };
      return reactor->TryRunHere(task);
    }));
    EXPECT_TRUE(started);  // and we are back
  }
  {
    Flood flood(reactor.get());
    Waiter waiter;
    reactor->Post([&] {
      flood.Start();
      waiter.Signal();
    });
    EXPECT_TRUE(reactor->Wait(&waiter, Clock::Real()->NowNs() + kTestPatienceNs));
  }
}

// The handler that the loop calls first has an event each time.
TEST(Reactor, ABusyDescriptorDoesNotHoldUpTheOthers) {
  struct Talkative final : FdHandler {
    void OnEvents(uint32_t) override {}
    bool PollNow() override { return true; }
  };
  Options options;
  options.busy_poll = true;
  std::unique_ptr<Reactor> reactor = StartReactor(options);
  Talkative talkative;
  Bell bell([] {});
  AskHome(*reactor, [&] {
    for (int input = 0; input < 2; ++input) reactor->SetHot(&talkative);  // two in a row: polled without epoll
    return reactor->Watch(bell.fd(), EPOLLIN, &bell).ok();
  });
  bell.Ring();
  EXPECT_TRUE(Eventually([&] { return bell.rung > 0; }));
  AskHome(*reactor, [&] {
    reactor->ForgetHot(&talkative);
    reactor->Unwatch(bell.fd(), &bell);
  });
}

// After two inputs in a row from one handler, the loop polls it without epoll, until another one has input.
TEST(Reactor, OnlyAHandlerThatTalksAloneIsAskedByItself) {
  struct Talker final : FdHandler {
    void OnEvents(uint32_t) override {}
    bool PollNow() override {
      ++asked;
      return false;
    }
    std::atomic<uint64_t> asked{0};
  };
  Options options;
  options.busy_poll = true;
  std::unique_ptr<Reactor> reactor = StartReactor(options);
  Talker one, other;
  auto has_input = [&](Talker* talker) { AskHome(*reactor, [&] { reactor->SetHot(talker); }); };
  has_input(&one);
  has_input(&other);
  has_input(&one);
  EXPECT_EQ(one.asked + other.asked, 0);
  has_input(&one);
  EXPECT_TRUE(Eventually([&] { return one.asked > 0; }));
  has_input(&other);
  const uint64_t asked = one.asked;
  AskHome(*reactor, [] {});
  EXPECT_EQ(one.asked, asked);
  EXPECT_EQ(other.asked, 0);
  AskHome(*reactor, [&] { reactor->ForgetHot(&other); });
}

// Sends one thing a turn, and asks for the next turn while something is left.
struct Sender final : Flushable {
  explicit Sender(Reactor* home) : reactor(*home) {}
  void Flush() override {
    EXPECT_TRUE(reactor.AtHome());
    if (--left > 0) reactor.FlushLater(this);
  }
  Reactor& reactor;
  std::atomic<int> left{0};
};

TEST(Reactor, FlushesOnceATurnUntilAllIsSent) {
  std::unique_ptr<Reactor> reactor = StartReactor();
  Sender sender(reactor.get());
  AskHome(*reactor, [&] {
    sender.left = 5;
    for (int i = 0; i < 3; ++i) reactor->FlushLater(&sender);
  });
  EXPECT_TRUE(Eventually([&] { return sender.left == 0; }));
  // The same when a caller does it on the spot and goes away.
  Task task = [&] {
    sender.left = 5;
    reactor->FlushLater(&sender);
  };
  EXPECT_TRUE(Eventually([&] { return reactor->TryRunHere(task); }));
  EXPECT_TRUE(Eventually([&] { return sender.left == 0; }));
}

struct Guest final : Resident {
  Guest(Reactor* home_in, bool* gone_at_home_in) : home(*home_in), gone_at_home(*gone_at_home_in) {}
  ~Guest() override { gone_at_home = home.AtHome(); }
  Reactor& home;
  bool& gone_at_home;
};

TEST(Reactor, AResidentGoesWithItsHome) {
  bool gone_at_home = false;
  std::unique_ptr<Reactor> reactor = StartReactor();
  AskHome(*reactor, [&] {
    EXPECT_EQ(reactor->resident(&gone_at_home), nullptr);
    reactor->Keep(&gone_at_home, std::make_unique<Guest>(reactor.get(), &gone_at_home));
    EXPECT_NE(reactor->resident(&gone_at_home), nullptr);
  });
  EXPECT_FALSE(gone_at_home);
  reactor.reset();
  EXPECT_TRUE(gone_at_home);
}

// ---- timers ----

TEST(Reactor, FiresTimersArmedByAnyThread) {
  std::unique_ptr<Reactor> reactor = StartReactor();
  std::atomic<int64_t> fired_ns{0};
  Timer far([] {});
  Timer timer([&] { fired_ns = Clock::Real()->NowNs(); });
  AskHome(*reactor, [&] { reactor->Arm(&far, 3600 * kSecondNs); });
  for (int i = 0; i < 20; ++i) {
    fired_ns = 0;
    int64_t due_ns = 0;
    Task arm = [&] {
      reactor->Arm(&timer, 2 * kMillisecondNs);
      due_ns = timer.due_ns();
    };
    // Half of them from a caller that leaves at once: the parked thread has to learn of the new time.
    if (i % 2 == 0) {
      EXPECT_TRUE(Eventually([&] { return reactor->TryRunHere(arm); }));
    } else {
      AskHome(*reactor, [&] { arm(); });
    }
    ASSERT_TRUE(Eventually([&] { return fired_ns > 0; }));
    EXPECT_GE(fired_ns, due_ns);
  }
}

// ---- the thread ----

TEST(Reactor, PinningThatIsNotAllowedIsLoggedAndAllGoesOn) {
  static std::atomic<int> lines{0};
  lines = 0;
  SetLogSink(
      [](LogLevel, const char* line, void*) { lines += std::string(line).find("unpinned") != std::string::npos; },
      nullptr);
  Options options;
  options.cpu = AllowedCpus().back() + 1;
  std::unique_ptr<Reactor> reactor = StartReactor(options);
  EXPECT_TRUE(AskHome(*reactor, [&] { return reactor->AtHome(); }));
  EXPECT_TRUE(Eventually([] { return lines > 0; }));
  SetLogSink(nullptr, nullptr);
}

TEST(Reactor, WithoutAThreadStartSaysSo) {
  // No thread can have a stack of this size.
  pthread_attr_t usual, absurd;
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(pthread_getattr_default_np(&absurd), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&absurd, size_t{1} << 47), 0);
  ASSERT_EQ(pthread_setattr_default_np(&absurd), 0);
  Result<std::unique_ptr<Reactor>> reactor = Reactor::Start(Options());
  ASSERT_EQ(pthread_setattr_default_np(&usual), 0);
  ASSERT_FALSE(reactor.ok());
  EXPECT_EQ(reactor.status().code(), Code::kOverloaded);
  EXPECT_NE(reactor.status().next(), "");
}

TEST(Reactor, BusyPollingNeverParks) {
  Options options;
  options.busy_poll = true;
  std::unique_ptr<Reactor> reactor = StartReactor(options);
  Bell bell([] {});
  std::atomic<bool> fired{false};
  Timer timer([&fired] { fired = true; });
  // Posted: for a caller who waits it makes way.
  std::atomic<int> ran{0};
  reactor->Post([&] {
    reactor->Arm(&timer, kMillisecondNs);
    EXPECT_TRUE(reactor->Watch(bell.fd(), EPOLLIN, &bell).ok());
    ++ran;
  });
  EXPECT_TRUE(Eventually([&] { return ran == 1; }));
  bell.Ring();
  EXPECT_TRUE(Eventually([&] { return fired && bell.rung > 0; }));
  reactor->Post([&] {
    reactor->Unwatch(bell.fd(), &bell);
    ++ran;
  });
  EXPECT_TRUE(Eventually([&] { return ran == 2; }));
  EXPECT_EQ(reactor->Snapshot().parks, 0u);
  EXPECT_EQ(reactor->Snapshot().wakes, 0u);
}

TEST(Reactor, BusyPollingGoesOnAfterTheLastCaller) {
  Options options;
  options.busy_poll = true;
  std::unique_ptr<Reactor> reactor = StartReactor(options);
  std::atomic<int> ran{0};
  reactor->Post([&] { ++ran; });
  EXPECT_TRUE(Eventually([&] { return ran == 1; }));
  // A caller drives, so that the thread makes way.
  Stats before = reactor->Snapshot();
  bool drove = Eventually([&] {
    Waiter waiter;
    reactor->Wait(&waiter, reactor->clock()->NowNs() + kMillisecondNs);
    return reactor->Snapshot().drives > before.drives;
  });
  if (!drove) GTEST_SKIP() << "no second processor was free: caller and thread never ran at the same time";
  EXPECT_TRUE(Eventually([&] { return reactor->Snapshot().parks > before.parks; }));  // it came home by itself
  before = reactor->Snapshot();
  reactor->Post([&] { ++ran; });
  EXPECT_TRUE(Eventually([&] { return ran == 2; }));
  EXPECT_EQ(reactor->Snapshot().wakes, before.wakes);  // and polls: nobody had to wake it
}

TEST(Reactor, AnIdleLoopParksAndStaysParked) {
  std::unique_ptr<Reactor> reactor = StartReactor();
  Task nothing = [] {};
  EXPECT_TRUE(Eventually([&] { return reactor->TryRunHere(nothing); }));
  Stats before = reactor->Snapshot();
  EXPECT_FALSE(Eventually([&] { return reactor->Snapshot().turns > before.turns + 2; }, 100 * kMillisecondNs));
}

// ---- manual reactors ----

TEST(Reactor, AManualOneMovesOnlyWhenTurned) {
  ManualClock clock;
  std::unique_ptr<Reactor> reactor = Reactor::MakeManual(&clock);
  int mails = 0, fired = 0;
  Timer timer([&fired] { ++fired; });
  reactor->Post([&] {
    ++mails;
    reactor->Arm(&timer, kSecondNs);
  });
  EXPECT_EQ(mails, 0);
  EXPECT_TRUE(reactor->RunManually());
  EXPECT_EQ(mails, 1);
  EXPECT_LT(reactor->idle_ns(), clock.NowNs());
  EXPECT_FALSE(reactor->RunManually());
  EXPECT_EQ(reactor->idle_ns(), clock.NowNs());
  EXPECT_GE(reactor->NextTimerNs(), clock.NowNs());
  EXPECT_LE(reactor->NextTimerNs(), clock.NowNs() + kSecondNs + 2 * kMillisecondNs);
  clock.Advance(2 * kSecondNs);
  EXPECT_TRUE(reactor->RunManually());
  EXPECT_EQ(fired, 1);
  EXPECT_EQ(reactor->NextTimerNs(), kForeverNs);
  Waiter waiter;
  EXPECT_FALSE(reactor->Wait(&waiter, clock.NowNs() + kSecondNs));
  Sender sender(reactor.get());
  sender.left = 3;
  Task task = [&] { reactor->FlushLater(&sender); };
  EXPECT_TRUE(reactor->TryRunHere(task));
  EXPECT_EQ(sender.left, 0);
}

}  // namespace
}  // namespace fusewire::reactor
