// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/reactor/callers.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/reactor/home.h"
#include "fusewire/reactor/process_limits.h"

namespace fusewire::reactor {
namespace {

// How long a caller tries to take a loop whose thread is awake, before it sleeps instead.
constexpr int64_t kTakeOverNs = 20 * kMicrosecondNs;
// Sending may leave more to send; a caller that hands in does not stay for all of it.
constexpr int kFlushesMax = 4;

}  // namespace

// ---- handing in ----

bool Callers::TryRunHere(Task& task) {
  if (!handover_.TryEnter()) return false;
  HomeParts& home = loop_.home();
  const bool first = !loop_.has_posted_mail();
  if (first) {
    Task now = std::move(task);
    FUSEWIRE_DCHECK(!home.handing_in);
    home.handing_in = true;
    now();
    for (int i = 0; i < kFlushesMax && !home.output.empty(); ++i) home.output.Flush();
    home.handing_in = false;
  }
  handover_.Leave(Handover::Leaving::kHandedIn);
  return first;
}

bool Callers::TryRun(Task& task) {
  if (!handover_.TryEnter()) return false;
  loop_.DeliverMail();
  task();
  loop_.Turn();
  handover_.Leave();
  return true;
}

// ---- waiting ----

bool Callers::AwaitSignal(Waiter* waiter, int64_t deadline_ns, Interrupts interrupts) {
  if (waiter->signalled()) return true;
  if (loop_.is_manual()) return false;  // this thread turns all the manual reactors, and must go on
  return waiter->Sleep(loop_.home().clock, deadline_ns, interrupts);
}

// A thread that is awake inside is asked to leave; it may take a moment.
bool Callers::TryTakeOver(const Waiter& waiter) {
  if (current_home != nullptr) return false;
  Clock* const clock = loop_.home().clock;
  const int64_t now_ns = clock->NowNs();
  handover_.Lease(now_ns);
  if (handover_.TryEnter()) return true;
  handover_.AskLongDriverToLeave(now_ns);
  bool entered = false;
  loop_.requests().BeginWaitingForLoop();
  while (!entered && !waiter.signalled() && clock->NowNs() - now_ns < kTakeOverNs) {
    Pause();
    entered = handover_.TryEnter();
  }
  loop_.requests().EndWaitingForLoop();
  return entered;
}

bool Callers::Wait(Waiter* waiter, int64_t deadline_ns, Idling idling, Interrupts interrupts) {
  if (waiter->signalled()) return true;
  if (TryTakeOver(*waiter) && !DriveUntil(waiter, deadline_ns, idling, interrupts)) return waiter->signalled();
  return AwaitSignal(waiter, deadline_ns, interrupts);
}

bool Callers::DriveUntil(Waiter* waiter, int64_t deadline_ns, Idling idling, Interrupts interrupts) {
  HomeParts& home = loop_.home();
  bool interrupted = false;
  drives_.Add();
  loop_.SetIdling(idling);
  handover_.BeginDriving();
  for (;;) {
    loop_.Turn();
    if (waiter->signalled() || home.now_ns >= deadline_ns || interrupted) break;
    if (loop_.requests().asked_to_end()) break;     // the thread ends the loop
    if (loop_.requests().driver_to_leave()) break;  // the wait goes on outside
    if (loop_.MoreToDo()) continue;
    if (loop_.is_manual()) break;  // the thread that turns the world has to go on
    if (loop_.Spin(deadline_ns)) continue;
    loop_.SweepDoorbell();
    interrupted =
        !ParkAtHome(waiter, std::min(deadline_ns, home.timers.NextNs())) && interrupts == Interrupts::kEndWait;
  }
  loop_.SetIdling(std::nullopt);
  handover_.EndDriving();
  return !interrupted;
}

// Sleeps at home: mail, input, the time or the signal wakes us.
bool Callers::ParkAtHome(Waiter* waiter, int64_t until_ns) {
  HomeParts& home = loop_.home();
  PolledEvents polled;
  loop_.SetSleeping(true);
  const bool stays = !loop_.HasMail() && home.output.empty() && !loop_.requests().driver_to_leave();
  if (stays && waiter->BeginInside(&loop_.requests())) {
    loop_.CountPark();
    home.poller.Wait(&polled, TimeoutMs(home.clock->NowNs(), until_ns));
    waiter->EndInside();
  }
  loop_.SetSleeping(false);
  home.poller.ForgetLooks();
  loop_.UpdateNow();
  loop_.AfterPark(polled);
  return polled.count >= 0;
}

}  // namespace fusewire::reactor
