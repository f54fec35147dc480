// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Group is some endpoints that make collectives together: it runs schedules over their messages, and reduces while
// messages travel. Members watch each other: when one dies, all hear of it, and the group can shrink and go on.
// Home: its endpoint's reactor; what is here may be called on any thread, what waits on any but a home.
// Owns: its operations, until their end; never the arrays. The endpoint outlives it.
// Fails: each operation on its own, with a Status that names the rank at fault. After a death every operation says so,
// until all survivors have called Shrink. See docs/collectives.md.
#ifndef FUSEWIRE_COLLECTIVE_GROUP_GROUP_H_
#define FUSEWIRE_COLLECTIVE_GROUP_GROUP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fusewire/base/clock.h"
#include "fusewire/base/status.h"
#include "fusewire/collective/group/wanted.h"
#include "fusewire/p2p/endpoint.h"
#include "fusewire/reactor/cancel.h"
#include "fusewire/reactor/completion.h"

namespace fusewire {
namespace collective {

class GroupCore;

// An operation under way, for a caller that asks instead of being told.
// Home: the thread that holds it. Owns: nothing of the arrays. Fails: as its operation.
class Ticket {
 public:
  // Cancels the operation if it is under way, and waits for its end.
  ~Ticket();
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

  bool Test() const;
  // Not from a home. Drives it meanwhile. False: it has not ended within limit_ns, or before an interrupt that ends the
  // wait, and goes on.
  bool Wait(int64_t limit_ns = kForeverNs, reactor::Interrupts interrupts = reactor::Interrupts::kGoOn);
  void Cancel(Status why);
  // After the end.
  const Status& status() const;

 private:
  friend class Group;
  Ticket(std::shared_ptr<GroupCore> core, std::shared_ptr<reactor::Completion> end, uint64_t number);
  // The group may go before its tickets.
  const std::shared_ptr<GroupCore> core_;
  // Shared with the operation's end.
  const std::shared_ptr<reactor::Completion> end_;
  const uint64_t number_;
};

struct PlanState;

// An operation that is prepared once and run again and again on the same arrays: what does not change is neither
// checked nor compiled twice.
// Home: one thread at a time. Owns: its messages; not the arrays, which stay where they are as long as it lives.
// Fails: each run as an operation of the group.
class Plan {
 public:
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() = default;

  // Not while it is under way. As Group::Start and Group::Run.
  void Start(Done done);
  Status Run();

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
  // Does not wait: members may come later.
  static Result<std::unique_ptr<Group>> Make(p2p::Endpoint& endpoint, GroupOptions options);
  // Leaves, and waits until nothing touches the arrays any more.
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // Among those who are left; Shrink changes them.
  int rank() const;
  int ranks() const;
  // How often it has shrunk.
  uint32_t epoch() const;
  // Whether operations without a key go through an arena just now: after the first of them, in a group on one host.
  bool in_arena() const;
  // The name of the member that has this rank now.
  std::string NameOf(int rank) const;

  // Any thread. `done` comes exactly once, never from inside Start, at home; the arrays are not touched any more then.
  // Returns the operation's number.
  uint64_t Start(Wanted wanted, Done done);
  // Any thread. The same with a ticket.
  std::unique_ptr<Ticket> StartTicket(Wanted wanted);
  // Any thread. To be run often; checked at the first run, in its place among all calls of this group.
  std::unique_ptr<Plan> MakePlan(Wanted wanted);
  // Any thread. Ends it with `why` unless it has ended, here, and at the other ranks with words that name this one.
  void Cancel(uint64_t number, Status why);
  // Waits, and drives the home meanwhile. `cancel`, where it is given, ends the operation at once, here and at the
  // other ranks.
  Status Run(Wanted wanted, reactor::CancelToken* cancel = nullptr);
  // Any thread. All that is under way and to come fails with `why`, here and at the other ranks, until Shrink.
  void Abort(Status why);
  // Not from a home; does not wait. Ends what is under way, and tells the others that this rank has left: what it has
  // brought still counts, and only what needs more of it fails. May be repeated.
  void Leave();
  // All survivors call it after a death: they agree on who is left, and go on with new ranks. Waits.
  Status Shrink(int64_t timeout_ns = 0);
  // A group of some of these ranks, in this order, on the same endpoint. All of them call it, with the same name;
  // the others do not.
  Result<std::unique_ptr<Group>> MakeSubgroup(const std::string& name, const std::vector<int>& ranks);

 private:
  explicit Group(std::shared_ptr<GroupCore> core);
  // Shared with the endpoint, which asks it about messages of this group for as long as it lives.
  std::shared_ptr<GroupCore> core_;
};

}  // namespace collective
}  // namespace fusewire

#endif  // FUSEWIRE_COLLECTIVE_GROUP_GROUP_H_
