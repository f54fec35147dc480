// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The collective groups of one server: which of TensorFlow's groups our collectives can serve, and the Group for each.
// A group is served where each task has one device, a CPU, and each task's server is one of ours; every member comes
// to the same answer, and to the same list of hosts, as all ask the same tasks and each tells all the same.
// Home: any thread. Owns: the server's endpoint and the groups. Fails: Find with the reason why a member cannot be
// asked.
#ifndef FUSEWIRE_TF_COLLECTIVE_GROUPS_H_
#define FUSEWIRE_TF_COLLECTIVE_GROUPS_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <tensorflow/core/framework/collective.h>
#include "fusewire/collective/group.h"
#include "fusewire/p2p/p2p.h"
#include "fusewire/pipe/wires.h"
#include "fusewire/rpc/node.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/data/peer.h"

namespace fusewire {
namespace tf {

// shared_ptr: operations that are under way outlast the group's place in the table.
using GroupPtr = std::shared_ptr<collective::Group>;

// The hosts of a group's ranks, from what their tasks say of them. None where a task says nothing: it is of a version
// whose groups know no hosts, and all must know the same.
std::vector<int> HostsOf(const std::vector<uint64_t>& ids);

class CollectiveGroups {
 public:
  struct Options {
    pipe::Options pipe;
    pipe::Wire wire = pipe::Wire::kAuto;
    std::string own_task;  // "/job:worker/replica:0/task:0"
    uint64_t host = 0;     // of this task, as all others are told; see PortWords
    // The address that the cluster gives a task, and the gRPC way to it.
    std::function<TfStatus(const std::string& task, std::string* address, SidePtr* side)> find;
  };
  // `pool` outlives it.
  static Result<std::unique_ptr<CollectiveGroups>> Open(Options options, reactor::Pool& pool);
  ~CollectiveGroups();

  // Where the other members' endpoints reach ours.
  uint16_t port() const { return endpoint_->address().port; }
  uint64_t host() const { return options_.host; }
  // Calls `found` here if the answer is known, else once it is; null: the group is TensorFlow's own to serve.
  using Found = std::function<void(const TfStatus& status, const GroupPtr& group)>;
  void Find(const tensorflow::CollGroupParams& params, int rank, Found found);
  // Null if Find has not found it.
  GroupPtr Get(const tensorflow::CollGroupParams& params);
  // Everything under way and to come fails with this.
  void Abort(const TfStatus& why);
  // Not from a home. Those of this process say goodbye, and what they have sent reaches its peers' hosts if that can
  // be: the process is about to end, and TensorFlow ends no server before.
  static void LeaveAll();

 private:
  struct Entry {
    bool is_known = false;
    TfStatus status;
    GroupPtr group;
    std::vector<Found> waiting;
  };
  class Asking;

  CollectiveGroups(Options options, std::unique_ptr<p2p::Endpoint> endpoint);
  static std::string NameOf(const tensorflow::CollGroupParams& params);
  void Answered(const std::string& name, int rank, const TfStatus& status,
                const std::vector<collective::GroupMember>& members, const std::vector<uint64_t>& host_ids);
  std::vector<GroupPtr> Known() const;
  void Leave();

  const Options options_;
  const std::unique_ptr<p2p::Endpoint> endpoint_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::map<std::string, Entry> entries_;
  Status aborted_;
};

}  // namespace tf
}  // namespace fusewire

#endif  // FUSEWIRE_TF_COLLECTIVE_GROUPS_H_
