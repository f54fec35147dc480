// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Many threads use one loop in every way there is, at random. Nothing may take long: a wake-up that is lost shows as a
// request that waits for a deadline which nobody should ever meet.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "fusewire/base/random.h"
#include "fusewire/reactor/doorbell.h"
#include "fusewire/reactor/home_test.h"
#include "fusewire/reactor/reactor.h"

namespace fusewire::reactor {
namespace {

constexpr int64_t kLostNs = 10 * kSecondNs;

struct Mix {
  const char* name;
  int64_t spin_ns_max;
  bool busy_poll;
  bool timers;  // without them nothing but the right wake-up wakes the loop
  bool waits;   // callers drive the loop
  int callers;
  bool patient = false;  // one more caller waits for long each time, and makes way
};

void PrintTo(const Mix& mix, std::ostream* out) { *out << mix.name; }

void Rest(int64_t rest_ns) {
  std::binary_semaphore never(0);
  (void)never.try_acquire_for(std::chrono::nanoseconds(rest_ns));
}

// A caller that waits for some milliseconds each time, for mail or input of another thread.
class PatientCaller {
 public:
  explicit PatientCaller(Reactor* reactor)
      : reactor_(*reactor), random_(SystemRandom64()), bell_([this] { given_.exchange(nullptr)->Signal(); }) {
    AskHome(reactor_, [this] { return reactor_.Watch(bell_.fd(), EPOLLIN, &bell_).ok(); });
  }
  ~PatientCaller() {
    AskHome(reactor_, [this] { reactor_.Unwatch(bell_.fd(), &bell_); });
  }

  // How often it had what it waited for; 0 if it once did not.
  uint64_t Run(int64_t until_ns) {
    std::atomic<bool> ended{false};
    std::thread giver([&] {
      while (!ended) Give();
    });
    uint64_t given = 0;
    for (bool answered = true; answered && Clock::Real()->NowNs() < until_ns;) {
      Waiter waiter;
      waiting_ = &waiter;
      answered = reactor_.Wait(&waiter, Clock::Real()->NowNs() + kLostNs);
      given = answered ? given + 1 : 0;
    }
    ended = true;
    giver.join();
    return given;
  }

 private:
  void Give() {
    Rest(static_cast<int64_t>(random_.Below(4 * kMillisecondNs)));
    Waiter* const waiter = waiting_.exchange(nullptr);
    if (waiter == nullptr) return;
    if (random_.Chance(0.5)) {
      reactor_.Post([waiter] { waiter->Signal(); });
    } else {
      given_ = waiter;
      bell_.Ring();
    }
  }

  Reactor& reactor_;
  Random random_;
  Bell bell_;
  std::atomic<Waiter*> waiting_{nullptr}, given_{nullptr};
};

// One thread's requests to the loop, one at a time, each answered by a signal.
class Caller final : private DoorbellHandler {
 public:
  Caller(Reactor* reactor, const Mix& mix, uint64_t seed)
      : reactor_(*reactor), mix_(mix), random_(seed), timer_([this] { Answer(); }), bell_([this] { Answer(); }) {
    AskHome(reactor_, [this] {
      Doorbell* doorbell = reactor_.OpenDoorbell().value();
      bit_ = doorbell->Hang(this);
      doorbell_ = std::move(PeerDoorbell::Open(doorbell->files(), bit_)).value();
      return reactor_.Watch(bell_.fd(), EPOLLIN, &bell_).ok();
    });
  }
  ~Caller() {
    AskHome(reactor_, [this] {
      Reactor::Disarm(&timer_);
      reactor_.Unwatch(bell_.fd(), &bell_);
      reactor_.OpenDoorbell().value()->Unhang(bit_, this);
    });
  }

  // The name of the request that was not answered, or an empty string.
  std::string Run(int64_t until_ns) {
    while (Clock::Real()->NowNs() < until_ns) {
      Waiter waiter;
      drives_ = mix_.waits && random_.Chance(0.5);
      waiter_ = &waiter;
      int64_t asked_ns = Clock::Real()->NowNs();
      std::string request = Ask();
      bool answered = Await(&waiter);
      ++requests;
      slowest_ns = std::max(slowest_ns, Clock::Real()->NowNs() - asked_ns);
      if (!answered) return request + (drives_ ? ", driving" : ", asleep");
      // Now and then the loop gets time to park.
      if (random_.Chance(0.02)) Rest(static_cast<int64_t>(random_.Below(2 * kMillisecondNs)));
    }
    return "";
  }
  uint64_t requests = 0;
  int64_t slowest_ns = 0;

 private:
  std::string Ask() {
    switch (random_.Below(mix_.timers ? 7 : 6)) {
      case 0: reactor_.Post([this] { Answer(); }); return "mail";
      case 1: {
        Task task = [this] { Answer(); };
        if (!reactor_.TryRunHere(task)) reactor_.Post(std::move(task));
        return "task";
      }
      case 2: bell_.Ring(); return "input";
      case 3: {
        // Input that comes while somebody runs the loop on the spot.
        Task task = [] {};
        bell_.Ring();
        if (!reactor_.TryRunHere(task)) reactor_.Post(std::move(task));
        return "input beside a task";
      }
      case 4: RingDoorbell(); return "doorbell";
      case 5: {
        Task task = [] {};
        RingDoorbell();
        if (!reactor_.TryRunHere(task)) reactor_.Post(std::move(task));
        return "doorbell beside a task";
      }
      default: {
        int64_t delay_ns = static_cast<int64_t>(random_.Below(kMillisecondNs));
        Task task = [this, delay_ns] { reactor_.Arm(&timer_, delay_ns); };
        if (!reactor_.TryRunHere(task)) reactor_.Post(std::move(task));
        return "timer";
      }
    }
  }

  // As a peer in another process: a word in memory that both see, then the doorbell.
  void RingDoorbell() {
    word_.store(1, std::memory_order_release);
    doorbell_->Ring();
  }
  void OnRung() override {
    if (word_.exchange(0, std::memory_order_acquire) == 1) Answer();
  }

  // At home.
  void Answer() {
    if (drives_) {
      waiter_->Signal();
    } else {
      answered_.release();
    }
  }

  bool Await(Waiter* waiter) {
    if (drives_) return reactor_.Wait(waiter, Clock::Real()->NowNs() + kLostNs);
    return answered_.try_acquire_for(std::chrono::nanoseconds(kLostNs));
  }

  Reactor& reactor_;
  const Mix& mix_;
  Random random_;
  Timer timer_;
  Bell bell_;
  std::atomic<int> word_{0};
  uint32_t bit_ = 0;
  std::unique_ptr<PeerDoorbell> doorbell_;
  bool drives_ = false;
  Waiter* waiter_ = nullptr;
  std::binary_semaphore answered_{0};
};

class ReactorStress : public testing::TestWithParam<Mix> {};

TEST_P(ReactorStress, LosesNoWakeUp) {
  const Mix& mix = GetParam();
  Options options;
  options.spin_ns_max = mix.spin_ns_max;
  options.busy_poll = mix.busy_poll;
  std::unique_ptr<Reactor> reactor = std::move(Reactor::Start(options)).value();
  std::vector<std::unique_ptr<Caller>> callers;
  for (int i = 0; i < mix.callers; ++i) {
    callers.push_back(std::make_unique<Caller>(reactor.get(), mix, SystemRandom64()));
  }
  PatientCaller patient(reactor.get());
  std::vector<std::string> lost(callers.size());
  // Where a busy thread gets all the time that there is, no caller may have had the loop yet.
  for (int round = 0; round == 0 || (round < 20 && mix.waits && reactor->Snapshot().drives == 0); ++round) {
    const int64_t until_ns = Clock::Real()->NowNs() + 1500 * kMillisecondNs;
    std::vector<std::thread> threads;
    for (size_t i = 0; i < callers.size(); ++i) {
      threads.emplace_back([&, i, until_ns] { lost[i] += callers[i]->Run(until_ns); });
    }
    if (mix.patient) threads.emplace_back([&] { EXPECT_GT(patient.Run(until_ns), 0U); });
    for (std::thread& thread : threads) thread.join();
  }
  uint64_t requests = 0;
  int64_t slowest_ns = 0;
  for (size_t i = 0; i < callers.size(); ++i) {
    EXPECT_EQ(lost[i], "") << "caller " << i << " after " << callers[i]->requests << " requests";
    requests += callers[i]->requests;
    slowest_ns = std::max(slowest_ns, callers[i]->slowest_ns);
  }
  EXPECT_GT(requests, callers.size());
  if (mix.waits) {
    EXPECT_GT(reactor->Snapshot().drives, 0u);
  }
  RecordProperty("requests", std::to_string(requests));
  RecordProperty("slowest_us", std::to_string(slowest_ns / kMicrosecondNs));
  callers.clear();
}

INSTANTIATE_TEST_SUITE_P(Mixes, ReactorStress,
                         testing::Values(Mix{"OneCallerParking", 0, false, false, true, 1},
                                         Mix{"TwoCallersParking", 0, false, false, true, 2},
                                         Mix{"ManyCallersParking", 0, false, false, true, 6},
                                         Mix{"ManyCallersSpinning", 50 * kMicrosecondNs, false, false, true, 6},
                                         Mix{"ManyCallersWithTimers", 20 * kMicrosecondNs, false, true, true, 6},
                                         Mix{"OneCallerBesideAPatientOne", 0, false, false, true, 1, true},
                                         Mix{"ManyCallersBesideAPatientOne", 20 * kMicrosecondNs, false, false, true, 4,
                                             true},
                                         Mix{"NobodyDrives", 20 * kMicrosecondNs, false, true, false, 4},
                                         Mix{"BusyPolling", 0, true, true, true, 3},
                                         Mix{"BusyPollingBesideAPatientOne", 0, true, false, true, 2, true},
                                         Mix{"BusyPollingNobodyDrives", 0, true, true, false, 2}),
                         [](const testing::TestParamInfo<Mix>& mix) { return std::string(mix.param.name); });

}  // namespace
}  // namespace fusewire::reactor
