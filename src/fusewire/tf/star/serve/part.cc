// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/serve/part.h"

#include <pthread.h>
#include <map>
#include <utility>

#include <absl/strings/str_cat.h>
#include <tensorflow/core/common_runtime/graph_constructor.h>
#include <tensorflow/core/common_runtime/graph_optimizer.h>
#include <tensorflow/core/common_runtime/local_executor_params.h>
#include <tensorflow/core/common_runtime/memory_types.h>
#include <tensorflow/core/common_runtime/optimization_registry.h>
#include <tensorflow/core/common_runtime/rendezvous_mgr.h>
#include <tensorflow/core/framework/node_def_util.h>
#include <tensorflow/core/framework/op.h>
#include <tensorflow/core/framework/op_segment.h>
#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"
#include "fusewire/base/sanitizers.h"
#include "fusewire/tf/star/cut/cut.h"
#include "fusewire/tf/star/cut/grouping.h"

namespace fusewire::tf {

using tensorflow::DataType;
using tensorflow::Node;
using tensorflow::OpKernel;
using tensorflow::Tensor;

namespace {

// A reactor that runs a part serves no other peer meanwhile: longer parts run on the pool.
constexpr int64_t kQuickNs = 2 * kMillisecondNs;

// Stateful by TensorFlow's flag, but without state of their own: variables are shared by name, and ends keep nothing.
bool IsOfNoSession(const std::string& op) {
  return op == "VarHandleOp" || op == "VariableV2" || op == "Variable" || op == "_Arg" || op == "_Retval";
}

// Kernels with state are found by name: their types must match the graph's node.
bool IsKernelOf(const OpKernel& kernel, const tensorflow::NodeProperties& properties) {
  return kernel.type_string() == properties.node_def.op() && kernel.input_types() == properties.input_types &&
         kernel.output_types() == properties.output_types;
}

// The call frame of the executor's _Arg and _Retval kernels.
class Ends final : public tensorflow::CallFrameInterface {
 public:
  Ends(PartRun* run, size_t rets) : run_(run) { run->rets.resize(rets); }
  size_t num_args() const override { return run_->args.size(); }
  size_t num_retvals() const override { return run_->rets.size(); }
  TfStatus GetArg(int index, const Tensor** value) override {
    FUSEWIRE_DCHECK(static_cast<size_t>(index) < run_->args.size());
    *value = &run_->args[static_cast<size_t>(index)];
    TellHappensBefore(run_);  // see RunInExecutor
    return TfStatus();
  }
  bool CanConsumeArg(int) const override { return false; }
  TfStatus SetRetval(int index, const Tensor& value) override {
    FUSEWIRE_DCHECK(static_cast<size_t>(index) < run_->rets.size());
    run_->rets[static_cast<size_t>(index)] = value;
    TellHappensBefore(run_);
    return TfStatus();
  }

 private:
  PartRun* const run_;
};

}  // namespace

TfStatus PartEnds::Read(const tensorflow::Graph& graph, int nodes) {
  std::map<int, uint32_t> takes;
  std::map<int, Kept> keeps;
  for (const Node* node : graph.op_nodes()) {
    if (!node->IsArg() && !node->IsRetval()) continue;
    int index = 0;
    int64_t number = 0, takers = 0;
    Kept kept;
    DataType type = tensorflow::DT_INVALID;
    TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(node->attrs(), "index", &index));
    TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(node->attrs(), "T", &type));
    auto* types = node->IsArg() ? &args_ : &rets_;
    if (index < 0 || index >= nodes)
      return absl::InvalidArgumentError("the index of an _Arg or _Retval is out of range");
    if (types->size() <= static_cast<size_t>(index)) types->resize(static_cast<size_t>(index) + 1);
    if ((*types)[static_cast<size_t>(index)] != tensorflow::DT_INVALID)
      return absl::InvalidArgumentError("a duplicate _Arg or _Retval index");
    (*types)[static_cast<size_t>(index)] = type;
    bool is_taken = tensorflow::TryGetNodeAttr(node->attrs(), kTakeAttribute, &number);
    bool is_kept = tensorflow::TryGetNodeAttr(node->attrs(), kKeepAttribute, &number);
    if (is_kept) {
      TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(node->attrs(), kTakersAttribute, &takers));
      TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(node->attrs(), kHolderAttribute, &kept.holder));
    }
    if (number < 0 || number >= kKeptNumbersMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("a value of a part is kept by number ", number, "; 0 to ", kKeptNumbersMax - 1, " can be"));
    }
    if (takers < 0 || takers > nodes) {
      return absl::InvalidArgumentError(
          absl::StrCat("a value of a part is kept for ", takers, " takers, and its graph has ", nodes, " nodes"));
    }
    kept.number = static_cast<uint32_t>(number);
    kept.takers = static_cast<uint32_t>(takers);
    is_sending_ = is_sending_ || !kept.holder.empty();
    if (is_taken && node->IsArg()) takes[index] = kept.number;
    if (is_kept && node->IsRetval()) keeps[index] = kept;
  }
  for (const auto* types : {&args_, &rets_}) {
    for (DataType type : *types) {
      if (type == tensorflow::DT_INVALID) return absl::InvalidArgumentError("a part lacks an end");
    }
  }
  FUSEWIRE_DCHECK(takes.size() <= args_.size());
  FUSEWIRE_DCHECK(keeps.size() <= rets_.size());
  for (const auto& take : takes) takes_.push_back(take.second);
  for (const auto& keep : keeps) keeps_.push_back(keep.second);
  bool are_last = (takes.empty() || takes.begin()->first == static_cast<int>(given())) &&
                  (keeps.empty() || keeps.begin()->first == static_cast<int>(returned()));
  return are_last ? TfStatus() : absl::InvalidArgumentError("the ends of a part are not numbered in order");
}

Part::Part(Owner owner) : owner_(std::move(owner)) {}

Part::~Part() {
  executor_.reset();
  program_.reset();
  for (OpKernel* kernel : kernels_) DropKernel(kernel);
  if (device_ != nullptr) device_->op_segment()->RemoveHold(owner_.handle);
}

TfStatus Part::Make(const tensorflow::RegisterGraphRequest& request, Owner owner, PartPtr* out) {
  EndThread* ends = owner.ends;
  PartPtr part(new Part(std::move(owner)), [ends](Part* ended) {
    if (ends == nullptr) {
      delete ended;
    } else {
      ends->Leave([ended] { delete ended; });
    }
  });
  TfStatus built = part->Build(request);
  if (built.ok()) *out = std::move(part);
  return built;
}

bool Part::NeedsSession(const tensorflow::GraphDef& graph) {
  for (const tensorflow::NodeDef& node : graph.node()) {
    const tensorflow::OpDef* op = nullptr;
    if (!tensorflow::OpRegistry::Global()->LookUpOpDef(node.op(), &op).ok()) return true;
    if (!op->is_stateful() || IsOfNoSession(node.op())) continue;
    auto shared_name = node.attr().find("shared_name");
    if (shared_name != node.attr().end() && !shared_name->second.s().empty()) continue;
    // Its state is that of its input: a variable, table or queue.
    bool has_handle = false;
    for (const auto& input : op->input_arg())
      has_handle = has_handle || input.is_ref() || input.type() == tensorflow::DT_RESOURCE;
    if (!has_handle) return true;
  }
  return false;
}

// As TensorFlow makes the items of a registered partition.
TfStatus Part::Build(const tensorflow::RegisterGraphRequest& request) {
  const tensorflow::GraphDef& graph = request.graph_def();
  if (graph.node_size() == 0) return absl::InvalidArgumentError("a part of a graph without operations");
  definitions_ =
      std::make_unique<tensorflow::FunctionLibraryDefinition>(tensorflow::OpRegistry::Global(), graph.library());
  graph_ = std::make_unique<tensorflow::Graph>(tensorflow::OpRegistry::Global());
  tensorflow::GraphConstructorOptions options;
  options.allow_internal_ops = true;
  options.expect_device_spec = true;
  options.validate_nodes = true;
  TF_RETURN_IF_ERROR(tensorflow::ConvertGraphDefToGraph(options, graph, graph_.get()));

  tensorflow::DeviceMgr* devices = owner_.session != nullptr ? owner_.session->device_mgr() : owner_.env->device_mgr;
  tensorflow::Device* device = nullptr;
  TF_RETURN_IF_ERROR(devices->LookupDevice(graph.node(0).device(), &device));
  // All of a function is on this task. A function on several devices passes tensors between them through this.
  auto make_rendezvous = [](int64_t, const tensorflow::DeviceMgr* of, TfRef<tensorflow::Rendezvous>* out) {
    *out = TfRef<tensorflow::Rendezvous>(new tensorflow::RefCountedIntraProcessRendezvous(of));
    return TfStatus();
  };
  const tensorflow::OptimizerOptions& optimizer_options = request.graph_options().optimizer_options();
  libraries_ = std::make_unique<tensorflow::ProcessFunctionLibraryRuntime>(
      devices, owner_.env->env, &request.config_proto(), graph.versions().producer(), definitions_.get(),
      optimizer_options, owner_.env->compute_pool, owner_.session != nullptr ? owner_.session->cluster_flr() : nullptr,
      nullptr, tensorflow::Rendezvous::Factory{make_rendezvous});
  library_ = libraries_->GetFLR(device->name());
  if (library_ == nullptr)
    return absl::InvalidArgumentError(absl::StrCat("Cannot find FLR for device: ", device->name()));
  FUSEWIRE_CHECK(device_ == nullptr);  // a hold is released once
  device->op_segment()->AddHold(owner_.handle);
  device_ = device;

  TF_RETURN_IF_ERROR(ends_.Read(*graph_, graph.node_size()));
  TF_RETURN_IF_ERROR(Optimize(optimizer_options));
  FuseRowSums(graph_.get());
  return MakeProgram();
}

// All that TensorFlow does to a partition once it has been cut.
TfStatus Part::Optimize(const tensorflow::OptimizerOptions& options) {
  std::unordered_map<std::string, std::unique_ptr<tensorflow::Graph>> partitions;
  partitions[device_->name()] = std::move(graph_);
  tensorflow::GraphOptimizationPassOptions pass_options;
  pass_options.flib_def = definitions_.get();
  pass_options.partition_graphs = &partitions;
  TfStatus status = tensorflow::OptimizationPassRegistry::Global()->RunGrouping(
      tensorflow::OptimizationPassRegistry::POST_PARTITIONING, pass_options);
  graph_ = std::move(partitions[device_->name()]);
  TF_RETURN_IF_ERROR(status);
  TF_RETURN_IF_ERROR(device_->MaybeRewriteGraph(&graph_));
  tensorflow::GraphOptimizer(options).Optimize(library_, owner_.env->env, device_, &graph_,
                                               tensorflow::GraphOptimizer::Options());
  return tensorflow::EnsureMemoryTypes(tensorflow::DeviceType(device_->device_type()), device_->name(), graph_.get());
}

// A run that takes or leaves values can't simply be repeated: each value is there once.
Again Part::FindAgain() const {
  bool only_reads = true, saves = false;
  Functions functions(definitions_.get());
  for (Node* node : graph_->op_nodes()) {
    if (node->IsArg() || node->IsRetval()) continue;
    if (MayBlock(node->type_string()) || functions.Of(*node).may_block) return Again::kNever;
    const bool is_save = SavesFiles(node->type_string());
    saves = saves || is_save;
    only_reads = only_reads && (is_save || OnlyReads(*node));
  }
  if (!only_reads) return Again::kTicket;
  if (!ends_.keeps().empty()) return Again::kLeaves;
  // Two runs at the same time would write the same file.
  return ends_.takes().empty() && !saves ? Again::kFreely : Again::kTicket;
}

TfStatus Part::MakeProgram() {
  again_ = FindAgain();
  std::vector<OpKernel*> by_node(static_cast<size_t>(graph_->num_node_ids()), nullptr);
  for (Node* node : graph_->op_nodes()) {
    if (node->IsArg() || node->IsRetval()) continue;
    may_take_long_ = may_take_long_ || MayTakeLong(node->type_string());
    TfStatus status = MakeKernel(node->properties(), &by_node[static_cast<size_t>(node->id())]);
    if (!status.ok()) return tensorflow::AttachDef(status, node->def());
    kernels_.push_back(by_node[static_cast<size_t>(node->id())]);
  }
  Program::Place place;
  place.device = device_;
  place.library = library_;
  place.inventory = owner_.inventory;
  place.runner = [pool = owner_.env->compute_pool](std::function<void()> work) { pool->Schedule(std::move(work)); };
  program_ =
      Program::Make(*graph_, place, [&by_node](const Node& node) { return by_node[static_cast<size_t>(node.id())]; });
  if (program_ != nullptr) return TfStatus();
  if (owner_.inventory != nullptr && again_ != Again::kFreely) FindWritten();

  tensorflow::LocalExecutorParams params;
  params.device = device_;
  params.function_library = library_;
  params.create_kernel = [this](const PropertiesPtr& properties, OpKernel** kernel) {
    return MakeKernel(properties, kernel);
  };
  params.delete_kernel = [this](OpKernel* kernel) { DropKernel(kernel); };
  tensorflow::Executor* executor = nullptr;
  TfStatus status = tensorflow::NewLocalExecutor(params, *graph_, &executor);
  executor_.reset(executor);
  return status;
}

void Part::FindWritten() {
  tensorflow::GraphDef graph;
  graph_->ToGraphDef(&graph);
  *graph.mutable_library() = definitions_->ToProto();
  for (const Holding& holding : FindHoldings(graph).holdings) written_.push_back(owner_.inventory->Add(holding));
}

TfStatus Part::MakeKernel(const PropertiesPtr& properties, OpKernel** kernel) {
  const tensorflow::NodeDef& def = properties->node_def;
  if (!IsShared(def.op())) return library_->CreateKernel(properties, kernel);
  TfStatus found = device_->op_segment()->FindOrCreate(
      owner_.handle, def.name(), kernel,
      [this, &properties](OpKernel** made) { return library_->CreateKernel(properties, made); });
  if (!found.ok() || IsKernelOf(**kernel, *properties)) return found;
  *kernel = nullptr;
  return absl::InvalidArgumentError(
      absl::StrCat("this session has another operation that keeps state under the name \"", def.name(), "\""));
}

void Part::DropKernel(OpKernel* kernel) {
  if (kernel != nullptr && !IsShared(kernel->type_string())) delete kernel;
}

// All parts of a session share its kernels with state, as its graphs do. The ends belong to one part.
bool Part::IsShared(const std::string& op) const {
  return op != "_Arg" && op != "_Retval" && tensorflow::OpSegment::ShouldOwnKernel(library_, op);
}

bool Part::is_quick() const {
  return program_ != nullptr && !may_take_long_ && usual_ns_.load(std::memory_order_relaxed) < kQuickNs;
}

void Part::Measured(int64_t ns) {
  FUSEWIRE_DCHECK(ns >= 0);
  int64_t usual = usual_ns_.load(std::memory_order_relaxed);
  // Far from the limit nothing is written: other homes read this word.
  if (usual < kQuickNs / 4 && ns < kQuickNs / 4) return;
  usual_ns_.store(usual == INT64_MAX ? ns : usual + (ns - usual) / 8, std::memory_order_relaxed);
}

void Part::Run(PartRun* run, std::function<void(const TfStatus&)> done) {
  FUSEWIRE_CHECK(program_ != nullptr || executor_ != nullptr);
  FUSEWIRE_DCHECK(run->args.size() == ends_.args().size());
  if (program_ == nullptr) return RunInExecutor(run, std::move(done));
  const int64_t begun_ns = Clock::Real()->NowNs();
  program_->Run(run, [this, begun_ns, done = std::move(done)](const TfStatus& status) {
    const int64_t took_ns = Clock::Real()->NowNs() - begun_ns;
    Measured(took_ns);
    if (owner_.inventory != nullptr) owner_.inventory->CountBusy(took_ns);
    done(status);
  });
}

void Part::RunInExecutor(PartRun* run, std::function<void(const TfStatus&)> done) {
  struct State {
    State(PartRun* of, size_t rets, tensorflow::ResourceMgr* resources)
        : ends(of, rets), container(of->step, [resources](const std::string& name) {
            resources->Cleanup(name).IgnoreError();  // fails if no resource was made
          }) {}
    Ends ends;
    tensorflow::ScopedStepContainer container;
  };
  auto* state = new State(run, ends_.rets().size(), device_->resource_manager());
  tensorflow::Executor::Args args;
  args.step_id = run->step;
  args.call_frame = &state->ends;
  args.step_container = &state->container;
  args.cancellation_manager = &run->cancellation;
  args.stats_collector = run->collector.get();
  args.runner = [pool = owner_.env->compute_pool](std::function<void()> work) { pool->Schedule(std::move(work)); };
  executor_->RunAsync(args, [this, run, state, done = std::move(done)](const TfStatus& status) {
    for (WriteMarks* marks : written_) marks->Whole();
    TellHappensAfter(run);  // TensorFlow, which counts its pending nodes, is not instrumented
    delete state;
    FUSEWIRE_DCHECK(run->rets.size() == ends_.rets().size());
    for (size_t i = 0; i < ends_.rets().size(); ++i) {
      // A dead value: it is not used, but its type is checked.
      if (run->rets[i].dtype() != ends_.rets()[i]) run->rets[i] = Tensor(ends_.rets()[i], tensorflow::TensorShape({0}));
    }
    done(status);
  });
}

EndThread::~EndThread() {
  std::thread ending;
  {
    MutexLock lock(mutex_);
    is_closing_ = true;
    ending = std::move(thread_);
  }
  changed_.NotifyAll();
  if (ending.joinable()) ending.join();
}

void EndThread::Leave(std::function<void()> end) {
  {
    MutexLock lock(mutex_);
    ends_.push_back(std::move(end));
    if (!thread_.joinable() && !is_closing_) thread_ = std::thread([this] { Work(); });
  }
  changed_.NotifyOne();
}

void EndThread::Work() {
  pthread_setname_np(pthread_self(), "fusewire/ends");  // its maker's otherwise
  MutexLock lock(mutex_);
  for (;;) {
    while (ends_.empty()) {
      if (is_closing_) return;
      changed_.Wait(mutex_);
    }
    std::function<void()> end = std::move(ends_.front());
    ends_.pop_front();
    lock.Unlock();
    end();
    end = nullptr;
    lock.Lock();
  }
}

}  // namespace fusewire::tf
