// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Peers that greet correctly and then send arbitrary frames: a server and a client made of a bare pipe.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/pipe/link.h"
#include "fusewire/pipe/pipe_context.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/rpc/world_test.h"
#include "fusewire/task/acceptor.h"
#include "fusewire/transport/transport.h"
#include "fusewire/wire/wire.h"

namespace fusewire::rpc {

inline pipe::Message MakeMessage(wire::FrameKind kind, uint64_t call, Buffers body = Buffers()) {
  pipe::Message message;
  message.kind = kind;
  message.call = call;
  message.body = std::move(body);
  return message;
}

// The messages that a liar has received.
struct Heard {
  std::vector<wire::FrameHeader> messages;
  std::vector<std::string> heads;
  std::vector<uint64_t> cancels;
  std::vector<Status> closed;
};

// Listens where the client of an RpcWorld looks for its server (of which there must be none).
class LyingServer {
 public:
  explicit LyingServer(RpcWorld* world) : world_(world) {
    task_ = task::Task::Make(pipe::Options(), reactor::Pool::Around(world->server_home),
                             world->world.MakeTransport("server"));
    Status served =
        task_->acceptor().Serve(kRpcService, task_->context(), {world->server_home}, [this](pipe::Pipe& came) {
          return std::unique_ptr<pipe::Receiver>(std::make_unique<LyingReceiver>(this, &came));
        });
    EXPECT_TRUE(served.ok());
    EXPECT_TRUE(task_->Listen({"", 5555}).ok());
  }
  ~LyingServer() { task_->acceptor().Withdraw(kRpcService); }

  // Sends it now, if the client is connected.
  void Say(pipe::Message message) {
    AtHome(world_->server_home, [this, &message] {
      ASSERT_NE(pipe, nullptr);
      pipe->Send(std::move(message));
    });
  }

  Heard heard;
  pipe::Pipe* pipe = nullptr;

 private:
  struct LyingReceiver final : pipe::Receiver {
    LyingReceiver(LyingServer* liar_in, pipe::Pipe* pipe_in) : liar(liar_in), own_pipe(pipe_in) {
      liar->pipe = own_pipe;
    }
    pipe::FrameHandler* OnOpen(const pipe::PeerInfo&) override { return this; }
    Result<pipe::Landing> OnHeader(const wire::FrameHeader&, ConstBytes) override { return pipe::Landing::Discard(); }
    Status OnMessage(const wire::FrameHeader& header, ConstBytes meta, ConstBytes) override {
      liar->heard.messages.push_back(header);
      liar->heard.heads.push_back(wire::HeadOf(header, meta).ToString());
      own_pipe->Consume(header);
      return Status::Ok();
    }
    void OnCancel(uint64_t call) override { liar->heard.cancels.push_back(call); }
    void OnClosed(Status why) override {
      liar->heard.closed.push_back(why);
      if (liar->pipe == own_pipe) liar->pipe = nullptr;
    }
    LyingServer* const liar;
    pipe::Pipe* const own_pipe;
  };

  RpcWorld* const world_;
  std::unique_ptr<task::Task> task_;
};

// Dials the server of an RpcWorld from a host of its own, and sends calls that no Client would send.
class LyingClient final : public pipe::LinkHandler {
 public:
  explicit LyingClient(RpcWorld* world, pipe::Options options = pipe::Options(), const std::string& host = "liar")
      : home_(world->world.AddHost(host)) {
    task_ = task::Task::Make(std::move(options), reactor::Pool::Around(home_), world->world.MakeTransport(host));
    AtHome(home_, [this] {
      link_ = std::make_unique<pipe::Link>(task_->context(), *home_, task_->transport(),
                                           transport::Address{"server", 5555}, kRpcService, this);
      link_->Want();
    });
    EXPECT_TRUE(world->RunUntil([this] { return link_->pipe() != nullptr; }));
  }
  ~LyingClient() {
    AtHome(home_, [this] { link_.reset(); });
  }

  void Say(pipe::Message message) {
    AtHome(home_, [this, &message] {
      ASSERT_NE(link_->pipe(), nullptr);
      link_->pipe()->Send(std::move(message));
    });
  }
  void SayCancel(uint64_t call) {
    AtHome(home_, [this, call] {
      ASSERT_NE(link_->pipe(), nullptr);
      link_->pipe()->Cancel(call);
    });
  }
  bool connected() { return link_->pipe() != nullptr; }

  Heard heard;

 private:
  void OnUp(const pipe::PeerInfo&, bool) override {}
  void OnDown(Status why, bool) override { heard.closed.push_back(std::move(why)); }
  Result<pipe::Landing> OnHeader(const wire::FrameHeader&, ConstBytes) override { return pipe::Landing::Discard(); }
  Status OnMessage(const wire::FrameHeader& header, ConstBytes meta, ConstBytes) override {
    heard.messages.push_back(header);
    heard.heads.push_back(wire::HeadOf(header, meta).ToString());
    link_->pipe()->Consume(header);
    return Status::Ok();
  }

  reactor::Reactor* const home_;
  std::unique_ptr<task::Task> task_;
  std::unique_ptr<pipe::Link> link_;
};

inline uint64_t Id(uint32_t slot, uint32_t generation) { return wire::PackCallId({slot, generation}); }

}  // namespace fusewire::rpc
