// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/session.h"

#include <pthread.h>
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>

#include <absl/strings/str_cat.h>
#include <tensorflow/core/distributed_runtime/message_wrappers.h>
#include <tensorflow/core/platform/env.h>
#include <tensorflow/core/platform/logging.h>
#include <tensorflow/core/protobuf/debug.pb.h>
#include <tensorflow/core/protobuf/rewriter_config.pb.h>
#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"
#include "fusewire/observe/event.h"
#include "fusewire/tf/bridge/status.h"
#include "fusewire/tf/fuse/passes.h"
#include "fusewire/tf/receive/step_context.h"

namespace fusewire::tf {

using tensorflow::MasterSession;
using tensorflow::RunMetadata;
using tensorflow::RunOptions;
using tensorflow::Tensor;

namespace {

// A master makes its sessions on its own thread, from a config: a number that we write into the config identifies each.
constexpr const char* kOptimizer = "fusewire";
constexpr const char* kNumber = "session";

struct Offers {
  Mutex mutex;
  std::set<std::string> targets FUSEWIRE_GUARDED_BY(mutex);
  std::map<int64_t, TfRef<MasterSession>> made FUSEWIRE_GUARDED_BY(mutex);  // not collected yet
};

Offers& All() {
  static auto* offers = new Offers;
  return *offers;
}

int64_t NumberOf(const tensorflow::ConfigProto& config) {
  for (const auto& optimizer : config.graph_options().rewrite_options().custom_optimizers()) {
    auto number = optimizer.parameter_map().find(kNumber);
    if (optimizer.name() == kOptimizer && number != optimizer.parameter_map().end()) return number->second.i();
  }
  return 0;
}

TfRef<MasterSession> Collect(int64_t number) {
  Offers& offers = All();
  MutexLock lock(offers.mutex);
  auto made = offers.made.find(number);
  if (made == offers.made.end()) return nullptr;
  TfRef<MasterSession> session = std::move(made->second);
  offers.made.erase(made);
  return session;
}

// Whether the error comes from the master's session itself: an error of an operation begins with its place.
bool IsClosed(const TfStatus& status) {
  return absl::IsFailedPrecondition(status) && status.message() == "Session is closed.";
}

struct GraphsHeld {
  GraphsHeld() { HoldFusion(1); }
  ~GraphsHeld() { HoldFusion(-1); }
};

// Sessions of a process share these names: it is the program that is in one, or elsewhere.
observe::Event BeginOf(std::atomic<uint32_t>* tag, const char* name) {
  observe::Event event;
  if (observe::TheRecorder() == nullptr) return event;
  uint32_t known = tag->load(std::memory_order_relaxed);
  if (known == 0) {  // not looked up yet
    known = observe::FindTag(observe::Kind::kSession, "", "", name);
    tag->store(known, std::memory_order_relaxed);
  }
  event.Begin(observe::Kind::kSession, known, 0, 0);
  return event;
}

observe::Event BeginStep() {
  static std::atomic<uint32_t> tag{0};
  return BeginOf(&tag, "Session.run");
}

// TensorFlow's master waits here until every task of the cluster has answered.
template <class Create>
TfStatus Recorded(Create create) {
  static std::atomic<uint32_t> tag{0};
  observe::Event event = BeginOf(&tag, "Session.create");
  TfStatus status = create();
  event.End(status.ok());
  return status;
}

std::atomic<int64_t> repeat_steps_ns{0};

// Whether to run a step again that has ended so. Waits a moment first: a lost task is not back at once.
// *until_ns: when to give up; 0 before the step's first loss.
bool MayRepeat(const TfStatus& status, int64_t* until_ns) {
  const int64_t repeat_ns = repeat_steps_ns.load(std::memory_order_relaxed);
  if (status.ok() || repeat_ns == 0 || !IsLostTask(status)) return false;
  const int64_t now_ns = Clock::Real()->NowNs();
  if (*until_ns == 0) {
    *until_ns = AddNs(now_ns, repeat_ns);
    LOG(WARNING) << "fusewire: a step is made again, since a task was lost; other tasks may have done their part of it "
                    "already: "
                 << status.message();
  }
  if (now_ns >= *until_ns) return false;
  constexpr int64_t kAgainUs = 100'000;
  tensorflow::Env::Default()->SleepForMicroseconds(kAgainUs);
  return true;
}

TfRef<MasterSession> Share(MasterSession* session) {
  FUSEWIRE_DCHECK(session != nullptr);
  session->Ref();
  return TfRef<MasterSession>(session);
}

}  // namespace

void RepeatSteps(int64_t limit_ns) { repeat_steps_ns = limit_ns; }

void OfferSessions(const std::string& target, tensorflow::MasterEnv* env) {
  env->master_session_factory = [make = env->master_session_factory](
                                    tensorflow::SessionOptions options, tensorflow::MasterEnv* of,
                                    std::unique_ptr<std::vector<std::unique_ptr<tensorflow::Device>>> devices,
                                    std::unique_ptr<tensorflow::WorkerCacheInterface> cache,
                                    std::unique_ptr<tensorflow::DeviceSet> set, std::vector<std::string> workers) {
    int64_t number = NumberOf(options.config);
    MasterSession* made =
        make(std::move(options), of, std::move(devices), std::move(cache), std::move(set), std::move(workers));
    if (number == 0) return made;
    Offers& offers = All();
    MutexLock lock(offers.mutex);
    offers.made[number] = Share(made);
    return made;
  };
  Offers& offers = All();
  MutexLock lock(offers.mutex);
  offers.targets.insert(target);
}

bool HasSessionsFor(const std::string& target) {
  Offers& offers = All();
  MutexLock lock(offers.mutex);
  return offers.targets.count(target) > 0;
}

TfStatus Session::Make(tensorflow::SessionOptions options, tensorflow::Session** out) {
  static std::atomic<int64_t> last_number{0};
  int64_t number = ++last_number;
  FUSEWIRE_DCHECK(number > 0);  // 0 is a session that is not ours
  const int64_t limit_ms = options.config.operation_timeout_in_ms();
  CompressOptions compress;
  TF_RETURN_IF_ERROR(ReadCompressOptions(options.config, &compress));
  auto* mark = options.config.mutable_graph_options()->mutable_rewrite_options()->add_custom_optimizers();
  mark->set_name(kOptimizer);
  (*mark->mutable_parameter_map())[kNumber].set_i(number);
  tensorflow::Session* inner = nullptr;
  TfStatus made = tensorflow::NewSession(options, &inner);
  if (made.ok()) *out = new Session(std::unique_ptr<tensorflow::Session>(inner), number, limit_ms, std::move(compress));
  return made;
}

Session::Session(std::unique_ptr<tensorflow::Session> inner, int64_t number, int64_t limit_ms, CompressOptions compress)
    : inner_(std::move(inner)), number_(number), limit_ms_(limit_ms), compress_(std::move(compress)) {}

Session::~Session() { LetGo(); }

TfStatus Session::Created(const TfStatus& status) {
  MasterPtr master = Collect(number_);
  if (!status.ok() || master == nullptr) return status;
  MutexLock lock(mutex_);
  master_ = std::move(master);
  return status;
}

Session::MasterPtr Session::Master() {
  MutexLock lock(mutex_);
  return master_ == nullptr ? nullptr : Share(master_.get());
}

void Session::LetGo() {
  MasterPtr gone = Collect(number_);  // its end may take long: without the lock
  MutexLock lock(mutex_);
  gone = std::move(master_);
}

TfStatus Session::Run(const RunOptions& options, const std::vector<std::pair<std::string, Tensor>>& inputs,
                      const std::vector<std::string>& fetches, const std::vector<std::string>& targets,
                      std::vector<Tensor>* outputs, RunMetadata* metadata) {
  // A debugger expects operations on the devices on which the program has placed them.
  std::optional<GraphsHeld> held;
  if (options.debug_options().debug_tensor_watch_opts_size() > 0) held.emplace();
  MasterPtr master = Master();
  if (master == nullptr) return inner_->Run(options, inputs, fetches, targets, outputs, metadata);

  tensorflow::InMemoryRunStepRequest request;
  request.set_session_handle(master->handle());
  *request.mutable_options() = options;
  if (options.timeout_in_ms() == 0) request.mutable_options()->set_timeout_in_ms(limit_ms_);
  for (const auto& input : inputs) request.add_feed(input.first, input.second);
  // A fetch that occurs twice is fetched once.
  std::unordered_map<std::string, size_t> first_index;
  for (size_t i = 0; i < fetches.size(); ++i) {
    if (first_index.emplace(fetches[i], i).second) request.add_fetch(fetches[i]);
  }
  for (const std::string& target : targets) request.add_target(target);
  tensorflow::InMemoryRunStepResponse response;
  tensorflow::CallOptions call;
  TfStatus status;
  {
    observe::Event event = BeginStep();
    StepThread here;
    StepLimit limit(&call, request.options().timeout_in_ms());
    int64_t until_ns = 0;
    while (true) {
      status = master->Run(&call, request, &response);
      if (limit.HasPassed() || !MayRepeat(status, &until_ns)) break;
    }
    event.End(status.ok());
    if (limit.HasPassed()) return absl::DeadlineExceededError("Operation timed out.");
  }
  if (IsClosed(status)) {
    // Closed by its master, for instance when the target was reset: TensorFlow's session has the error for that.
    LetGo();
    return inner_->Run(options, inputs, fetches, targets, outputs, metadata);
  }
  if (!status.ok()) return status;

  if (!fetches.empty()) outputs->resize(fetches.size());
  for (size_t i = 0; i < response.num_tensors(); ++i) {
    auto index = first_index.find(response.tensor_name(i));
    if (index == first_index.end())
      return absl::InternalError(absl::StrCat("Received response for unrequested fetch: ", response.tensor_name(i)));
    status = response.TensorValue(i, &(*outputs)[index->second]);
    if (!status.ok()) return status;
  }
  for (size_t i = 0; i < fetches.size(); ++i) {
    size_t first = first_index[fetches[i]];
    if (first != i) (*outputs)[i] = (*outputs)[first];
  }
  if (metadata != nullptr) metadata->Swap(response.mutable_metadata());
  return status;
}

TfStatus Session::Run(const std::vector<std::pair<std::string, Tensor>>& inputs,
                      const std::vector<std::string>& fetches, const std::vector<std::string>& targets,
                      std::vector<Tensor>* outputs) {
  RunMetadata metadata;
  return Run(RunOptions(), inputs, fetches, targets, outputs, &metadata);
}

// ---- TensorFlow's session ----

template <class Call>
TfStatus Session::WithGraph(const tensorflow::GraphDef& graph, Call call) {
  // TensorFlow's Python makes a session without a graph, and then extends it by all that the program has made.
  if (!has_tables_ && graph.node_size() > 0) {
    TF_RETURN_IF_ERROR(CheckOptions(compress_, graph));
    has_tables_ = true;
  }
  return Created(Recorded(call));
}
TfStatus Session::Create(const tensorflow::GraphDef& graph) {
  return WithGraph(graph, [&] { return inner_->Create(graph); });
}
TfStatus Session::Create(tensorflow::GraphDef&& graph) {
  return WithGraph(graph, [&] { return inner_->Create(std::move(graph)); });
}
TfStatus Session::Create(const RunOptions& options, const tensorflow::GraphDef& graph) {
  return WithGraph(graph, [&] { return inner_->Create(options, graph); });
}
TfStatus Session::Create(const RunOptions& options, tensorflow::GraphDef&& graph) {
  return WithGraph(graph, [&] { return inner_->Create(options, std::move(graph)); });
}
// The first graph creates the session, if it was empty so far.
TfStatus Session::Extend(const tensorflow::GraphDef& graph) {
  return WithGraph(graph, [&] { return inner_->Extend(graph); });
}
TfStatus Session::Extend(tensorflow::GraphDef&& graph) {
  return WithGraph(graph, [&] { return inner_->Extend(std::move(graph)); });
}
TfStatus Session::Extend(const RunOptions& options, const tensorflow::GraphDef& graph) {
  return WithGraph(graph, [&] { return inner_->Extend(options, graph); });
}
TfStatus Session::Extend(const RunOptions& options, tensorflow::GraphDef&& graph) {
  return WithGraph(graph, [&] { return inner_->Extend(options, std::move(graph)); });
}
TfStatus Session::PRunSetup(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                            const std::vector<std::string>& targets, std::string* handle) {
  return inner_->PRunSetup(inputs, outputs, targets, handle);
}
TfStatus Session::PRun(const std::string& handle, const std::vector<std::pair<std::string, Tensor>>& inputs,
                       const std::vector<std::string>& fetches, std::vector<Tensor>* outputs) {
  return inner_->PRun(handle, inputs, fetches, outputs);
}
TfStatus Session::ListDevices(std::vector<tensorflow::DeviceAttributes>* devices) {
  return inner_->ListDevices(devices);
}
TfStatus Session::Close() {
  LetGo();
  return inner_->Close();
}
TfStatus Session::MakeCallable(const tensorflow::CallableOptions& options, CallableHandle* handle) {
  return inner_->MakeCallable(options, handle);
}
TfStatus Session::RunCallable(CallableHandle handle, const std::vector<Tensor>& feeds, std::vector<Tensor>* fetches,
                              RunMetadata* metadata) {
  return inner_->RunCallable(handle, feeds, fetches, metadata);
}
TfStatus Session::ReleaseCallable(CallableHandle handle) { return inner_->ReleaseCallable(handle); }

// Lives as long as the process: it waits for steps, and each step ends with its caller.
class LimitThread {
 public:
  static LimitThread& Get() {
    static auto* thread = new LimitThread;
    return *thread;
  }

  void Add(StepLimit* step, int64_t due_ns) {
    MutexLock lock(mutex_);
    step->due_ns_ = due_ns;
    steps_.insert({due_ns, step});
    // It sleeps until the earliest limit that it knew, even if that step has ended: so few steps have to wake it.
    if (due_ns < awake_ns_) changed_.NotifyAll();
  }

  void Remove(StepLimit* step) {
    MutexLock lock(mutex_);
    while (cancelled_ == step) changed_.Wait(mutex_);
    const size_t removed = steps_.erase({step->due_ns_, step});
    FUSEWIRE_CHECK(removed == 1);
  }

 private:
  static constexpr int64_t kAgainNs = 20 * kMillisecondNs;

  LimitThread() {
    std::thread([this] { Work(); }).detach();
  }

  void Work() {
    pthread_setname_np(pthread_self(), "fusewire/limits");
    MutexLock lock(mutex_);
    while (true) {
      awake_ns_ = steps_.empty() ? kForeverNs : steps_.begin()->first;
      if (awake_ns_ == kForeverNs) {
        changed_.Wait(mutex_);
      } else if (awake_ns_ > Clock::Real()->NowNs()) {
        changed_.WaitUntil(mutex_, awake_ns_);
      } else {
        StepLimit* step = Begin();
        lock.Unlock();  // a step's cancellation may take long, or begin another step
        step->call_->StartCancel();
        lock.Lock();
        cancelled_ = nullptr;
        changed_.NotifyAll();
      }
    }
  }

  // To cancel the first step, and when to do it again.
  StepLimit* Begin() FUSEWIRE_REQUIRES(mutex_) {
    StepLimit* step = steps_.begin()->second;
    steps_.erase(steps_.begin());
    step->due_ns_ = AddNs(Clock::Real()->NowNs(), kAgainNs);
    steps_.insert({step->due_ns_, step});
    step->has_passed_.store(true, std::memory_order_release);
    cancelled_ = step;
    return step;
  }

  Mutex mutex_;
  CondVar changed_;
  std::set<std::pair<int64_t, StepLimit*>> steps_ FUSEWIRE_GUARDED_BY(mutex_);
  const StepLimit* cancelled_ FUSEWIRE_GUARDED_BY(mutex_) = nullptr;  // being cancelled now
  int64_t awake_ns_ FUSEWIRE_GUARDED_BY(mutex_) = kForeverNs;
};

StepLimit::StepLimit(tensorflow::CallOptions* call, int64_t limit_ms) : call_(call), is_limited_(limit_ms > 0) {
  if (!is_limited_) return;
  const int64_t limit_ns = std::min(limit_ms, kForeverNs / kMillisecondNs) * kMillisecondNs;
  LimitThread::Get().Add(this, AddNs(Clock::Real()->NowNs(), limit_ns));
}

StepLimit::~StepLimit() {
  if (is_limited_) LimitThread::Get().Remove(this);
}

}  // namespace fusewire::tf
