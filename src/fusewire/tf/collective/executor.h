// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Runs TensorFlow's collectives with ours if all members of a group have the plug-in: reductions, broadcasts, gathers
// and all-to-alls of arrays in host memory. TensorFlow runs all others itself.
// Home: any thread. Owns: nothing more than its bases. Fails: each operation with a status that names the task.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <tensorflow/core/common_runtime/base_collective_executor.h>
#include <tensorflow/core/distributed_runtime/rpc_collective_executor_mgr.h>
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/collective/groups.h"

namespace fusewire::tf {

// Its lifetime is that of its step; the groups are its manager's.
class CollectiveExecutor final : public tensorflow::BaseCollectiveExecutor {
 public:
  using BaseCollectiveExecutor::BaseCollectiveExecutor;
  void SetGroups(CollectiveGroupsPtr groups) { groups_ = std::move(groups); }
  CollectiveGroups* groups() const { return groups_.get(); }

  void CompleteParamsAsync(const tensorflow::DeviceAttributes& device, tensorflow::CollectiveParams* params,
                           tensorflow::CancellationManager* cancellation, tensorflow::StatusCallback done) override;
  void StartAbort(const TfStatus& why) override;

 private:
  CollectiveGroupsPtr groups_;
};

// As TensorFlow makes its own, with executors of ours. `cache` outlives it.
std::unique_ptr<tensorflow::CollectiveExecutorMgrInterface> MakeCollectiveExecutorMgr(
    const tensorflow::ConfigProto& config, const tensorflow::DeviceMgr* devices,
    tensorflow::WorkerCacheInterface* cache, const std::string& own_task, CollectiveGroupsPtr groups);

// Makes our implementations known to TensorFlow; once for each process.
void RegisterCollectives();

}  // namespace fusewire::tf
