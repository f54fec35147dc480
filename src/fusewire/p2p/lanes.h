// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The two kinds of lanes: dialled by us, and accepted. They hand what they receive to the core.
// Home: the endpoint's. Owns: a dialled lane owns its Link, an accepted one nothing. Fails: reports the end of a pipe
// to its PeerLink, once.
#pragma once

#include <cstdint>
#include <utility>

#include "fusewire/p2p/core.h"
#include "fusewire/p2p/lane.h"
#include "fusewire/p2p/peer_link.h"
#include "fusewire/pipe/link.h"
#include "fusewire/pipe/pipe.h"
#include "fusewire/pipe/pipe_context.h"
#include "fusewire/wire/wire.h"

namespace fusewire::p2p {

class DialedLane final : public Lane, private pipe::LinkHandler {
 public:
  DialedLane(Core& core, PeerLink& peer, pipe::PipeContext& context, transport::Transport& transport,
             const transport::Address& address);

  pipe::Pipe* pipe() override { return link_.pipe(); }
  bool IsTo(const transport::Address& address) const override {
    return link_.address().ToString() == address.ToString();
  }
  void Want() override { link_.Want(); }
  void Abandon(uint64_t call) override { link_.Abandon(wire::FrameKind::kMessage, call); }
  void Close(Status why) override { link_.Close(std::move(why)); }
  void Leave(Status why) override { link_.Leave(std::move(why)); }

 private:
  void OnUp(const pipe::PeerInfo& peer, bool restarted) override;
  void OnDown(Status why, bool was_up) override;
  Result<pipe::Landing> OnHeader(const wire::FrameHeader& header, ConstBytes meta) override;
  Status OnMessage(const wire::FrameHeader& header, ConstBytes meta, ConstBytes view) override;

  Core& core_;
  PeerLink& peer_;
  pipe::Link link_;
};

class AcceptedLane final : public Lane, public pipe::Receiver {
 public:
  AcceptedLane(Core& core, pipe::Pipe& pipe) : core_(core), pipe_(pipe) {}
  ~AcceptedLane() override;

  pipe::Pipe* pipe() override { return pipe_.open() ? &pipe_ : nullptr; }
  void Abandon(uint64_t call) override { pipe_.Abandon(wire::FrameKind::kMessage, call); }
  void Close(Status why) override { pipe_.Close(std::move(why)); }
  void Leave(Status why) override { pipe_.Leave(std::move(why)); }

 private:
  pipe::FrameHandler* OnOpen(const pipe::PeerInfo& peer) override;
  Result<pipe::Landing> OnHeader(const wire::FrameHeader& header, ConstBytes meta) override;
  Status OnMessage(const wire::FrameHeader& header, ConstBytes meta, ConstBytes view) override;
  void OnClosed(Status why) override;

  Core& core_;
  pipe::Pipe& pipe_;
  PeerLink* peer_ = nullptr;  // null: it was turned away
};

}  // namespace fusewire::p2p
