// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// For tests of pipes: a receiver that records its messages and events, a peer that sends given bytes, and two tasks in
// a loopback world. Home: each part at home of its task; the world belongs to the test's thread.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/log.h"
#include "fusewire/pipe/handshake.h"
#include "fusewire/pipe/pipe.h"
#include "loopback/loopback.h"

namespace fusewire::pipe {

constexpr uint16_t kTestService = 1;

// Checks that each Done comes once; also those that come after its own end.
class Outcomes {
 public:
  Done Next() {
    size_t index = seen_->statuses.size();
    seen_->statuses.emplace_back();
    seen_->times.push_back(0);
    return [seen = seen_, index](Status status) {
      seen->order.push_back(index);
      ++seen->times[index];
      seen->statuses[index] = std::move(status);
    };
  }
  size_t made() const { return seen_->times.size(); }
  size_t come() const { return seen_->order.size(); }
  const Status& at(size_t index) const { return seen_->statuses[index]; }
  size_t good() const {
    size_t good = 0;
    for (size_t index : order()) good += at(index).ok() ? 1 : 0;
    return good;
  }
  // The indices in the order in which they came.
  const std::vector<size_t>& order() const { return seen_->order; }

  void ExpectOnceEach() const {
    for (size_t i = 0; i < made(); ++i) EXPECT_EQ(seen_->times[i], 1) << "Done " << i;
  }

 private:
  struct Seen {
    std::deque<Status> statuses;
    std::deque<int> times;
    std::vector<size_t> order;
  };
  std::shared_ptr<Seen> seen_ = std::make_shared<Seen>();
};

// Lands everything in memory of its own, and blames the pipe for calls that break its contract.
class RecordingReceiver : public Receiver {
 public:
  // Its behaviour.
  Pipe* pipe = nullptr;
  bool hold = false;  // consumes later: Consume()
  bool keep = true;   // bodies
  bool view = false;  // small ones are viewed
  std::function<Status(const wire::FrameHeader&)> on_header, on_message;
  std::function<void()> on_open, on_closed;

  // The messages and events that it has received.
  struct Got {
    wire::FrameKind kind;
    uint16_t method;
    uint64_t call;
    std::string head, body;
    uint64_t bytes_in_before;  // what the pipe had read when it was complete
  };
  int opened = 0, closed = 0;
  PeerInfo peer;
  Status why;
  std::vector<Got> got;
  uint64_t messages = 0;
  std::vector<uint64_t> cancelled;
  std::deque<wire::FrameHeader> held;

  void Consume(size_t count = SIZE_MAX) {
    for (; count > 0 && !held.empty(); --count) {
      pipe->Consume(held.front());
      held.pop_front();
    }
  }
  size_t bodies_coming_in() const { return places_.size(); }

  FrameHandler* OnOpen(const PeerInfo& who) override {
    EXPECT_EQ(opened++, 0);
    peer = who;
    if (on_open) on_open();
    return this;
  }
  Result<Landing> OnHeader(const wire::FrameHeader& header, ConstBytes) override {
    Watch();
    if (on_header) FUSEWIRE_TRY(on_header(header));
    if (view && header.body_bytes <= kViewBytesMax) return Landing::View();
    if (header.body_bytes == 0) return Landing::View();
    Place& place = places_[header.sequence];
    place.memory = std::make_unique<std::string>(header.body_bytes, '#');
    place.part = Bytes(place.memory->data(), place.memory->size());
    return Landing::Into(&place.part, 1);
  }
  Status OnMessage(const wire::FrameHeader& header, ConstBytes meta, ConstBytes viewed) override {
    Watch();
    std::string body = viewed.ToString();
    auto place = places_.find(header.sequence);
    if (place != places_.end()) {
      if (keep) body = std::move(*place->second.memory);
      places_.erase(place);
    }
    ++messages;
    uint64_t bytes_in = pipe == nullptr ? 0 : pipe->stats().bytes_in.Read();
    if (keep) {
      got.push_back(
          {header.kind, header.method, header.call, wire::HeadOf(header, meta).ToString(), std::move(body), bytes_in});
    }
    held.push_back(header);
    if (!hold) Consume();
    return on_message ? on_message(header) : Status::Ok();
  }
  void OnCancel(uint64_t call) override {
    Watch();
    cancelled.push_back(call);
  }
  void OnClosed(Status status) override {
    EXPECT_EQ(closed++, 0);
    EXPECT_FALSE(status.ok());
    why = std::move(status);
    places_.clear();
    if (on_closed) on_closed();
  }

 private:
  struct Place {
    std::unique_ptr<std::string> memory;
    Bytes part;
  };
  void Watch() {
    EXPECT_EQ(opened, 1);
    EXPECT_EQ(closed, 0);
  }
  std::map<uint32_t, Place> places_;  // by sequence
};

// Sends and receives bytes; greets first if it is given options. Unlike a pipe, it follows no rules.
class RawPeer final : public transport::ConnectionHandler {
 public:
  RawPeer() = default;
  RawPeer(Role role, const Options& options)
      : options_(options),
        handshake_(std::make_unique<Handshake>(role, options_, kTestService, options.window_bytes)) {}

  void Meet(std::unique_ptr<transport::Connection> connection) {
    connection_ = std::move(connection);
    connection_->Start(this);
    if (handshake_ != nullptr) Say(handshake_->Begin());
    Push();
  }
  void Say(const std::string& bytes) {
    if (!bytes.empty()) to_say_.push_back(bytes);
    Push();
  }
  void Close() { connection_->Close(Status::Cancelled("enough")); }
  void Drop() { connection_.reset(); }
  bool greeted() const { return handshake_ == nullptr || handshake_->done(); }
  bool connected() const { return connection_ != nullptr; }

  std::string heard;  // behind the greeting
  int closed = 0;
  Status why;

  size_t Landing(Bytes*, size_t) override { return 0; }
  size_t LookAhead() override { return 4096; }
  void OnLanded(size_t) override {}
  void OnBytes(ConstBytes bytes) override {
    if (!greeted()) {
      std::string answer;
      EXPECT_TRUE(handshake_->Feed(&bytes, &answer).ok());
      Say(answer);
    }
    heard += bytes.ToString();
  }
  void OnWritten(size_t bytes) override {
    waiting_ = false;
    said_ += bytes;
    if (said_ == to_say_.front().size()) {
      to_say_.pop_front();
      said_ = 0;
    }
    Push();
  }
  void OnClosed(Status status) override {
    ++closed;
    why = std::move(status);
  }

 private:
  void Push() {
    if (pushing_) return;
    pushing_ = true;
    while (!waiting_ && closed == 0 && connection_ != nullptr && !to_say_.empty()) {
      waiting_ = true;
      ConstBytes part = ConstBytes(to_say_.front()).From(said_);
      connection_->Write(&part, 1);
    }
    pushing_ = false;
  }

  const Options options_{};
  std::unique_ptr<Handshake> handshake_;
  std::unique_ptr<transport::Connection> connection_;
  std::deque<std::string> to_say_;
  size_t said_ = 0;
  bool waiting_ = false, pushing_ = false;
};

// One task: a host of the world, and what its pipes share.
struct Task {
  Task(transport::LoopbackWorld& world, const std::string& name, Options options)
      : host(name),
        home(world.AddHost(name)),
        context(Named(std::move(options), name)),
        transport(world.MakeTransport(name)) {}
  static Options Named(Options options, const std::string& name) {
    if (options.name.empty()) options.name = name;
    return options;
  }
  void AtHome(UniqueFunction<void()> what) { home->Run(std::move(what)); }

  const std::string host;
  reactor::Reactor* const home;
  PipeContext context;
  std::unique_ptr<transport::Transport> transport;
};

inline transport::LoopbackFaults Nasty() {
  transport::LoopbackFaults faults;
  faults.split = true;
  faults.late_answer_chance = 0.3;
  faults.latency_ns_max = 2 * kMillisecondNs;
  return faults;
}

inline Options SmallWindows() {
  Options options;
  options.window_bytes = 64 * 1024;
  options.receive_budget_bytes = 4 << 20;
  return options;
}

// A client and a server with one pipe between them.
class PipePair {
 public:
  explicit PipePair(uint64_t seed, const transport::LoopbackFaults& faults = {}, const Options& client_options = {},
                    const Options& server_options = {})
      : world(seed, faults),
        client_task(world, "client", client_options),
        server_task(world, "server", server_options) {
    Listen();
  }
  ~PipePair() {
    client_task.AtHome([this] {
      dialing.reset();
      client.reset();
      raw_client.Drop();
    });
    server_task.AtHome([this] {
      listener.reset();
      server.reset();
      if (raw_server != nullptr) raw_server->Drop();
    });
  }

  void Dial() {
    DialWith([this](std::unique_ptr<transport::Connection> connection) {
      client = std::make_unique<Pipe>(client_task.context, *client_task.home, std::move(connection), Role::kDialer,
                                      kTestService, &client_receiver);
      client_receiver.pipe = client.get();
      client->Start();
    });
  }
  // Until both ends are open.
  bool Connect() {
    Dial();
    return world.RunUntil([this] { return client_receiver.opened > 0 && server_receiver.opened > 0; }, 10 * kSecondNs);
  }
  // A client that is not a pipe.
  bool ConnectRaw() {
    DialWith([this](std::unique_ptr<transport::Connection> connection) { raw_client.Meet(std::move(connection)); });
    return world.RunUntil([this] { return raw_client.connected() && server != nullptr && raw_client.greeted(); },
                          10 * kSecondNs);
  }

  void Send(Pipe* pipe, Message message, Done done = nullptr) {
    Task& task = pipe == client.get() ? client_task : server_task;
    task.AtHome([&] { pipe->Send(std::move(message), std::move(done)); });
  }
  bool RunUntil(UniqueFunction<bool()> done, int64_t limit_ns = 60 * kSecondNs) {
    return world.RunUntil(std::move(done), limit_ns);
  }

  transport::LoopbackWorld world;
  Task client_task, server_task;
  RecordingReceiver client_receiver, server_receiver;
  RawPeer raw_client{Role::kDialer, Options()};
  std::unique_ptr<RawPeer> raw_server;  // if set before a connection comes, it is met instead of a pipe
  std::unique_ptr<Pipe> client, server;
  std::unique_ptr<transport::Listener> listener;
  std::unique_ptr<transport::Dialing> dialing;
  Status dial_failed;

 private:
  void Listen() {
    server_task.AtHome([this] {
      auto listening = server_task.transport->Listen(
          *server_task.home, {"", 5555}, [this](std::unique_ptr<transport::Incoming> incoming) {
            std::unique_ptr<transport::Connection> connection = incoming->Adopt(*server_task.home).value();
            if (raw_server != nullptr) {
              raw_server->Meet(std::move(connection));
              return;
            }
            server = std::make_unique<Pipe>(server_task.context, *server_task.home, std::move(connection),
                                            Role::kAcceptor, kTestService, &server_receiver);
            server_receiver.pipe = server.get();
            server->Start();
          });
      ASSERT_TRUE(listening.ok());
      listener = std::move(listening).value();
    });
  }
  void DialWith(std::function<void(std::unique_ptr<transport::Connection>)> meet) {
    client_task.AtHome([this, &meet] {
      dialing = client_task.transport->Dial(*client_task.home, {"server", 5555}, 5 * kSecondNs,
                                            [this, meet](Result<std::unique_ptr<transport::Connection>> made) {
                                              if (!made.ok()) {
                                                dial_failed = made.status();
                                                return;
                                              }
                                              meet(std::move(made).value());
                                            });
    });
  }
};

// A small body is copied; a large one is wrapped, and has to outlive the message.
inline Message MakeMessage(wire::FrameKind kind, uint64_t call, const std::string& head,
                           const std::string& body = std::string(), bool express = false) {
  Message message;
  message.kind = kind;
  message.call = call;
  message.head = head;
  message.express = express;
  if (body.empty()) return message;
  bool is_small = body.size() < kCopyBytesMax;
  Bytes there(const_cast<char*>(body.data()), body.size());
  message.body.push_back(is_small ? Buffer::CopyOf(there) : Buffer::Wrap(there, nullptr, nullptr));
  return message;
}

// The log lines of a scope.
class LogLines {
 public:
  LogLines() {
    SetLogSink([](LogLevel, const char* line, void* self) { static_cast<LogLines*>(self)->lines.emplace_back(line); },
               this);
  }
  ~LogLines() { SetLogSink(nullptr, nullptr); }
  std::vector<std::string> lines;
};

}  // namespace fusewire::pipe
