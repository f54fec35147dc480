// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// How long a loop looks for work before it parks. The time passes by being asked for.
#include "fusewire/reactor/loop.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string>

#include "fusewire/reactor/home.h"

namespace fusewire::reactor {
namespace {

constexpr int64_t kThreadNs = 50 * kMicrosecondNs;
constexpr int64_t kCallerNs = 200 * kMicrosecondNs;
constexpr int64_t kWorkNs = 120 * kMicrosecondNs;  // when there is work again

// One microsecond goes by each time that somebody looks.
class PassingClock final : public Clock {
 public:
  int64_t NowNs() override {
    now_ns_ += kMicrosecondNs;
    if (now_ns_ >= event_ns_) {
      event_ns_ = kForeverNs;
      event_();
    }
    return now_ns_;
  }
  void In(int64_t delay_ns, std::function<void()> event) {
    event_ns_ = now_ns_ + delay_ns;
    event_ = std::move(event);
  }
  void Forget() { event_ns_ = kForeverNs; }

 private:
  int64_t now_ns_ = kSecondNs;
  int64_t event_ns_ = kForeverNs;
  std::function<void()> event_;
};

struct NoMail final : Mail {
  void Deliver() override {}
};

class LoopSpin : public testing::Test {
 protected:
  LoopSpin() : file_(testing::TempDir() + "loop_test." + std::to_string(getpid())) {
    Runnable(1);
    EXPECT_TRUE(parts_.poller.Open(wake_));
  }
  ~LoopSpin() override {
    close(wake_);
    std::remove(file_.c_str());
  }

  void Runnable(int threads) const { std::ofstream(file_) << "0.12 0.34 0.56 " << threads << "/78 910\n"; }
  // How long the loop looks for work that comes after kWorkNs.
  int64_t SpinNs(Loop& loop) {
    const int64_t began_ns = clock_.NowNs();
    clock_.In(kWorkNs, [&] { loop.Post(&mail_); });
    const bool hit = loop.Spin(kForeverNs);
    const int64_t spun_ns = clock_.NowNs() - began_ns;
    clock_.Forget();
    EXPECT_EQ(hit, loop.has_posted_mail());
    loop.DeliverMail();
    return spun_ns;
  }
  // As often as it takes to learn that waiting pays.
  void Teach(Loop& loop) {
    for (int i = 0; i < 100; ++i) SpinNs(loop);
  }
  // The median of some, as now and then it parks to compare.
  bool Catches(Loop& loop) {
    int caught = 0;
    for (int i = 0; i < 10; ++i) caught += SpinNs(loop) >= kWorkNs ? 1 : 0;
    return caught > 5;
  }

  PassingClock clock_;
  HomeParts parts_{Options(), &clock_};
  const std::string file_;

 private:
  const int wake_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  NoMail mail_;
};

TEST_F(LoopSpin, ACallerLooksForLongerThanTheThread) {
  Loop loop(parts_, 2, file_);
  Teach(loop);
  EXPECT_FALSE(Catches(loop));
  loop.SetIdling(Idling::kLearned);
  Teach(loop);
  EXPECT_TRUE(Catches(loop));
  loop.SetIdling(std::nullopt);
  for (int i = 0; i < 10; ++i) EXPECT_LE(SpinNs(loop), kThreadNs + 10 * kMicrosecondNs);
}

TEST_F(LoopSpin, NobodyLooksForLongWhereOthersWantTheProcessor) {
  Loop loop(parts_, 2, file_);
  loop.SetIdling(Idling::kLearned);
  Teach(loop);
  Runnable(3);
  for (int i = 0; i < 1000; ++i) ASSERT_LE(SpinNs(loop), 3 * kMicrosecondNs);
  // It has learned nothing from that.
  Runnable(2);
  EXPECT_TRUE(Catches(loop));
}

TEST_F(LoopSpin, ItEndsAsSoonAsOthersWantTheProcessor) {
  Loop loop(parts_, 2, file_);
  loop.SetIdling(Idling::kLearned);
  Teach(loop);
  const int64_t began_ns = clock_.NowNs();
  clock_.In(kThreadNs, [&] { Runnable(3); });
  EXPECT_FALSE(loop.Spin(kForeverNs));
  const int64_t spun_ns = clock_.NowNs() - began_ns;
  EXPECT_GT(spun_ns, kThreadNs);
  EXPECT_LT(spun_ns, kThreadNs + 20 * kMicrosecondNs);
}

TEST_F(LoopSpin, WhereTheyAreNotKnownACallerLooksAsLongAsTheThread) {
  Loop loop(parts_, 2, file_ + ".none");
  loop.SetIdling(Idling::kLearned);
  Teach(loop);
  EXPECT_FALSE(Catches(loop));
}

TEST_F(LoopSpin, OnOneProcessorNobodyLooks) {
  Loop loop(parts_, 1, file_);
  loop.SetIdling(Idling::kLearned);
  for (int i = 0; i < 100; ++i) EXPECT_LE(SpinNs(loop), 3 * kMicrosecondNs);
}

TEST_F(LoopSpin, NoCallerLooksForLongerThanItsTime) {
  Loop loop(parts_, 2, file_);
  loop.SetIdling(Idling::kLearned);
  Teach(loop);
  const int64_t began_ns = clock_.NowNs();
  EXPECT_FALSE(loop.Spin(kForeverNs));
  EXPECT_LE(clock_.NowNs() - began_ns, kCallerNs + 10 * kMicrosecondNs);
}

}  // namespace
}  // namespace fusewire::reactor
