// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/snapshot/departure.h"

#include <utility>

#include <absl/strings/str_cat.h>

#include "fusewire/tf/bridge/status.h"

namespace fusewire::tf {
namespace {

constexpr size_t kMovePieceBytes = 4 << 20;

}  // namespace

void Departure::Ask(MoveWant want, Answer answer) {
  TfStatus why;
  {
    MutexLock lock(mutex_);
    if (want == MoveWant::kDone) {
      is_done_ = true;
    } else if (want == MoveWant::kStop) {
      if (why_.ok()) why_ = absl::CancelledError("the process that was to take it has given up");
    } else if (!why_.ok()) {
      why = why_;
    } else if (answer_ != nullptr) {
      why = absl::FailedPreconditionError("it was asked for two pieces at once");
    } else {
      answer_ = std::move(answer);
      want_ = want;
      is_new_ = true;
    }
    changed_.NotifyAll();
  }
  if (answer != nullptr) answer(why, {MoveSaid::kEnd, 0}, {});
}

bool Departure::Await(MoveWant* want) {
  const int64_t deadline_ns = AddNs(Clock::Real()->NowNs(), silence_ns_);
  MutexLock lock(mutex_);
  while (!is_new_ && why_.ok()) {
    if (!changed_.WaitUntil(mutex_, deadline_ns)) break;
  }
  *want = want_;
  return std::exchange(is_new_, false);
}

TfStatus Departure::Append(ConstBytes frame_head, ConstBytes content) {
  frames_.append(View(frame_head));
  frames_.append(View(content));
  if (frames_.size() < kMovePieceBytes) return TfStatus();
  std::vector<std::string> pieces;
  pieces.push_back(std::exchange(frames_, std::string()));
  TF_RETURN_IF_ERROR(Give({MoveSaid::kFrames, 0}, std::move(pieces)));
  MoveWant want = MoveWant::kNext;
  if (!Await(&want)) return absl::DeadlineExceededError("the process that takes it is silent");
  return want == MoveWant::kNext ? TfStatus() : absl::FailedPreconditionError("it was asked for something else");
}

TfStatus Departure::EndRound(uint64_t bytes) { return Say(MoveSaid::kEnd, {}, bytes); }

TfStatus Departure::Say(MoveSaid said, std::vector<std::string> pieces, uint64_t bytes) {
  pieces.push_back(std::exchange(frames_, std::string()));
  return Give({said, bytes}, std::move(pieces));
}

TfStatus Departure::Give(const HandedOver& said, std::vector<std::string> pieces) {
  Answer answer;
  {
    MutexLock lock(mutex_);
    if (!why_.ok()) return why_;
    answer.swap(answer_);
  }
  if (answer == nullptr) return absl::FailedPreconditionError("nobody has asked for it");
  answer(TfStatus(), said, std::move(pieces));
  return TfStatus();
}

bool Departure::AwaitDone(int64_t deadline_ns) {
  MutexLock lock(mutex_);
  while (!is_done_ && why_.ok() && changed_.WaitUntil(mutex_, deadline_ns)) {
  }
  return is_done_;
}

bool Departure::has_ended() {
  MutexLock lock(mutex_);
  return !why_.ok();
}

void Departure::Fail(const TfStatus& why) {
  Answer answer;
  {
    MutexLock lock(mutex_);
    if (why_.ok()) why_ = why;
    answer.swap(answer_);
    changed_.NotifyAll();
  }
  if (answer != nullptr) answer(why, {MoveSaid::kEnd, 0}, {});
}

void Departures::Open(std::function<void()> wake) {
  MutexLock lock(mutex_);
  wake_ = std::move(wake);
}

void Departures::Close() {
  DeparturePtr departure;
  {
    MutexLock lock(mutex_);
    wake_ = nullptr;
    departure = current_;
  }
  if (departure != nullptr) departure->Fail(absl::UnavailableError("it ends"));
}

void Departures::OnHandOver(const HandOver& asked, Departure::Answer answer) {
  DeparturePtr departure;
  std::function<void()> wake;
  std::string refused = "it keeps the task, because it has not heard from here for too long";
  {
    MutexLock lock(mutex_);
    if (asked.want == MoveWant::kBegin) {
      const bool is_busy = current_ != nullptr && !current_->has_ended();
      if (is_busy) refused = "another process is taking it over at this moment";
      if (wake_ == nullptr) refused = "it has not begun to serve, or has ended";
      if (!is_busy && wake_ != nullptr) departure = current_ = std::make_shared<Departure>(asked.taker);
    } else if (current_ != nullptr && current_->taker() == asked.taker) {
      departure = current_;
    }
    wake = wake_;
  }
  if (departure == nullptr) return answer(absl::FailedPreconditionError(refused), {MoveSaid::kEnd, 0}, {});
  departure->Ask(asked.want, std::move(answer));
  if (wake != nullptr) wake();
}

DeparturePtr Departures::current() {
  MutexLock lock(mutex_);
  return current_;
}

void Departures::End(const DeparturePtr& departure, const TfStatus& why) {
  departure->Fail(why);
  MutexLock lock(mutex_);
  if (current_ == departure) current_ = nullptr;
}

}  // namespace fusewire::tf
