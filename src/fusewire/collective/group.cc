// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/group.h"

#include <set>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/collective/group_core.h"

namespace fusewire {
namespace collective {
namespace {

// How long a group that goes waits for what it has ended: a peer that takes nothing of a message loses its pipe before.
constexpr int64_t kGoodbyeNsMax = 10 * kSecondNs;
constexpr size_t kNameBytesMax = 200;

Status Check(const p2p::Endpoint& endpoint, const GroupOptions& options) {
  const auto members = static_cast<int64_t>(options.members.size());
  if (options.name.empty() || options.name.size() > kNameBytesMax)
    return Status::Invalid("a group's name has " + std::to_string(options.name.size()) + " bytes")
        .Next("give it 1 to 200, the same at all ranks");
  if (options.rank < 0 || options.rank >= members || members > kNoteSeatsMax)
    return Status::Invalid("rank " + std::to_string(options.rank) + " of " + std::to_string(members) + " members")
        .Next("ranks count from 0 to less than members");
  std::set<std::string> names;
  for (const GroupMember& member : options.members) {
    if (!names.insert(member.name).second)
      return Status::Invalid("two members are named \"" + member.name + "\"").Next("name each endpoint once");
  }
  const std::string& mine = options.members[static_cast<size_t>(options.rank)].name;
  if (mine == endpoint.name()) return Status::Ok();
  return Status::Invalid("rank " + std::to_string(options.rank) + " is \"" + mine + "\", and the endpoint is \"" +
                         endpoint.name() + "\"")
      .Next("give the rank of this endpoint");
}

}  // namespace

Result<std::unique_ptr<Group>> Group::Make(p2p::Endpoint& endpoint, GroupOptions options) {
  const Status fits = Check(endpoint, options);
  if (!fits.ok()) return fits.Phase("making group \"" + options.name + "\"");
  auto core = std::make_shared<GroupCore>(endpoint, std::move(options));
  Status opened;
  endpoint.home().Run([&] { opened = core->Open(); });
  if (!opened.ok()) return opened;
  return std::unique_ptr<Group>(new Group(std::move(core)));
}

Group::Group(std::shared_ptr<GroupCore> core) : core_(std::move(core)) {}

Group::~Group() {
  reactor::Reactor& home = core_->home();
  FUSEWIRE_CHECK(!home.AtHome());
  GroupCore* core = core_.get();
  home.Run([core] { core->Close(); });
  Clock* clock = home.clock();
  const int64_t end_ns = AddNs(clock->NowNs(), kGoodbyeNsMax);
  auto idle = [core, &home] {
    bool is_idle = false;
    home.Run([core, &is_idle] { is_idle = core->idle(); });
    return is_idle;
  };
  while (!idle() && clock->NowNs() < end_ns) {
    reactor::Waiter nap;
    // A clock that is turned by hand does not move while we wait: what is left ends with the endpoint.
    if (!home.Wait(&nap, AddNs(clock->NowNs(), kMillisecondNs)) && clock != Clock::Real()) break;
  }
}

int Group::rank() const { return core_->rank(); }
int Group::ranks() const { return core_->ranks(); }
uint32_t Group::epoch() const { return core_->epoch(); }
std::string Group::NameOf(int rank) const {
  std::string name;
  core_->home().Run([this, rank, &name] { name = core_->NameOf(rank); });
  return name;
}

uint64_t Group::Start(Wanted wanted, Done done) {
  auto operation = std::make_unique<GroupOperation>();
  operation->wanted = std::move(wanted);
  operation->done = std::move(done);
  operation->number = core_->NextNumber();
  const uint64_t number = operation->number;
  if (core_->home().AtHome()) {
    core_->Begin(std::move(operation));
  } else {
    operation->core = core_;
    core_->home().Post(static_cast<Mail*>(operation.release()));  // its own, until it is delivered
  }
  return number;
}

void Group::Cancel(uint64_t number, Status why) {
  core_->home().Post([core = core_, number, why = std::move(why)] { core->Cancel(number, why); });
}

Status Group::Run(Wanted wanted) {
  if (reactor::Reactor::InsideAny()) {
    return Status::Invalid("a callback of a reactor must not wait for a collective")
        .Next("use Start and go on in `done`, or wait on a thread of your own");
  }
  reactor::Waiter waiter;
  Status outcome;
  auto operation = std::make_unique<GroupOperation>();
  operation->wanted = std::move(wanted);
  operation->number = core_->NextNumber();
  operation->core = core_;
  operation->done = [&waiter, &outcome](const Status& status) {
    outcome = status;
    waiter.Signal();
  };
  // Its own deadline ends it.
  core_->home().PostAndWait(static_cast<Mail*>(operation.release()), &waiter, kForeverNs);
  return outcome;
}

void Group::Abort(Status why) {
  core_->home().Post([core = core_, why = std::move(why)] {
    core->Break(why.ok() ? Status::Cancelled("the group was aborted") : why, true);
  });
}

Status Group::Shrink(int64_t timeout_ns) {
  if (reactor::Reactor::InsideAny()) {
    return Status::Invalid("a callback of a reactor must not wait for a group to shrink")
        .Next("call Shrink on a thread of your own");
  }
  reactor::Waiter waiter;
  Status outcome;
  core_->home().Post([core = core_, timeout_ns, &waiter, &outcome] {
    core->BeginShrink(timeout_ns, [&waiter, &outcome](const Status& status) {
      outcome = status;
      waiter.Signal();
    });
  });
  core_->home().Wait(&waiter, kForeverNs);
  return outcome;
}

}  // namespace collective
}  // namespace fusewire
