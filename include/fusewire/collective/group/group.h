// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Group is a set of endpoints that make collectives together: it runs schedules over their messages, and reduces
// while messages travel. Members watch each other: when one dies, all are notified, and the group can shrink and
// continue. Home: its endpoint's reactor. Any thread may call these functions; those that wait, any thread but a home.
// Owns: its operations, until their end; never the arrays. The endpoint outlives it.
// Fails: each operation on its own, with a Status that names the rank at fault. After a death every operation fails,
// until all survivors have called Shrink. See docs/collectives-contract.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fusewire/base/clock.h"
#include "fusewire/base/status.h"
#include "fusewire/collective/group/options.h"
#include "fusewire/collective/kernels/spec.h"
#include "fusewire/p2p/endpoint.h"
#include "fusewire/reactor/options.h"

namespace fusewire::reactor {
class CancelToken;
class Completion;
}  // namespace fusewire::reactor

namespace fusewire::collective {

class GroupCore;

// An operation under way, for a caller that polls or waits instead of giving a callback.
// Home: the thread that holds it. Owns: nothing of the arrays. Fails: as its operation.
class Ticket {
 public:
  // Cancels the operation if it is under way, and waits for its end.
  ~Ticket();
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

  bool Test() const;
  // Not from a home; drives the home meanwhile. False: the operation has not ended within limit_ns, or before an
  // interrupt that ends the wait, and goes on.
  bool Wait(int64_t limit_ns = kForeverNs, reactor::Interrupts interrupts = reactor::Interrupts::kGoOn);
  void Cancel(Status why);
  // After the end.
  const Status& status() const;

 private:
  friend class Group;
  friend class Plan;
  Ticket(std::shared_ptr<GroupCore> core, std::shared_ptr<reactor::Completion> end, uint64_t number);
  // The group may go before its tickets.
  const std::shared_ptr<GroupCore> core_;
  // Shared with the operation's end.
  const std::shared_ptr<reactor::Completion> end_;
  const uint64_t number_;
};

struct PlanState;

// An operation that is prepared once and run again and again on the same arrays: it is checked and compiled only once.
// Home: one thread at a time. Owns: its messages; not the arrays, which stay valid and unmoved while it lives.
// Fails: each run as an operation of the group; with kInvalid while it is under way.
class Plan {
 public:
  // Cancels nothing: a run that is under way goes on.
  ~Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  // As the functions of Group.
  uint64_t Start(Done done);
  std::unique_ptr<Ticket> StartTicket();
  Status Run(reactor::CancelToken* cancel = nullptr);

 private:
  friend class Group;
  Plan(std::shared_ptr<GroupCore> core, std::shared_ptr<PlanState> state);
  // The group may go before its plans.
  const std::shared_ptr<GroupCore> core_;
  // Shared with the operation while it is under way.
  const std::shared_ptr<PlanState> state_;
};

class Group {
 public:
  // Does not wait: members may connect later.
  static Result<std::unique_ptr<Group>> Make(p2p::Endpoint& endpoint, GroupOptions options);
  // Leaves, and waits until nothing touches the arrays any more.
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // Among the remaining members; Shrink changes both.
  int rank() const;
  int ranks() const;
  // The number of times that the group has shrunk.
  uint32_t epoch() const;
  // Why all operations fail since a rank was lost, until the next Shrink; ok before.
  Status broken() const;
  // Whether operations without a key currently go through an arena: after the first of them, in a group on one host.
  bool in_arena() const;
  // The name of the member that has this rank now.
  std::string NameOf(int rank) const;

  // Any thread. `done` runs exactly once, at home, never inside Start, and after the last access to the arrays. Returns
  // the operation's number.
  uint64_t Start(CollectiveSpec spec, Done done);
  // Any thread. As Start, with a ticket.
  std::unique_ptr<Ticket> StartTicket(CollectiveSpec spec);
  // Any thread. Each run has its place among all calls of this group; the first one checks the arrays.
  std::unique_ptr<Plan> MakePlan(CollectiveSpec spec);
  // Any thread. Ends it with `why`, unless it has ended; at the other ranks it ends with an error that names this rank.
  void Cancel(uint64_t number, Status why);
  // Waits, and drives the home meanwhile. `cancel`, if given, ends the operation at once, here and at the other ranks.
  Status Run(const CollectiveSpec& spec, reactor::CancelToken* cancel = nullptr);
  // Any thread. Current and later operations fail with `why`, here and at the other ranks, until Shrink.
  void Abort(Status why);
  // Not from a home; does not wait. Ends the operations under way here, and notifies the others that this rank has
  // left: data that it has sent stays valid, and only operations that need more of it fail. May be repeated.
  void Leave();
  // All survivors call it after a death: they agree on the remaining members, and continue with new ranks. Waits.
  Status Shrink(int64_t timeout_ns = 0);
  // Shows this process to `fusewire top`, `why`, `trace` and Prometheus (docs/seeing.md), as one task of a cluster:
  // rank N of this group, until it is destroyed. Its operations and those of groups that its endpoint makes later are
  // recorded, and the process answers at a status port: at `place`, in the words of FUSEWIRE_STATUS ("": loopback;
  // "off": nothing happens). `runtime`: XDG_RUNTIME_DIR, or "". Call it before the first operation, not from a home.
  // The second group of an endpoint makes no other task. If it fails, the group works all the same.
  Status Show(const std::string& place = "", const std::string& runtime = "");
  // A group of some of these ranks, in this order, on the same endpoint. All of them call it, with the same name;
  // the others do not.
  Result<std::unique_ptr<Group>> MakeSubgroup(const std::string& name, const std::vector<int>& ranks);

 private:
  explicit Group(std::shared_ptr<GroupCore> core);
  // Shared with the endpoint, which asks it about unexpected messages of this group as long as the endpoint lives.
  std::shared_ptr<GroupCore> core_;
};

}  // namespace fusewire::collective
