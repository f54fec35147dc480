// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "fusewire/base/clock.h"
#include "fusewire/base/random.h"
#include "fusewire/wire/wire.h"

namespace fusewire::pipe {
namespace {

constexpr uint64_t kStanding = 1000;
constexpr uint64_t kMessageMax = wire::kWindowBytesMax;

// ---- the sender's end ----

TEST(SendWindow, SendsWhatTheCreditCovers) {
  SendWindow window;
  EXPECT_FALSE(window.CanSend(1));
  window.Open(100);
  EXPECT_TRUE(window.CanSend(100));
  EXPECT_FALSE(window.CanSend(101));
  window.Take(60);
  EXPECT_FALSE(window.CanSend(41));
  ASSERT_TRUE(window.OnCredit(1).ok());
  EXPECT_TRUE(window.CanSend(41));
  EXPECT_EQ(window.unused(), 41u);
  EXPECT_EQ(window.sent(), 60u);
}

TEST(SendWindow, AsksOnceForEachPosition) {
  SendWindow window;
  uint64_t position = 0;
  window.Open(100);
  EXPECT_FALSE(window.Want(0, &position));
  EXPECT_FALSE(window.Want(100, &position));
  ASSERT_TRUE(window.Want(150, &position));
  EXPECT_EQ(position, 150u);
  EXPECT_FALSE(window.Want(150, &position));
  ASSERT_TRUE(window.Want(151, &position));
  EXPECT_EQ(position, 151u);
  ASSERT_TRUE(window.OnCredit(51).ok());
  window.Take(151);
  EXPECT_FALSE(window.Want(0, &position));
}

// Else the receiver holds a part of its budget for a message that will never come.
TEST(SendWindow, AsksForLessWhenAMessageIsTakenBack) {
  SendWindow window;
  uint64_t position = 0;
  window.Open(100);
  ASSERT_TRUE(window.Want(5000, &position));
  ASSERT_TRUE(window.Want(120, &position));
  EXPECT_EQ(position, 120u);
  ASSERT_TRUE(window.Want(0, &position));  // nothing waits any more
  EXPECT_LE(position, 100u);
  EXPECT_FALSE(window.Want(0, &position));
  ASSERT_TRUE(window.Want(120, &position));
}

TEST(SendWindow, GivesBackWhatIsBeyondTheStandingWindow) {
  SendWindow window;
  uint64_t position = 0;
  window.Open(100);
  EXPECT_EQ(window.GiveBack(), 0u);
  ASSERT_TRUE(window.Want(500, &position));
  ASSERT_TRUE(window.OnCredit(400).ok());
  window.Take(150);
  EXPECT_EQ(window.GiveBack(), 250u);
  EXPECT_EQ(window.unused(), 100u);
  EXPECT_EQ(window.GiveBack(), 0u);
  EXPECT_TRUE(window.Want(200, &position));  // the return has taken back what was asked for
}

TEST(SendWindow, CreditThatOverflowsIsCorrupt) {
  SendWindow window;
  window.Open(100);
  ASSERT_TRUE(window.OnCredit(wire::kWindowBytesMax - 100).ok());
  EXPECT_EQ(window.OnCredit(1).code(), Code::kCorrupt);
  EXPECT_EQ(window.unused(), wire::kWindowBytesMax);
}

// ---- the receiver's end ----

class ReceiveWindowTest : public testing::Test {
 protected:
  Budget budget_{10000};
};

TEST_F(ReceiveWindowTest, CreditOfAFewMessagesWaitsForOutputUntilHalfIsConsumedOrThePeerWantsIt) {
  constexpr uint64_t kLarge = 1 << 20;
  Budget budget(4 * kLarge);
  ReceiveWindow window(kLarge, &budget);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(window.OnReceived(300'000).ok());
  window.Consume(500'000);
  EXPECT_EQ(window.TakeGrant(0, 0, false), 0u);
  window.Consume(100'000);
  EXPECT_EQ(window.TakeGrant(0, 0, false), 600'000u);
  window.Consume(200'000);
  EXPECT_EQ(window.TakeGrant(0, 0, false), 0u);
  EXPECT_EQ(window.TakeGrant(0, 0, true), 200'000u);
  window.Consume(100'000);
  window.OnWant(kLarge + 800'001, kMessageMax);
  EXPECT_EQ(window.TakeGrant(0, 0, false), 100'000u);
}

TEST_F(ReceiveWindowTest, CreditOfManyMessagesDoesNotWaitForOutput) {
  constexpr uint64_t kLarge = 1 << 20;
  Budget budget(4 * kLarge);
  ReceiveWindow window(kLarge, &budget);
  auto grant_after_message = [&](bool goes_along) {
    EXPECT_TRUE(window.OnReceived(50'000).ok());
    window.Consume(50'000);
    return window.TakeGrant(0, 0, goes_along);
  };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(grant_after_message(false), 0u);
  EXPECT_EQ(grant_after_message(false), 200'000u);
  EXPECT_EQ(grant_after_message(true), 0u);  // there is output: the count begins again
  for (int i = 0; i < 3; ++i) EXPECT_EQ(grant_after_message(false), 0u);
  EXPECT_EQ(grant_after_message(false), 250'000u);
}

TEST_F(ReceiveWindowTest, GrantsAgainWhatHasBeenConsumedInGoodPieces) {
  ReceiveWindow window(kStanding, &budget_);
  EXPECT_EQ(window.TakeGrant(), 0u);
  ASSERT_TRUE(window.OnReceived(600).ok());
  EXPECT_EQ(window.promised_bytes(), 400u);
  EXPECT_EQ(window.TakeGrant(), 0u);
  window.Consume(200);
  EXPECT_EQ(window.TakeGrant(), 0u);
  window.Consume(100);
  EXPECT_EQ(window.TakeGrant(), 300u);
  EXPECT_EQ(window.TakeGrant(), 0u);
  EXPECT_EQ(window.unconsumed_bytes(), 300u);
  EXPECT_EQ(budget_.used_bytes(), 0u);
}

TEST_F(ReceiveWindowTest, TakesFromTheBudgetWhatTheStandingWindowDoesNotCover) {
  {
    ReceiveWindow window(kStanding, &budget_);
    window.OnWant(4000, kMessageMax);
    EXPECT_EQ(window.TakeGrant(), 3000u);
    EXPECT_EQ(window.reserved_bytes(), 3000u);
    EXPECT_EQ(budget_.used_bytes(), 3000u);
    ASSERT_TRUE(window.OnReceived(4000).ok());
    window.Consume(4000);
    EXPECT_EQ(window.TakeGrant(), 4000u);  // nobody else wants it: a steady sender keeps the larger window
    ASSERT_TRUE(window.OnReturn(3000).ok());
    EXPECT_EQ(window.reserved_bytes(), 0u);
    EXPECT_EQ(window.promised_bytes(), kStanding);
    window.OnWant(6000, kMessageMax);
    EXPECT_EQ(window.TakeGrant(), 1000u);
  }
  EXPECT_EQ(budget_.used_bytes(), 0u);  // a pipe that goes gives up its share
}

TEST_F(ReceiveWindowTest, AMessageBeyondTheCreditIsCorrupt) {
  ReceiveWindow window(kStanding, &budget_);
  ASSERT_TRUE(window.OnReceived(999).ok());
  EXPECT_EQ(window.OnReceived(2).code(), Code::kCorrupt);
  EXPECT_EQ(window.OnReceived(UINT64_MAX).code(), Code::kCorrupt);
  EXPECT_TRUE(window.OnReceived(1).ok());
}

TEST_F(ReceiveWindowTest, AReturnOfMoreThanThereIsIsCorrupt) {
  ReceiveWindow window(kStanding, &budget_);
  ASSERT_TRUE(window.OnReceived(400).ok());
  EXPECT_EQ(window.OnReturn(601).code(), Code::kCorrupt);
  EXPECT_EQ(window.OnReturn(UINT64_MAX).code(), Code::kCorrupt);
  EXPECT_TRUE(window.OnReturn(600).ok());
  EXPECT_EQ(window.OnReceived(1).code(), Code::kCorrupt);
}

TEST_F(ReceiveWindowTest, AWantAsFarAsNumbersGoDoesNotRunOver) {
  ReceiveWindow window(kStanding, &budget_);
  window.OnWant(wire::kWindowBytesMax, kMessageMax);
  EXPECT_EQ(window.TakeGrant(), wire::kWindowBytesMax - kStanding);
  EXPECT_EQ(window.TakeGrant(), 0u);
  ASSERT_TRUE(window.OnReceived(5000).ok());
  window.Consume(5000);
  window.OnWant(0, kMessageMax);  // a want from the past
  EXPECT_LE(window.TakeGrant(), 5000u);
}

TEST_F(ReceiveWindowTest, AMessageLargerThanTheBudgetPassesAlone) {
  ReceiveWindow other(kStanding, &budget_), window(kStanding, &budget_);
  other.OnWant(2000, kMessageMax);
  ASSERT_EQ(other.TakeGrant(), 1000u);
  window.OnWant(50000, kMessageMax);
  EXPECT_EQ(window.TakeGrant(), 0u);
  EXPECT_TRUE(window.waiting());
  EXPECT_TRUE(other.IsWanted());
  EXPECT_TRUE(other.HasSpareCredit());
  ASSERT_TRUE(other.OnReturn(1000).ok());
  EXPECT_EQ(window.TakeGrant(), 49000u);
  EXPECT_FALSE(window.waiting());
}

TEST_F(ReceiveWindowTest, AWantIsGrantedForOneMessageAtTheMost) {
  ReceiveWindow window(kStanding, &budget_);
  window.OnWant(uint64_t{1} << 50, 7000);
  EXPECT_EQ(window.TakeGrant(), 7000 + kStanding);
}

// Otherwise a peer that asks for a terabyte could fill our memory with a million small messages.
TEST_F(ReceiveWindowTest, CreditForOneLargeMessageIsNotForMany) {
  constexpr uint64_t kLarge = 100 << 20, kSmall = 9000;
  ReceiveWindow window(kStanding, &budget_);
  window.OnWant(3 * kLarge, kMessageMax);
  ASSERT_EQ(window.TakeGrant(), 3 * kLarge - kStanding);
  ASSERT_TRUE(window.OnReceived(kLarge).ok());
  uint64_t held = 0;
  Status status;
  for (; status.ok() && held < kLarge; held += kSmall) status = window.OnReceived(kSmall);
  EXPECT_EQ(status.code(), Code::kOverloaded);
  EXPECT_LT(held, 70u << 20);
  window.Consume(held);
  EXPECT_EQ(window.OnReceived(kLarge).code(), Code::kOverloaded);
}

TEST_F(ReceiveWindowTest, OneLargeMessageMayFollowAnother) {
  constexpr uint64_t kLarge = 100 << 20;
  ReceiveWindow window(kStanding, &budget_);
  for (uint64_t position = kLarge; position < 5 * kLarge; position += kLarge) {
    window.OnWant(position, kMessageMax);
    window.TakeGrant();
    ASSERT_TRUE(window.OnReceived(kLarge).ok());
    window.Consume(kLarge);
  }
}

// It once waited for ever: its own share, kept from an earlier message, stood in its way.
TEST_F(ReceiveWindowTest, ItsOwnShareIsNotInTheWayOfALargerMessage) {
  ReceiveWindow window(kStanding, &budget_);
  window.OnWant(6000, kMessageMax);
  ASSERT_EQ(window.TakeGrant(), 5000u);
  ASSERT_TRUE(window.OnReceived(6000).ok());
  window.Consume(6000);
  window.OnWant(6000 + 20000, kMessageMax);
  EXPECT_EQ(window.TakeGrant(), 20000u);
  EXPECT_FALSE(window.waiting());
}

TEST_F(ReceiveWindowTest, AWaitingPeerHoldsNothingIdleAndKeepsItsStandingWindow) {
  ReceiveWindow busy(kStanding, &budget_), window(kStanding, &budget_);
  busy.OnWant(6000, kMessageMax);
  ASSERT_EQ(busy.TakeGrant(), 5000u);
  window.OnWant(5000, kMessageMax);
  ASSERT_EQ(window.TakeGrant(), 4000u);
  ASSERT_TRUE(window.OnReceived(5000).ok());
  window.Consume(5000);
  window.OnWant(5000 + 8000, kMessageMax);
  EXPECT_EQ(window.TakeGrant(), kStanding);  // for small messages beside the large one
  EXPECT_TRUE(window.waiting());
  EXPECT_EQ(window.reserved_bytes(), 0u);
  EXPECT_EQ(budget_.used_bytes(), 5000u);
  window.OnWant(0, kMessageMax);
  window.TakeGrant();
  EXPECT_FALSE(window.waiting());
  EXPECT_FALSE(budget_.wanted());
}

// Room that is too small to be worth a frame is never granted, so the peer cannot give it back.
TEST_F(ReceiveWindowTest, StaysIdleWithoutAShareThatIsNotReturned) {
  ReceiveWindow window(kStanding, &budget_);
  window.OnWant(kStanding + 13, kMessageMax);
  ASSERT_EQ(window.TakeGrant(), 13u);
  ASSERT_TRUE(window.OnReceived(kStanding / 10).ok());
  window.Consume(kStanding / 10);
  ASSERT_EQ(window.TakeGrant(), 0u);
  ASSERT_EQ(budget_.used_bytes(), 13u);
  window.Rest();
  EXPECT_EQ(budget_.used_bytes(), 0u);
}

TEST_F(ReceiveWindowTest, ARestKeepsWhatThePeerMaySend) {
  ReceiveWindow window(kStanding, &budget_);
  window.OnWant(kStanding + 5000, kMessageMax);
  ASSERT_EQ(window.TakeGrant(), 5000u);
  window.Rest();
  EXPECT_EQ(budget_.used_bytes(), 5000u);
  EXPECT_TRUE(window.OnReceived(kStanding + 5000).ok());
}

TEST_F(ReceiveWindowTest, AClosedWindowHoldsOnlyWhatIsNotConsumed) {
  ReceiveWindow closing(kStanding, &budget_), window(kStanding, &budget_);
  closing.OnWant(9000, kMessageMax);
  ASSERT_EQ(closing.TakeGrant(), 8000u);
  ASSERT_TRUE(closing.OnReceived(3000).ok());
  closing.Close();
  EXPECT_EQ(budget_.used_bytes(), 2000u);
  closing.Consume(3000);
  EXPECT_EQ(closing.TakeGrant(), 0u);
  EXPECT_EQ(closing.OnReceived(1).code(), Code::kCorrupt);
  window.OnWant(9000, kMessageMax);
  EXPECT_EQ(window.TakeGrant(), 8000u);
}

TEST_F(ReceiveWindowTest, AClosedWindowLeavesTheQueue) {
  ReceiveWindow first(kStanding, &budget_), closing(kStanding, &budget_), last(kStanding, &budget_);
  first.OnWant(9000, kMessageMax);
  ASSERT_EQ(first.TakeGrant(), 8000u);
  closing.OnWant(9000, kMessageMax);
  last.OnWant(2500, kMessageMax);
  EXPECT_EQ(closing.TakeGrant(), 0u);
  EXPECT_EQ(last.TakeGrant(), 0u);
  closing.Close();
  EXPECT_EQ(last.TakeGrant(), 1500u);
}

// ---- long paths ----

constexpr uint64_t kKiB = 1024;

// A path with many messages in each round trip. What it holds at most, once the window has stopped growing.
uint64_t WindowOfLongPath(Budget* budget, uint64_t rounds) {
  constexpr uint64_t kMessage = 256 * kKiB;
  ReceiveWindow window(kMessage, budget);
  SendWindow sender;
  sender.Open(kMessage);
  for (uint64_t round = 0; round < rounds; ++round) {
    uint64_t position = 0, sent = 0;
    for (; sender.CanSend(kMessage); sent += kMessage) sender.Take(kMessage);
    const bool wants = sender.Want(kMessage, &position);
    EXPECT_TRUE(window.OnReceived(sent).ok());
    window.Consume(sent);
    // The credit for what is consumed leaves before the peer's wish arrives.
    uint64_t grant = window.TakeGrant();
    if (wants) window.OnWant(position, kMessageMax);
    grant += window.TakeGrant();
    EXPECT_TRUE(sender.OnCredit(grant).ok());
  }
  return window.reserved_bytes();
}

TEST(LongPath, AWindowGrowsWhileThePathIsWhatItWaitsFor) {
  Budget budget(uint64_t{8} << 30);
  EXPECT_GE(WindowOfLongPath(&budget, 7), 16u << 20);
}

TEST(LongPath, AWindowStopsAtAShareOfTheFreeHalfOfTheBudget) {
  Budget budget(1 << 30);
  EXPECT_LE(WindowOfLongPath(&budget, 100), (512u << 20) / 64);
  Budget::Share other(&budget);
  ASSERT_TRUE(other.TryReserve(600 << 20));
  EXPECT_LE(WindowOfLongPath(&budget, 100), 256 * kKiB);
  other.Release(600 << 20);
}

TEST(LongPath, AWindowDoesNotGrowForAReaderThatIsSlow) {
  Budget budget(1 << 30);
  ReceiveWindow window(256 * kKiB, &budget);
  ASSERT_TRUE(window.OnReceived(200 * kKiB).ok());
  window.OnWant(300 * kKiB, kMessageMax);
  EXPECT_EQ(window.TakeGrant(), 44 * kKiB);
  EXPECT_EQ(window.reserved_bytes(), 44 * kKiB);
  window.Consume(200 * kKiB);
}

// Its rest is on the way, so the reader can't have consumed it.
TEST(LongPath, ABodyThatIsArrivingIsNotHeldByItsReader) {
  Budget budget(uint64_t{8} << 30);
  ReceiveWindow window(256 * kKiB, &budget);
  ASSERT_TRUE(window.OnReceived(200 * kKiB).ok());
  window.OnWant(300 * kKiB, kMessageMax, 190 * kKiB);
  EXPECT_GE(window.TakeGrant(), 256 * kKiB);
  window.Consume(200 * kKiB);
}

// ---- both ends, many pipes, one budget ----

// A pipe's frames about credit, and the beginning of a message.
struct Frame {
  enum class Kind { kMessage, kWant, kReturn, kCredit, kRecall } kind;
  uint64_t bytes;
};

// Two ends and an in-order lossless channel each way. Sends as pipe_send.cc does.
class ModelPipe {
 public:
  ModelPipe(uint64_t standing, Budget* budget)
      : standing_(standing), receive_(standing, budget, [this] { is_due_ = true; }) {
    send_.Open(standing);
  }

  void Enqueue(uint64_t cost) { queue_.push_back(cost); }
  void TakeBackNewest() {
    if (!queue_.empty()) queue_.pop_back();
  }

  void Pump() {
    while (!queue_.empty() && send_.CanSend(queue_.front() + send_.set_aside())) {
      send_.Take(queue_.front());
      forth_.push_back({Frame::Kind::kMessage, queue_.front()});
      queue_.pop_front();
    }
    uint64_t next = queue_.empty() ? 0 : queue_.front() + send_.set_aside();
    if (give_back_ && (next == 0 || !send_.CanSend(next))) {
      uint64_t back = send_.GiveBack();
      if (back > 0) forth_.push_back({Frame::Kind::kReturn, back});
    }
    give_back_ = false;
    uint64_t position = 0;
    if (send_.Want(next, &position)) forth_.push_back({Frame::Kind::kWant, position});
  }

  void DeliverForth() {
    if (forth_.empty()) return;
    Frame frame = forth_.front();
    forth_.pop_front();
    is_due_ = true;
    if (frame.kind == Frame::Kind::kWant) receive_.OnWant(frame.bytes, kMessageMax);
    if (frame.kind == Frame::Kind::kReturn) Insist(receive_.OnReturn(frame.bytes));
    if (frame.kind != Frame::Kind::kMessage) return;
    Insist(receive_.OnReceived(frame.bytes));
    if (frame.bytes % 2 == 0) receive_.OnArrived();
    held_.push_back(frame.bytes);
  }

  void DeliverBack() {
    if (back_.empty()) return;
    Frame frame = back_.front();
    back_.pop_front();
    if (frame.kind == Frame::Kind::kRecall) give_back_ = true;
    if (frame.kind == Frame::Kind::kCredit) Insist(send_.OnCredit(frame.bytes));
  }

  // In any order: answers overtake one another.
  void ConsumeOne(Random* random) {
    if (held_.empty()) return;
    std::swap(held_[random->Below(held_.size())], held_.back());
    receive_.Consume(held_.back());
    held_.pop_back();
    is_due_ = true;
  }

  // As a pipe does: after what may change the answer, when there is room, and at times if it is the next.
  void GrantIfDue(int64_t now_ns) {
    is_due_ |= receive_.waits_first() && now_ns >= granted_ns_ + Pace::kPeriodNs;
    if (is_due_) Grant(now_ns);
  }
  void Grant(int64_t now_ns = 0) {
    is_due_ = false;
    granted_ns_ = now_ns;
    uint64_t grant = receive_.TakeGrant(now_ns, now_ns);
    if (grant > 0) back_.push_back({Frame::Kind::kCredit, grant});
  }
  void Look() {
    if (receive_.IsWanted() && receive_.HasSpareCredit()) back_.push_back({Frame::Kind::kRecall, 0});
  }

  void Check() const {
    uint64_t under_way = 0;
    for (const Frame& frame : forth_) under_way += frame.kind == Frame::Kind::kWant ? 0 : frame.bytes;
    for (const Frame& frame : back_) under_way += frame.bytes;
    // No credit is ever lost or made up.
    ASSERT_EQ(receive_.promised_bytes(), send_.unused() + under_way);
    // And all of it is backed.
    ASSERT_LE(receive_.promised_bytes() + receive_.unconsumed_bytes(), standing_ + receive_.reserved_bytes());
  }

  // Two honest ends never find each other corrupt.
  static void Insist(const Status& status) { ASSERT_TRUE(status.ok()) << status.ToString(); }

  bool done() const { return queue_.empty() && forth_.empty() && held_.empty(); }
  uint64_t reserved_bytes() const { return receive_.reserved_bytes(); }

 private:
  const uint64_t standing_;
  SendWindow send_;
  ReceiveWindow receive_;
  std::deque<uint64_t> queue_;
  std::deque<Frame> forth_, back_;
  std::vector<uint64_t> held_;
  bool give_back_ = false;
  bool is_due_ = false;
  int64_t granted_ns_ = 0;
};

struct World {
  World(uint64_t seed, uint64_t limit, size_t count) : budget(limit), random(seed) {
    if (random.Chance(0.5)) budget.SetPace(random.Between(1, limit));
    for (size_t i = 0; i < count; ++i) {
      pipes.push_back(std::make_unique<ModelPipe>(random.Chance(0.1) ? 0 : random.Below(2000), &budget));
    }
  }

  void Step() {
    ModelPipe& pipe = *pipes[random.Below(pipes.size())];
    switch (random.Below(7)) {
      case 0: return pipe.Pump();
      case 1: return pipe.DeliverForth();
      case 2: return pipe.DeliverBack();
      case 3: return pipe.ConsumeOne(&random);
      case 4: return pipe.GrantIfDue(now_ns += kMillisecondNs / 100);
      case 5: return pipe.Look();
      default: break;
    }
    // Mostly small, now and then larger than the whole budget.
    uint64_t most = random.Chance(0.02)  ? 2 * budget.limit_bytes()
                    : random.Chance(0.2) ? budget.limit_bytes() / 2
                                         : 400;
    uint64_t cost = random.Between(40, std::max<uint64_t>(41, most));
    if (to_send == 0) return;
    if (random.Chance(0.1)) return pipe.TakeBackNewest();
    --to_send;
    largest = std::max(largest, cost);
    pipe.Enqueue(cost);
  }

  bool done() const {
    return to_send == 0 && std::all_of(pipes.begin(), pipes.end(), [](const auto& pipe) { return pipe->done(); });
  }

  Budget budget;
  Random random;
  std::vector<std::unique_ptr<ModelPipe>> pipes;
  int to_send = 0;
  uint64_t largest = 0;
  int64_t now_ns = 0;
};

TEST(Windows, EveryWaitingSenderGetsCredit) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed * 7919);
    World world(seed, random.Between(1, 20000), random.Between(1, 12));
    world.to_send = 200;
    int steps = 0;
    for (; !world.done() && steps < 400000; ++steps) {
      world.Step();
      if (steps % 16 == 0) {
        for (const auto& pipe : world.pipes) ASSERT_NO_FATAL_FAILURE(pipe->Check());
      }
    }
    ASSERT_TRUE(world.done()) << "after " << steps << " steps somebody still waits";
    // Only one message that is larger than everything goes over the limit, and alone.
    ASSERT_LE(world.budget.peak_bytes(), std::max(world.budget.limit_bytes(), world.largest));
  }
}

// The share of a pipe that has nothing to send comes back to those who have.
TEST(Windows, IdleSharesAreRecalled) {
  Budget budget(10000);
  Random random(1);
  ModelPipe idle(1000, &budget), busy(1000, &budget);
  auto run = [&random](ModelPipe* pipe) {
    for (int i = 0; i < 50 && !pipe->done(); ++i) {
      pipe->Pump();
      pipe->DeliverForth();
      pipe->ConsumeOne(&random);
      pipe->Grant();
      pipe->DeliverBack();
    }
  };
  idle.Enqueue(9000);
  run(&idle);
  ASSERT_TRUE(idle.done());
  idle.Grant();
  idle.DeliverBack();
  ASSERT_GE(idle.reserved_bytes(), 8000u);
  busy.Enqueue(9000);
  run(&busy);
  ASSERT_FALSE(busy.done());
  idle.Look();
  idle.DeliverBack();
  idle.Pump();
  idle.DeliverForth();
  EXPECT_EQ(idle.reserved_bytes(), 0u);
  run(&busy);
  EXPECT_TRUE(busy.done());
}

}  // namespace
}  // namespace fusewire::pipe
