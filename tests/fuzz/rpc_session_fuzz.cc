// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// input := who:u8 op[...]      op := what:u8 argument:u8[...]
//   who: bit 0: a server lies to a client, else a client to a server.
// A peer that has greeted, and sends any kind, id, method, code, head and body, whole or interleaved. For every input:
// a call ends once, and never while its memory is being written; a request is answered at most once; other peers are
// served.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/base/log.h"
#include "fusewire/pipe/link.h"
#include "fusewire/pipe/pipe_context.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/rpc/rpc.h"
#include "fusewire/task/acceptor.h"
#include "fusewire/transport/transport.h"
#include "fusewire/wire/wire.h"
#include "loopback/loopback.h"
#include "op_bytes.h"

namespace fusewire::rpc {
namespace {

constexpr uint16_t kEcho = 1, kHold = 2, kSink = 3, kStream = 4;
constexpr uint32_t kCallsMax = 8;
constexpr size_t kOpsMax = 60, kPostedMax = 16;
constexpr size_t kSizes[] = {0, 1, 100, 3000, 20000, 900000};
// Generations that meet each other when they wrap around.
constexpr uint32_t kGenerations[] = {1, 2, 5, 5U + 0x7fffffffU, 5U + 0xfffffffeU, 0, UINT32_MAX, 0x80000000U};

Buffers BodyOf(size_t bytes) {
  Buffers body;
  if (bytes == 0) return body;
  body.push_back(Buffer::TryAllocate(bytes));
  for (size_t i = 0; i < bytes; ++i) body[0].bytes().data[i] = '!';
  return body;
}

pipe::Message MessageOf(OpBytes* in, uint64_t id, ConstBytes head) {
  constexpr wire::FrameKind kKinds[] = {wire::FrameKind::kCall, wire::FrameKind::kReply, wire::FrameKind::kReplyPart,
                                        wire::FrameKind::kMessage};
  const uint8_t how = in->Next();
  pipe::Message message;
  message.kind = kKinds[how % 4];
  message.express = (how & 4) != 0;
  message.method = static_cast<uint16_t>((how & 8) != 0 ? in->Next() * 257 : how / 16 % 6);
  message.call = id;
  message.aux = (how & 128) != 0 ? in->Next() % 32 : 0;
  message.head = head;
  for (int left = (how & 64) != 0 ? 3 : 1; left > 0; --left) {
    for (Buffer& part : BodyOf(in->OneOf(kSizes))) message.body.push_back(std::move(part));
  }
  return message;
}

// Memory of its own for a request, which a sanitizer sees freed.
class Sink final : public RequestSink {
 public:
  explicit Sink(size_t bytes) : memory_(bytes), part_(memory_.data(), bytes) {}
  pipe::Landing Where() override { return pipe::Landing::Into(&part_, 1); }

 private:
  std::vector<uint8_t> memory_;
  Bytes part_;
};

class Asked final : public Call {
 public:
  explicit Asked(uint16_t method_in) : Call(method_in) {}
  int dones = 0;
  bool refuses = false;

 private:
  Result<pipe::Landing> Land(ConstBytes reply, const SegmentSizes& sizes) override {
    if (refuses) return Status::Overloaded("no place");
    return Call::Land(reply, sizes);
  }
  void OnPart(ConstBytes, Buffers) override { FUSEWIRE_CHECK(dones == 0); }
  void OnDone(Status) override { ++dones; }
};

struct Heard {
  pipe::Pipe* pipe = nullptr;
  std::vector<uint64_t> ids;
};

// The liar's end: it discards all that it receives.
class FuzzReceiver final : public pipe::Receiver, public pipe::LinkHandler {
 public:
  explicit FuzzReceiver(Heard* heard) : heard_(*heard) {}

 private:
  pipe::FrameHandler* OnOpen(const pipe::PeerInfo&) override { return static_cast<pipe::Receiver*>(this); }
  void OnUp(const pipe::PeerInfo&, bool) override {}
  void OnClosed(Status) override { heard_.pipe = nullptr; }
  void OnDown(Status, bool) override { heard_.pipe = nullptr; }
  void OnCancel(uint64_t) override {}
  Result<pipe::Landing> OnHeader(const wire::FrameHeader&, ConstBytes) override { return pipe::Landing::Discard(); }
  Status OnMessage(const wire::FrameHeader& header, ConstBytes, ConstBytes) override {
    if (heard_.ids.size() < 64) heard_.ids.push_back(header.call);
    if (heard_.pipe != nullptr) heard_.pipe->Consume(header);
    return Status::Ok();
  }
  Heard& heard_;
};

class World {
 public:
  explicit World(OpBytes* in) : in_(*in) {}
  virtual ~World() = default;
  void Run() {
    for (size_t ops = 0; !in_.empty() && ops < kOpsMax; ++ops) Step();
    Finish();
  }

 protected:
  std::unique_ptr<task::Task> MakeTask(const char* host) {
    pipe::Options options;
    options.name = host;
    options.incarnation = 7;
    options.limits.body_bytes_max = 1 << 20;
    options.receive_budget_bytes = 4 << 20;
    options.window_bytes = 2 << 20;  // what is long begins at once
    std::unique_ptr<reactor::Pool> pool = reactor::Pool::Around(world_.AddHost(host));
    return task::Task::Make(std::move(options), std::move(pool), world_.MakeTransport(host));
  }
  static reactor::Reactor& HomeOf(task::Task& task) { return task.pool().at(0); }
  virtual void Step() = 0;
  virtual void Finish() = 0;

  OpBytes& in_;
  transport::LoopbackWorld world_{1, {}};
};

class AgainstServer final : public World {
 public:
  explicit AgainstServer(OpBytes* in) : World(in), task_(MakeTask("server")), liar_task_(MakeTask("liar")) {
    ServerOptions options;
    options.calls_in_flight_max = kCallsMax;
    server_ = Server::Open(*task_, {"", 5555}, Methods(), options).value();
    HomeOf(*liar_task_).Run([this] {
      link_ = std::make_unique<pipe::Link>(liar_task_->context(), HomeOf(*liar_task_), liar_task_->transport(),
                                           transport::Address{"server", 5555}, kRpcService,
                                           static_cast<pipe::LinkHandler*>(&receiver_));
      link_->Want();
    });
    world_.RunUntil([this] { return link_->pipe() != nullptr; }, kSecondNs);
  }

 private:
  static Method MethodOf(uint16_t number, UniqueFunction<void(Request, Reply)> handle) {
    Method method;
    method.number = number;
    method.name = "m" + std::to_string(number);
    method.handle = std::move(handle);
    return method;
  }
  std::vector<Method> Methods() {
    std::vector<Method> methods;
    methods.push_back(MethodOf(
        kEcho, [](Request request, Reply reply) { reply.Send(Status::Ok(), request.head, std::move(request.body)); }));
    methods.push_back(MethodOf(kHold, [this](Request request, Reply reply) {
      held_.emplace_back(std::move(request.body), std::move(reply));
    }));
    methods.push_back(MethodOf(kSink, [](Request request, Reply reply) {
      request.sink.reset();
      reply.Send(Status::Ok());
    }));
    methods.back().make_sink = [](ConstBytes head, const SegmentSizes& sizes) -> Result<std::unique_ptr<RequestSink>> {
      if (head.size % 5 == 4) return Status::Overloaded("no place");
      return std::unique_ptr<RequestSink>(std::make_unique<Sink>(static_cast<size_t>(sizes.total())));
    };
    methods.push_back(MethodOf(kStream, [this](Request request, Reply reply) {
      reply.SendPart(request.head, BodyOf(10));
      reply.SendPart(ConstBytes(), std::move(request.body));
      held_.emplace_back(Buffers(), std::move(reply));
    }));
    return methods;
  }
  void Step() override {
    const uint8_t what = in_.Next();
    if (what >= 200) {
      world_.RunFor((what - 199) * kMillisecondNs);
      return;
    }
    if (what >= 170) {
      if (!held_.empty()) HomeOf(*task_).Run([this, what] { AnswerOne(what); });
      return;
    }
    HomeOf(*liar_task_).Run([this, what] {
      heard_.pipe = link_->pipe();
      if (heard_.pipe == nullptr) return link_->Want();
      // Those that follow at once stand between the chunks of the first.
      for (uint8_t next = what; SayOne(next);) next = in_.Next() % 170;
    });
  }
  // True: another one follows at once.
  bool SayOne(uint8_t what) {
    const uint32_t slot = what % 16 == 15 ? in_.Next() * 1000 : what % 4;
    const uint64_t id = wire::PackCallId({slot, in_.OneOf(kGenerations)});
    if (what >= 150) {
      heard_.pipe->Cancel(id);
      return false;
    }
    const std::string head = in_.Text(60);
    pipe::Message message = MessageOf(&in_, id, head);
    if (what % 8 != 7) message.kind = wire::FrameKind::kCall;
    heard_.pipe->Send(std::move(message));
    return (what & 16) != 0 && !in_.empty() && heard_.pipe != nullptr;
  }
  void AnswerOne(uint8_t how) {
    auto [body, reply] = std::move(held_.front());
    held_.pop_front();
    if (how % 3 == 0) reply.Send(Status::Invalid("no"));
    if (how % 3 == 1) reply.Send(Status::Ok(), std::string("yes"), std::move(body));
  }
  void Finish() override {
    world_.RunFor(kSecondNs);
    FUSEWIRE_CHECK(held_.size() <= kCallsMax);
    HomeOf(*task_).Run([this] {
      while (!held_.empty()) AnswerOne(0);
    });
    auto neighbour = MakeTask("neighbour");
    auto client = std::make_unique<Client>(*neighbour, transport::Address{"server", 5555});
    Asked asked(kEcho);
    client->Start(&asked);
    FUSEWIRE_CHECK(world_.RunUntil([&] { return asked.dones == 1; }, 20 * kSecondNs));
    FUSEWIRE_CHECK(client->Snapshot().up);
    HomeOf(*liar_task_).Run([this] { link_.reset(); });
    FUSEWIRE_CHECK(world_.RunUntil([&] { return server_->calls_in_flight() == 0; }, 40 * kSecondNs));
    client.reset();
    server_.reset();
  }

  std::unique_ptr<task::Task> task_, liar_task_;
  std::deque<std::pair<Buffers, Reply>> held_;
  std::unique_ptr<Server> server_;
  Heard heard_;
  FuzzReceiver receiver_{&heard_};
  std::unique_ptr<pipe::Link> link_;
};

class AgainstClient final : public World {
 public:
  explicit AgainstClient(OpBytes* in) : World(in), task_(MakeTask("client")), liar_task_(MakeTask("server")) {
    Status served = liar_task_->acceptor().Serve(
        kRpcService, liar_task_->context(), {&HomeOf(*liar_task_)}, [this](pipe::Pipe& came) {
          heard_.pipe = &came;
          return std::unique_ptr<pipe::Receiver>(std::make_unique<FuzzReceiver>(&heard_));
        });
    FUSEWIRE_CHECK(served.ok());
    FUSEWIRE_CHECK(liar_task_->Listen({"", 5555}).ok());
    client_ = std::make_unique<Client>(*task_, transport::Address{"server", 5555});
    StartOne(kEcho);
    world_.RunUntil([this] { return !heard_.ids.empty(); }, kSecondNs);
  }

 private:
  void StartOne(uint8_t how) {
    if (asked_.size() >= kPostedMax) return;
    asked_.push_back(std::make_unique<Asked>(how % 6));
    asked_.back()->refuses = how % 16 == 15;
    if (how >= 128) asked_.back()->timeout_ns = 5 * kMillisecondNs;
    client_->Start(asked_.back().get());
  }
  void Step() override {
    const uint8_t what = in_.Next();
    if (what >= 200) {
      world_.RunFor((what - 199) * kMillisecondNs);
    } else if (what >= 180) {
      StartOne(in_.Next());
    } else if (what >= 170) {
      asked_[in_.Next() % asked_.size()]->Cancel();
    } else {
      SayOne(what);
    }
  }
  void SayOne(uint8_t what) {
    std::string head = in_.Text(60);
    if (what % 4 == 3) {
      head.clear();
      wire::AppendStatus(Status::Invalid("words").Next("more words"), &head);
    }
    HomeOf(*liar_task_).Run([&] {
      if (heard_.pipe == nullptr || heard_.ids.empty()) return;
      uint64_t id = in_.OneOf(heard_.ids);
      if (what % 16 == 0) id += uint64_t{1} << in_.Next() % 64;
      pipe::Message message = MessageOf(&in_, id, head);
      if (what % 8 != 7) message.kind = what % 3 == 0 ? wire::FrameKind::kReplyPart : wire::FrameKind::kReply;
      if (what % 4 == 3) message.aux = 1 + what / 4 % 8;
      if (what % 8 == 3) message.body.clear();
      heard_.pipe->Send(std::move(message));
    });
  }
  void Finish() override {
    world_.RunFor(kSecondNs);
    client_->Close();
    for (const auto& asked : asked_) FUSEWIRE_CHECK(asked->dones == 1);
    client_.reset();
    liar_task_->acceptor().Withdraw(kRpcService);
  }

  std::unique_ptr<task::Task> task_, liar_task_;
  std::vector<std::unique_ptr<Asked>> asked_;
  std::unique_ptr<Client> client_;
  Heard heard_;
};

}  // namespace
}  // namespace fusewire::rpc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fusewire::SetLogSink([](fusewire::LogLevel, const char*, void*) {}, nullptr);
  if (size > 1000) return 0;
  fusewire::OpBytes in(data, size);
  if ((in.Next() & 1) != 0) {
    fusewire::rpc::AgainstClient(&in).Run();
  } else {
    fusewire::rpc::AgainstServer(&in).Run();
  }
  return 0;
}
