// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/server.h"

#include <algorithm>
#include <map>
#include <set>

#include <absl/strings/str_cat.h>
#include <tensorflow/core/lib/core/threadpool.h>

#include "fusewire/base/log.h"
#include "fusewire/base/random.h"
#include "fusewire/observe/recorder.h"
#include "fusewire/observe/watch.h"
#include "fusewire/pipe/pipe_context.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/task/acceptor.h"
#include "fusewire/tf/bridge/names.h"
#include "fusewire/tf/bridge/status.h"
#include "fusewire/tf/peer/marks.h"
#include "fusewire/tf/receive/rendezvous.h"
#include "fusewire/tf/server/moving.h"
#include "fusewire/tf/server/session.h"
#include "fusewire/tf/state/devices.h"
#include "fusewire/transport/transport.h"
#include "fusewire/transport/transports.h"

namespace fusewire::tf {
namespace {

// TensorFlow's gRPC service serves sessions and gRPC peers: two threads are enough.
constexpr int kGrpcServingThreads = 2;
constexpr int64_t kReachNs = 5 * kSecondNs;
constexpr int64_t kDrainPauseMs = 1000;
constexpr int64_t kQuietNs = kSecondNs / 2;  // in which all runs end that are under way when a task moves
constexpr int64_t kRetiredCacheGraceNs = 60 * kSecondNs;

// Servers of one process with the same settings share their reactors: four hundred workers in one process do not need
// four hundred threads.
Result<reactor::Pool*> SharedPool(const reactor::PoolOptions& options) {
  struct Pools {
    Mutex mutex;
    std::map<std::string, reactor::Pool*> all FUSEWIRE_GUARDED_BY(mutex);
  };
  static auto* pools = new Pools;
  MutexLock lock(pools->mutex);
  std::string key = absl::StrCat(options.name, " ", options.reactors, " ", options.busy_poll, " ", options.pin);
  reactor::Pool*& pool = pools->all[key];
  if (pool == nullptr) {
    Result<std::unique_ptr<reactor::Pool>> started = reactor::Pool::Start(options);
    if (!started.ok()) return started.status();
    pool = std::move(started).value().release();  // until the process ends, as TensorFlow's servers do
  }
  return pool;
}

// A pool of TensorFlow's for executors whose threads sleep at once when they are idle. Threads of TensorFlow's default
// pool spin first, and take the processor from the threads that would bring work.
tensorflow::thread::ThreadPool* QuietPool(int threads) {
  struct Pools {
    Mutex mutex;
    std::map<int, tensorflow::thread::ThreadPool*> all FUSEWIRE_GUARDED_BY(mutex);
  };
  static auto* pools = new Pools;
  MutexLock lock(pools->mutex);
  tensorflow::thread::ThreadPool*& pool = pools->all[threads];
  if (pool == nullptr) {  // until the process ends, as TensorFlow's
    pool = new tensorflow::thread::ThreadPool(tensorflow::Env::Default(), tensorflow::ThreadOptions(),
                                              "fusewire_compute", threads, /*low_latency_hint=*/false);
  }
  return pool;
}

TfStatus Failed(const Status& status) {
  const TfStatus told = ToTf(status);
  return TfStatus(told.code(), absl::StrCat("fusewire: the data port cannot be opened: ", told.message()));
}

std::string TaskOf(const std::string& job, int index) { return absl::StrCat("/job:", job, "/replica:0/task:", index); }

// What is known of where tasks are, for all servers of the process that have this cluster.
WhereaboutsPtr KnownHere(const tensorflow::ClusterDef& cluster, const std::string& folder) {
  using Key = std::pair<std::string, std::map<std::string, std::string>>;
  struct Tables {
    Mutex mutex;
    std::map<Key, WhereaboutsPtr> all FUSEWIRE_GUARDED_BY(mutex);
  };
  static auto* tables = new Tables;
  MutexLock lock(tables->mutex);
  WhereaboutsPtr& known = tables->all[{folder, AddressesOf(cluster)}];
  if (known == nullptr) known = std::make_shared<Whereabouts>();
  return known;
}

// "worker:3 host:2222": a server's name for the peers that it dials. They take a second server of this name for its
// next incarnation, so tasks of several clusters with the same job and index must differ in it. A server whose port the
// kernel chooses, like every local server, has no next incarnation.
std::string NameOf(const tensorflow::ServerDef& def, const std::string& own_task, uint64_t incarnation) {
  std::string address = AddressesOf(def.cluster())[own_task];
  Result<transport::Address> parsed = transport::Address::Parse(address);
  bool is_named = def.port() != 0 || (parsed.ok() && parsed.value().port != 0);
  std::string name = absl::StrCat(def.job_name(), ":", def.task_index(), " ", address);
  if (def.port() != 0) absl::StrAppend(&name, " ", def.port());
  if (!is_named) absl::StrAppend(&name, " ", absl::Hex(incarnation));
  return name;
}

std::vector<observe::Number> ReadNumbers() {
  std::vector<observe::Number> numbers;
  for (const CounterAbout& about : AllCounters())
    numbers.push_back({about.name, about.help, about.is_gauge, about.counter->load()});
  numbers.push_back({"snapshot_age_seconds", "Seconds since a parameter server's last snapshot; 0 without any.", true,
                     SnapshotAgeS()});
  numbers.push_back({"shared_bytes_out", "Bytes sent through shared memory.", false, transport::SharedBytesWritten()});
  return numbers;
}

// "/job:ps/replica:0/task:0" -> "ps:0"
observe::Members MembersOf(const tensorflow::ClusterDef& cluster) {
  observe::Members members;
  for (const auto& [task, address] : AddressesOf(cluster)) members[ShortTask(task)] = address;
  return members;
}

// The first server's settings count: a process has one status port.
void StartWatchOf(const ServerSettings& settings) {
  const Status failed =
      observe::StartWatch(settings.status, settings.pipe.secret, settings.runtime_folder, ReadNumbers);
  const uint16_t port = observe::Watch::Get()->port();
  if (!failed.ok() && port == 0) {
    FUSEWIRE_LOG(kWarn,
                 "there is no status port: %s; FUSEWIRE_STATUS names another, or off; see: fusewire explain "
                 "seeing#the-status-port",
                 failed.ToString().c_str());
  } else if (!failed.ok()) {
    FUSEWIRE_LOG(kInfo, "`fusewire top` does not find this process by itself, only by its port %u: %s", port,
                 failed.ToString().c_str());
  }
}

// A started server stays, but not what it held. No run is inside.
void ForgetState(StarService* star, tensorflow::DeviceMgr* devices) {
  star->EndAll();
  for (tensorflow::Device* device : devices->ListDevices()) device->resource_manager()->Clear();
}

// A thread that may wait. Moves all tasks of this process to other processes. Fails with those that stay.
TfStatus DrainServers(int64_t pause_ms_max, std::string* done) {
  const Draining draining;
  std::string failed;
  for (Server* server : ServersHere()) {
    std::string said;
    const TfStatus given = server->GiveAwayTask(pause_ms_max, &said);
    if (given.ok()) absl::StrAppend(done, done->empty() ? "" : "; ", said);
    if (!given.ok()) absl::StrAppend(&failed, failed.empty() ? "" : "; ", given.message());
  }
  if (!failed.empty()) return absl::FailedPreconditionError(failed);
  if (done->empty()) *done = "this process serves no task";
  return TfStatus();
}

// Makes servers for other tasks of the job of `def`: for all, but for those of an earlier server of the program, or for
// none.
TfStatus HostOthers(const tensorflow::ServerDef& def, const std::vector<int>& others, Hosting* hosting) {
  std::string names;
  for (int index : others) {
    Server* other = nullptr;
    TfStatus hosted = Server::Host(def, index, Server::GrpcPort::kOfCluster, &other);
    if (absl::IsAlreadyExists(hosted)) continue;
    if (!hosted.ok()) {
      for (const auto& made : hosting->others()) made.second->hosting().End();
      hosting->others().clear();
      return hosted;
    }
    hosting->others()[index] = other;
    absl::StrAppend(&names, names.empty() ? "" : ", ", def.job_name(), ":", index);
  }
  if (!names.empty()) FUSEWIRE_LOG(kInfo, "%s: its process serves %s too", hosting->name().c_str(), names.c_str());
  return TfStatus();
}

// All caches of a server are ours.
const ClusterPtr& ClusterOf(tensorflow::WorkerCacheInterface* cache) {
  return static_cast<WorkerCache*>(cache)->cluster();
}

}  // namespace

Server::Server(const tensorflow::ServerDef& def, int home_index, GrpcPort port)
    : GrpcServer(def, tensorflow::Env::Default()),
      job_(def.job_name()),
      protocol_(def.protocol()),
      settings_(ReadSettings(def.job_name(), CountWorkers(def.cluster()))),
      hosting_(home_index, port == GrpcPort::kAny),
      succession_(ShortTask(own_task()), KnownHere(def.cluster(), settings_.snapshots.folder)) {
  if (!IsOurs(protocol_)) settings_.disabled = true;
}

Server::~Server() = default;

TfStatus Server::Make(const tensorflow::ServerDef& def, const tensorflow::ServerFactory::Options& options,
                      std::unique_ptr<tensorflow::ServerInterface>* out) {
  std::unique_ptr<Server> server(new Server(def, def.task_index(), GrpcPort::kOfCluster));
  Result<std::vector<int>> others = ReadTasks(server->settings_.tasks, def);
  if (!others.ok()) return NotHosted(others.status());
  TF_RETURN_IF_ERROR(MakeOne(&server, options));
  TfStatus made = HostOthers(def, others.value(), &server->hosting_);
  if (!made.ok()) {
    server->hosting_.End();
    KeepServer(server.release());  // as MakeOne
    return made;
  }
  *out = std::move(server);
  return TfStatus();
}

TfStatus Server::MakeOne(std::unique_ptr<Server>* server, const tensorflow::ServerFactory::Options& options) {
  TfStatus prepared = (*server)->Prepare(options);
  if (prepared.ok()) return prepared;
  (*server)->hosting_.End();
  // gRPC aborts the process when a server is destroyed that was set up but never started. And the base class uses our
  // devices until its end.
  if ((*server)->service_ != nullptr || (*server)->snapshots_ != nullptr) KeepServer(server->release());
  return prepared;
}

TfStatus Server::Host(const tensorflow::ServerDef& def, int task_index, GrpcPort port, Server** out,
                      int64_t pause_ms_max) {
  tensorflow::ServerDef its = def;
  its.set_task_index(task_index);
  its.clear_port();  // it is the port of the task in `def`
  const int home_index = port == GrpcPort::kAny ? def.task_index() : task_index;
  std::unique_ptr<Server> server(new Server(its, home_index, port));
  if (port == GrpcPort::kAny) server->settings_.moves_here = pause_ms_max > 0;
  if (pause_ms_max > 0) server->settings_.pause_ns_max = pause_ms_max * kMillisecondNs;
  const std::string task = ShortTask(server->own_task());
  const std::string address = AddressesOf(def.cluster())[server->own_task()];
  if (server->settings_.disabled) {
    return NotHosted(
        Status::Invalid(absl::StrCat("this process is to serve ", task,
                                     " too, but everything goes over gRPC (protocol \"", def.protocol(),
                                     "\"), with which a process can serve only one task"))
            .Next("use a protocol of Fusewire without FUSEWIRE_DISABLE, or start a process for each task without "
                  "FUSEWIRE_TASKS"));
  }
  transport::Address advertised;
  if (ParseAdvertise(server->settings_.network.advertise, &advertised).ok() && advertised.port != 0) {
    return NotHosted(Status::Invalid(absl::StrCat("FUSEWIRE_ADVERTISE is \"", server->settings_.network.advertise,
                                                  "\": it names one data port, but this process is to serve ", task,
                                                  " too, which has a port of its own"))
                         .Next("name the host alone, and let the ports of FUSEWIRE_PORTS through"));
  }
  TfStatus made = MakeOne(&server, {});
  if (absl::IsAlreadyExists(made)) return made;
  if (!made.ok()) {
    return TfStatus(made.code(),
                    absl::StrCat("fusewire: this process serves ", def.job_name(), ":", def.task_index(), ", but not ",
                                 task, ", which is at ", address, " in the cluster: ", made.message(), kSeeHosting));
  }
  *out = server.release();
  KeepServer(*out);
  return TfStatus();
}

TfStatus Server::Start() {
  for (const auto& other : hosting_.others()) TF_RETURN_IF_ERROR(other.second->Start());
  TF_RETURN_IF_ERROR(GrpcServer::Start());
  if (service_ == nullptr || !hosting_.IsFirstStart()) return TfStatus();
  if (observe::Watch* watch = observe::Watch::Get()) {
    watch->AddTask({ShortTask(own_task()), protocol_, service_->port(),
                    std::make_shared<observe::Members>(MembersOf(server_def().cluster()))});
  }
  if (snapshots_ == nullptr) return TfStatus();
  if (snapshots_->arrival() != nullptr) return Arrive();
  Hold();
  return TfStatus();
}

void Server::Hold() {
  Snapshots::Hooks hooks;
  StarService& star = service_->star();
  hooks.collect = [&star](std::vector<KeptClient>* clients) { return star.Collect(clients); };
  hooks.yield = [this](const Owner& successor, bool has_moved) {
    // It is the same state there.
    if (has_moved) {
      succession_.known()->Learn({ShortTask(own_task()), successor.address, successor.holder,
                                  StateOf(*snapshots_->devices()), successor.epoch});
    }
    Yield(successor.epoch, has_moved);
  };
  hooks.parts = [&star] { return star.Parts(); };
  hooks.values = [&star](std::string* values) { return star.Save(values); };
  hooks.close = [this, &star]() -> TfStatus {
    const bool is_closed = star.gate()->Close(AddNs(Clock::Real()->NowNs(), kQuietNs));
    if (!is_closed) return absl::DeadlineExceededError("a step has been running here for more than 0.5 s");
    if (!worker_->partial_runs().HasAny(Clock::Real()->NowNs())) return TfStatus();
    star.gate()->Open();
    return absl::FailedPreconditionError("a partial_run has begun here, and is not at its last call");
  };
  if (settings_.drain_ns > 0) {
    DrainBeforeTheEnd(settings_.drain_ns, [] {
      std::string done;
      return DrainServers(kDrainPauseMs, &done);
    });
  }
  hooks.open = [this, &star](uint64_t epoch) {
    SayWhere(epoch);
    star.gate()->Open();
  };
  snapshots_->Start(std::move(hooks));
  if (succession_.place().epoch != 0) succession_.Tell(FindSiblings(cluster(), *directory_, own_task()));
}

void Server::SayWhere(uint64_t epoch) {
  succession_.Serve(
      {ShortTask(own_task()), DataAddress(), settings_.pipe.incarnation, StateOf(*snapshots_->devices()), epoch});
  AnnouncePort();
}

TfStatus Server::Arrive() {
  service_->star().MakeAhead(snapshots_->arrival()->parts());
  const std::vector<Ways> siblings = FindSiblings(cluster(), *directory_, own_task());
  succession_.Tell(siblings);  // so that there are connections later
  std::string values;
  TfStatus taken = snapshots_->TakeOver(DataAddress(), &values);
  if (taken.ok()) taken = service_->star().Resume(values);
  if (!taken.ok()) {
    Yield(snapshots_->owner().epoch, /*has_moved=*/false);
    snapshots_->arrival().reset();  // the old server goes on
    ForgetState(&service_->star(), snapshots_->devices());
    taken = TfStatus(taken.code(), absl::StrCat(ShortTask(own_task()), " has not moved here: ", taken.message()));
    if (hosting_.is_guest()) return taken;
    FUSEWIRE_LOG(kWarn, "%s; it stays where it is", std::string(taken.message()).c_str());
    return TfStatus();
  }
  worker_->Unfence();
  SayWhere(snapshots_->owner().epoch);
  Hold();
  const std::string said = snapshots_->arrival()->SayDone();
  snapshots_->arrival().reset();
  FUSEWIRE_LOG(kInfo, "%s: it has moved here, epoch %llu: %s", ShortTask(own_task()).c_str(),
               static_cast<unsigned long long>(snapshots_->owner().epoch), said.c_str());
  succession_.SetSaid(said);
  return TfStatus();
}

TfStatus Server::TakeHere(int task_index, int64_t pause_ms_max, std::string* said) {
  if (IsDraining()) return absl::UnavailableError("its process gives its own tasks away, and is about to end");
  Server* other = nullptr;
  TF_RETURN_IF_ERROR(Host(server_def(), task_index, GrpcPort::kAny, &other, pause_ms_max));
  TF_RETURN_IF_ERROR(other->Start());
  *said = absl::StrCat(ShortTask(other->own_task()), " is served by the process of ", ShortTask(own_task()), ", at ",
                       other->DataAddress(), ", epoch ", other->succession_.place().epoch);
  if (!other->succession_.said().empty()) absl::StrAppend(said, ": ", other->succession_.said());
  return TfStatus();
}

TfStatus Server::GiveAwayTask(int64_t pause_ms_max, std::string* said) {
  const std::string task = ShortTask(own_task());
  if (succession_.place().epoch == 0)
    return absl::FailedPreconditionError(absl::StrCat(task, " keeps no snapshots, and can't move"));
  TfStatus given =
      GiveAway(task, static_cast<uint64_t>(pause_ms_max), FindSiblings(cluster(), *directory_, own_task()), said);
  // The answer may be lost with the connections of the old server.
  if (!given.ok() && succession_.AwaitSuccessor(said)) given = TfStatus();
  return given;
}

TfStatus Server::Prepare(const tensorflow::ServerFactory::Options& options) {
  ReadProcessSettings();
  if (settings_.must_encrypt()) CopyEagerTensorsOverTheDataPort();
  settings_.pipe.incarnation = SystemRandom64() | 1;
  settings_.pipe.name = NameOf(server_def(), own_task(), settings_.pipe.incarnation);
  TF_RETURN_IF_ERROR(hosting_.Begin(settings_.pipe.name, this));
  // Beside a server of the task that has been here before: peers would take one of the two for its next incarnation.
  if (hosting_.is_guest()) absl::StrAppend(&settings_.pipe.name, " ", absl::Hex(settings_.pipe.incarnation));
  tensorflow::GrpcServerOptions grpc;
  grpc.local_device_mgr = options.local_device_mgr;
  grpc.rendezvous_mgr_func = [](const tensorflow::WorkerEnv* env) { return new RendezvousMgr(env); };
  grpc.worker_func = [this](tensorflow::WorkerEnv* env, const tensorflow::ConfigProto& config) {
    auto worker =
        std::make_unique<Worker>(env, config, settings_.disabled, settings_.must_encrypt() && IsOurs(protocol_));
    worker_ = worker.get();
    return worker;
  };
  if (settings_.disabled) {
    if (IsOurs(protocol_) && settings_.must_encrypt()) {
      return absl::InvalidArgumentError(
          "FUSEWIRE_TLS_CERT is set, but over gRPC alone nothing is encrypted; next: use a protocol of Fusewire "
          "without FUSEWIRE_DISABLE, or unset FUSEWIRE_TLS_CERT; see: fusewire explain trust#tls");
    }
    if (settings_.must_encrypt()) {
      FUSEWIRE_LOG(kWarn,
                   "%s: its protocol is \"%s\", which does not encrypt what goes between such tasks, although "
                   "FUSEWIRE_TLS_CERT is set; see: fusewire explain trust#tls",
                   settings_.pipe.name.c_str(), kStockProtocol);
    }
    if (!settings_.snapshots.folder.empty()) {
      FUSEWIRE_LOG(
          kWarn,
          "%s: it writes no snapshots, as everything goes over gRPC, although FUSEWIRE_SNAPSHOTS is set; next: "
          "use a protocol of Fusewire; see: fusewire explain elastic#snapshots",
          settings_.pipe.name.c_str());
    }
    // As TensorFlow's, except for the two ends of a fused receive.
    FUSEWIRE_LOG(kInfo, "%s: everything goes over gRPC", settings_.pipe.name.c_str());
    TF_RETURN_IF_ERROR(GrpcServer::Init(grpc));
    KeepCluster();
    AnswerInquiries();
    return TfStatus();
  }

  if (!settings_.secret.ok()) return Failed(settings_.secret);
  Status sane = pipe::CheckOptions(settings_.pipe);
  if (!sane.ok()) return Failed(sane);
  Result<reactor::Pool*> pool = SharedPool(settings_.pool);
  if (!pool.ok()) return Failed(pool.status());
  auto transport = task::MakeTransport(settings_.wire, {}, settings_.protection);
  if (!transport.ok()) return Failed(transport.status());
  data_task_ = task::Task::Make(settings_.pipe, reactor::Pool::Share(*pool.value()), std::move(transport).value());
  grpc.worker_service_options.num_serving_threads = kGrpcServingThreads;
  TF_RETURN_IF_ERROR(FindHost());
  TF_RETURN_IF_ERROR(OpenGroups());
  grpc.collective_mgr_func = [this](const tensorflow::ConfigProto& config, const tensorflow::WorkerEnv* env,
                                    tensorflow::WorkerCacheInterface* cache) {
    return MakeCollectives(config, *env, ClusterOf(cache)).release();
  };
  TF_RETURN_IF_ERROR(OpenSnapshots(&grpc.local_device_mgr));
  // It may host other tasks later, while other threads read the environment.
  if (!settings_.tasks.empty() || snapshots_ != nullptr) FewGrpcThreads::Keep();
  {
    FewGrpcThreads few;
    TF_RETURN_IF_ERROR(GrpcServer::Init(grpc));
  }
  KeepCluster();
  if (is_shell()) {
    AnswerInquiries();
    Yield(snapshots_->owner().epoch, /*has_moved=*/false);
    return TfStatus();
  }
  if (!settings_.status.is_off) {
    StartWatchOf(settings_);
    worker_->RecordSteps(observe::FindTag(observe::Kind::kStep, ShortTask(own_task()), "", "step"));
  }
  // With polling, there are processors to spare.
  if (!settings_.pool.busy_poll) worker_env()->compute_pool = QuietPool(worker_env()->compute_pool->NumThreads());
  // Sessions whose master is this task have their graphs cut. Called while a graph is made.
  auto reaches = [this](const std::string& task) {
    Ways ways;
    std::string address;
    if (!FindTaskNow(task, &ways, &address).ok()) return false;
    // One that does not answer in time counts as capable, and the step reports the error.
    bool is_grpc_only = false;
    AwaitRoute(ways, kReachNs, &is_grpc_only);
    return !is_grpc_only;
  };
  StarHome home{StarModeOf(protocol_), protocol_, reaches};
  if (home.mode != StarMode::kOff) worker_->RunLists(settings_.lists);
  if (home.mode != StarMode::kOff && !settings_.merge_parts) home.mode = StarMode::kFull;
  for (tensorflow::Device* device : worker_env()->device_mgr->ListDevices()) {
    if (home.mode != StarMode::kOff) RegisterHome(device->attributes().incarnation(), home);
  }
  // With a limit on all operations, TensorFlow needs a second thread for each.
  if (server_def().default_session_config().operation_timeout_in_ms() == 0) OfferSessions(target(), master_env());
  return OpenDataPort();
}

TfStatus Server::OpenSnapshots(tensorflow::DeviceMgr** devices) {
  if (settings_.snapshots.folder.empty()) return TfStatus();
  if (*devices != nullptr) {
    FUSEWIRE_LOG(kWarn,
                 "%s: it writes no snapshots, as its program has made its devices, although FUSEWIRE_SNAPSHOTS is set; "
                 "next: let TensorFlow make the server's devices; see: fusewire explain elastic#snapshots",
                 settings_.pipe.name.c_str());
    return TfStatus();
  }
  Claim claim;
  claim.holder = settings_.pipe.incarnation;
  claim.is_served = [this](const Owner& owner) { return succession_.IsServed(*data_task_, owner); };
  if (settings_.moves_here) {
    claim.predecessor = [this](const Owner& owner) {
      return ReachPredecessor(*data_task_, owner, settings_.pipe.incarnation);
    };
    claim.pause_ns_max = settings_.pause_ns_max;
  }
  TfStatus opened = Snapshots::Open(settings_.snapshots, server_def(), &snapshots_, claim);
  if (!opened.ok() && settings_.moves_here && !hosting_.is_guest()) {
    FUSEWIRE_LOG(kWarn, "%s; it stays where it is", std::string(opened.message()).c_str());
    claim.predecessor = nullptr;
    opened = Snapshots::Open(settings_.snapshots, server_def(), &snapshots_, claim);
  }
  TF_RETURN_IF_ERROR(opened);
  if (!is_shell()) {
    *devices = snapshots_->devices();
  } else if (hosting_.is_guest()) {
    return absl::FailedPreconditionError(
        absl::StrCat(ShortTask(own_task()), ": another process serves it, at ", Shown(snapshots_->owner()),
                     "; next: end that one first; see: fusewire explain elastic#who-owns-a-task"));
  }
  return TfStatus();
}

std::string Server::own_task() const { return TaskOf(job_, server_def().task_index()); }

TfStatus Server::GetHostAndPort(const tensorflow::ServerDef& def, std::string* host, int* port) const {
  tensorflow::ServerDef home = def;
  home.set_task_index(hosting_.home_index());
  TF_RETURN_IF_ERROR(GrpcServer::GetHostAndPort(home, host, port));
  if (hosting_.is_guest()) *port = 0;
  return TfStatus();
}

// Nothing is served any more: no peer gets an answer, not even to a call that is under way, because what it has written
// is lost. Connections end without a goodbye, so that workers look for the task; and gRPC's port says where it is.
void Server::Yield(uint64_t epoch, bool has_moved) {
  worker_->Fence([this](PortWords* words) { return succession_.Where(words); });
  hosting_.End();
  if (service_ != nullptr) {
    data_task_->acceptor().StopListening();
    data_task_->acceptor().Withdraw(rpc::kRpcService);
    if (has_moved) ForgetState(&service_->star(), snapshots_->devices());
  }
  auto siblings = [this] { return FindSiblings(cluster(), *directory_, own_task()); };
  succession_.Yield(epoch, siblings);
}

TfStatus Server::OpenGroups() {
  RegisterCollectives();
  CollectiveHome::Options options;
  options.own_task = own_task();
  options.host = transport::HostId();
  options.find = [this](const std::string& task, std::string* address, SidePtr* side) {
    Ways ways;
    TfStatus found = FindTaskNow(task, &ways, address);
    *side = ways.side;
    return found;
  };
  Result<std::unique_ptr<CollectiveHome>> groups = CollectiveHome::Open(options, *data_task_);
  if (!groups.ok()) return Failed(groups.status());
  groups_ = std::move(groups).value();
  return TfStatus();
}

// Peers reach the data port at the process's host in the cluster, or in .endpoint_map.
TfStatus Server::FindHost() {
  Result<NetworkSettings> network = ReadNetwork(settings_.network);
  if (!network.ok()) return Failed(network.status());
  network_ = network.value();
  std::map<std::string, std::string> tasks = AddressesOf(server_def().cluster());
  const std::string home = TaskOf(job_, hosting_.home_index());
  auto mapped = settings_.endpoints.find(tasks[home]);
  const std::string& own = mapped == settings_.endpoints.end() ? tasks[home] : mapped->second;
  Result<transport::Address> address = transport::Address::Parse(own);
  if (home != own_task() && network_.advertise.host.empty() && address.ok())
    network_.advertise.host = address.value().host;  // not the task's in the cluster
  Result<transport::ListeningPlace> place = WhereDataPortsAre(network_.bind, own, tasks);
  if (!place.ok()) return Failed(place.status());
  network_.listen_host = place.value().host;
  if (!place.value().why.empty()) {
    FUSEWIRE_LOG(kWarn,
                 "%s: its data port listens on every interface: %s; FUSEWIRE_BIND=ADDRESS says where "
                 "instead; see: fusewire explain network#where-the-data-goes",
                 settings_.pipe.name.c_str(), place.value().why.c_str());
  }
  return TfStatus();
}

void Server::KeepCluster() {
  MutexLock lock(now_.mutex);
  now_.cluster = ClusterOf(master_env()->worker_cache);
}

// Not through TensorFlow's session without a name: it keeps its first cache, even after that is destroyed.
TfStatus Server::FindTaskNow(const std::string& task, Ways* ways, std::string* address) {
  const ClusterPtr known = cluster();
  TfStatus found = FindTask(known, *directory_, task, ways);
  if (found.ok()) *address = known->addresses.at(task);
  return found;
}

ClusterPtr Server::cluster() {
  MutexLock lock(now_.mutex);
  return now_.cluster;
}

void Server::AnswerInquiries() {
  Inquiries::Options options;
  options.protocol = protocol_;
  options.data_port = service_ == nullptr ? 0 : service_->port();
  if (snapshots_ != nullptr) {
    options.secret = settings_.pipe.secret;
    options.order = [this](const std::string& words, std::string* done) {
      OrderHandlers handlers;
      handlers.adopt = [this](int index, std::string* said) { return TakeHere(index, 0, said); };
      handlers.move = [this](int index, int64_t pause_ms, std::string* said) {
        return TakeHere(index, std::max<int64_t>(pause_ms, 1), said);
      };
      handlers.drain = DrainServers;
      return CarryOut(words, server_def(), handlers, done);
    };
  }
  options.serves = [] {
    std::vector<Inquiries::Served> served;
    for (Server* server : ServersHere()) {
      served.push_back({ShortTask(server->own_task()), server->succession_.place().epoch, 0, 0});
      if (server->snapshots_ == nullptr) continue;
      served.back().bytes = server->snapshots_->inventory().bytes();
      served.back().busy_ns = server->snapshots_->inventory().busy_ns();
    }
    return served;
  };
  options.cluster = [this] { return cluster(); };
  options.find = [this](const std::string& task, Ways* ways) {
    std::string address;
    return FindTaskNow(task, ways, &address);
  };
  inquiries_ = std::make_unique<Inquiries>(std::move(options));
  worker_->SetInquiries(inquiries_.get());
}

TfStatus Server::UpdateServerDef(const tensorflow::ServerDef& def) {
  if (settings_.must_encrypt()) CopyEagerTensorsOverTheDataPort();
  TF_RETURN_IF_ERROR(GrpcServer::UpdateServerDef(def));
  KeepCluster();
  const std::set<int> known = TasksOf(def);
  for (const auto& [index, other] : hosting_.others()) {
    if (known.count(index) == 0) continue;
    tensorflow::ServerDef its = def;
    its.set_task_index(index);
    its.clear_port();
    TF_RETURN_IF_ERROR(other->UpdateServerDef(its));
  }
  if (groups_ == nullptr) return TfStatus();
  if (transport::SaysLoopback(network_.listen_host) && network_.bind.empty()) {
    const auto tasks = AddressesOf(def.cluster());
    auto own = tasks.find(TaskOf(job_, hosting_.home_index()));
    Result<transport::ListeningPlace> place = transport::ListeningPlace();
    if (own != tasks.end()) place = WhereDataPortsAre("", own->second, tasks);
    if (!place.ok() || !place.value().why.empty()) {
      FUSEWIRE_LOG(kWarn,
                   "%s: its data port listens on loopback, as its first cluster said, and the new one has tasks "
                   "elsewhere; FUSEWIRE_BIND=* lets them connect; see: fusewire explain network#where-the-data-goes",
                   settings_.pipe.name.c_str());
    }
  }
  worker_env()->collective_executor_mgr =
      MakeCollectives(def.default_session_config(), *worker_env(), ClusterOf(master_env()->worker_cache));
  master_env()->collective_executor_mgr = worker_env()->collective_executor_mgr.get();
  AnnouncePort();
  if (observe::Watch* watch = observe::Watch::Get()) watch->SetMembers(ShortTask(own_task()), MembersOf(def.cluster()));
  return TfStatus();
}

std::unique_ptr<tensorflow::CollectiveExecutorMgrInterface> Server::MakeCollectives(
    const tensorflow::ConfigProto& config, const tensorflow::WorkerEnv& env, ClusterPtr cluster) {
  const int64_t now_ns = Clock::Real()->NowNs();
  // One is in use until the next has come, and for a moment longer.
  while (collective_caches_.size() > 1 && now_ns - collective_caches_[1].first > kRetiredCacheGraceNs)
    collective_caches_.erase(collective_caches_.begin());
  collective_caches_.emplace_back(now_ns, std::make_unique<WorkerCache>(std::move(cluster), *directory_));
  return MakeCollectiveExecutorMgr(config, env.device_mgr, collective_caches_.back().second.get(), own_task(),
                                   groups_->Renew());
}

// Before the gRPC port answers, so that the data port is open at the first request for it.
TfStatus Server::OpenDataPort() {
  uint16_t fixed = 0;
  auto endpoint = settings_.endpoints.find(absl::StrCat(host_name(), ":", bound_port()));
  if (endpoint != settings_.endpoints.end()) {
    Result<transport::Address> mapped = transport::Address::Parse(endpoint->second);
    if (mapped.ok()) fixed = mapped.value().port;
  }
  service_ = std::make_unique<Service>(worker_env(), worker_, succession_.known(), snapshots_.get());
  std::vector<rpc::Method> moves;
  if (snapshots_ != nullptr) {
    moves.push_back(HandOverMethod(&snapshots_->departures()));
    auto take = [this](int index, int64_t pause_ms_max, std::string* said) {
      return TakeHere(index, pause_ms_max, said);
    };
    moves.push_back(TakeTaskMethod(server_def(), take, [] { return ServersHere().size(); }));
  }
  Status opened = service_->Open(*data_task_, std::move(moves));
  if (opened.ok()) opened = data_task_->Listen({network_.listen_host, fixed}, network_.ports);
  if (!opened.ok() && fixed == 0 && network_.ports.max != 0) {
    opened =
        Status(opened.code(), absl::StrCat("FUSEWIRE_PORTS is \"", settings_.network.ports, "\": ", opened.cause()))
            .Next("give it more ports, or stop the process that holds them: ss -ltnp shows it");
  }
  if (!opened.ok()) return Failed(opened);
  worker_->SetStar(&service_->star());
  if (snapshots_ != nullptr && snapshots_->arrival() != nullptr) {
    worker_->Fence([](PortWords*) { return false; });  // until it has arrived
  } else if (snapshots_ != nullptr) {
    snapshots_->SetAddress(DataAddress());
    SayWhere(snapshots_->owner().epoch);
  } else {
    AnnouncePort();
  }
  AnswerInquiries();
  GlobalCounters().Add(&Counters::servers);
  FUSEWIRE_LOG(kInfo, "%s: data port %u", settings_.pipe.name.c_str(), service_->port());
  return TfStatus();
}

// As peers reach it.
std::string Server::DataAddress() const {
  if (network_.advertise.port != 0) return network_.advertise.ToString();
  transport::Address address{network_.advertise.host, service_->port()};
  if (address.host.empty()) {
    Result<transport::Address> own = transport::Address::Parse(AddressesOf(server_def().cluster())[own_task()]);
    address.host = own.ok() ? own.value().host : host_name();
  }
  return address.ToString();
}

void Server::AnnouncePort() {
  PortWords words;
  words.port = service_->port();
  words.incarnation = data_task_->context().options().incarnation;
  words.group_port = groups_->port();
  words.advertised = network_.advertise.host;
  // Behind NAT, the port outside is another one. Over UCX, collectives have a port of their own, which is not mapped.
  if (network_.advertise.port != 0) {
    if (words.group_port == words.port) words.group_port = network_.advertise.port;
    words.port = network_.advertise.port;
  }
  words.group_age = groups_->age();
  words.joins = true;
  words.host = groups_->options().host;
  const Whereabout place = succession_.place();
  words.state = place.state;
  words.epoch = place.epoch;
  worker_->Announce(words);
}

TfStatus Server::WorkerCacheFactory(const tensorflow::WorkerCacheFactoryOptions& options,
                                    tensorflow::WorkerCacheInterface** cache) {
  tensorflow::WorkerCacheInterface* grpc = nullptr;
  TF_RETURN_IF_ERROR(GrpcServer::WorkerCacheFactory(options, &grpc));
  if (directory_ == nullptr) {  // the first call comes from Init, before other threads can call
    directory_ = std::make_unique<Directory>(
        data_task_.get(),
        Directory::Options{settings_.patience_ns, settings_.recovery_ns, settings_.must_encrypt(), settings_.is_elastic,
                           settings_.endpoints, protocol_, succession_.known()});
  }
  auto cluster = std::make_shared<Cluster>();
  cluster->grpc = GrpcCachePtr(grpc);
  cluster->own_target = absl::StrCat("/job:", options.job_name, "/replica:0/task:", options.task_index);
  cluster->addresses = AddressesOf(options.cluster_def);
  *cache = new WorkerCache(std::move(cluster), *directory_);
  return TfStatus();
}

}  // namespace fusewire::tf
