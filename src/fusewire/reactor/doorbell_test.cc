// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/reactor/doorbell.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "fusewire/base/random.h"
#include "fusewire/reactor/home_test.h"
#include "fusewire/reactor/process_limits.h"

namespace fusewire::reactor {
namespace {

class Visitor final : public DoorbellHandler {
 public:
  void OnRung() override {
    ++visits;
    if (on_rung) on_rung();
  }
  std::atomic<int> visits{0};
  UniqueFunction<void()> on_rung;
  uint32_t bit = 0;
};

// Hears of what is written, and of whether the writer is to ring for it, as over shared memory.
class Reader final : public DoorbellHandler {
 public:
  void OnRung() override { seen.store(written.load(std::memory_order_acquire)); }
  bool HasNews() const override { return written.load(std::memory_order_seq_cst) != seen.load(); }
  void Watch(bool watches) override {
    // A write that came before the writer could see that it has to ring again.
    if (!watches && writes_at_the_end.exchange(false)) written.fetch_add(1);
    watched.store(watches, std::memory_order_seq_cst);
    if (watches) ++watches_begun;
  }
  // The peer's thread.
  void Write(PeerDoorbell* peer) {
    written.fetch_add(1, std::memory_order_seq_cst);
    if (!watched.load(std::memory_order_seq_cst)) peer->Ring();
  }
  std::atomic<uint64_t> written{0}, seen{0};
  std::atomic<int> watches_begun{0};
  std::atomic<bool> watched{false}, writes_at_the_end{false};
};

class DoorbellTest : public testing::Test {
 protected:
  explicit DoorbellTest(const Options& options = {}) : reactor_(std::move(Reactor::Start(options)).value()) {
    AskHome(*reactor_, [this] {
      bell_ = reactor_->OpenDoorbell().value();
      return true;
    });
  }
  ~DoorbellTest() override {
    AskHome(*reactor_, [this] {
      for (auto& visitor : visitors_) bell_->Unhang(visitor->bit, visitor.get());
      return true;
    });
  }
  Visitor* Hang() {
    visitors_.push_back(std::make_unique<Visitor>());
    Visitor* visitor = visitors_.back().get();
    AskHome(*reactor_, [&] {
      visitor->bit = bell_->Hang(visitor);
      return true;
    });
    return visitor;
  }
  void SetOnRung(Visitor* visitor, UniqueFunction<void()> on_rung) {
    AskHome(*reactor_, [&] {
      visitor->on_rung = std::move(on_rung);
      return true;
    });
  }
  std::unique_ptr<PeerDoorbell> OpenPeer(uint32_t bit) {
    return std::move(PeerDoorbell::Open(bell_->files(), bit)).value();
  }

  std::unique_ptr<Reactor> reactor_;
  Doorbell* bell_ = nullptr;
  std::vector<std::unique_ptr<Visitor>> visitors_;
};

TEST_F(DoorbellTest, WakesAParkedReactorThatOnlyItsBitIsLookedAt) {
  Visitor* one = Hang();
  Visitor* other = Hang();
  std::unique_ptr<PeerDoorbell> peer = OpenPeer(other->bit);
  EXPECT_NE(one->bit, other->bit);
  for (int i = 1; i <= 20; ++i) {
    int before = other->visits;
    peer->Ring();
    ASSERT_TRUE(Eventually([&] { return other->visits > before; }));
  }
  EXPECT_GT(other->visits, one->visits);
}

TEST_F(DoorbellTest, SixtyFiveShareABitAndAreAllCalled) {
  for (uint32_t i = 0; i <= Doorbell::kBits; ++i) Hang();
  EXPECT_EQ(visitors_.front()->bit, visitors_.back()->bit);
  OpenPeer(visitors_.back()->bit)->Ring();
  EXPECT_TRUE(Eventually([&] { return visitors_.front()->visits > 0 && visitors_.back()->visits > 0; }));
}

TEST_F(DoorbellTest, AVisitorMayEndAnotherOfItsBit) {
  for (uint32_t i = 0; i <= Doorbell::kBits; ++i) Hang();
  std::unique_ptr<Visitor> last = std::move(visitors_.back());
  visitors_.pop_back();
  uint32_t bit = last->bit;
  SetOnRung(visitors_.front().get(), [&] {
    if (last == nullptr) return;
    bell_->Unhang(bit, last.get());
    last.reset();
  });
  OpenPeer(bit)->Ring();
  EXPECT_TRUE(Eventually([&] { return visitors_.front()->visits > 0; }));
  AskHome(*reactor_, [&] {
    EXPECT_EQ(last, nullptr);
    return true;
  });
}

// A loop that spins announces it, and its peer does not ring. No write is lost when that begins or ends.
TEST_F(DoorbellTest, NoRingWhileThePeerWatches) {
  if (UsableCpuCount() < 2) GTEST_SKIP() << "with one processor no loop spins";
  Reader reader;
  const uint32_t bit = AskHome(*reactor_, [&] { return bell_->Hang(&reader); });
  std::unique_ptr<PeerDoorbell> peer = OpenPeer(bit);
  Random random(SystemRandom64());
  for (int i = 0; i < 3000; ++i) {
    reader.Write(peer.get());
    const int64_t end_ns = Clock::Real()->NowNs() + kTestPatienceNs;
    while (reader.seen != reader.written) ASSERT_LT(Clock::Real()->NowNs(), end_ns) << "write " << i << " is lost";
    // Longer than a spin now and then: the loop parks.
    if (random.Chance(0.02)) Eventually([] { return false; }, 200 * kMicrosecondNs);
  }
  EXPECT_GT(reader.watches_begun, 0);
  AskHome(*reactor_, [&] {
    bell_->Unhang(bit, &reader);
    return true;
  });
  EXPECT_FALSE(reader.watched);
}

TEST_F(DoorbellTest, MailPostedWhileTheLoopStopsWatchingIsSeenWithoutARing) {
  if (UsableCpuCount() < 2) GTEST_SKIP() << "with one processor no loop spins";
  Reader reader;
  const uint32_t bit = AskHome(*reactor_, [&] { return bell_->Hang(&reader); });
  std::unique_ptr<PeerDoorbell> peer = OpenPeer(bit);
  for (int i = 0; i < 20; ++i) {
    reader.writes_at_the_end = true;
    ASSERT_TRUE(Eventually([&] {
      if (reader.writes_at_the_end) peer->Ring();
      return !reader.writes_at_the_end;
    })) << "it never watched";
    ASSERT_TRUE(Eventually([&] { return reader.seen == reader.written; })) << "round " << i;
  }
  AskHome(*reactor_, [&] {
    bell_->Unhang(bit, &reader);
    return true;
  });
}

// One that was watched writes while the loop stops to watch, and so does not ring; another has rung twice, and is the
// one to watch from now on.
TEST_F(DoorbellTest, WhatOneHasWrittenIsSeenThoughAnotherIsWatchedNext) {
  Reader reader;
  AskHome(*reactor_, [&] {
    Visitor other;
    const uint32_t bit = bell_->Hang(&reader), other_bit = bell_->Hang(&other);
    for (const uint32_t rung : {bit, bit, other_bit}) {
      bell_->RingHere(rung);
      EXPECT_TRUE(bell_->Answer());
    }
    bell_->BeginWatching();
    EXPECT_TRUE(reader.watched);
    reader.writes_at_the_end = true;
    bell_->SetAsleep(true);
    EXPECT_FALSE(reader.watched);
    EXPECT_NE(reader.seen, reader.written);
    bell_->RingHere(other_bit);
    for (int i = 0; i < 10 && bell_->rung(); ++i) bell_->Answer();
    EXPECT_EQ(reader.seen, reader.written);
    bell_->SetAsleep(false);
    bell_->Unhang(bit, &reader);
    bell_->Unhang(other_bit, &other);
    return true;
  });
}

// A peer of the same reactor wiped a bit: each time the reactor parks it looks at those of one more bit.
TEST_F(DoorbellTest, ABitThatALiarWipedIsMadeGood) {
  Visitor* victim = Hang();
  const int before = victim->visits;
  EXPECT_TRUE(Eventually([&] {
    reactor_->Post([] {});
    return victim->visits > before;
  }));
}

TEST_F(DoorbellTest, PeersCannotWriteThatTheReactorIsAwake) {
  void* page = mmap(nullptr, kDoorbellPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, bell_->files().asleep, 0);
  EXPECT_EQ(page, MAP_FAILED);
  EXPECT_NE(ftruncate(bell_->files().rung, 0), 0);
  EXPECT_NE(ftruncate(bell_->files().asleep, 0), 0);
}

TEST_F(DoorbellTest, ACountThatWasRunUpStillWakes) {
  Visitor* visitor = Hang();
  std::unique_ptr<PeerDoorbell> peer = OpenPeer(visitor->bit);
  uint64_t full = UINT64_MAX - 1;
  for (int i = 0; i < 20; ++i) {
    uint64_t count = 0;
    (void)!read(bell_->files().event, &count, sizeof(count));
    (void)!write(bell_->files().event, &full, sizeof(full));
    int before = visitor->visits;
    peer->Ring();
    ASSERT_TRUE(Eventually([&] { return visitor->visits > before; }));
  }
}

TEST_F(DoorbellTest, GarbageIsRefused) {
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  int unsealed = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(unsealed, kDoorbellPageBytes), 0);
  int blocking = dup(bell_->files().event);
  int pipe_ends[2];
  ASSERT_EQ(pipe2(pipe_ends, O_CLOEXEC | O_NONBLOCK), 0);
  const auto [rung, asleep, event] = bell_->files();
  struct Bad {
    int rung, asleep, event;
    uint32_t bit;
  };
  for (const Bad& bad : {Bad{null, asleep, event, 0}, Bad{rung, unsealed, event, 0}, Bad{unsealed, asleep, event, 0},
                         Bad{rung, asleep, null, 0}, Bad{rung, asleep, pipe_ends[1], 0}, Bad{rung, asleep, event, 64},
                         Bad{event, asleep, rung, 0}, Bad{-1, -1, -1, 0}}) {
    auto opened = PeerDoorbell::Open({bad.rung, bad.asleep, bad.event}, bad.bit);
    EXPECT_FALSE(opened.ok());
    EXPECT_EQ(opened.status().code(), Code::kCorrupt);
  }
  int flags = fcntl(blocking, F_GETFL);
  ASSERT_EQ(fcntl(blocking, F_SETFL, flags & ~O_NONBLOCK), 0);
  EXPECT_FALSE(PeerDoorbell::Open({rung, asleep, blocking}, 0).ok());
  ASSERT_EQ(fcntl(blocking, F_SETFL, flags), 0);
  for (int fd : {null, unsealed, blocking, pipe_ends[0], pipe_ends[1]}) close(fd);
}

// All to one doorbell of one process, from things at one home: one mapping, one descriptor.
TEST_F(DoorbellTest, PeersShareOneMapping) {
  Visitor* visitor = Hang();
  Visitor* other = Hang();
  AskHome(*reactor_, [&] {
    auto open = [&](int pid, uint32_t bit) { return std::move(bell_->OpenPeer(pid, bell_->files(), bit)).value(); };
    int lowest = dup(0);
    close(lowest);
    std::unique_ptr<PeerDoorbell> first = open(7, visitor->bit);
    EXPECT_EQ(fcntl(lowest, F_GETFD), FD_CLOEXEC);
    int next = dup(0);
    close(next);
    std::unique_ptr<PeerDoorbell> second = open(7, other->bit);
    EXPECT_EQ(fcntl(next, F_GETFD), -1);
    std::unique_ptr<PeerDoorbell> of_another = open(8, other->bit), of_unknown = open(0, other->bit);
    EXPECT_EQ(fcntl(next, F_GETFD), FD_CLOEXEC);
    first.reset();
    second->Ring();
    return true;
  });
  EXPECT_TRUE(Eventually([&] { return other->visits > 0; }));
}

Options NoSpin() {
  Options options;
  options.spin_ns_max = 0;
  return options;
}

class DoorbellParking : public DoorbellTest {
 protected:
  DoorbellParking() : DoorbellTest(NoSpin()) {}
};

// Two things for one peer in the output of one turn: it is woken once, at the end. Nobody reads the eventfd, so it has
// the number of all wakes.
TEST_F(DoorbellParking, WhatIsRungSoftlyInOneTurnWakesOnce) {
  std::unique_ptr<Reactor> peer = std::move(Reactor::Start(NoSpin())).value();
  Doorbell* its = nullptr;
  AskHome(*peer, [&] {
    its = peer->OpenDoorbell().value();
    return true;
  });
  std::unique_ptr<PeerDoorbell> one, other;
  AskHome(*reactor_, [&] {
    one = std::move(bell_->OpenPeer(7, its->files(), 1)).value();
    other = std::move(bell_->OpenPeer(7, its->files(), 2)).value();
    return true;
  });
  const auto wakes = [&] {
    uint64_t count = 0;
    return read(its->files().event, &count, sizeof(count)) < 0 ? 0 : count;
  };
  EXPECT_TRUE(Eventually([&] {
    return AskHome(*reactor_, [&] {
      wakes();
      bell_->HoldWakes();
      one->RingSoftly();
      other->RingSoftly();
      EXPECT_EQ(wakes(), 0u);
      bell_->SendWakes();
      const uint64_t count = wakes();
      EXPECT_LE(count, 1u);
      return count == 1;  // the peer was parked
    });
  }));
  EXPECT_TRUE(Eventually([&] {
    return AskHome(*reactor_, [&] {
      one->RingSoftly();  // outside of an output, as Ring
      return wakes() == 1;
    });
  }));
  AskHome(*reactor_, [&] {
    one.reset();
    other.reset();
    return true;
  });
}

// The thread sleeps in the loop's own epoll when a caller takes the loop from it. An event that is reported only once
// must not get lost with the thread, which can't enter the loop.
TEST_F(DoorbellParking, ACallerThatTakesTheLoopIsNotified) {
  Visitor* visitor = Hang();
  std::unique_ptr<PeerDoorbell> peer = OpenPeer(visitor->bit);
  std::atomic<Waiter*> waiter{nullptr};
  SetOnRung(visitor, [&] {
    if (Waiter* now = waiter.exchange(nullptr)) now->Signal();
  });
  Random random(5);
  for (int i = 0; i < 20; ++i) {
    // Longer than the thread stays out of the way of callers.
    Eventually([] { return false; }, 55 * kMillisecondNs);
    Waiter rung;
    int64_t ring_ns = Clock::Real()->NowNs() + static_cast<int64_t>(random.Below(40 * kMicrosecondNs));
    std::thread thread([&] {
      while (Clock::Real()->NowNs() < ring_ns) {
      }
      waiter.store(&rung);
      peer->Ring();
    });
    reactor_->Wait(&rung, Clock::Real()->NowNs() + 5 * kSecondNs);
    thread.join();
    ASSERT_LT(Clock::Real()->NowNs() - ring_ns, 2 * kSecondNs) << "in round " << i;
  }
}

// While it spins it looks at the word: nobody makes a system call.
TEST(DoorbellSpin, ASpinningReactorIsNotWoken) {
  Options options;
  options.busy_poll = true;
  std::unique_ptr<Reactor> reactor = std::move(Reactor::Start(options)).value();
  Visitor visitor;
  std::unique_ptr<PeerDoorbell> peer;
  Doorbell* bell = nullptr;
  AskHome(*reactor, [&] {
    bell = reactor->OpenDoorbell().value();
    visitor.bit = bell->Hang(&visitor);
    peer = std::move(PeerDoorbell::Open(bell->files(), visitor.bit)).value();
    return true;
  });
  for (int i = 0; i < 100; ++i) {
    int before = visitor.visits;
    peer->Ring();
    ASSERT_TRUE(Eventually([&] { return visitor.visits > before; }));
  }
  EXPECT_EQ(peer->wakes(), 0u);
  AskHome(*reactor, [&] {
    bell->Unhang(visitor.bit, &visitor);
    return true;
  });
}

}  // namespace
}  // namespace fusewire::reactor
