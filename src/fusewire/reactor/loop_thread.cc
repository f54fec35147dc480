// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/reactor/loop_thread.h"

#include <string>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/log.h"
#include "fusewire/reactor/process_limits.h"

namespace fusewire::reactor {

LoopThread::~LoopThread() { FUSEWIRE_CHECK(!started_); }

int LoopThread::Start() {
  FUSEWIRE_CHECK(!started_);
  const int error = pthread_create(&thread_, nullptr, &LoopThread::Entry, this);
  started_ = error == 0;
  if (!started_) handover_.ForgetThread();
  return error;
}

void LoopThread::Join() {
  if (std::exchange(started_, false)) FUSEWIRE_CHECK(pthread_join(thread_, nullptr) == 0);
}

namespace {

// At most what the kernel takes; a number at the end is kept: "fusewire-worker/0" -> "fusewire-work/0".
std::string ThreadName(const std::string& name) {
  constexpr size_t kBytesMax = 15;
  if (name.size() <= kBytesMax) return name;
  const size_t slash = name.rfind('/');
  const std::string number = slash == std::string::npos ? "" : name.substr(slash);
  if (number.size() >= kBytesMax) return name.substr(0, kBytesMax);
  return name.substr(0, kBytesMax - number.size()) + number;
}

}  // namespace

void* LoopThread::Entry(void* self) {
  static_cast<LoopThread*>(self)->Main();
  return nullptr;
}

void LoopThread::Main() {
  const Options& options = loop_.home().options;
  const std::string name = ThreadName(options.name);
  pthread_setname_np(pthread_self(), name.c_str());
  if (options.cpu >= 0) {
    Status pinned = PinThisThread(options.cpu);
    if (!pinned.ok())
      FUSEWIRE_LOG(kWarn, "reactor %s runs unpinned: %s", options.name.c_str(), pinned.ToString().c_str());
  }
  if (handover_.TryEnter()) {
    handover_.ThreadRuns();
  } else {
    ComeHome(ThreadPlace::kAtOuter);
  }
  Run();
  handover_.ThreadEnds();
}

void LoopThread::Run() {
  const LoopRequests& requests = loop_.requests();
  for (;;) {
    loop_.Turn();
    if (requests.asked_to_end()) return;
    if (loop_.MoreToDo()) continue;
    if (!requests.callers_wait() && loop_.Spin(kForeverNs)) continue;
    Park();
  }
}

// Gives the loop away and sleeps until there is something to do and the loop is free; returns at home.
void LoopThread::Park() {
  const HomeParts& home = loop_.home();
  const bool to_outer = handover_.MustMakeWay(home.now_ns);
  loop_.SweepDoorbell();
  const ThreadPlace place = to_outer ? ThreadPlace::kAtOuter : ThreadPlace::kAtInner;
  handover_.ThreadParks(place, to_outer && !home.options.busy_poll, home.now_ns, home.timers.NextNs());
  handover_.Leave();
  ComeHome(place);
}

// Sleeps until there is something to do and the loop is free; returns at home.
void LoopThread::ComeHome(ThreadPlace place) {
  const HomeParts& home = loop_.home();
  for (;;) {
    PolledEvents polled;
    if (!handover_.AwaitWork(place, &polled)) continue;
    if (handover_.TryEnter()) {
      loop_.CountPark();
      if (place == ThreadPlace::kAtInner || polled.count < 0) {
        loop_.AfterPark(polled);
      } else if (polled.count > 0) {
        loop_.LearnFromPark();
      }
      break;
    }
    if (place == ThreadPlace::kAtInner) loop_.PassOn(polled);
    // A caller runs the loop. It waits for input and timers itself, and arms the outer epoll when it leaves, unless
    // callers come back so soon that we had better look by the clock.
    place = ThreadPlace::kAtOuter;
    handover_.ThreadParks(place, !home.options.busy_poll, home.clock->NowNs(), kForeverNs);
    if (handover_.TryEnter()) break;  // it left before it could know where we are
  }
  handover_.ThreadRuns();
  if (place == ThreadPlace::kAtOuter) loop_.home().poller.Poll();
}

}  // namespace fusewire::reactor
