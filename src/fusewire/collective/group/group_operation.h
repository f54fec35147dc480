// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// An operation of a group, from Start to done; a plan uses the same one again and again. It is data: operations.h runs
// it, and only operation_table.h changes its state.
// Home: its maker's until it is posted, then the group's, or its lane's. Owns: its runner. Fails: with `status`.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "fusewire/base/clock.h"
#include "fusewire/base/mailbox.h"
#include "fusewire/base/status.h"
#include "fusewire/collective/group/group_monitor.h"
#include "fusewire/collective/kernels/spec.h"
#include "fusewire/collective/run/fingerprint.h"
#include "fusewire/collective/run/schedule_runner.h"
#include "fusewire/reactor/cancel.h"
#include "fusewire/reactor/reactor.h"

namespace fusewire::collective {

// The first turns of a group with an arena set it up: can all ranks share memory, and under which name; then, have all
// met.
constexpr uint64_t kSetUpTurns = 2;

class GroupCore;
struct PlanState;

struct GroupOperation : Mail {
  enum class State : uint8_t {
    kIdle,     // not at home, or between two runs
    kServed,   // the lane has run it, and sends it home
    kBehind,   // it waits for another one of its key
    kRunning,  // it is the only one under its tag
    kEnded,    // its `done` is about to be called
  };

  void Deliver() override;  // group_core.cc

  // Set until it has come home: the Group may be destroyed meanwhile.
  std::shared_ptr<GroupCore> core;
  CollectiveSpec spec;
  Done done;
  State state = State::kIdle;
  uint64_t number = 0;
  uint64_t tag = 0;
  Fingerprint print;
  Status status;
  Status doubt;  // set if a message of this rank has failed at a peer, which is about to send the reason
  int64_t began_ns = 0;
  int64_t deadline_ns = kForeverNs;
  std::unique_ptr<ScheduleRunner> runner;
  std::unique_ptr<reactor::Timer> deadline;
  std::string runner_key;  // the parameters that its runner was made for
  ScheduleRunner::Run run;
  bool work_queued = false;
  uint32_t prepared_epoch = 0;  // of a plan's runner
  // The turn and epoch that the lane has given it, if the lane has seen it.
  std::optional<uint64_t> given_turn;
  uint32_t given_epoch = 0;
  // What is left of its timeout when it begins to go over messages; 0: all of it.
  int64_t left_ns = 0;
  // Of a caller that waits and may cancel it; otherwise null.
  reactor::CancelToken* cancel = nullptr;
  // The epoch in which its arrays were checked last, and the result.
  std::optional<uint32_t> checked_epoch;
  // Over messages, if the group is shown.
  std::unique_ptr<OpRecord> record;
  // Of a plan: the state to which it returns after its end, even if the plan has been destroyed.
  std::shared_ptr<PlanState> home_plan;
};

// Its place among the group's calls, for people: from 1, without the turns that set up an arena; see OpRecord::Begin.
inline int64_t PlaceOf(const Fingerprint& print, bool is_of_lane) {
  if (print.keyed != 0) return -1;
  const auto turn = static_cast<int64_t>(print.turn);
  if (!is_of_lane) return turn + 1;
  return print.turn < kSetUpTurns ? OpRecord::kAgreement : turn + 1 - static_cast<int64_t>(kSetUpTurns);
}

// The status of an operation whose caller has cancelled its token.
inline Status GivenUp() { return Status::Cancelled("the caller gave it up"); }

inline int64_t TimeoutOf(const CollectiveSpec& spec, const GroupOptions& options) {
  return spec.timeout_ns == 0 ? options.timeout_ns : spec.timeout_ns;
}

// Makes operations and numbers them, on any thread. Callers that wait use the memory of an earlier operation again.
class OperationMaker {
 public:
  OperationMaker() = default;
  ~OperationMaker() { const std::unique_ptr<GroupOperation> last(kept_.load()); }
  OperationMaker(const OperationMaker&) = delete;
  OperationMaker& operator=(const OperationMaker&) = delete;

  uint64_t NextNumber() { return next_number_.fetch_add(1, std::memory_order_relaxed) + 1; }
  std::unique_ptr<GroupOperation> Make(const CollectiveSpec& spec);
  // It has not been at home.
  void Keep(std::unique_ptr<GroupOperation> operation);

 private:
  std::atomic<uint64_t> next_number_{0};
  std::atomic<GroupOperation*> kept_{nullptr};  // owned
};

// Holds a plan's operation between two runs.
struct PlanState {
  std::atomic<bool> under_way{false};
  std::unique_ptr<GroupOperation> operation;
};

}  // namespace fusewire::collective
