// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Operations that wait for their turn in an arena, or have it, in the order of their turns.
// Home: its owner's lock. Owns: the jobs, until Remove.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/status.h"
#include "fusewire/collective/group/group_operation.h"
#include "fusewire/reactor/completion.h"

namespace fusewire::collective {

// The owner's lock guards all fields but `number` to `deadline_ns`.
struct TurnJob {
  enum class State : uint8_t {
    kQueued,
    kServing,   // one at a time
    kEnded,     // with operation->status
    kPassedOn,  // it goes over messages
  };

  GroupOperation* operation;              // null: its caller has left, and only its turn is served
  std::unique_ptr<GroupOperation> owned;  // null: a caller waits for it
  uint64_t number;
  uint64_t turn;
  uint32_t epoch;
  int64_t deadline_ns;
  Status declined;       // if set, it must not run any more, but its turn must be served
  bool is_here = false;  // it runs on the thread of its caller, which waits
  State state = State::kQueued;
  // The caller's, if it waits for another thread; null after the caller has left.
  reactor::Completion* end = nullptr;
};

class TurnQueue {
 public:
  // Turns count from 0 in each epoch; the first ones are those in which ranks agree on an arena.
  uint64_t TakeTurn() { return next_turn_++; }
  void EnterEpoch() { next_turn_ = kSetUpTurns; }

  bool empty() const { return jobs_.empty(); }
  TurnJob* Add(TurnJob job) {
    jobs_.push_back(std::make_unique<TurnJob>(std::move(job)));
    return jobs_.back().get();
  }
  // Null: there is none.
  TurnJob* FirstQueued() const {
    return Find([](const TurnJob&) { return true; });
  }
  TurnJob* QueuedByNumber(uint64_t number) const {
    return Find([number](const TurnJob& job) { return job.number == number; });
  }
  void Remove(const TurnJob* job) {
    FUSEWIRE_DCHECK(job->state == TurnJob::State::kEnded || job->state == TurnJob::State::kPassedOn);
    jobs_.erase(std::find_if(jobs_.begin(), jobs_.end(), [job](const auto& one) { return one.get() == job; }));
  }

 private:
  template <class Fits>
  TurnJob* Find(Fits fits) const {
    for (const std::unique_ptr<TurnJob>& job : jobs_) {
      if (job->state == TurnJob::State::kQueued && fits(*job)) return job.get();
    }
    return nullptr;
  }

  uint64_t next_turn_ = 0;
  std::deque<std::unique_ptr<TurnJob>> jobs_;
};

}  // namespace fusewire::collective
