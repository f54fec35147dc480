// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/group/arena_lane.h"

#include <pthread.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"
#include "fusewire/base/log.h"
#include "fusewire/collective/group/group_core.h"
#include "fusewire/reactor/reactor.h"

namespace fusewire::collective {
namespace {

// How long a rank that can't make its call waits for the others, which have made theirs, or soon will.
constexpr int64_t kDeclineNs = 5 * kSecondNs;
// How long an operation waits for the reason after another rank has closed the arena.
constexpr int64_t kReasonNs = 500 * kMillisecondNs;
// What an operation has over messages at least, after the arena has taken its time: messages of ranks that have come
// arrive, so the error names those that have not.
constexpr int64_t kMessagesNsMin = 500 * kMillisecondNs;

}  // namespace

// ---- which thread runs what, and when ----

// The lane's lock guards all fields but `number` to `deadline_ns`.
struct ArenaLane::Job {
  GroupOperation* operation;              // null: its caller has left
  std::unique_ptr<GroupOperation> owned;  // null: a caller waits for it
  uint64_t number;
  uint64_t turn;
  uint32_t epoch;
  int64_t deadline_ns;
  Status declined;       // if set, it must not run any more, but its turn must be served
  bool is_here = false;  // it runs on the thread of its caller, which waits
  bool begun = false;
  bool served = false;
  bool ran = false;
  // The caller's, if it waits for the lane's thread; null after the caller has left.
  reactor::Completion* end = nullptr;
};

ArenaLane::ArenaLane(GroupCore* core, GroupMonitor* shown) : core_(core), record_(shown, core->options().name) {}
ArenaLane::~ArenaLane() = default;

bool ArenaLane::GiveTurn(GroupOperation* operation) {
  operation->given_epoch = epoch_;
  operation->given_turn = next_turn_++;
  // If others are here, it queues behind them, so that turns reach the messages in order.
  if (way_ != Way::kMessages || busy_ || !jobs_.empty()) return true;
  messages_from_ = std::min(messages_from_, *operation->given_turn);
  return false;
}

int64_t ArenaLane::DeadlineOf(const GroupOperation& operation) const {
  const int64_t timeout_ns = operation.spec.timeout_ns == 0 ? core_->options().timeout_ns : operation.spec.timeout_ns;
  return AddNs(Clock::Real()->NowNs(), std::max<int64_t>(timeout_ns, 0));
}

ArenaLane::Job* ArenaLane::Enqueue(Job job) {
  jobs_.push_back(std::make_unique<Job>(std::move(job)));
  if (!thread_.joinable() && !stopping_) thread_ = std::thread([this] { Work(); });
  changed_.NotifyAll();
  return jobs_.back().get();
}

void ArenaLane::Forget(const Job* job) {
  FUSEWIRE_DCHECK(job->served);
  jobs_.erase(std::find_if(jobs_.begin(), jobs_.end(), [job](const auto& one) { return one.get() == job; }));
}

bool ArenaLane::Run(GroupOperation* operation) {
  const int64_t deadline_ns = DeadlineOf(*operation);
  reactor::CancelToken* const cancel = operation->cancel;
  const reactor::CancelHook hook(cancel, [this, number = operation->number] { (void)Cancel(number, GivenUp()); });
  reactor::Completion end;
  Job* job = nullptr;
  {
    MutexLock lock(mutex_);
    if (!GiveTurn(operation)) return false;
    Job here{operation, nullptr, operation->number, *operation->given_turn, epoch_, deadline_ns, Status::Ok()};
    // An earlier call of the hook did not find the operation.
    const bool is_given_up = cancel != nullptr && cancel->cancelled();
    if (!is_given_up && !busy_ && jobs_.empty()) {
      here.is_here = true;
      ServeJob(&here);
      return here.ran;
    }
    here.end = &end;
    job = Enqueue(std::move(here));
    if (is_given_up) LeaveJob(job, GivenUp());
  }
  AwaitJob(job, deadline_ns, end, cancel);
  MutexLock lock(mutex_);
  if (!end.status().ok()) return true;  // the caller has left it: the lane owns the job, or has destroyed it
  const bool ran = job->ran;
  Forget(job);
  return ran;
}

// Waits until its turn has been served, or its caller has left it. The job exists while `end` is pending, and `end` is
// set only under the mutex: so the job may be read only under the mutex, and only while `end` is pending.
void ArenaLane::AwaitJob(Job* job, int64_t leave_ns, reactor::Completion& end, reactor::CancelToken* cancel) {
  const auto interrupts = cancel == nullptr ? reactor::Interrupts::kGoOn : cancel->interrupts();
  Clock* const clock = core_->home().clock();
  while (true) {
    const int64_t ask_ns = cancel == nullptr ? kForeverNs : cancel->NextAskNs(clock->NowNs());
    if (end.Wait(core_->home(), std::min(leave_ns, ask_ns), core_->state().waiting(), interrupts)) return;
    if (cancel != nullptr) cancel->Ask();
    MutexLock lock(mutex_);
    if (end.done()) return;
    if (job->begun) {
      leave_ns = kForeverNs;  // once begun, the operation ends at its own deadline
    } else if (clock->NowNs() >= leave_ns) {
      LeaveJob(job, Status::Timeout("the operations before it have not ended in time")
                        .Next("find out why they are late, or allow more time"));
    }
  }
}

// Its caller stops waiting; the lane serves its turn later.
void ArenaLane::LeaveJob(Job* job, const Status& why) {
  FUSEWIRE_CHECK(!job->begun);
  FUSEWIRE_CHECK(job->end != nullptr);
  FUSEWIRE_DCHECK(!why.ok());
  FUSEWIRE_DCHECK(job->owned == nullptr);
  job->declined = job->operation->status = why;
  job->operation = nullptr;
  std::exchange(job->end, nullptr)->Done(why);
}

void ArenaLane::Start(std::unique_ptr<GroupOperation> operation) {
  const int64_t deadline_ns = DeadlineOf(*operation);
  GroupOperation* const raw = operation.get();
  {
    MutexLock lock(mutex_);
    if (GiveTurn(raw)) {
      Enqueue(Job{raw, std::move(operation), raw->number, *raw->given_turn, epoch_, deadline_ns, Status::Ok()});
      return;
    }
  }
  SendHome(std::move(operation));
}

void ArenaLane::SendHome(std::unique_ptr<GroupOperation> operation) {
  operation->core = core_->shared_from_this();
  core_->home().Post(static_cast<Mail*>(operation.release()));  // it owns itself until it is delivered
}

// The lane's thread: serves the jobs that their callers do not run.
void ArenaLane::Work() {
  pthread_setname_np(pthread_self(), "fusewire/arena");
  MutexLock lock(mutex_);
  while (true) {
    auto next = std::find_if(jobs_.begin(), jobs_.end(), [](const auto& job) { return !job->begun; });
    if (next == jobs_.end() && stopping_) return;
    if (next == jobs_.end() || busy_) {
      changed_.Wait(mutex_);
      continue;
    }
    Job* const job = next->get();
    ServeJob(job);
    changed_.NotifyAll();
    // The caller that waits for it forgets the job.
    if (job->operation != nullptr && job->owned == nullptr) continue;
    std::unique_ptr<GroupOperation> owned = std::move(job->owned);
    const bool ran = job->ran;
    Forget(job);
    if (owned == nullptr) continue;
    if (ran) OperationTable::SetServed(owned.get());
    lock.Unlock();
    SendHome(std::move(owned));
    lock.Lock();
  }
}

void ArenaLane::ServeJob(Job* job) {
  FUSEWIRE_CHECK(!busy_);  // an arena has one thread at a time
  FUSEWIRE_DCHECK(!job->begun);
  job->begun = true;
  busy_ = true;
  busy_turn_ = job->turn;
  busy_number_ = job->number;
  reason_.reset();
  is_given_up_ = false;
  Arena* const arena = OpenArena(job->epoch);
  mutex_.Unlock();
  record_.Begin(job->operation);
  const bool ran = Serve(*job, arena);
  record_.End(ran);
  mutex_.Lock();
  FUSEWIRE_DCHECK(busy_);
  job->ran = ran;
  job->served = true;
  if (!ran && job->operation != nullptr && job->deadline_ns != kForeverNs)
    job->operation->left_ns = std::max(job->deadline_ns - Clock::Real()->NowNs(), kMessagesNsMin);
  if (job->end != nullptr) std::exchange(job->end, nullptr)->Done();
  busy_ = false;
  retired_.reset();
  if (ran) served_turns_ = job->turn + 1;
  if (!jobs_.empty()) changed_.NotifyAll();
}

// The arena stays while the lane is busy. Null: not through an arena.
Arena* ArenaLane::OpenArena(uint32_t epoch) {
  if (way_ == Way::kArena && arena_->closed()) way_ = Way::kMessages;
  return way_ == Way::kArena && epoch_ == epoch ? arena_.get() : nullptr;
}

bool ArenaLane::Serve(const Job& job, Arena* arena) {
  GroupOperation* const operation = job.operation;
  Status status = job.declined;
  bool is_given_up = false;
  if (arena == nullptr) {
    bool untried = false;
    {
      MutexLock lock(mutex_);
      untried = way_ == Way::kUntried && epoch_ == job.epoch;
    }
    if (untried) SetUp(job.deadline_ns);
    MutexLock lock(mutex_);
    arena = OpenArena(job.epoch);
    if (arena == nullptr && epoch_ == job.epoch) messages_from_ = std::min(messages_from_, job.turn);
    is_given_up = is_given_up_;  // while the ranks agreed on an arena
    if (is_given_up && status.ok()) status = *reason_;
  }
  if (arena == nullptr && status.ok()) return false;
  if (arena == nullptr) {
    if (operation != nullptr) operation->status = status;
    SendFailed(job, status);
    return true;
  }
  if (is_given_up) {
    FailTurn(job, *arena, status);
    return true;
  }
  if (status.ok()) {
    const ArenaCounts before = arena->counts();
    arena->SetCancel(job.is_here ? operation->cancel : nullptr);
    status = Execute(arena, operation, job.deadline_ns);
    const bool met = arena->counts().meetings != before.meetings;
    if (status.ok() || arena->counts().differences != before.differences) {
      operation->status = status;
      return true;
    }
    // The arena was closed, or a rank has ended, before all ranks met: no rank has changed an array, and the messages
    // give a more precise error.
    const bool closed = arena->closed() || status.code() == Code::kUnavailable;
    bool has_reason = false;
    {
      MutexLock lock(mutex_);
      has_reason = reason_.has_value();
    }
    if (!met && closed && !has_reason) {
      GoOverMessages(*arena, status, job.turn);
      return false;
    }
    if (status.code() != Code::kInvalid) {
      FailTurn(job, *arena, status);
      return true;
    }
  }
  // This rank doesn't make the call: it declines in the call's turn, and the arena stays usable.
  const uint64_t differences = arena->counts().differences;
  const Status heard =
      arena->Decline(status.code(), std::max(job.deadline_ns, AddNs(Clock::Real()->NowNs(), kDeclineNs)));
  if (operation != nullptr) operation->status = status;
  // Ok: all ranks have declined, so their calls were equal.
  if (!heard.ok() && arena->counts().differences == differences) {
    GoOverMessages(*arena, heard, job.turn + 1);
    SendFailed(job, status);
  }
  return true;
}

void ArenaLane::GoOverMessages(const Arena& arena, const Status& why, uint64_t from_turn) {
  MutexLock lock(mutex_);
  messages_from_ = std::min(messages_from_, from_turn);
  if (way_ != Way::kArena || arena_.get() != &arena) return;
  arena_->Close();
  way_ = Way::kMessages;
  FUSEWIRE_LOG(kInfo, "group %s: goes on over messages: %s", core_->options().name.c_str(), why.ToString().c_str());
}

void ArenaLane::SendFailed(const Job& job, const Status& why) {
  core_->home().Post([core = core_->shared_from_this(), epoch = job.epoch, turn = job.turn, why] {
    core->SendFailed(epoch, turn, why);
  });
}

// It has failed here, so it fails at every rank. If another rank closed the arena, its reason is about to arrive.
void ArenaLane::FailTurn(const Job& job, const Arena& arena, Status why) {
  const bool by_another = arena.closed() || why.code() == Code::kUnavailable;
  GoOverMessages(arena, why, job.turn + 1);
  {
    MutexLock lock(mutex_);
    const int64_t patience_ns = AddNs(Clock::Real()->NowNs(), kReasonNs);
    while (by_another && !reason_.has_value() && changed_.WaitUntil(mutex_, patience_ns)) {
    }
    if (reason_.has_value()) why = *reason_;
  }
  if (job.operation != nullptr) job.operation->status = why;
  SendFailed(job, why);
}

bool ArenaLane::OverMessages(uint64_t turn) {
  MutexLock lock(mutex_);
  return turn >= messages_from_;
}

bool ArenaLane::open() {
  MutexLock lock(mutex_);
  return way_ == Way::kArena && !arena_->closed();
}

bool ArenaLane::Cancel(uint64_t number, const Status& why) {
  MutexLock lock(mutex_);
  if (busy_ && busy_number_ == number) {
    if (!reason_.has_value()) reason_ = why;
    is_given_up_ = true;
    if (arena_ != nullptr) arena_->Close();
    // shared_ptr: its creator may drop it once the lock is released.
    const std::shared_ptr<SettingUp> setting_up = setting_up_;
    lock.Unlock();
    if (setting_up != nullptr) setting_up->messages.Cancel();
    if (setting_up != nullptr) setting_up->gathering.Cancel();
    return true;
  }
  for (const std::unique_ptr<Job>& job : jobs_) {
    if (job->number != number || job->begun) continue;
    if (job->end != nullptr) LeaveJob(job.get(), why);
    if (job->owned == nullptr) return true;
    job->declined = why;
    // The operation ends now; the lane serves its turn later.
    std::unique_ptr<GroupOperation> operation = std::move(job->owned);
    job->operation = nullptr;
    operation->status = why;
    OperationTable::SetServed(operation.get());
    lock.Unlock();
    SendHome(std::move(operation));
    return true;
  }
  return false;
}

bool ArenaLane::OnFailed(uint64_t turn, const Status& why) {
  MutexLock lock(mutex_);
  if (way_ == Way::kUntried && turn < kSetUpTurns) {
    set_up_failed_ = true;
    CallOffGathering();
  }
  if (turn < std::min(served_turns_, messages_from_)) return true;
  if (!busy_ || turn != busy_turn_ || way_ == Way::kUntried) return false;
  if (!reason_.has_value()) reason_ = why;
  if (arena_ != nullptr) arena_->Close();
  changed_.NotifyAll();
  // It may be on its way to the messages: then it fails there, too.
  return false;
}

// Called under the lock: the token's hook only writes to an eventfd.
void ArenaLane::CallOffGathering() {
  if (setting_up_ != nullptr) setting_up_->gathering.Cancel();
}

void ArenaLane::Shut(const Status& why) {
  MutexLock lock(mutex_);
  way_ = Way::kMessages;
  CallOffGathering();
  if (busy_ && !reason_.has_value()) reason_ = why;
  if (arena_ != nullptr) arena_->Close();
  changed_.NotifyAll();
}

void ArenaLane::Reopen(uint32_t epoch) {
  MutexLock lock(mutex_);
  if (arena_ != nullptr) arena_->Close();
  CallOffGathering();
  // A call in the old arena may not have returned yet; no other call begins before that.
  if (busy_ && arena_ != nullptr) retired_ = std::move(arena_);
  arena_.reset();
  FUSEWIRE_DCHECK(epoch >= epoch_);
  epoch_ = epoch;
  next_turn_ = kSetUpTurns;
  served_turns_ = 0;
  messages_from_ = kNever;
  set_up_failed_ = false;
  way_ = core_->ranks() > 1 ? Way::kUntried : Way::kMessages;
}

void ArenaLane::Stop() {
  std::thread ends;
  {
    MutexLock lock(mutex_);
    FUSEWIRE_DCHECK(way_ == Way::kMessages);  // after Shut
    stopping_ = true;
    changed_.NotifyAll();
    ends.swap(thread_);
  }
  if (ends.joinable()) ends.join();
  MutexLock lock(mutex_);
  // The lane lives as long as its endpoint: memory and descriptors of a group that has ended would add up.
  if (!busy_) arena_.reset();
}

// ---- an operation in the arena ----

Status ArenaLane::Execute(Arena* arena, GroupOperation* operation, int64_t deadline_ns) {
  const CollectiveSpec& spec = operation->spec;
  if (operation->checked_epoch != operation->given_epoch) {
    FUSEWIRE_TRY(CheckSpec(spec, core_->ranks(), core_->rank(), &operation->run.arrays));
    operation->checked_epoch = operation->given_epoch;
  }
  return arena->Run(spec, operation->run.arrays, deadline_ns);
}

}  // namespace fusewire::collective
