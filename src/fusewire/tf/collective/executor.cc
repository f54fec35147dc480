// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Runs TensorFlow's collectives with ours if all members of a group have the plug-in: reductions, broadcasts, gathers
// and all-to-alls of arrays in host memory. TensorFlow runs all others itself.
// Home: any thread. Owns: nothing more than its bases. Fails: each operation with a status that names the task.
#include "fusewire/tf/collective/groups.h"

#include <optional>

#include <absl/strings/str_cat.h>
#include <tensorflow/core/common_runtime/base_collective_executor.h>
#include <tensorflow/core/common_runtime/dma_helper.h>
#include <tensorflow/core/distributed_runtime/collective_param_resolver_distributed.h>
#include <tensorflow/core/distributed_runtime/collective_rma_distributed.h>
#include <tensorflow/core/distributed_runtime/device_resolver_distributed.h>
#include <tensorflow/core/distributed_runtime/rpc_collective_executor_mgr.h>
#include <tensorflow/core/framework/op_kernel.h>
#include <tensorflow/core/nccl/collective_communicator.h>
#include <tensorflow/core/platform/fingerprint.h>
#include "fusewire/base/check.h"
#include "fusewire/observe/event.h"
#include "fusewire/tf/bridge/names.h"
#include "fusewire/tf/bridge/status.h"
#include "fusewire/tf/peer/marks.h"
#include "fusewire/tf/profile/profiler.h"

namespace fusewire::tf {
namespace {

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

// The name of our implementation in TensorFlow's table.
constexpr const char* kName = "Fusewire";

std::optional<collective::Type> TypeOf(tensorflow::DataType type) {
  switch (type) {
    case tensorflow::DT_HALF: return collective::Type::kF16;
    case tensorflow::DT_BFLOAT16: return collective::Type::kBf16;
    case tensorflow::DT_FLOAT: return collective::Type::kF32;
    case tensorflow::DT_DOUBLE: return collective::Type::kF64;
    case tensorflow::DT_INT32: return collective::Type::kI32;
    case tensorflow::DT_INT64: return collective::Type::kI64;
    case tensorflow::DT_BOOL: return collective::Type::kBool;  // TensorFlow only broadcasts these
    default: return std::nullopt;
  }
}

// From the kernels of a reduction: the operator, and the division of the result.
std::optional<collective::Op> OpOf(const tensorflow::CollectiveParams& params) {
  if (params.merge_op == nullptr) return std::nullopt;
  const std::string& merge = params.merge_op->type_string();
  const std::string final = params.final_op == nullptr ? "Id" : params.final_op->type_string();
  bool is_sum = merge == "Add" || merge == "AddV2";
  if (is_sum && (final == "Div" || final == "RealDiv")) return collective::Op::kAverage;
  if (final != "Id") return std::nullopt;
  if (is_sum) return collective::Op::kSum;
  if (merge == "Mul") return collective::Op::kProduct;
  if (merge == "Max" || merge == "Maximum") return collective::Op::kMax;
  if (merge == "Min" || merge == "Minimum") return collective::Op::kMin;
  return std::nullopt;
}

bool CanServe(const tensorflow::CollectiveParams& params) {
  if (!TypeOf(params.instance.data_type).has_value()) return false;
  switch (params.instance.type) {
    case tensorflow::REDUCTION_COLLECTIVE: return OpOf(params).has_value();
    case tensorflow::BROADCAST_COLLECTIVE: return params.source_rank >= 0;
    case tensorflow::GATHER_COLLECTIVE:
    case tensorflow::ALL_TO_ALL_COLLECTIVE: return true;
    default: return false;
  }
}

const char* WordsOf(tensorflow::CollectiveType type) {
  switch (type) {
    case tensorflow::REDUCTION_COLLECTIVE: return "all-reduce";
    case tensorflow::BROADCAST_COLLECTIVE: return "broadcast";
    case tensorflow::GATHER_COLLECTIVE: return "all-gather";
    default: return "all-to-all";
  }
}

collective::Pieces PiecesOf(const tensorflow::Tensor& tensor) {
  return collective::Pieces(const_cast<void*>(tensorflow::DMAHelper::base(&tensor)), tensor.TotalBytes());
}

// The search for an operation's group. A cancel of the step ends it early.
// Home: any thread. Owns: nothing. Fails: with what was found, or as cancelled.
class GroupSearch : public std::enable_shared_from_this<GroupSearch> {
 public:
  // Null: the step can't be cancelled.
  GroupSearch(tensorflow::CancellationManager* cancellation, tensorflow::StatusCallback done)
      : cancellation_(cancellation), done_(std::move(done)) {}

  // False: it has been cancelled already, and is at its end.
  bool Begin() {
    if (cancellation_ == nullptr) return true;
    token_ = cancellation_->get_cancellation_token();
    if (cancellation_->RegisterCallback(token_, [self = shared_from_this()] { self->End(Cancelled(), [] {}); }))
      return true;
    End(Cancelled(), [] {});
    return false;
  }
  // `keep` is called if the operation still waits.
  template <class Keep>
  void Found(const TfStatus& status, Keep keep) {
    if (cancellation_ != nullptr) cancellation_->TryDeregisterCallback(token_);
    End(status, keep);
  }

 private:
  static TfStatus Cancelled() { return absl::CancelledError("the step was cancelled"); }
  template <class Keep>
  void End(const TfStatus& status, Keep keep) {
    if (has_ended_.exchange(true, std::memory_order_acq_rel)) return;
    keep();
    auto done = std::move(done_);
    done(status);
  }

  tensorflow::CancellationManager* const cancellation_;
  tensorflow::CancellationToken token_ = tensorflow::CancellationManager::kInvalidToken;
  std::atomic<bool> has_ended_{false};
  tensorflow::StatusCallback done_;
};

// One operation of one rank.
class Implementation final : public tensorflow::CollectiveImplementationInterface {
 public:
  TfStatus InitializeCollectiveParams(tensorflow::CollectiveParams*) override { return TfStatus(); }
  // shared_ptr: as TensorFlow hands it over.
  TfStatus InitializeCollectiveContext(std::shared_ptr<tensorflow::CollectiveContext> context) override {
    context_ = std::move(context);
    return TfStatus();
  }

  void Run(tensorflow::StatusCallback done) override {
    FUSEWIRE_CHECK(context_ != nullptr);
    FUSEWIRE_DCHECK(done_ == nullptr);  // it runs once
    const tensorflow::CollectiveParams& params = *context_->col_params;
    auto* executor = static_cast<CollectiveExecutor*>(context_->col_exec);
    group_ = executor->groups()->Get(params.group);
    if (group_ == nullptr) return done(absl::InternalError("a collective whose group is not there; report this"));
    collective::CollectiveSpec wanted;
    TfStatus sane = Describe(params, &wanted);
    if (!sane.ok()) return done(sane);
    TraceMe trace([this] { return Traced("fusewire collective"); }, kTraceLevel);
    Ref();  // until its end
    done_ = std::move(done);
    tensorflow::CancellationManager* cancellation = context_->op_ctx->cancellation_manager();
    if (cancellation != nullptr) {
      token_ = cancellation->get_cancellation_token();
      Ref();  // until the callback has run, or never will
      bool is_live = cancellation->RegisterCallback(token_, [this] {
        Cancel();
        Unref();
      });
      if (!is_live) {
        Unref();
        token_ = tensorflow::CancellationManager::kInvalidToken;
        Ended(Status::Cancelled("the step was cancelled"));
        return;
      }
    }
    Ref();  // while this goes on: the end may come at any time
    event_.Begin(observe::Kind::kCollective, TagOf(params), context_->step_id, wanted.key);
    bytes_ = wanted.to.bytes();
    uint64_t number = group_->Start(std::move(wanted), [this](Status status) { Ended(std::move(status)); });
    number_.store(number);
    if (is_cancelled_.load()) Cancel();
    Unref();
  }

 private:
  TfStatus Describe(const tensorflow::CollectiveParams& params, collective::CollectiveSpec* wanted) {
    const tensorflow::Tensor* input = context_->input;
    const tensorflow::Tensor& output = *context_->output;
    auto ranks = static_cast<size_t>(params.group.group_size);
    wanted->reduction.type = *TypeOf(params.instance.data_type);
    wanted->key = tensorflow::Fingerprint64(context_->exec_key) * 31 + static_cast<uint64_t>(context_->step_id);
    wanted->key |= 1;  // 0 is none
    wanted->timeout_ns = kForeverNs;
    wanted->to = PiecesOf(output);
    wanted->from = input != nullptr ? PiecesOf(*input) : wanted->to;
    FUSEWIRE_DCHECK(ranks > 1);
    FUSEWIRE_DCHECK(wanted->key != 0);
    size_t size = collective::SizeOf(wanted->reduction.type);
    FUSEWIRE_DCHECK(size > 0);
    size_t in = wanted->from.bytes() / size, out = wanted->to.bytes() / size;
    switch (params.instance.type) {
      case tensorflow::REDUCTION_COLLECTIVE:
        wanted->kind = collective::CollectiveKind::kAllReduce;
        wanted->reduction.op = *OpOf(params);
        wanted->counts = {in};
        if (in != out) return absl::InvalidArgumentError("a reduction whose result and input differ in size");
        return TfStatus();
      case tensorflow::BROADCAST_COLLECTIVE:
        wanted->kind = collective::CollectiveKind::kBroadcast;
        wanted->root = params.source_rank;
        wanted->confirm = true;  // as in TensorFlow's own: the root's process may exit right afterwards
        wanted->counts = {out};
        return TfStatus();
      case tensorflow::GATHER_COLLECTIVE:
        wanted->kind = collective::CollectiveKind::kAllGather;
        wanted->counts.assign(ranks, in);
        if (in * ranks != out) return absl::InvalidArgumentError("a gather whose result has no room for all parts");
        return TfStatus();
      default:
        wanted->kind = collective::CollectiveKind::kAllToAll;
        wanted->counts = {in / ranks};
        if (in != out || in % ranks != 0)
          return absl::InvalidArgumentError("an all-to-all whose array cannot be shared out evenly");
        return TfStatus();
    }
  }

  std::string Traced(const char* name) const {
    return TraceMeEncode(
        name, {{"operation", WordsOf(context_->col_params->instance.type)}, {"bytes", context_->output->TotalBytes()}});
  }

  void EndEvent(const TfStatus& end) {
    event_.End(end.ok(), bytes_, [&](observe::EventFacts* facts) {
      const tensorflow::CollectiveParams& params = *context_->col_params;
      facts->peer = absl::StrCat("group ", params.group.group_key, " of ", params.group.group_size);
      facts->name = absl::StrCat(WordsOf(params.instance.type), " ", context_->exec_key);
      facts->bytes_in = context_->output->TotalBytes();
      facts->bytes_out = context_->input != nullptr ? context_->input->TotalBytes() : 0;
      if (!end.ok()) facts->error = end.ToString();
    });
  }

  // Its peers are all other members, by number: the task that is missing is the one that has not begun it.
  static uint32_t TagOf(const tensorflow::CollectiveParams& params) {
    if (observe::TheRecorder() == nullptr) return 0;
    const auto rank = static_cast<size_t>(params.default_rank);
    const bool is_member = rank < params.group.members.size();
    return observe::FindTag(observe::Kind::kCollective, is_member ? ShortTask(params.group.members[rank].task) : "",
                            absl::StrCat(params.group.group_size, " ranks"), params.name);
  }

  // Either this finds the number, or the thread that stores it sees the cancel.
  void Cancel() {
    is_cancelled_.store(true);
    uint64_t number = number_.load();
    if (number != 0) group_->Cancel(number, Status::Cancelled("the step was cancelled"));
  }

  void Ended(Status status) {
    tensorflow::CancellationManager* cancellation = context_->op_ctx->cancellation_manager();
    bool is_registered = cancellation != nullptr && token_ != tensorflow::CancellationManager::kInvalidToken;
    if (is_registered && cancellation->TryDeregisterCallback(token_)) Unref();
    FUSEWIRE_CHECK(done_ != nullptr);  // it ends once
    tensorflow::StatusCallback done = std::move(done_);
    TfStatus end = ToTf(status);
    TraceMe trace([this] { return Traced("fusewire collective ended"); }, kTraceLevel);
    EndEvent(end);
    done(end);
    Unref();
  }

  // shared_ptr: as TensorFlow holds it.
  std::shared_ptr<tensorflow::CollectiveContext> context_;
  GroupPtr group_;
  tensorflow::StatusCallback done_;
  tensorflow::CancellationToken token_ = tensorflow::CancellationManager::kInvalidToken;
  observe::Event event_;
  uint64_t bytes_ = 0;
  std::atomic<uint64_t> number_{0};
  std::atomic<bool> is_cancelled_{false};
};

class Mgr final : public tensorflow::RpcCollectiveExecutorMgr {
 public:
  Mgr(const tensorflow::ConfigProto& config, const tensorflow::DeviceMgr* devices,
      std::unique_ptr<tensorflow::DeviceResolverDistributed> device_resolver,
      std::unique_ptr<tensorflow::CollectiveParamResolverDistributed> param_resolver,
      std::unique_ptr<tensorflow::NcclCommunicatorInterface> nccl, tensorflow::WorkerCacheInterface* cache,
      const std::string& own_task, CollectiveGroupsPtr groups)
      : RpcCollectiveExecutorMgr(config, devices, std::move(device_resolver), std::move(param_resolver),
                                 std::move(nccl), cache, own_task),
        groups_(std::move(groups)) {}

 protected:
  tensorflow::CollectiveExecutor* Create(int64_t step) override {
    auto* access = new tensorflow::CollectiveRemoteAccessDistributed(dev_mgr_, dev_resolver_.get(), work_queue_,
                                                                     worker_cache_, step, task_name_);
    auto* executor = new CollectiveExecutor(this, access, step, dev_mgr_, work_queue_);
    executor->SetGroups(groups_);
    return executor;
  }

 private:
  const CollectiveGroupsPtr groups_;
};

}  // namespace

void CollectiveExecutor::CompleteParamsAsync(const tensorflow::DeviceAttributes& device,
                                             tensorflow::CollectiveParams* params,
                                             tensorflow::CancellationManager* cancellation,
                                             tensorflow::StatusCallback done) {
  BaseCollectiveExecutor::CompleteParamsAsync(
      device, params, cancellation, [this, params, cancellation, done = std::move(done)](const TfStatus& status) {
        if (!status.ok() || !CanServe(*params)) return done(status);
        // shared_ptr: held by the search's end, and by a cancel.
        auto search = std::make_shared<GroupSearch>(cancellation, done);
        if (!search->Begin()) return;
        groups_->Find(params->group, params->default_rank,
                      [params, search](const TfStatus& found, const GroupPtr& group) {
                        search->Found(found, [&] {
                          if (group != nullptr) params->instance.impl_details.collective_name = kName;
                        });
                      });
      });
}

void CollectiveExecutor::StartAbort(const TfStatus& why) {
  BaseCollectiveExecutor::StartAbort(why);
  groups_->Abort(why);
}

std::unique_ptr<tensorflow::CollectiveExecutorMgrInterface> MakeCollectiveExecutorMgr(
    const tensorflow::ConfigProto& config, const tensorflow::DeviceMgr* devices,
    tensorflow::WorkerCacheInterface* cache, const std::string& own_task, CollectiveGroupsPtr groups) {
  auto nccl = tensorflow::MaybeCreateNcclCommunicator(config);
  auto device_resolver = std::make_unique<tensorflow::DeviceResolverDistributed>(devices);
  auto param_resolver = std::make_unique<tensorflow::CollectiveParamResolverDistributed>(
      config, devices, device_resolver.get(), nccl.get(), cache, own_task);
  return std::make_unique<Mgr>(config, devices, std::move(device_resolver), std::move(param_resolver), std::move(nccl),
                               cache, own_task, std::move(groups));
}

void RegisterCollectives() {
  static tensorflow::CollectiveRegistration registration(kName, [] { return new Implementation; });
}

}  // namespace fusewire::tf
