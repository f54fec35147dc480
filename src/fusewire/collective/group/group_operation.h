// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// An operation of a group, from Start to done; that of a plan again and again. It is data: operations.h says what
// becomes of it, and operation_table.h what state it is in.
// Home: its maker's until it is posted, then the group's, or its lane's. Owns: its runner. Fails: as `status` says.
#ifndef FUSEWIRE_COLLECTIVE_GROUP_GROUP_OPERATION_H_
#define FUSEWIRE_COLLECTIVE_GROUP_GROUP_OPERATION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "fusewire/base/clock.h"
#include "fusewire/base/mailbox.h"
#include "fusewire/base/status.h"
#include "fusewire/collective/group/wanted.h"
#include "fusewire/collective/run/fingerprint.h"
#include "fusewire/collective/run/schedule_runner.h"
#include "fusewire/reactor/cancel.h"
#include "fusewire/reactor/reactor.h"

namespace fusewire {
namespace collective {

class GroupCore;
struct PlanState;

struct GroupOperation : Mail {
  enum class State : uint8_t {
    kIdle,     // not at home, or between two runs
    kServed,   // the lane has run it, and sends it home
    kBehind,   // another one of its key is under way
    kRunning,  // its tag is its own
    kEnded,    // its `done` is about to be called
  };

  void Deliver() override;  // group_core.cc

  // Until it has come home: the Group may go meanwhile.
  std::shared_ptr<GroupCore> core;
  Wanted wanted;
  Done done;
  State state = State::kIdle;
  uint64_t number = 0;
  uint64_t tag = 0;
  Fingerprint print;
  Status status;
  Status doubt;  // a message of ours has failed at a peer, which is about to send the reason
  int64_t began_ns = 0;
  int64_t deadline_ns = kForeverNs;
  std::unique_ptr<ScheduleRunner> runner;
  std::unique_ptr<reactor::Timer> deadline;
  std::string runner_key;  // what its runner was made for
  ScheduleRunner::Run run;
  bool work_queued = false;
  uint32_t prepared_epoch = 0;  // of a plan's runner
  // Of those that the lane has seen: their place.
  std::optional<uint64_t> given_turn;
  uint32_t given_epoch = 0;
  // Of one whose caller waits, and may give it up; null: it does not.
  reactor::CancelToken* cancel = nullptr;
  // Of its arrays: when they were last looked at, and what came of it.
  std::optional<uint32_t> checked_epoch;
  bool in_place = false;
  // Of a plan, while it is under way: where it goes back to, though the plan may be gone.
  std::shared_ptr<PlanState> home_plan;
};

// Why an operation ends whose caller does not want it any more.
inline Status GivenUp() { return Status::Cancelled("the caller gave it up"); }

// Where a plan's operation lies between two runs.
struct PlanState {
  std::unique_ptr<GroupOperation> operation;
};

}  // namespace collective
}  // namespace fusewire

#endif  // FUSEWIRE_COLLECTIVE_GROUP_GROUP_OPERATION_H_
