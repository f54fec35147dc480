// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/star_service.h"

#include <string>
#include <utility>

#include <tensorflow/core/lib/core/threadpool.h>
#include "fusewire/tf/bridge/proto.h"
#include "fusewire/tf/bridge/status.h"
#include "fusewire/tf/bridge/tensor.h"
#include "fusewire/tf/data/counters.h"
#include "fusewire/tf/data/methods.h"
#include "fusewire/tf/star/words.h"

namespace fusewire {
namespace tf {

namespace {

Status UnknownPart() { return Status::Application(kUnknownPart, "a part of a graph that is not placed here"); }

void AnswerPlaced(rpc::Reply reply, const TfStatus& status, uint64_t id) {
  std::string head;
  AppendTfStatus(status, &head);
  if (status.ok()) AppendFixed64(&head, id);
  reply.Send(Status::Ok(), head);
}

}  // namespace

// A request to run a part, from its first byte to its answer. Its tensors land where the kernels will read them.
class StarService::Incoming final : public rpc::RequestSink {
 public:
  // `sizes` is null where there is no body.
  Status Read(Shelf* shelf, ConstBytes head, const rpc::SegmentSizes* sizes) {
    VarReader reader(head);
    uint64_t id = reader.Fixed64();
    run_.step = static_cast<int64_t>(reader.Fixed64());
    uint8_t flags = reader.Byte();
    if (!reader.ok() || (flags & ~kRunFlagsAll) != 0) return Status::Invalid("a request for a run that makes no sense");
    part_ = shelf->Find(id);
    if (part_ == nullptr) return UnknownPart();
    if ((flags & kTraced) != 0) run_.collector = std::make_unique<tensorflow::StepStatsCollector>(&run_.stats);
    place_.device = part_->device();
    landings_.resize(part_->args().size());
    size_t segment = 0;
    for (TensorLanding& landing : landings_) {
      TfStatus begun = landing.Begin(&reader, place_, [sizes, segment] {
        return sizes != nullptr && segment < sizes->count() ? sizes->at(segment) : UINT64_MAX;
      });
      if (!begun.ok()) return Status::Invalid(std::string(begun.message()));
      if (!landing.has_segment()) continue;
      places_.push_back(landing.place());
      ++segment;
    }
    if (!reader.done() || segment != (sizes != nullptr ? sizes->count() : 0))
      return Status::Invalid("a request for a run with more than the part takes");
    return Status::Ok();
  }

  pipe::Landing Where() override { return pipe::Landing::Into(places_.data(), places_.size()); }

  // All has landed. The first tensor that cannot be made, or is not what the part takes, is the run's error.
  TfStatus Finish() {
    TfStatus status;
    run_.args.reserve(landings_.size());
    for (TensorLanding& landing : landings_) {
      landing.Finish(place_, [&](const TfStatus& made, const tensorflow::Tensor& tensor) {
        if (status.ok()) status = made;
        if (status.ok() && tensor.dtype() != part_->args()[run_.args.size()])
          status = absl::InvalidArgumentError("a tensor of another type than the part takes");
        run_.args.push_back(tensor);
      });
    }
    landings_.clear();
    return status;
  }

  Part& part() { return *part_; }
  PartRun& run() { return run_; }

 private:
  PartPtr part_;
  TensorPlace place_;
  std::vector<TensorLanding> landings_;
  std::vector<Bytes> places_;
  PartRun run_;
};

namespace {

void Answer(rpc::Reply* reply, TfStatus status, PartRun* run) {
  std::string head;
  Buffers body;
  AppendTfStatus(status, &head);
  for (size_t i = 0; status.ok() && i < run->rets.size(); ++i) {
    status = AppendTensor(run->rets[i], &head, &body);
    run->rets[i] = tensorflow::Tensor();
  }
  if (status.ok() && run->collector != nullptr) {
    run->collector->FinalizeAndSwap(&run->stats);
    AppendText(&head, run->stats.SerializeAsString());
  }
  if (!status.ok()) {
    head.clear();
    body.clear();
    AppendTfStatus(status, &head);
  }
  reply->Send(Status::Ok(), head, std::move(body));
}

}  // namespace

void StarService::Place(rpc::Request request, rpc::Reply reply) {
  GlobalCounters().Add(&Counters::calls_in);
  VarReader reader(request.head);
  std::string session(View(reader.Text())), fingerprint(View(reader.Text()));
  if (!reader.ok() || !reader.done()) {
    reply.Send(Status::Invalid("a part of a graph without a name"));
    return;
  }
  // shared_ptr: TensorFlow's pool copies what it is to do.
  struct Placing {
    std::string session, fingerprint;
    Buffers body;
    rpc::Reply reply;
  };
  auto placing = std::make_shared<Placing>();
  placing->session = std::move(session);
  placing->fingerprint = std::move(fingerprint);
  placing->body = std::move(request.body);
  placing->reply = std::move(reply);
  env_->compute_pool->Schedule([this, placing] {
    tensorflow::GraphDef graph;
    bool has_graph = !placing->body.empty();
    if (has_graph && !ParseProto(ConstBytes(), placing->body, &graph)) {
      AnswerPlaced(std::move(placing->reply), absl::InvalidArgumentError("a part that is no graph"), Shelf::kNotHere);
      return;
    }
    uint64_t id = Shelf::kNotHere;
    TfStatus placed = shelf_.Place(placing->session, placing->fingerprint, has_graph ? &graph : nullptr, &id);
    AnswerPlaced(std::move(placing->reply), placed, id);
  });
}

void StarService::Run(rpc::Request request, rpc::Reply reply) {
  GlobalCounters().Add(&Counters::calls_in);
  GlobalCounters().Add(&Counters::star_runs_in);
  std::unique_ptr<Incoming> incoming(static_cast<Incoming*>(request.sink.release()));
  if (incoming == nullptr) {
    incoming = std::make_unique<Incoming>();
    Status read = incoming->Read(&shelf_, request.head, nullptr);
    if (!read.ok()) {
      reply.Send(std::move(read));
      return;
    }
  }
  TfStatus ready = incoming->Finish();
  if (!ready.ok()) {
    Answer(&reply, ready, &incoming->run());
    return;
  }
  if (incoming->part().is_quick()) {
    incoming->part().Run(&incoming->run(), [&](const TfStatus& status) { Answer(&reply, status, &incoming->run()); });
    return;
  }
  // shared_ptr: it is held by the pool, by its end, and by whoever hears that nobody wants the answer any more.
  struct Running {
    std::unique_ptr<Incoming> incoming;
    rpc::Reply reply;
  };
  auto running = std::make_shared<Running>();
  running->incoming = std::move(incoming);
  running->reply = std::move(reply);
  running->reply.OnUnwanted([weak = std::weak_ptr<Running>(running)] {
    if (auto there = weak.lock()) there->incoming->run().cancellation.StartCancel();
  });
  env_->compute_pool->Schedule([running] {
    PartRun* run = &running->incoming->run();
    running->incoming->part().Run(
        run, [running](const TfStatus& status) { Answer(&running->reply, status, &running->incoming->run()); });
  });
}

std::vector<rpc::Method> StarService::Methods() {
  std::vector<rpc::Method> methods(2);
  methods[0].number = kPlacePart;
  methods[0].name = "PlacePart";
  methods[0].handle = [this](rpc::Request request, rpc::Reply reply) { Place(std::move(request), std::move(reply)); };
  methods[1].number = kRunPart;
  methods[1].name = "RunPart";
  methods[1].handle = [this](rpc::Request request, rpc::Reply reply) { Run(std::move(request), std::move(reply)); };
  methods[1].make_sink = [this](ConstBytes head,
                                const rpc::SegmentSizes& sizes) -> Result<std::unique_ptr<rpc::RequestSink>> {
    auto incoming = std::make_unique<Incoming>();
    Status read = incoming->Read(&shelf_, head, &sizes);
    if (!read.ok()) return read;
    return std::unique_ptr<rpc::RequestSink>(std::move(incoming));
  };
  return methods;
}

}  // namespace tf
}  // namespace fusewire
