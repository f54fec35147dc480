// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// For tests of faults: calls that store how and when they ended, and a task of the test's own.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/log.h"
#include "fusewire/reactor/home_test.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/rpc/rpc.h"
#include "fusewire/task/wires_test.h"
#include "peer.h"
#include "peer_process.h"

namespace fusewire::faults {

using reactor::Eventually;

inline int64_t NowNs() { return Clock::Real()->NowNs(); }

class TimedCall final : public rpc::Call {
 public:
  TimedCall(uint16_t method_in, std::string head_in) : Call(method_in), request_head(std::move(head_in)) {
    head = request_head;
  }
  const std::string request_head;
  std::atomic<int> dones{0};
  Status status;
  int64_t ended_ns = 0;

 private:
  void OnDone(Status done) override {
    status = std::move(done);
    ended_ns = NowNs();
    dones.fetch_add(1);
  }
};

// The peer, the cause, the phase and what to do next.
inline ::testing::AssertionResult IsTyped(const Status& status) {
  if (status.ok()) return ::testing::AssertionFailure() << "no error at all";
  if (status.code() == Code::kInternal) return ::testing::AssertionFailure() << status.ToString();
  for (const std::string* word : {&status.cause(), &status.peer(), &status.phase(), &status.next()}) {
    if (word->empty()) return ::testing::AssertionFailure() << "a word is missing: " << status.ToString();
  }
  return ::testing::AssertionSuccess() << status.ToString();
}

// Calls in flight, and how they end.
class Calls {
 public:
  // A failed test leaves calls behind.
  ~Calls() {
    for (TimedCall& call : calls_) {
      if (call.dones == 0) call.Cancel();
    }
    FUSEWIRE_CHECK(AllDone());
  }
  TimedCall& Start(rpc::Client& client, uint16_t method, std::string head = "0123456789",
                   int64_t timeout_ns = kForeverNs, Buffers body = Buffers()) {
    TimedCall& call = calls_.emplace_back(method, std::move(head));
    call.timeout_ns = timeout_ns;
    call.body = std::move(body);
    client.Start(&call);
    return call;
  }
  bool AllDone(int64_t limit_ns = kPatienceNs) {
    return Eventually(
        [this] {
          for (const TimedCall& call : calls_) {
            if (call.dones.load() == 0) return false;
          }
          return true;
        },
        limit_ns);
  }
  // Each has ended once, with this code and all its words, no later than `limit_ns` after `since_ns`.
  void ExpectAll(Code code, int64_t since_ns, int64_t limit_ns) {
    ASSERT_TRUE(AllDone());
    for (const TimedCall& call : calls_) {
      EXPECT_EQ(call.dones.load(), 1);
      EXPECT_EQ(call.status.code(), code) << call.status.ToString();
      EXPECT_TRUE(code == Code::kOk || IsTyped(call.status)) << call.status.ToString();
      EXPECT_LE(call.ended_ns - since_ns, limit_ns) << call.status.ToString();
    }
  }
  std::deque<TimedCall>& all() { return calls_; }

 private:
  std::deque<TimedCall> calls_;
};

// How much memory this process holds now.
inline int64_t OwnRssBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// In a build with sanitizers, the use of memory means nothing.
inline void ExpectGrowth(int64_t bytes, int64_t limit_bytes) {
  EXPECT_LT(bytes, FUSEWIRE_TEST_SLOWDOWN == 1 ? limit_bytes : INT64_MAX);
}

// A task of the test's own.
class Faults : public ::testing::Test {
 protected:
  Faults() {
    SetLogLevel(LogLevel::kInfo);
    SetLogSink(&Faults::Remember, this);
    options_.wire = WireUnderTest();
  }
  ~Faults() override {
    End();
    SetLogSink(nullptr, nullptr);
  }
  void SetUp() override {
    if (options_.wire == task::TransportChoice::kAuto) return;
    if (options_.wire == task::TransportChoice::kUcx) {
      if (!task::kUcxCanBeTested) GTEST_SKIP() << "ThreadSanitizer takes libucp's own thread for a race";
      setenv("UCX_TLS", "tcp", 0);
      setenv("UCX_LOG_FILE", "stderr", 0);  // a peer answers on the other stream
    }
    const task::TransportTrial trial = task::TryTransport(options_.wire);
    if (!trial.status.ok()) GTEST_SKIP() << trial.status.ToString();
  }
  void End() {
    clients_.clear();
    task_.reset();
  }

  // With `options_` as they are when this is first called.
  task::Task& task() {
    if (task_ == nullptr) {
      auto started = task::Task::Start(std::move(options_));
      FUSEWIRE_CHECK(started.ok());
      task_ = std::move(started).value();
    }
    return *task_;
  }
  rpc::Client& ClientOf(const transport::Address& address, const rpc::ClientOptions& options = {}) {
    clients_.push_back(std::make_unique<rpc::Client>(task(), address, options));
    return *clients_.back();
  }
  // A plain question: does it work?
  static ::testing::AssertionResult Works(rpc::Client& client, int64_t timeout_ns = kPatienceNs) {
    const std::string question = "are you there?";
    rpc::Client::Answer answer = client.Ask(kEcho, question, Buffers(), timeout_ns);
    if (!answer.status.ok()) return ::testing::AssertionFailure() << answer.status.ToString();
    if (answer.head != question) return ::testing::AssertionFailure() << "another answer: " << answer.head;
    return ::testing::AssertionSuccess();
  }
  // Lines of this process's log.
  int LogLines(const std::string& containing) {
    std::lock_guard<std::mutex> lock(mutex_);
    int count = 0;
    for (const std::string& line : log_) {
      if (line.find(containing) != std::string::npos) ++count;
    }
    return count;
  }
  // So many calls are with their handlers at the peer.
  static bool InFlight(PeerProcess& peer, int64_t count) {
    return Eventually([&] { return peer.AskNumbers("stats")["in_flight"] == count; }, kPatienceNs);
  }

  task::TaskOptions options_;
  Calls calls_;

 private:
  static void Remember(LogLevel, const char* line, void* self) {
    auto* faults = static_cast<Faults*>(self);
    std::lock_guard<std::mutex> lock(faults->mutex_);
    faults->log_.emplace_back(line);
  }
  std::mutex mutex_;
  std::vector<std::string> log_;
  std::unique_ptr<task::Task> task_;
  std::vector<std::unique_ptr<rpc::Client>> clients_;
};

}  // namespace fusewire::faults
