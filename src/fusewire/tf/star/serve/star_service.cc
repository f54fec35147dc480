// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/serve/star_service.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <absl/strings/str_cat.h>
#include <tensorflow/core/distributed_runtime/session_mgr.h>
#include <tensorflow/core/lib/core/threadpool.h>

#include "fusewire/base/clock.h"
#include "fusewire/observe/event.h"
#include "fusewire/tf/bridge/names.h"
#include "fusewire/tf/bridge/status.h"
#include "fusewire/tf/bridge/tensor.h"
#include "fusewire/tf/heads/calls.h"
#include "fusewire/tf/peer/marks.h"
#include "fusewire/tf/profile/profiler.h"

namespace fusewire::tf {

namespace {

// For runs to end while a snapshot waits for them: parts with tickets never wait for other steps.
constexpr int64_t kEndsNs = 10 * kSecondNs;
// For workers to tell a task that has come to another process about their sessions.
constexpr int64_t kExpectedNs = 60 * kSecondNs;

Status UnknownPart() { return Status::Application(kUnknownPart, "a part of a graph that is not placed here"); }

void AnswerPlaced(rpc::Reply reply, const TfStatus& status, uint64_t id = Shelf::kNotHere,
                  Again again = Again::kNever) {
  std::string head;
  AppendTfStatus(status, &head);
  if (status.ok()) AppendFixed64(&head, id);
  if (status.ok()) head.push_back(static_cast<char>(again));
  reply.Send(Status::Ok(), head);
}

}  // namespace

// A request to run a part, from its first byte to its answer. Its tensors land where the kernels will read them.
class StarService::Incoming final : public rpc::RequestSink {
 public:
  // `sizes` is null where there is no body.
  Status Read(Shelf* shelf, ConstBytes head, const rpc::SegmentSizes* sizes) {
    VarReader reader(head);
    RunHead run;
    FUSEWIRE_TRY(DecodeRunHead(&reader, &run));
    id_ = run.part;
    run_.step = run.step;
    ticket_ = run.ticket;
    lease_ = shelf->Find(id_);
    if (lease_ == nullptr) return UnknownPart();
    if (run.is_traced) run_.collector = std::make_unique<tensorflow::StepStatsCollector>(&run_.stats);
    place_.device = lease_->part->device();
    const size_t given = lease_->part->ends().given();
    landings_.emplace(sizes, given);
    if (sizes != nullptr) given_bytes_ = sizes->total();
    while (landings_->size() < given) FUSEWIRE_TRY(landings_->Begin(&reader, place_));
    if (!reader.done()) return Status::Invalid("a request for a run with more than the part takes");
    return landings_->EndOfMessage();
  }

  pipe::Landing Where() override { return landings_->Where(); }

  // After all tensors have landed. The first that can't be made, or does not match the part, is the run's error.
  TfStatus Finish(StepStore* store) {
    TF_RETURN_IF_ERROR(landings_->Finish(place_, &run_.args));
    const std::vector<tensorflow::DataType>& types = part().ends().args();
    run_.args.resize(types.size());
    TF_RETURN_IF_ERROR(store->Take(run_.step, part().ends().takes(), part().ends().given(), &run_.args));
    for (size_t i = 0; i < types.size(); ++i) {
      if (run_.args[i].dtype() != types[i])
        return absl::InvalidArgumentError("a tensor whose type is not the one that the part takes");
    }
    return TfStatus();
  }

  // Once. Afterwards its results are gone.
  void Answer(rpc::Reply* reply, TfStatus status) {
    std::string head;
    head.reserve(kUsualHeadBytes);
    Buffers body;
    uint64_t bytes = given_bytes_;
    for (const tensorflow::Tensor& ret : run_.rets) bytes += ret.TotalBytes();
    AppendTfStatus(status, &head);
    for (size_t i = 0; status.ok() && i < run_.rets.size(); ++i) {
      status = AppendTensor(run_.rets[i], &head, &body);
      run_.rets[i] = tensorflow::Tensor();
    }
    if (status.ok() && run_.collector != nullptr) {
      run_.collector->FinalizeAndSwap(&run_.stats);
      AppendText(&head, run_.stats.SerializeAsString());
    }
    if (!status.ok()) {
      head.clear();
      body.clear();
      AppendTfStatus(status, &head);
    }
    event_.Given(given_bytes_);
    event_.End(status.ok(), bytes, [&](observe::EventFacts* facts) {
      facts->peer = peer_;
      facts->name = lease_->name;
      facts->bytes_in = given_bytes_;
      facts->bytes_out = head.size();
      for (const Buffer& one : body) facts->bytes_out += one.size();
      if (!status.ok()) facts->error = status.ToString();
    });
    if (has_ticket()) lease_->answers->End(ticket_, ConstBytes(head), body, reply);
    reply->Send(Status::Ok(), head, std::move(body));
  }

  std::string Traced() const {
    return TraceMeEncode("fusewire serve part", {{"peer", peer_}, {"part", id_}, {"step", run_.step}});
  }

  // On the home thread. One session places a part, so it runs for one task. `peer` is read here.
  void Begin(const pipe::PeerInfo* peer) {
    if (observe::HasEventListener() && peer != nullptr) peer_ = ShortTask(peer->name);
    if (observe::TheRecorder() != nullptr && lease_->mark.hash == 0) {
      const std::string own = ShortTask(part().device()->name());
      lease_->mark =
          MarkRun(observe::Kind::kRunIn, own, peer == nullptr ? "" : ShortTask(peer->name), lease_->name, own, id_);
    }
    event_.Begin(observe::Kind::kRunIn, lease_->mark.tag, run_.step, FlowOf(lease_->mark, run_.step));
  }

  bool has_ticket() const { return ticket_.number != 0; }
  // False: it came before, and *reply has its answer, or will have it.
  bool IsFirst(RestoredAnswers* restored, rpc::Reply* reply) {
    return !has_ticket() || (!restored->Answer(ticket_, reply) && lease_->answers->Begin(ticket_, reply));
  }
  Part& part() { return *lease_->part; }
  const std::string& session() const { return lease_->session; }
  PartRun& run() { return run_; }

 private:
  uint64_t id_ = 0;
  Ticket ticket_;
  std::string peer_;       // in a profile; otherwise empty
  Shelf::LeasePtr lease_;  // shared_ptr: the lease may end meanwhile
  TensorPlace place_;
  uint64_t given_bytes_ = 0;                // of its tensors, in segments of their own
  std::optional<TensorLandings> landings_;  // once it is read
  PartRun run_;
  observe::Event event_;
};

void StarService::ExpectedSessions::Begin(int64_t now_ns) {
  MutexLock lock(mutex_);
  until_ns_ = AddNs(now_ns, kExpectedNs);
}

bool StarService::ExpectedSessions::Add(const std::string& session, int64_t now_ns) {
  MutexLock lock(mutex_);
  if (now_ns >= until_ns_) return false;
  sessions_.insert(session);
  return true;
}

std::set<std::string> StarService::ExpectedSessions::TakeOverdue(int64_t now_ns) {
  MutexLock lock(mutex_);
  return now_ns < until_ns_ ? std::set<std::string>() : std::exchange(sessions_, {});
}

StarService::StarService(tensorflow::WorkerEnv* env, Snapshots* snapshots)
    : env_(env), snapshots_(snapshots), shelf_(env, snapshots) {
  if (snapshots == nullptr) return;
  restored_.Set(snapshots->clients());
  expected_.Begin(Clock::Real()->NowNs());
}

void StarService::Learn(const tensorflow::RegisterGraphRequest& request) {
  if (snapshots_ == nullptr) return;
  SessionPtr session;
  const TfStatus found = env_->session_mgr->WorkerSessionForSession(request.session_handle(), &session);
  if (found.ok()) shelf_.GiveUpIfIsolated(*session);
  snapshots_->Learn(request.graph_def(), /*is_marked=*/false);
}

TfStatus StarService::Collect(std::vector<KeptClient>* clients) {
  // A run that has begun by now may have written a row that was copied: its ticket has to be in the snapshot. One that
  // begins later has written none of them.
  const std::vector<AnswersPtr> all = shelf_.AllAnswers();
  const int64_t deadline_ns = AddNs(Clock::Real()->NowNs(), kEndsNs);
  for (const AnswersPtr& answers : all) {
    if (!answers->AwaitEnds(deadline_ns))
      return absl::DeadlineExceededError(
          absl::StrCat("a run of a part did not end within ", kEndsNs / kSecondNs, " s"));
  }
  std::map<uint64_t, KeptClient> found;
  restored_.Collect(&found);
  for (const AnswersPtr& answers : all) answers->Collect(&found);
  for (auto& one : found) {
    KeptClient& client = one.second;
    // Each part knows only for its own tickets which answers the client has.
    client.runs.erase(std::remove_if(client.runs.begin(), client.runs.end(),
                                     [&client](const KeptRun& run) { return run.number < client.open; }),
                      client.runs.end());
    if (!client.runs.empty()) clients->push_back(std::move(client));
  }
  return TfStatus();
}

void StarService::Place(rpc::Request request, rpc::Reply reply) {
  FUSEWIRE_AT_HOME(reply.home());
  GlobalCounters().Add(&Counters::calls_in);
  PlaceHead place;
  Status read = DecodePlaceHead(request.head, &place);
  if (!read.ok()) return reply.Send(std::move(read));
  // shared_ptr: TensorFlow's pool copies its closures.
  struct Placing {
    std::string session, fingerprint;
    Buffers body;
    rpc::Reply reply;
  };
  auto placing = std::make_shared<Placing>();
  placing->session = place.session.ToString();
  placing->fingerprint = place.fingerprint.ToString();
  placing->body = std::move(request.body);
  placing->reply = std::move(reply);
  env_->compute_pool->Schedule([this, placing] {
    tensorflow::RegisterGraphRequest part;
    bool has_part = !placing->body.empty();
    if (has_part && !ParseProto(ConstBytes(), placing->body, &part))
      return AnswerPlaced(std::move(placing->reply), absl::InvalidArgumentError("the part is not a valid GraphDef"));
    uint64_t id = Shelf::kNotHere;
    Again again = Again::kNever;
    TfStatus placed = shelf_.Place(placing->session, placing->fingerprint, has_part ? &part : nullptr, &id, &again);
    AnswerPlaced(std::move(placing->reply), placed, id, again);
  });
}

void StarService::Run(rpc::Request request, rpc::Reply reply) {
  FUSEWIRE_AT_HOME(reply.home());
  GlobalCounters().Add(&Counters::calls_in);
  std::unique_ptr<Incoming> incoming(static_cast<Incoming*>(request.sink.release()));
  if (incoming == nullptr) {
    incoming = std::make_unique<Incoming>();
    Status read = incoming->Read(&shelf_, request.head, nullptr);
    if (!read.ok()) return reply.Send(std::move(read));
  }
  auto later = [this](std::unique_ptr<Incoming> kept, rpc::Reply its) {
    Begin(std::move(kept), nullptr, std::move(its));
  };
  if (Enter(&incoming, &reply, later)) Begin(std::move(incoming), request.peer, std::move(reply));
}

template <class What, class Go>
bool StarService::Enter(std::unique_ptr<What>* what, rpc::Reply* reply, Go go) {
  if (snapshots_ == nullptr || gate_.TryEnter()) return true;
  // shared_ptr: std::function wants copies.
  struct Kept {
    std::unique_ptr<What> what;
    rpc::Reply reply;
  };
  auto kept = std::make_shared<Kept>();
  kept->what = std::move(*what);
  kept->reply = std::move(*reply);
  const bool has_entered = gate_.Enter([this, kept, go](bool may_enter) {
    if (!may_enter) return kept->reply.Send(Status::Unavailable("the task has moved to another process"));
    reactor::Reactor& home = kept->reply.home();
    home.Post([this, kept, go] {
      if (Enter(&kept->what, &kept->reply, go)) go(std::move(kept->what), std::move(kept->reply));
    });
  });
  if (!has_entered) return false;
  *what = std::move(kept->what);
  *reply = std::move(kept->reply);
  return true;
}

void StarService::Begin(std::unique_ptr<Incoming> incoming, const pipe::PeerInfo* peer, rpc::Reply reply) {
  if (!incoming->IsFirst(&restored_, &reply)) return Leave();
  incoming->Begin(peer);
  TraceMe trace([&] { return incoming->Traced(); }, kTraceLevel);
  TfStatus ready = incoming->Finish(&store_);
  if (!ready.ok()) {
    incoming->Answer(&reply, ready);
    return Leave();
  }
  bool is_quick = incoming->part().is_quick();
  if (is_quick && !incoming->part().ends().is_sending()) {
    incoming->part().Run(&incoming->run(), [&](const TfStatus& status) {
      TfStatus end = status;
      if (end.ok()) {
        KeepResults(env_, incoming->part().ends(), incoming->session(), &incoming->run(), &store_,
                    [&end](const TfStatus& kept) { end = kept; });
      }
      incoming->Answer(&reply, end);
    });
    return Leave();
  }
  // shared_ptr: held by the pool, by the run's end, and by the callback for an unwanted answer.
  struct Running {
    std::unique_ptr<Incoming> incoming;
    rpc::Reply reply;
  };
  auto running = std::make_shared<Running>();
  running->incoming = std::move(incoming);
  running->reply = std::move(reply);
  running->reply.OnUnwanted([weak = std::weak_ptr<Running>(running)](rpc::Unwanted why) {
    auto there = weak.lock();
    if (there == nullptr) return;
    const bool may_come_again = why == rpc::Unwanted::kLost && there->incoming->has_ticket();
    if (!may_come_again) there->incoming->run().cancellation.StartCancel();
  });
  auto run = [this, running] {
    auto end = [this, running](const TfStatus& status) {
      running->incoming->Answer(&running->reply, status);
      Leave();
    };
    running->incoming->part().Run(&running->incoming->run(), [this, running, end](const TfStatus& status) {
      if (!status.ok()) return end(status);
      KeepResults(env_, running->incoming->part().ends(), running->incoming->session(), &running->incoming->run(),
                  &store_, end);
    });
  };
  if (is_quick) {
    run();
  } else {
    env_->compute_pool->Schedule([run, running] {
      TraceMe on_thread([&] { return running->incoming->Traced(); }, kTraceLevel);
      run();
    });
  }
}

void StarService::Keep(rpc::Request request, rpc::Reply reply) {
  FUSEWIRE_AT_HOME(reply.home());
  GlobalCounters().Add(&Counters::calls_in);
  std::unique_ptr<IncomingValues> values(static_cast<IncomingValues*>(request.sink.release()));
  if (values == nullptr) {
    values = std::make_unique<IncomingValues>();
    Status read = values->Read(env_, request.head, nullptr);
    if (!read.ok()) return reply.Send(std::move(read));
  }
  auto later = [this](std::unique_ptr<IncomingValues> kept, rpc::Reply its) { Store(std::move(kept), std::move(its)); };
  if (Enter(&values, &reply, later)) Store(std::move(values), std::move(reply));
}

void StarService::Store(std::unique_ptr<IncomingValues> values, rpc::Reply reply) {
  const std::string session = values->session();
  TfStatus stored = values->Store(&store_);
  // The session is looked up last: if it ends later, its end drops the kept values. If it had ended before, they would
  // stay.
  SessionPtr found;
  if (stored.ok()) {
    stored = env_->session_mgr->WorkerSessionForSession(session, &found);
    // A worker may still have to tell its sessions to the task, which has just come here.
    if (!stored.ok() && expected_.Add(session, Clock::Real()->NowNs())) stored = TfStatus();
    if (!stored.ok()) store_.DropSession(session);
  }
  reply.Send(stored.ok() ? Status::Ok() : Status::Invalid(std::string(stored.message())));
  Leave();
}

void StarService::MakeAhead(const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    // If one can't be made, its workers get the error when they place it.
    const TfStatus made = shelf_.MakeAhead(part);
    if (!made.ok()) LOG(WARNING) << "fusewire: a part of a task that moves here can't be made yet: " << made;
  }
}

TfStatus StarService::Resume(const std::string& values) {
  restored_.Set(snapshots_->clients());
  expected_.Begin(Clock::Real()->NowNs());
  return store_.Load(values);
}

void StarService::EndAll() {
  gate_.End();
  for (const std::string& session : shelf_.Sessions()) Release(session);
  shelf_.ReleaseUnwanted(kForeverNs);
}

void StarService::Release(const std::string& session) {
  shelf_.Release(session);
  store_.DropSession(session);
}

void StarService::ReleaseEnded() {
  for (const std::string& session : shelf_.ReleaseEnded()) store_.DropSession(session);
  for (const std::string& session : expected_.TakeOverdue(Clock::Real()->NowNs())) {
    SessionPtr found;
    if (!env_->session_mgr->WorkerSessionForSession(session, &found).ok()) store_.DropSession(session);
  }
}

std::vector<rpc::Method> StarService::Methods(reactor::Pool& homes) {
  shelf_.SetHomes(homes);
  std::vector<rpc::Method> methods;
  methods.push_back({kPlacePart, "PlacePart",
                     [this](rpc::Request request, rpc::Reply reply) { Place(std::move(request), std::move(reply)); },
                     nullptr});
  methods.push_back(
      {kRunPart, "RunPart",
       [this](rpc::Request request, rpc::Reply reply) { Run(std::move(request), std::move(reply)); },
       [this](ConstBytes head, const rpc::SegmentSizes& sizes) -> Result<std::unique_ptr<rpc::RequestSink>> {
         auto incoming = std::make_unique<Incoming>();
         FUSEWIRE_TRY(incoming->Read(&shelf_, head, &sizes));
         return std::unique_ptr<rpc::RequestSink>(std::move(incoming));
       }});
  methods.push_back(
      {kKeepValues, "KeepValues",
       [this](rpc::Request request, rpc::Reply reply) { Keep(std::move(request), std::move(reply)); },
       [this](ConstBytes head, const rpc::SegmentSizes& sizes) -> Result<std::unique_ptr<rpc::RequestSink>> {
         auto values = std::make_unique<IncomingValues>();
         FUSEWIRE_TRY(values->Read(env_, head, &sizes));
         return std::unique_ptr<rpc::RequestSink>(std::move(values));
       }});
  return methods;
}

}  // namespace fusewire::tf
