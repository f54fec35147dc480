// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/group/arena_lane.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"
#include "fusewire/base/log.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/transport/shm/gathering.h"
#include "fusewire/transport/shm/peer_process.h"

namespace fusewire::collective {
namespace {

// How long a rank that can't make its call waits for the others, which have made theirs, or soon will.
constexpr int64_t kDeclineNs = 5 * kSecondNs;
// How long an operation waits for the reason after another rank has closed the arena.
constexpr int64_t kReasonNs = 500 * kMillisecondNs;
// What an operation has over messages at least, after the arena has taken its time: messages of ranks that have come
// arrive, so the error names those that have not.
constexpr int64_t kMessagesNsMin = 500 * kMillisecondNs;
// Of a gathering.
constexpr size_t kNameBytes = 63;
// How long ranks wait for each other at the gathering: all of them are on their way when it opens.
constexpr int64_t kGatherNs = 5 * kSecondNs;
// Longer timeouts may end by a tick of the kernel too early.
constexpr int64_t kExactNsMax = 1 * kSecondNs;

ArenaOptions OptionsFor(int ranks) {
  ArenaOptions options;
  // Larger shares need fewer meetings; those of two ranks still fit into the caches.
  if (ranks <= 2) options.share_bytes = 512 * 1024;
  return options;
}

}  // namespace

// ---- which thread runs what, and when ----

ArenaLane::ArenaLane(LaneHandler* group, p2p::Endpoint& endpoint, const GroupOptions& options, const GroupState& state,
                     GroupMonitor* monitor)
    : group_(group), endpoint_(endpoint), options_(options), state_(state), recorder_(monitor, options.name) {}
ArenaLane::~ArenaLane() = default;

bool ArenaLane::GiveTurn(GroupOperation* operation) {
  operation->given_epoch = session_.epoch();
  operation->given_turn = queue_.TakeTurn();
  // If others are here, it queues behind them, so that turns reach the messages in order.
  if (session_.phase() != ArenaSession::Phase::kMessages || service_.has_value() || !queue_.empty()) return true;
  session_.PassOn(session_.epoch(), *operation->given_turn);
  return false;
}

int64_t ArenaLane::DeadlineOf(const GroupOperation& operation) const {
  const int64_t timeout_ns = std::max<int64_t>(TimeoutOf(operation.spec, options_), 0);
  return AddNs(timeout_ns < kExactNsMax ? Clock::Real()->NowNs() : CoarseNowNs(), timeout_ns);
}

TurnJob* ArenaLane::Enqueue(TurnJob job) {
  TurnJob* const queued = queue_.Add(std::move(job));
  if (!thread_.joinable() && !stopping_) thread_ = std::thread([this] { Work(); });
  changed_.NotifyAll();
  return queued;
}

bool ArenaLane::Run(GroupOperation* operation) {
  const int64_t deadline_ns = DeadlineOf(*operation);
  reactor::CancelToken* const cancel = operation->cancel;
  std::optional<reactor::CancelHook> hook;
  if (cancel != nullptr) hook.emplace(cancel, [this, number = operation->number] { (void)Cancel(number, GivenUp()); });
  reactor::Completion end;
  TurnJob* job = nullptr;
  {
    MutexLock lock(mutex_);
    if (!GiveTurn(operation)) return false;
    TurnJob here{operation,        nullptr,     operation->number, *operation->given_turn,
                 session_.epoch(), deadline_ns, Status::Ok()};
    // An earlier call of the hook did not find the operation.
    const bool is_given_up = cancel != nullptr && cancel->cancelled();
    if (!is_given_up && !service_.has_value() && queue_.empty()) {
      here.is_here = true;
      ServeJob(&here);
      return here.state == TurnJob::State::kEnded;
    }
    here.end = &end;
    job = Enqueue(std::move(here));
    if (is_given_up) LeaveJob(job, GivenUp());
  }
  AwaitJob(job, deadline_ns, end, cancel);
  MutexLock lock(mutex_);
  if (!end.status().ok()) return true;  // the caller has left it: the lane owns the job, or has destroyed it
  const bool has_ended = job->state == TurnJob::State::kEnded;
  queue_.Remove(job);
  return has_ended;
}

// Waits until its turn has been served, or its caller has left it. The job exists while `end` is pending, and `end` is
// set only under the mutex: so the job may be read only under the mutex, and only while `end` is pending.
void ArenaLane::AwaitJob(TurnJob* job, int64_t leave_ns, reactor::Completion& end, reactor::CancelToken* cancel) {
  const auto interrupts = cancel == nullptr ? reactor::Interrupts::kGoOn : cancel->interrupts();
  Clock* const clock = endpoint_.home().clock();
  while (true) {
    const int64_t ask_ns = cancel == nullptr ? kForeverNs : cancel->NextAskNs(clock->NowNs());
    if (end.Wait(endpoint_.home(), std::min(leave_ns, ask_ns), state_.waiting(), interrupts)) return;
    if (cancel != nullptr) cancel->Ask();
    MutexLock lock(mutex_);
    if (end.done()) return;
    if (job->state != TurnJob::State::kQueued) {
      leave_ns = kForeverNs;  // once begun, the operation ends at its own deadline
    } else if (clock->NowNs() >= leave_ns) {
      LeaveJob(job, Status::Timeout("the operations before it have not ended in time")
                        .Next("find out why they are late, or allow more time"));
    }
  }
}

// Its caller stops waiting; the lane serves its turn later.
void ArenaLane::LeaveJob(TurnJob* job, const Status& why) {
  FUSEWIRE_CHECK(job->state == TurnJob::State::kQueued);
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
      Enqueue(TurnJob{raw, std::move(operation), raw->number, *raw->given_turn, session_.epoch(), deadline_ns,
                      Status::Ok()});
      return;
    }
  }
  group_->SendHome(std::move(operation));
}

// The lane's thread: serves the jobs that their callers do not run.
void ArenaLane::Work() {
  pthread_setname_np(pthread_self(), "fusewire/arena");
  MutexLock lock(mutex_);
  while (true) {
    TurnJob* const job = queue_.FirstQueued();
    if (job == nullptr && stopping_) return;
    if (job == nullptr || service_.has_value()) {
      changed_.Wait(mutex_);
      continue;
    }
    ServeJob(job);
    changed_.NotifyAll();
    // The caller that waits for it removes the job.
    if (job->operation != nullptr && job->owned == nullptr) continue;
    std::unique_ptr<GroupOperation> owned = std::move(job->owned);
    const bool has_ended = job->state == TurnJob::State::kEnded;
    queue_.Remove(job);
    if (owned == nullptr) continue;
    if (has_ended) OperationTable::SetServed(owned.get());
    lock.Unlock();
    group_->SendHome(std::move(owned));
    lock.Lock();
  }
}

// ---- one turn ----

void ArenaLane::ServeJob(TurnJob* job) {
  FUSEWIRE_CHECK(!service_.has_value());  // an arena has one thread at a time
  FUSEWIRE_DCHECK(job->state == TurnJob::State::kQueued);
  job->state = TurnJob::State::kServing;
  service_ = Service{job->turn, job->number, std::nullopt};
  // The arena stays until Release. shared_ptr: see arena_session.h.
  Arena* const arena = session_.ArenaOf(job->epoch);
  const std::shared_ptr<Agreement> agreement = session_.BeginAgreeing(job->epoch);
  mutex_.Unlock();
  recorder_.Begin(job->operation);
  const bool has_ended = Serve(*job, arena, agreement.get());
  recorder_.End(has_ended);
  mutex_.Lock();
  job->state = has_ended ? TurnJob::State::kEnded : TurnJob::State::kPassedOn;
  if (!has_ended && job->operation != nullptr && job->deadline_ns != kForeverNs)
    job->operation->left_ns = std::max(job->deadline_ns - Clock::Real()->NowNs(), kMessagesNsMin);
  if (job->end != nullptr) std::exchange(job->end, nullptr)->Done();
  service_.reset();
  session_.Release();
  if (has_ended) session_.SetServed(job->epoch, job->turn);
  if (!queue_.empty()) changed_.NotifyAll();
}

bool ArenaLane::Serve(const TurnJob& job, Arena* arena, Agreement* agreement) {
  GroupOperation* const operation = job.operation;
  Status status = job.declined;
  if (arena == nullptr) {
    std::unique_ptr<Arena> agreed;
    if (agreement != nullptr) agreed = SetUp(job.epoch, job.deadline_ns, agreement);
    MutexLock lock(mutex_);
    if (agreement != nullptr) session_.EndAgreeing(job.epoch, std::move(agreed));
    arena = session_.ArenaOf(job.epoch);
    if (arena == nullptr) session_.PassOn(job.epoch, job.turn);
    const bool is_given_up = service_->is_given_up;  // while the ranks agreed
    if (is_given_up && status.ok()) status = *service_->reason;
    lock.Unlock();
    if (arena == nullptr && status.ok()) return false;
    if (arena == nullptr) {
      if (operation != nullptr) operation->status = status;
      group_->OnTurnFailed(job.epoch, job.turn, status);
      return true;
    }
    if (is_given_up) {
      FailTurn(job, *arena, status);
      return true;
    }
  }
  // Never leave the token of an earlier call, which has returned: declining waits and asks it, too.
  arena->SetCancel(status.ok() && job.is_here ? operation->cancel : nullptr);
  if (status.ok()) {
    const ArenaCounts before = arena->counts();
    status = Execute(arena, operation, job.deadline_ns);
    const bool met = arena->counts().meetings != before.meetings;
    if (status.ok() || arena->counts().differences != before.differences) {
      operation->status = status;
      return true;
    }
    // The arena was closed, or a rank has ended, before all ranks met: no rank has changed an array, and the messages
    // give a more precise error.
    const bool closed = arena->closed() || status.code() == Code::kUnavailable;
    if (!met && closed && !HasReason()) {
      GoOverMessages(job, *arena, status, job.turn);
      return false;
    }
    if (status.code() != Code::kInvalid) {
      FailTurn(job, *arena, status);
      return true;
    }
  }
  DeclineTurn(job, arena, status);
  return true;
}

// This rank doesn't make the call: it declines in the call's turn, and the arena stays usable.
void ArenaLane::DeclineTurn(const TurnJob& job, Arena* arena, const Status& why) {
  const uint64_t differences = arena->counts().differences;
  const Status heard = arena->Decline(why.code(), std::max(job.deadline_ns, AddNs(Clock::Real()->NowNs(), kDeclineNs)));
  if (job.operation != nullptr) job.operation->status = why;
  // Ok: all ranks have declined, so their calls were equal.
  if (heard.ok() || arena->counts().differences != differences) return;
  GoOverMessages(job, *arena, heard, job.turn + 1);
  group_->OnTurnFailed(job.epoch, job.turn, why);
}

// It has failed here, so it fails at every rank. If another rank closed the arena, its reason is about to arrive.
void ArenaLane::FailTurn(const TurnJob& job, const Arena& arena, Status why) {
  const bool by_another = arena.closed() || why.code() == Code::kUnavailable;
  GoOverMessages(job, arena, why, job.turn + 1);
  {
    MutexLock lock(mutex_);
    const int64_t patience_ns = AddNs(Clock::Real()->NowNs(), kReasonNs);
    while (by_another && !service_->reason.has_value() && changed_.WaitUntil(mutex_, patience_ns)) {
    }
    if (service_->reason.has_value()) why = *service_->reason;
  }
  if (job.operation != nullptr) job.operation->status = why;
  group_->OnTurnFailed(job.epoch, job.turn, why);
}

bool ArenaLane::HasReason() {
  MutexLock lock(mutex_);
  return service_->reason.has_value();
}

void ArenaLane::GoOverMessages(const TurnJob& job, const Arena& arena, const Status& why, uint64_t from_turn) {
  MutexLock lock(mutex_);
  session_.PassOn(job.epoch, from_turn);
  if (!session_.Close(arena)) return;
  FUSEWIRE_LOG(kInfo, "group %s: goes on over messages: %s", options_.name.c_str(), why.ToString().c_str());
}

// ---- from other threads ----

bool ArenaLane::OverMessages(uint64_t turn) {
  MutexLock lock(mutex_);
  return session_.IsPassedOn(turn);
}

bool ArenaLane::open() {
  MutexLock lock(mutex_);
  return session_.open();
}

bool ArenaLane::Cancel(uint64_t number, const Status& why) {
  MutexLock lock(mutex_);
  if (service_.has_value() && service_->number == number) {
    if (!service_->reason.has_value()) service_->reason = why;
    service_->is_given_up = true;
    session_.Interrupt();
    // shared_ptr: its owner may drop it once the lock is released.
    const std::shared_ptr<Agreement> agreement = session_.agreement();
    lock.Unlock();
    if (agreement != nullptr) agreement->messages.Cancel();
    if (agreement != nullptr) agreement->gathering.Cancel();
    return true;
  }
  TurnJob* const job = queue_.QueuedByNumber(number);
  if (job == nullptr) return false;
  if (job->end != nullptr) LeaveJob(job, why);
  if (job->owned == nullptr) return true;
  job->declined = why;
  // The operation ends now; the lane serves its turn later.
  std::unique_ptr<GroupOperation> operation = std::move(job->owned);
  job->operation = nullptr;
  operation->status = why;
  OperationTable::SetServed(operation.get());
  lock.Unlock();
  group_->SendHome(std::move(operation));
  return true;
}

bool ArenaLane::OnFailed(uint64_t turn, const Status& why) {
  MutexLock lock(mutex_);
  if (!session_.agreed() && turn < kSetUpTurns) session_.FailAgreement();
  if (session_.HasServed(turn)) return true;
  if (!service_.has_value() || turn != service_->turn || !session_.agreed()) return false;
  if (!service_->reason.has_value()) service_->reason = why;
  session_.Interrupt();
  changed_.NotifyAll();
  // It may be on its way to the messages: then it fails there, too.
  return false;
}

void ArenaLane::Shut(const Status& why) {
  MutexLock lock(mutex_);
  if (service_.has_value() && !service_->reason.has_value()) service_->reason = why;
  session_.Close();
  changed_.NotifyAll();
}

void ArenaLane::Reopen(uint32_t epoch, std::vector<std::string> names) {
  MutexLock lock(mutex_);
  names_ = std::move(names);
  session_.Reopen(epoch, names_.size() > 1, service_.has_value());
  queue_.EnterEpoch();
}

void ArenaLane::Stop() {
  std::thread ends;
  {
    MutexLock lock(mutex_);
    FUSEWIRE_DCHECK(session_.phase() == ArenaSession::Phase::kMessages);  // after Shut
    stopping_ = true;
    changed_.NotifyAll();
    ends.swap(thread_);
  }
  if (ends.joinable()) ends.join();
  MutexLock lock(mutex_);
  if (!service_.has_value()) session_.Drop();
}

// ---- an operation in the arena ----

Status ArenaLane::Execute(Arena* arena, GroupOperation* operation, int64_t deadline_ns) {
  const CollectiveSpec& spec = operation->spec;
  if (operation->checked_epoch != operation->given_epoch) {
    FUSEWIRE_TRY(CheckSpec(spec, ranks(), rank(), &operation->run.arrays));
    operation->checked_epoch = operation->given_epoch;
  }
  return arena->Run(spec, operation->run.arrays, deadline_ns);
}

// ---- how ranks agree on an arena ----

// Turn 0 is an all-reduce with max: byte 0 is 1 if a rank can't share memory, the rest is the name of rank 0's
// gathering. Then all ranks meet there, and turn 1 succeeds once all have. A rank that has not met the others sends
// them the failure of turn 1.
std::unique_ptr<Arena> ArenaLane::SetUp(uint32_t epoch, int64_t deadline_ns, Agreement* agreement) {
  std::array<uint8_t, 1 + kNameBytes> told = {};
  Status able = endpoint_.may_share() ? Status::Ok() : Status::Refused("its transport shares no memory");
  std::unique_ptr<transport::Gathering> gathering;
  transport::Fd memory;
  if (able.ok() && rank() == 0) {
    Result<int> made = CreateArenaMemory(ranks(), OptionsFor(ranks()));
    Result<std::unique_ptr<transport::Gathering>> opened = transport::Gathering::Open();
    able = !made.ok() ? made.status() : opened.status();
    if (made.ok()) memory = transport::Fd(made.value());
    if (opened.ok()) gathering = std::move(opened).value();
    if (able.ok()) {
      FUSEWIRE_CHECK(gathering->name().size() < kNameBytes);
      std::copy(gathering->name().begin(), gathering->name().end(), told.begin() + 1);
    }
  }
  told[0] = able.ok() ? 0 : 1;
  const Status heard = RunOverMessages(epoch, 0, Bytes(told.data(), told.size()), deadline_ns, &agreement->messages);
  const bool all_try = heard.ok() && told[0] == 0;
  if (able.ok() && !all_try) able = heard.ok() ? Status::Refused("another rank shares no memory") : heard;

  std::unique_ptr<Arena> arena;
  if (able.ok()) {
    // Other ranks contribute to it too, so it may lack its terminating 0.
    const auto* first = reinterpret_cast<const char*>(told.data() + 1);
    const std::string name(first, strnlen(first, kNameBytes));
    Result<std::unique_ptr<Arena>> joined =
        MeetInArena(name, gathering.get(), memory.get(), deadline_ns, &agreement->gathering);
    able = joined.status();
    if (able.ok()) arena = std::move(joined).value();
  }
  gathering.reset();  // if it has failed, this ends the wait of the other ranks
  if (all_try && !able.ok()) {
    group_->OnTurnFailed(epoch, 1, able);  // at once, since the others may wait for this rank
  } else {
    uint8_t nothing = 0;
    const Status agreed = RunOverMessages(epoch, 1, Bytes(&nothing, 1), deadline_ns, &agreement->messages);
    if (able.ok() && !agreed.ok()) able = agreed;
  }
  if (able.ok()) return arena;
  // A warning if the machine prevents an arena; only information if the configuration excludes it, or the group ends.
  const bool is_chosen = !endpoint_.may_share() || able.code() == Code::kCancelled;
  const LogLevel level = is_chosen ? LogLevel::kInfo : LogLevel::kWarn;
  if (level >= GetLogLevel()) {
    WriteLog(level, "group %s: its ranks share no arena, so collectives go over messages: %s", options_.name.c_str(),
             able.ToString().c_str());
  }
  if (arena != nullptr) arena->Close();
  return nullptr;
}

// All ranks are on their way: rank 0 with the gathering and the memory.
Result<std::unique_ptr<Arena>> ArenaLane::MeetInArena(const std::string& name, transport::Gathering* gathering,
                                                      int memory, int64_t deadline_ns, reactor::CancelToken* cancel) {
  const int ranks = this->ranks(), rank = this->rank();
  const int64_t end_ns = std::min(deadline_ns, AddNs(Clock::Real()->NowNs(), kGatherNs));
  transport::Gathered gathered =
      FUSEWIRE_TRY(gathering != nullptr ? gathering->Hand(memory, ranks, end_ns, cancel)
                                        : transport::ComeTo(name, rank, ranks, end_ns, cancel));
  ArenaSeat seat;
  seat.memory = gathered.file.get();
  seat.rank = rank;
  seat.ranks = ranks;
  seat.waits = &recorder_;
  for (transport::Fd& life : gathered.lives) {
    seat.processes.push_back(life.valid() ? transport::ProcessOf(life.get()) : 0);
    seat.lives.push_back(life.Release());
  }
  {
    MutexLock lock(mutex_);
    seat.names = names_;
  }
  seat.names.resize(static_cast<size_t>(ranks));  // a new epoch may have begun
  return Arena::Join(std::move(seat), OptionsFor(ranks));
}

Status ArenaLane::RunOverMessages(uint32_t epoch, uint64_t turn, Bytes told, int64_t deadline_ns,
                                  reactor::CancelToken* cancel) {
  auto operation = std::make_unique<GroupOperation>();
  CollectiveSpec& spec = operation->spec;
  spec.kind = CollectiveKind::kAllReduce;
  spec.reduction.op = Op::kMax;
  spec.reduction.type = Type::kU8;
  spec.counts = {told.size};
  spec.to = Pieces(told.data, told.size);
  spec.timeout_ns = deadline_ns == kForeverNs ? kForeverNs : std::max<int64_t>(deadline_ns - Clock::Real()->NowNs(), 1);
  operation->given_epoch = epoch;
  operation->given_turn = turn;
  operation->cancel = cancel;
  return group_->RunOverMessages(std::move(operation));
}

}  // namespace fusewire::collective
