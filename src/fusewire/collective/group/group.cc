// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/group/group.h"

#include <set>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/log.h"
#include "fusewire/collective/group/group_core.h"
#include "fusewire/pipe/pipe_context.h"
#include "fusewire/reactor/cancel.h"
#include "fusewire/reactor/completion.h"
#include "fusewire/reactor/reactor.h"

namespace fusewire::collective {
namespace {

// How long ~Group waits for its ended operations; a peer that reads nothing of a message loses its pipe before that.
constexpr int64_t kGoodbyeNsMax = 10 * kSecondNs;
constexpr size_t kNameBytesMax = 64 * 1024;

Status Check(const p2p::Endpoint& endpoint, const GroupOptions& options) {
  const auto members = static_cast<int64_t>(options.members.size());
  if (options.name.empty() || options.name.size() > kNameBytesMax)
    return Status::Invalid("a group's `name` has " + std::to_string(options.name.size()) + " bytes")
        .Next("give a name of 1 to 65536 bytes, the same at all ranks");
  if (options.rank < 0 || options.rank >= members || members > kControlSeatsMax)
    return Status::Invalid("rank " + std::to_string(options.rank) + " of " + std::to_string(members) + " members")
        .Next("ranks count from 0 to less than members");
  const size_t hosts = options.places.hosts.size();
  if (hosts != 0 && hosts != options.members.size())
    return Status::Invalid("hosts of " + std::to_string(hosts) + " for " + std::to_string(members) + " members")
        .Next("name the host of each member, or of none");
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

Status MustNotWait(const char* for_what) {
  return Status::Invalid(std::string("a callback of a reactor must not wait for ") + for_what)
      .Next("use Start and go on in `done`, or wait on a thread of your own");
}

Status UnderWay() {
  return Status::Invalid("the plan is under way").Next("wait until it has ended, or make another plan");
}

// Begins an operation, through the lane or over messages.
void Begin(const std::shared_ptr<GroupCore>& core, std::unique_ptr<GroupOperation> operation) {
  if (core->lane() != nullptr && operation->spec.key == 0) return core->lane()->Start(std::move(operation));
  if (core->home().AtHome()) return core->Begin(std::move(operation));
  core->SendHome(std::move(operation));
}

// True: it has ended with operation->status. False: it goes over messages.
bool RunInLane(GroupCore* core, GroupOperation* operation, reactor::CancelToken* cancel) {
  operation->number = core->maker().NextNumber();
  operation->cancel = cancel;
  return core->lane() != nullptr && operation->spec.key == 0 && core->lane()->Run(operation);
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

// Shared with the endpoint's handlers.
Group::Group(std::shared_ptr<GroupCore> core) : core_(std::move(core)) {}

void Group::Leave() {
  reactor::Reactor& home = core_->home();
  FUSEWIRE_CHECK(!home.AtHome());
  home.Run([core = core_.get()] { core->Close(); });
}

Group::~Group() {
  Leave();
  reactor::Reactor& home = core_->home();
  GroupCore* core = core_.get();
  if (core->lane() != nullptr) core->lane()->Stop();
  const Status drained = core->under_way().Wait(home, AddNs(home.clock()->NowNs(), kGoodbyeNsMax));
  // A virtual clock does not advance during the wait.
  if (drained.ok() || home.clock() != Clock::Real()) return;
  FUSEWIRE_LOG(kWarn, "group %s is destroyed before all of it has ended; the rest ends with its endpoint: %s",
               core->options().name.c_str(), drained.Explained().c_str());
}

int Group::rank() const { return core_->state().rank.load(std::memory_order_acquire); }
int Group::ranks() const { return core_->state().ranks.load(std::memory_order_acquire); }
uint32_t Group::epoch() const { return core_->state().epoch.load(std::memory_order_acquire); }
Status Group::broken() const {
  Status why;
  if (!core_->state().is_broken.load(std::memory_order_acquire)) return why;
  core_->home().Run([this, &why] { why = core_->broken(); });
  return why;
}
bool Group::in_arena() const { return core_->lane() != nullptr && core_->lane()->open(); }
std::string Group::NameOf(int rank) const {
  std::string name;
  core_->home().Run([this, rank, &name] { name = core_->NameOf(rank); });
  return name;
}

uint64_t Group::Start(CollectiveSpec spec, Done done) {
  auto operation = std::make_unique<GroupOperation>();
  operation->spec = std::move(spec);
  operation->done = std::move(done);
  operation->number = core_->maker().NextNumber();
  const uint64_t number = operation->number;
  Begin(core_, std::move(operation));
  return number;
}

// Shared with the group, and with the operation's end.
Ticket::Ticket(std::shared_ptr<GroupCore> core, std::shared_ptr<reactor::Completion> end, uint64_t number)
    : core_(std::move(core)), end_(std::move(end)), number_(number) {}

Ticket::~Ticket() {
  if (Test()) return;
  Cancel(Status::Cancelled("its ticket was given up"));
  Wait();
}

bool Ticket::Test() const { return end_->done(); }

bool Ticket::Wait(int64_t limit_ns, reactor::Interrupts interrupts) {
  reactor::Reactor& home = core_->home();
  return end_->Wait(home, AddNs(home.clock()->NowNs(), limit_ns), core_->state().waiting(), interrupts);
}

void Ticket::Cancel(Status why) {
  core_->home().Post([core = core_, number = number_, why = std::move(why)] { core->Cancel(number, why); });
}

const Status& Ticket::status() const { return end_->status(); }

std::unique_ptr<Ticket> Group::StartTicket(CollectiveSpec spec) {
  auto end = std::make_shared<reactor::Completion>();
  const uint64_t number = Start(std::move(spec), [end](Status status) { end->Done(std::move(status)); });
  return std::unique_ptr<Ticket>(new Ticket(core_, std::move(end), number));
}

// Shared with the group, and with the operation under way.
Plan::Plan(std::shared_ptr<GroupCore> core, std::shared_ptr<PlanState> state)
    : core_(std::move(core)), state_(std::move(state)) {}

uint64_t Plan::Start(Done done) {
  if (state_->under_way.exchange(true, std::memory_order_acquire)) {
    core_->home().Post([done = std::move(done)]() mutable { done(UnderWay()); });
    return 0;
  }
  std::unique_ptr<GroupOperation> operation = std::move(state_->operation);
  operation->done = std::move(done);
  operation->number = core_->maker().NextNumber();
  operation->cancel = nullptr;
  operation->home_plan = state_;
  const uint64_t number = operation->number;
  Begin(core_, std::move(operation));
  return number;
}

std::unique_ptr<Ticket> Plan::StartTicket() {
  auto end = std::make_shared<reactor::Completion>();
  const uint64_t number = Start([end](Status status) { end->Done(std::move(status)); });
  return std::unique_ptr<Ticket>(new Ticket(core_, std::move(end), number));
}

Status Plan::Run(reactor::CancelToken* cancel) {
  if (reactor::Reactor::InsideAny()) return MustNotWait("a collective");
  if (state_->under_way.exchange(true, std::memory_order_acquire)) return UnderWay();
  if (!RunInLane(core_.get(), state_->operation.get(), cancel)) {
    std::unique_ptr<GroupOperation> operation = std::move(state_->operation);
    operation->home_plan = state_;
    return core_->RunOverMessages(std::move(operation));
  }
  Status status = std::exchange(state_->operation->status, Status::Ok());
  state_->under_way.store(false, std::memory_order_release);
  return status;
}

std::unique_ptr<Plan> Group::MakePlan(CollectiveSpec spec) {
  auto state = std::make_shared<PlanState>();
  state->operation = std::make_unique<GroupOperation>();
  state->operation->spec = std::move(spec);
  return std::unique_ptr<Plan>(new Plan(core_, std::move(state)));
}

Status Group::Show(const std::string& place, const std::string& runtime) {
  bool is_on = false;
  Status started = StartWatch(place, runtime, core_->endpoint().context().options().secret, &is_on);
  if (is_on) core_->home().Run([core = core_.get()] { core->Show(); });
  return started;
}

Result<std::unique_ptr<Group>> Group::MakeSubgroup(const std::string& name, const std::vector<int>& ranks) {
  GroupOptions options = core_->options();
  std::vector<GroupMember> members;
  std::vector<int> hosts;
  const int mine = rank(), all = this->ranks();
  options.rank = -1;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 0 || ranks[i] >= all)
      return Status::Invalid("rank " + std::to_string(ranks[i]) + " of " + std::to_string(all))
          .Phase("making subgroup \"" + name + "\"")
          .Next("ranks count from 0 to less than ranks");
    if (ranks[i] == mine) options.rank = static_cast<int>(i);
    const std::string member = NameOf(ranks[i]);
    for (size_t seat = 0; seat < options.members.size(); ++seat) {
      if (options.members[seat].name != member) continue;
      members.push_back(options.members[seat]);
      if (!options.places.hosts.empty()) hosts.push_back(options.places.hosts[seat]);
    }
  }
  // Subgroups of the same name, of other groups or with other members, must not receive each other's messages.
  options.name += "/" + name + "/" + std::to_string(epoch());
  for (const int one : ranks) options.name += "," + std::to_string(one);
  options.members = std::move(members);
  options.places.hosts = std::move(hosts);
  return Make(core_->endpoint(), std::move(options));
}

void Group::Cancel(uint64_t number, Status why) {
  core_->home().Post([core = core_, number, why = std::move(why)] { core->Cancel(number, why); });
}

Status Group::Run(const CollectiveSpec& spec, reactor::CancelToken* cancel) {
  if (reactor::Reactor::InsideAny()) return MustNotWait("a collective");
  std::unique_ptr<GroupOperation> operation = core_->maker().Make(spec);
  if (!RunInLane(core_.get(), operation.get(), cancel)) return core_->RunOverMessages(std::move(operation));
  Status status = std::exchange(operation->status, Status::Ok());
  core_->maker().Keep(std::move(operation));
  return status;
}

void Group::Abort(Status why) {
  core_->home().Post([core = core_, why = std::move(why)] {
    core->Break(why.ok() ? Status::Cancelled("the group was aborted") : why, true);
  });
}

Status Group::Shrink(int64_t timeout_ns) {
  if (reactor::Reactor::InsideAny()) return MustNotWait("a group to shrink");
  reactor::Completion shrunk;
  core_->home().Post([core = core_, timeout_ns, &shrunk] {
    core->BeginShrink(timeout_ns, [&shrunk](Status status) { shrunk.Done(std::move(status)); });
  });
  (void)shrunk.Wait(core_->home());
  return shrunk.TakeStatus();
}

}  // namespace fusewire::collective
