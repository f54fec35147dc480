// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A peer that greets like an endpoint and then sends what a test likes: a bare pipe in a loopback world.
// Home: its host's. Owns: its link; destroy it before the world. Fails: never; it records what it receives.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/pipe/link.h"
#include "fusewire/pipe/pipe_context.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/wire/p2p.h"
#include "fusewire/wire/wire.h"
#include "loopback/loopback.h"

namespace fusewire::p2p {

class Liar final : public pipe::LinkHandler {
 public:
  // Dials `to` and opens, like an endpoint of that name.
  Liar(transport::LoopbackWorld& world, const std::string& name, const std::string& to)
      : home_(world.AddHost(name)), context_(Named(name)), transport_(world.MakeTransport(name)) {
    home_->Run([&] {
      link_ = std::make_unique<pipe::Link>(context_, *home_, *transport_, transport::Address{to, 5555},
                                           wire::kP2pService, this);
      link_->Want();
    });
  }
  ~Liar() {
    home_->Run([this] { link_.reset(); });
  }

  struct Heard {
    wire::P2pVerb verb;
    uint64_t call;
    uint32_t aux;
    std::string head;
    uint64_t body_bytes;
  };
  std::vector<Heard> heard;
  bool up = false;
  Status why;  // the pipe was closed
  bool open_itself = true;

  const Heard* Find(wire::P2pVerb verb) const {
    for (const Heard& one : heard) {
      if (one.verb == verb) return &one;
    }
    return nullptr;
  }
  // The id of the last message, if it is an offer; forgets all messages.
  uint64_t TakeOffer(uint64_t* body_bytes) {
    const Heard offer = heard.back();
    heard.clear();
    *body_bytes = offer.body_bytes;
    return offer.verb == wire::P2pVerb::kOffer ? offer.call & ~wire::kP2pMine : 0;
  }
  void Send(wire::P2pVerb verb, uint64_t call, uint32_t aux, std::initializer_list<uint64_t> numbers,
            const std::string& behind = "", size_t body_bytes = 0) {
    std::string head(wire::kP2pNumbersMax * sizeof(uint64_t), '\0');
    head.resize(wire::EncodeP2p(verb, numbers.begin(), Bytes(head.data(), head.size())));
    SendRaw(static_cast<uint16_t>(verb), call, aux, head + behind, body_bytes);
  }
  void SendRaw(uint16_t method, uint64_t call, uint32_t aux, const std::string& head, size_t body_bytes) {
    home_->Run([&] {
      if (link_->pipe() == nullptr) return;
      pipe::Message message;
      message.method = method;
      message.call = call;
      message.aux = aux;
      message.head = head;
      message.express = body_bytes < 8192;
      if (body_bytes > 0) {
        Buffer body = Buffer::TryAllocate(body_bytes);
        for (size_t i = 0; i < body_bytes; ++i) body.bytes().data[i] = '!';
        message.body.push_back(std::move(body));
      }
      link_->pipe()->Send(std::move(message));
    });
  }
  void SendOpen() {
    Send(wire::P2pVerb::kOpen, 0, wire::kP2pVersion, {context_.options().incarnation, 0, 8192, 65536, 8});
  }

 private:
  static pipe::Options Named(const std::string& name) {
    pipe::Options options;
    options.name = name;
    options.incarnation = 77;
    return options;
  }
  void OnUp(const pipe::PeerInfo&, bool) override {
    up = true;
    if (open_itself) SendOpen();
  }
  void OnDown(Status status, bool) override {
    up = false;
    why = std::move(status);
  }
  Result<pipe::Landing> OnHeader(const wire::FrameHeader& header, ConstBytes) override {
    return header.body_bytes == 0 ? pipe::Landing::View() : pipe::Landing::Discard();
  }
  Status OnMessage(const wire::FrameHeader& header, ConstBytes meta, ConstBytes) override {
    link_->pipe()->Consume(header);
    heard.push_back({static_cast<wire::P2pVerb>(header.method), header.call, header.aux,
                     wire::HeadOf(header, meta).ToString(), header.body_bytes});
    return Status::Ok();
  }

  reactor::Reactor* const home_;
  pipe::PipeContext context_;
  std::unique_ptr<transport::Transport> transport_;
  std::unique_ptr<pipe::Link> link_;
};

}  // namespace fusewire::p2p
