// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace fusewire {
namespace {

struct Lines {
  static void Sink(LogLevel level, const char* line, void* context) {
    auto* lines = static_cast<Lines*>(context);
    std::lock_guard<std::mutex> lock(lines->mutex);
    lines->levels.push_back(level);
    lines->texts.emplace_back(line);
  }
  std::mutex mutex;
  std::vector<LogLevel> levels;
  std::vector<std::string> texts;
};

class Log : public testing::Test {
 protected:
  void SetUp() override { SetLogSink(Lines::Sink, &lines_); }
  void TearDown() override {
    SetLogSink(nullptr, nullptr);
    SetLogLevel(LogLevel::kWarn);
  }
  Lines lines_;
};

TEST_F(Log, WritesWhatIsAtOrAboveTheLevel) {
  SetLogLevel(LogLevel::kInfo);
  FUSEWIRE_LOG(kDebug, "unheard");
  FUSEWIRE_LOG(kInfo, "pipe %d opened", 12);
  FUSEWIRE_LOG(kError, "pipe %d closed: %s", 12, "peer away");
  EXPECT_EQ(lines_.texts, (std::vector<std::string>{"pipe 12 opened", "pipe 12 closed: peer away"}));
  EXPECT_EQ(lines_.levels, (std::vector<LogLevel>{LogLevel::kInfo, LogLevel::kError}));

  SetLogLevel(LogLevel::kOff);
  FUSEWIRE_LOG(kError, "unheard");
  EXPECT_EQ(lines_.texts.size(), 2u);
}

TEST_F(Log, ALineBelowTheLevelDoesNotEvaluateItsWords) {
  int times = 0;
  FUSEWIRE_LOG(kDebug, "%d", ++times);
  EXPECT_EQ(times, 0);
}

TEST_F(Log, CutsALongLineAndKeepsAPeersWordsInOneLine) {
  FUSEWIRE_LOG(kWarn, "%s", std::string(5000, 'x').c_str());
  FUSEWIRE_LOG(kWarn, "peer says: %s", "hello\nfusewire error: forged\x1b[2J");
  ASSERT_EQ(lines_.texts.size(), 2u);
  EXPECT_EQ(lines_.texts[0], std::string(1023, 'x'));
  EXPECT_EQ(lines_.texts[1], "peer says: hello fusewire error: forged [2J");
}

TEST_F(Log, WithoutASinkALineGoesToStderrWithTimeAndLevel) {
  SetLogSink(nullptr, nullptr);
  testing::internal::CaptureStderr();
  FUSEWIRE_LOG(kWarn, "disk is %s", "full");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, testing::MatchesRegex("....-..-..T..:..:......Z fusewire warn: disk is full\n"));
  EXPECT_TRUE(lines_.texts.empty());
}

TEST_F(Log, TheSinkMayChangeWhileOthersWrite) {
  Lines others;
  std::vector<std::thread> threads;
  constexpr int kThreads = 3;
  constexpr int kEach = 200;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([] {
      for (int line = 0; line < kEach; ++line) FUSEWIRE_LOG(kWarn, "line %d", line);
    });
  }
  for (int i = 0; i < 50; ++i) SetLogSink(Lines::Sink, i % 2 == 0 ? &others : &lines_);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lines_.texts.size() + others.texts.size(), static_cast<size_t>(kThreads * kEach));
}

TEST(LogLimiter, LetsOneThroughPerIntervalAndCountsTheOthers) {
  LogLimiter limiter(1000);
  uint64_t held_back = 99;
  EXPECT_TRUE(limiter.Allow(5000, &held_back));
  EXPECT_EQ(held_back, 0u);
  EXPECT_FALSE(limiter.Allow(5000, &held_back));
  EXPECT_FALSE(limiter.Allow(5999, &held_back));
  EXPECT_TRUE(limiter.Allow(6000, &held_back));
  EXPECT_EQ(held_back, 2u);
  EXPECT_TRUE(limiter.Allow(9000, &held_back));
  EXPECT_EQ(held_back, 0u);
}

TEST(LogLimiter, CountsEachLineOnceAcrossThreads) {
  LogLimiter limiter(10);
  constexpr int kThreads = 4;
  constexpr int kEach = 1000;
  std::atomic<uint64_t> seen{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&limiter, &seen] {
      for (int now_ns = 1; now_ns <= kEach; ++now_ns) {
        uint64_t held_back = 0;
        if (limiter.Allow(now_ns, &held_back)) seen += 1 + held_back;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  uint64_t held_back = 0;
  ASSERT_TRUE(limiter.Allow(kEach + 10, &held_back));
  EXPECT_EQ(seen + held_back, static_cast<uint64_t>(kThreads * kEach));
}

}  // namespace
}  // namespace fusewire
