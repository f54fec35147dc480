// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Finds out which of TensorFlow's groups our collectives can serve, and holds the Group for each. A group is served if
// each task has one device, a CPU, and a server of ours. All members ask the same tasks, and each task gives all of
// them the same answer, so all members come to the same result and to the same list of hosts. TensorFlow creates a new
// manager of executors for each cluster that a server is given, and aborted groups work again. So a server has one
// CollectiveHome for its life, and CollectiveGroups for each of its managers in turn. Operations begin once all members
// have the group: the root of a broadcast would end early, and be in its next cluster when the last member asks it.
// Home: any thread. Owns: the server's endpoint and the groups. Fails: Find, with the reason why a member can't be
// asked.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <tensorflow/core/framework/collective.h>
#include "fusewire/base/mutex.h"
#include "fusewire/collective/group/group.h"
#include "fusewire/p2p/p2p.h"
#include "fusewire/task/task.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/peer/peer.h"

namespace fusewire::tf {

// shared_ptr: operations that are under way outlast the group's place in the table.
using GroupPtr = std::shared_ptr<collective::Group>;

// The hosts of a group's ranks, from their tasks' answers. Empty if a task's version does not send its host: all
// members must use the same list.
std::vector<int> HostsOf(const std::vector<uint64_t>& ids);

class CollectiveGroups;
// shared_ptr: a manager's executors hold it, as do questions that are under way.
using CollectiveGroupsPtr = std::shared_ptr<CollectiveGroups>;

class CollectiveHome {
 public:
  struct Options {
    std::string own_task;  // "/job:worker/replica:0/task:0"
    uint64_t host = 0;     // of this task, as in its answer to all others; see PortWords
    // The address that the cluster gives a task, and the gRPC way to it.
    std::function<TfStatus(const std::string& task, std::string* address, SidePtr* side)> find;
  };
  // Its endpoint is a service of `task`, which outlives it. It can be reached once the task listens.
  static Result<std::unique_ptr<CollectiveHome>> Open(Options options, task::Task& task);
  // Groups that are still held can do nothing more.
  ~CollectiveHome();

  const Options& options() const { return options_; }
  p2p::Endpoint& endpoint() { return *endpoint_; }
  // The port at which other members reach our endpoint.
  uint16_t port() const { return endpoint_->address().port; }
  // The number of managers so far: it distinguishes the groups of one from those of the next.
  uint32_t age() const { return age_.load(std::memory_order_acquire); }
  // Not from a home. For a new manager; the groups of the previous one leave.
  CollectiveGroupsPtr Renew();
  // Not from a home. For a process that is about to exit, in which TensorFlow stops no server: all of its groups leave,
  // and their sent data reaches the peers' hosts if possible.
  static void LeaveAll();

 private:
  CollectiveHome(Options options, std::unique_ptr<p2p::Endpoint> endpoint);
  void Leave();
  void Retire(CollectiveGroupsPtr groups);

  const Options options_;
  const std::unique_ptr<p2p::Endpoint> endpoint_;
  std::atomic<uint32_t> age_{0};
  Mutex mutex_;
  CollectiveGroupsPtr present_ FUSEWIRE_GUARDED_BY(mutex_);
  // The groups that have left. Otherwise the last reference could be that of an operation that ends at home, where a
  // group can't be destroyed.
  std::vector<GroupPtr> left_ FUSEWIRE_GUARDED_BY(mutex_);
};

class CollectiveGroups : public std::enable_shared_from_this<CollectiveGroups> {
 public:
  // `home` outlives its use: Retire ends that.
  CollectiveGroups(CollectiveHome& home, uint32_t age) : home_(home), age_(age) {}

  // Calls `found` here if the answer is known, otherwise once it is; null: TensorFlow serves the group.
  using Found = std::function<void(const TfStatus& status, const GroupPtr& group)>;
  void Find(const tensorflow::CollGroupParams& params, int rank, Found found);
  // Null if Find has not found it.
  GroupPtr Get(const tensorflow::CollGroupParams& params);
  // Fails all current and later operations with this status.
  void Abort(const TfStatus& why);
  std::vector<GroupPtr> Known() const;
  // Finds no more groups from now on. Returns those that it had found.
  std::vector<GroupPtr> Retire();

 private:
  struct Entry {
    bool is_known = false;
    TfStatus status;
    GroupPtr group;
    std::vector<Found> waiting;
  };
  // A member's answer about itself.
  struct Told {
    collective::GroupMember member;
    uint64_t host = 0;
    uint32_t age = 0;
    bool joins = false;
  };
  class Asking;

  static std::string NameOf(const tensorflow::CollGroupParams& params);
  void Answered(const std::string& name, int rank, const TfStatus& status, const std::vector<Told>& told);
  void Settle(const std::string& name, const TfStatus& status, const GroupPtr& group);
  Result<std::unique_ptr<collective::Group>> Make(const std::string& name, int rank, const std::vector<Told>& told);

  CollectiveHome& home_;
  const uint32_t age_;
  mutable Mutex mutex_;
  std::map<std::string, Entry> entries_ FUSEWIRE_GUARDED_BY(mutex_);
  Status aborted_ FUSEWIRE_GUARDED_BY(mutex_);
  bool retired_ FUSEWIRE_GUARDED_BY(mutex_) = false;
};

// ---- executor.cc ----

// As TensorFlow makes its own, with executors of ours. `cache` outlives it.
std::unique_ptr<tensorflow::CollectiveExecutorMgrInterface> MakeCollectiveExecutorMgr(
    const tensorflow::ConfigProto& config, const tensorflow::DeviceMgr* devices,
    tensorflow::WorkerCacheInterface* cache, const std::string& own_task, CollectiveGroupsPtr groups);

// Makes our implementations known to TensorFlow; once for each process.
void RegisterCollectives();

}  // namespace fusewire::tf
