// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// For tests of reactors: calls at a home, waits with a deadline, and a descriptor that has an event.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/reactor/reactor.h"

namespace fusewire::reactor {

// Longer than anything may take, but shorter than a test's time limit.
constexpr int64_t kTestPatienceNs = 20 * kSecondNs;

inline int64_t SoonNs(int64_t delay_ns = kTestPatienceNs) { return Clock::Real()->NowNs() + delay_ns; }

inline std::unique_ptr<Reactor> StartOne(int64_t spin_ns_max = Options().spin_ns_max) {
  Options options;
  options.spin_ns_max = spin_ns_max;
  return std::move(Reactor::Start(options)).value();
}

// Returns the result of `ask` at `home`, without driving the loop.
template <class Ask>
auto AskHome(Reactor& home, Ask ask) {
  using Answer = decltype(ask());
  // shared_ptr: the mail may outlive a caller that lost its patience.
  auto task = std::make_shared<std::packaged_task<Answer()>>(std::move(ask));
  std::future<Answer> answer = task->get_future();
  home.Post([task] { (*task)(); });
  FUSEWIRE_CHECK(answer.wait_for(std::chrono::nanoseconds(kTestPatienceNs)) == std::future_status::ready);
  return answer.get();
}

// Looks again and again until `done`; false if that takes too long.
template <class Done>
bool Eventually(Done done, int64_t patience_ns = kTestPatienceNs) {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock<std::mutex> lock(mutex);
  int64_t end_ns = Clock::Real()->NowNs() + patience_ns;
  while (!done()) {
    if (Clock::Real()->NowNs() > end_ns) return false;
    never.wait_for(lock, std::chrono::microseconds(200));
  }
  return true;
}

// A descriptor that a test makes readable at will.
class Bell final : public FdHandler {
 public:
  explicit Bell(UniqueFunction<void()> heard) : heard_(std::move(heard)), fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    FUSEWIRE_CHECK(fd_ >= 0);
  }
  ~Bell() { close(fd_); }
  int fd() const { return fd_; }

  // Any thread.
  void Ring() {
    uint64_t one = 1;
    FUSEWIRE_CHECK(write(fd_, &one, sizeof(one)) == sizeof(one));
  }
  std::atomic<uint64_t> rung{0};

  // At home.
  void OnEvents(uint32_t) override { PollNow(); }
  bool PollNow() override {
    uint64_t count = 0;
    if (read(fd_, &count, sizeof(count)) != sizeof(count)) return false;
    rung += count;
    heard_();
    return true;
  }

 private:
  UniqueFunction<void()> heard_;
  const int fd_;
};

}  // namespace fusewire::reactor
