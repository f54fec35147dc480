// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/collective/groups.h"

#include <algorithm>
#include <set>
#include <utility>

#include <absl/strings/str_cat.h>
#include <tensorflow/core/platform/env.h>
#include "fusewire/base/check.h"
#include "fusewire/base/log.h"
#include "fusewire/pipe/pipe_context.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/tf/bridge/status.h"

namespace fusewire::tf {
namespace {

// Of the operation with which a group begins. Those of TensorFlow's are odd.
constexpr uint64_t kJoinKey = 2;

// "on 2 hosts"
std::string WhereIs(const std::vector<int>& hosts) {
  if (hosts.empty()) return "on hosts that some of them do not name";
  size_t count = std::set<int>(hosts.begin(), hosts.end()).size();
  return count == 1 ? "on one host" : absl::StrCat("on ", count, " hosts");
}

// All of this process.
struct Living {
  Mutex mutex;
  std::set<CollectiveHome*> all FUSEWIRE_GUARDED_BY(mutex);
};

Living& TheLiving() {
  static auto* const living = new Living;  // never freed: other threads may need it at exit
  return *living;
}

}  // namespace

std::vector<int> HostsOf(const std::vector<uint64_t>& ids) {
  std::vector<int> hosts;
  for (uint64_t id : ids) {
    if (id == 0) return {};
    hosts.push_back(static_cast<int>(std::find(ids.begin(), ids.end(), id) - ids.begin()));
  }
  return hosts;
}

// One request to each member; the last answer ends it.
class CollectiveGroups::Asking : public std::enable_shared_from_this<Asking> {
 public:
  Asking(CollectiveGroupsPtr groups, std::string name, int rank, size_t members)
      : groups_(std::move(groups)), name_(std::move(name)), rank_(rank), told_(members), left_(members) {}

  void Ask(size_t index, const std::string& task) {
    const CollectiveHome::Options& own = groups_->home_.options();
    told_[index].member.name = task;
    if (task == own.own_task) {
      told_[index].host = own.host;
      told_[index].age = groups_->age_;
      told_[index].joins = true;
      Ended(TfStatus());
      return;
    }
    // shared_ptr: std::function wants copies.
    struct Question {
      std::string address;
      SidePtr side;
      tensorflow::LoggingRequest request;
      tensorflow::LoggingResponse response;
    };
    auto question = std::make_shared<Question>();
    TfStatus found = own.find(task, &question->address, &question->side);
    if (!found.ok()) return Ended(found);
    PortWords::Ask(&question->request);
    question->side->worker()->LoggingAsync(
        &question->request, &question->response, [self = shared_from_this(), index, question](const TfStatus& status) {
          PortWords words;
          bool has_plugin = status.ok() && words.Read(question->response) && words.group_port != 0;
          if (has_plugin) {
            Result<transport::Address> grpc = transport::Address::Parse(question->address);
            Told& told = self->told_[index];
            told.member.address.host = grpc.ok() ? grpc.value().host : question->address;
            if (!words.advertised.empty()) told.member.address.host = words.advertised;
            told.member.address.port = words.group_port;
            told.host = words.host;
            told.age = words.group_age;
            told.joins = words.joins;
          } else {
            self->are_ours_.store(false, std::memory_order_relaxed);
          }
          // A server without this method has no plug-in.
          self->Ended(absl::IsUnimplemented(status) ? TfStatus() : status);
        });
  }

 private:
  void Ended(const TfStatus& status) {
    TfStatus end;
    {
      MutexLock lock(mutex_);
      if (status_.ok()) status_ = status;
      FUSEWIRE_CHECK(left_ > 0);
      if (--left_ > 0) return;
      end = status_;
    }
    if (!are_ours_.load(std::memory_order_relaxed)) told_.clear();
    groups_->Answered(name_, rank_, end, told_);
  }

  const CollectiveGroupsPtr groups_;
  const std::string name_;
  const int rank_;
  std::vector<Told> told_;  // each is written by its own answer, and read by the last one
  std::atomic<bool> are_ours_{true};
  Mutex mutex_;
  size_t left_ FUSEWIRE_GUARDED_BY(mutex_);
  TfStatus status_ FUSEWIRE_GUARDED_BY(mutex_);
};

Result<std::unique_ptr<CollectiveHome>> CollectiveHome::Open(Options options, task::Task& task) {
  p2p::EndpointOptions endpoint;
  endpoint.pipe = task.context().options();
  endpoint.pipe.name = options.own_task;
  // Without a timeout: a member may be busy for hours. A dead one is detected by its pipe.
  endpoint.limits.timeout_ns = kForeverNs;
  endpoint.limits.patience_ns = kForeverNs;
  std::unique_ptr<p2p::Endpoint> made = FUSEWIRE_TRY(p2p::Endpoint::Open(task, std::move(endpoint)));
  return std::unique_ptr<CollectiveHome>(new CollectiveHome(std::move(options), std::move(made)));
}

CollectiveHome::CollectiveHome(Options options, std::unique_ptr<p2p::Endpoint> endpoint)
    : options_(std::move(options)), endpoint_(std::move(endpoint)) {
  MutexLock lock(TheLiving().mutex);
  TheLiving().all.insert(this);
}

CollectiveHome::~CollectiveHome() {
  FUSEWIRE_DCHECK(!reactor::Reactor::InsideAny());
  {
    MutexLock lock(TheLiving().mutex);
    TheLiving().all.erase(this);
  }
  if (present_ != nullptr) Retire(std::move(present_));
  left_.clear();
  endpoint_->Close();
}

CollectiveGroupsPtr CollectiveHome::Renew() {
  FUSEWIRE_DCHECK(!reactor::Reactor::InsideAny());
  CollectiveGroupsPtr before;
  std::vector<GroupPtr> unused;
  CollectiveGroupsPtr renewed;
  {
    MutexLock lock(mutex_);
    before = std::move(present_);
    if (before != nullptr) age_.fetch_add(1, std::memory_order_acq_rel);
    renewed = present_ = std::make_shared<CollectiveGroups>(*this, age());
    for (size_t i = left_.size(); i-- > 0;) {
      if (left_[i].use_count() > 1) continue;
      unused.push_back(std::move(left_[i]));
      left_.erase(left_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  if (before != nullptr) Retire(std::move(before));
  return renewed;
}

void CollectiveHome::Retire(CollectiveGroupsPtr groups) {
  for (GroupPtr& group : groups->Retire()) {
    group->Leave();
    MutexLock lock(mutex_);
    left_.push_back(std::move(group));
  }
}

void CollectiveHome::LeaveAll() {
  FUSEWIRE_DCHECK(!reactor::Reactor::InsideAny());
  MutexLock lock(TheLiving().mutex);
  for (CollectiveHome* home : TheLiving().all) home->Leave();
}

void CollectiveHome::Leave() {
  CollectiveGroupsPtr present;
  {
    MutexLock lock(mutex_);
    present = present_;
  }
  if (present != nullptr) {
    for (const GroupPtr& group : present->Known()) group->Leave();
  }
  endpoint_->Close();
}

std::vector<GroupPtr> CollectiveGroups::Known() const {
  MutexLock lock(mutex_);
  std::vector<GroupPtr> groups;
  for (const auto& [name, entry] : entries_) {
    if (entry.group != nullptr) groups.push_back(entry.group);
  }
  return groups;
}

std::vector<GroupPtr> CollectiveGroups::Retire() {
  std::vector<GroupPtr> groups = Known();
  MutexLock lock(mutex_);
  for (auto& [name, entry] : entries_) entry.group = nullptr;
  retired_ = true;
  return groups;
}

// The same at all members, and another one when one of them has been restarted.
std::string CollectiveGroups::NameOf(const tensorflow::CollGroupParams& params) {
  std::string name = absl::StrCat("tf ", params.group_key);
  for (const tensorflow::CollGroupMember& member : params.members)
    absl::StrAppend(&name, " ", absl::Hex(member.device.incarnation()));
  return name;
}

void CollectiveGroups::Find(const tensorflow::CollGroupParams& params, int rank, Found found) {
  bool has_one_each = params.num_tasks == params.group_size && params.device_type == tensorflow::DEVICE_CPU;
  if (!has_one_each || params.group_size < 2 || rank < 0) return found(TfStatus(), nullptr);
  std::string name = NameOf(params);
  {
    MutexLock lock(mutex_);
    bool is_first = entries_.find(name) == entries_.end();
    Entry& entry = entries_[name];
    if (entry.is_known) {
      TfStatus status = entry.status;
      GroupPtr group = entry.group;
      lock.Unlock();
      found(status, group);
      return;
    }
    entry.waiting.push_back(std::move(found));
    if (!is_first) return;
  }
  // shared_ptr: held by each of its requests.
  auto asking = std::make_shared<Asking>(shared_from_this(), name, rank, params.members.size());
  for (size_t i = 0; i < params.members.size(); ++i) asking->Ask(i, params.members[i].task);
}

Result<std::unique_ptr<collective::Group>> CollectiveGroups::Make(const std::string& name, int rank,
                                                                  const std::vector<Told>& told) {
  FUSEWIRE_DCHECK(rank >= 0);
  FUSEWIRE_DCHECK(static_cast<size_t>(rank) < told.size());
  collective::GroupOptions options;
  options.name = name;
  options.rank = rank;
  std::vector<uint64_t> host_ids;
  for (const Told& each : told) {
    options.members.push_back(each.member);
    host_ids.push_back(each.host);
  }
  // At age 0, the same name as in a version without ages.
  bool is_first = std::all_of(told.begin(), told.end(), [](const Told& each) { return each.age == 0; });
  for (size_t i = 0; i < told.size() && !is_first; ++i)
    absl::StrAppend(&options.name, i == 0 ? " age " : " ", told[i].age);
  options.places.hosts = HostsOf(host_ids);
  const std::string where = WhereIs(options.places.hosts);
  // On a known single host, the group would make an arena, which takes no operation with a key; all of ours have one,
  // because executors run them in any order. And with more ranks than processors, it would choose the algorithm with
  // the fewest messages, which was no faster here.
  if (options.places.one_host()) options.places.hosts.clear();
  Result<std::unique_ptr<collective::Group>> made = collective::Group::Make(home_.endpoint(), std::move(options));
  if (made.ok()) {
    FUSEWIRE_LOG(kInfo, "%s: %d tasks run their collectives over our wire, %s", home_.options().own_task.c_str(),
                 static_cast<int>(told.size()), where.c_str());
  }
  return made;
}

void CollectiveGroups::Answered(const std::string& name, int rank, const TfStatus& status,
                                const std::vector<Told>& told) {
  GroupPtr group;
  TfStatus end = status;
  Status aborted;
  {
    // Held while the group is made: either Retire sees the group, or this sees that it has been retired.
    MutexLock lock(mutex_);
    if (retired_) {
      end =
          absl::AbortedError("collectives of a cluster that has been replaced: the server has been given another one");
    } else if (end.ok() && !told.empty()) {
      Result<std::unique_ptr<collective::Group>> made = Make(name, rank, told);
      if (made.ok()) {
        group = std::move(made).value();
      } else {
        end = ToTf(made.status());
      }
    }
    entries_[name].group = group;
    aborted = aborted_;
  }
  if (group != nullptr && !aborted.ok()) group->Abort(aborted);
  const bool joins = std::all_of(told.begin(), told.end(), [](const Told& each) { return each.joins; });
  if (group == nullptr || !joins) return Settle(name, end, group);
  collective::CollectiveSpec barrier;
  barrier.key = kJoinKey;
  barrier.timeout_ns = kForeverNs;
  // What waits may go on for long: not at the group's home.
  group->Start(std::move(barrier), [self = shared_from_this(), name, group](Status joined) {
    tensorflow::Env::Default()->SchedClosure(
        [self, name, group, end = ToTf(joined)] { self->Settle(name, end, group); });
  });
}

void CollectiveGroups::Settle(const std::string& name, const TfStatus& status, const GroupPtr& group) {
  std::vector<Found> waiting;
  {
    MutexLock lock(mutex_);
    Entry& entry = entries_[name];
    FUSEWIRE_DCHECK(!entry.is_known);
    FUSEWIRE_DCHECK(!entry.waiting.empty());  // the caller that asked
    waiting.swap(entry.waiting);
    entry.status = status;
    entry.is_known = true;
    // A member that could not be asked may be asked again. A group that could not begin is lost, as an aborted one.
    if (!status.ok() && group == nullptr) entries_.erase(name);
  }
  for (Found& found : waiting) found(status, group);
}

GroupPtr CollectiveGroups::Get(const tensorflow::CollGroupParams& params) {
  MutexLock lock(mutex_);
  auto found = entries_.find(NameOf(params));
  return found == entries_.end() ? nullptr : found->second.group;
}

void CollectiveGroups::Abort(const TfStatus& why) {
  const Status aborted = FromTf(why);
  {
    MutexLock lock(mutex_);
    if (!aborted_.ok()) return;
    aborted_ = aborted;
  }
  for (const GroupPtr& group : Known()) group->Abort(aborted);
}

}  // namespace fusewire::tf
