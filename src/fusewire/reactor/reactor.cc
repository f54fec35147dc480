// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/reactor/reactor.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/log.h"
#include "fusewire/reactor/callers.h"
#include "fusewire/reactor/handover.h"
#include "fusewire/reactor/loop.h"
#include "fusewire/reactor/loop_thread.h"
#include "fusewire/reactor/process_limits.h"

namespace fusewire::reactor {
namespace {

class TaskMail final : public Mail {
 public:
  explicit TaskMail(Task task) : task_(std::move(task)) {}
  void Deliver() override {
    Task task = std::move(task_);
    delete this;
    task();
  }

 private:
  Task task_;
};

}  // namespace

struct Reactor::Impl {
  Impl(const Home& home, HomeParts& parts) : handover(home, parts), thread(handover), callers(handover) {}
  Loop& loop() { return handover.loop(); }

  Handover handover;
  LoopThread thread;
  Callers callers;
};

Reactor::Reactor(const Options& options, Clock* clock)
    : Home(options, clock), impl_(std::make_unique<Impl>(*this, parts())) {}

std::unique_ptr<Reactor> Reactor::MakeManual(Clock* clock) {
  Options options;
  options.name = "manual";
  return std::unique_ptr<Reactor>(new Reactor(options, clock));
}

Result<std::unique_ptr<Reactor>> Reactor::Start(const Options& options) {
  std::unique_ptr<Reactor> reactor(new Reactor(options, Clock::Real()));
  if (!reactor->impl_->handover.Open()) {
    return Status::FromErrno(Code::kOverloaded, "epoll_create1 or eventfd", errno)
        .Phase("start reactor " + options.name)
        .Next("raise the limit of open files (ulimit -n)");
  }
  const int error = reactor->impl_->thread.Start();
  if (error != 0) {
    return Status::FromErrno(Code::kOverloaded, "pthread_create", error)
        .Phase("start reactor " + options.name)
        .Next("raise the limit of processes and threads (ulimit -u), or of memory");
  }
  return reactor;
}

Reactor::~Reactor() {
  Close();
  Join();
  if (impl_->handover.TryEnter()) {
    impl_->loop().Turn();
    parts().residents.clear();
    impl_->loop().CloseDoorbell();
    impl_->handover.Leave();
  }
}

Stats Reactor::Snapshot() const {
  const Loop::Counts counts = impl_->loop().counts();
  Stats stats;
  stats.turns = counts.turns;
  stats.parks = counts.parks;
  stats.spin_hits = counts.spin_hits;
  stats.spin_misses = counts.spin_misses;
  stats.mails = counts.mails;
  stats.wakes = impl_->loop().requests().wakes();
  stats.drives = impl_->callers.drives();
  stats.watched = parts().poller.watched();
  return stats;
}

// ---- from any thread ----

void Reactor::Post(Mail* mail) {
  impl_->loop().Post(mail);
  if (impl_->loop().requests().ended()) impl_->handover.TurnForSender();
}

void Reactor::Post(Task task) { Post(new TaskMail(std::move(task))); }

bool Reactor::TryRunHere(Task& task) { return impl_->callers.TryRunHere(task); }

void Reactor::HandIn(Mail* const* mails, size_t count) {
  Task deliver = [mails, count] { std::for_each(mails, mails + count, [](Mail* mail) { mail->Deliver(); }); };
  if (!TryRunHere(deliver)) std::for_each(mails, mails + count, [this](Mail* mail) { Post(mail); });
}

void Reactor::Run(Task task) {
  if (AtHome()) {
    task();
    return;
  }
  if (impl_->callers.TryRun(task)) return;
  Waiter ran;
  Post([&task, &ran] {
    task();
    ran.Signal();
  });
  while (!Wait(&ran, AddNs(clock()->NowNs(), 10 * kSecondNs))) {
    FUSEWIRE_LOG(kWarn, "reactor %s has not come back from a handler for 10 s; a task waits for it", name().c_str());
  }
}

bool Reactor::Wait(Waiter* waiter, int64_t deadline_ns, Idling idling, Interrupts interrupts) {
  FUSEWIRE_CHECK(!AtHome());  // a home that waits for itself would wait for ever
  return impl_->callers.Wait(waiter, deadline_ns, idling, interrupts);
}

bool Reactor::PostAndWait(Mail* const* mails, size_t count, Waiter* waiter, int64_t deadline_ns, Idling idling,
                          Interrupts interrupts) {
  FUSEWIRE_CHECK(!AtHome());
  Callers& callers = impl_->callers;
  if (callers.TryTakeOver(*waiter)) {
    for (size_t i = 0; i < count; ++i)
      impl_->loop().PostAtHome(mails[i]);  // we are awake and at home: the first turn delivers it
    if (!callers.DriveUntil(waiter, deadline_ns, idling, interrupts)) return waiter->signalled();
  } else {
    for (size_t i = 0; i < count; ++i) Post(mails[i]);
  }
  return callers.AwaitSignal(waiter, deadline_ns, interrupts);
}

// ---- at home ----

Result<Doorbell*> Reactor::OpenDoorbell() { return impl_->loop().OpenDoorbell(*this); }

bool Reactor::RunManually() {
  FUSEWIRE_CHECK(impl_->loop().is_manual());
  if (!impl_->handover.TryEnter()) return false;
  const bool busy = impl_->loop().Turn();
  if (!busy) impl_->loop().SetIdle();
  impl_->handover.Leave();
  return busy;
}

// ---- the end ----

void Reactor::Close() { impl_->loop().requests().AskToEnd(); }

void Reactor::Join() {
  FUSEWIRE_CHECK(!AtHome());
  impl_->thread.Join();
}

// ---- a pool ----

Result<std::unique_ptr<Pool>> Pool::Start(const PoolOptions& options) {
  std::unique_ptr<Pool> pool(new Pool);
  int count = options.reactors > 0 ? options.reactors : std::clamp(UsableCpuCount() / 2, 1, 4);
  std::vector<int> cpus = AllowedCpus();
  bool pin = options.pin && static_cast<int>(cpus.size()) >= count;
  if (options.pin && !pin) {
    FUSEWIRE_LOG(kWarn, "pool %s runs unpinned: %d reactors on %d processors", options.name.c_str(), count,
                 static_cast<int>(cpus.size()));
  }
  for (int i = 0; i < count; ++i) {
    Options one;
    one.name = options.name + "/" + std::to_string(i);
    one.busy_poll = options.busy_poll;
    one.spin_ns_max = options.spin_ns_max;
    if (pin) one.cpu = cpus[cpus.size() - 1 - static_cast<size_t>(i)];
    std::unique_ptr<Reactor> reactor = FUSEWIRE_TRY(Reactor::Start(one));
    pool->reactors_.push_back(reactor.get());
    pool->owned_.push_back(std::move(reactor));
  }
  return pool;
}

std::unique_ptr<Pool> Pool::Around(Reactor* reactor) {
  std::unique_ptr<Pool> pool(new Pool);
  pool->reactors_.push_back(reactor);
  return pool;
}

std::unique_ptr<Pool> Pool::Share(Pool& pool) {
  std::unique_ptr<Pool> shared(new Pool);
  shared->reactors_ = pool.reactors_;
  return shared;
}

Pool::~Pool() { Close(); }

Reactor& Pool::Next() {
  unsigned index = next_.fetch_add(1, std::memory_order_relaxed);
  return *reactors_[index % reactors_.size()];
}

void Pool::Close() {
  for (auto& reactor : owned_) reactor->Close();
  for (auto& reactor : owned_) reactor->Join();
}

}  // namespace fusewire::reactor
