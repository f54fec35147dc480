// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/p2p/lanes.h"

#include "fusewire/base/check.h"

namespace fusewire::p2p {

// ---- dialled ----

DialedLane::DialedLane(Core& core, PeerLink& peer, pipe::PipeContext& context, transport::Transport& transport,
                       const transport::Address& address)
    : core_(core), peer_(peer), link_(context, core.home(), transport, address, wire::kP2pService, this) {}

void DialedLane::OnUp(const pipe::PeerInfo& peer, bool) {
  info = peer;
  open_sent = open_received = false;
  if (peer.name != peer_.name()) {
    Close(Status::Refused("\"" + peer.name + "\" answers there, not \"" + peer_.name() + "\"")
              .Phase("greeting")
              .Next("give the address of the intended endpoint, or its right name"));
    return;
  }
  peer_.OnLaneOpen(this);
}

void DialedLane::OnDown(Status why, bool was_up) {
  if (was_up) peer_.OnLaneClosed(this, why);
  for (Arriving& one : arriving) one.used = false;
  if (!was_up || !open_sent) peer_.OnDialFailed(why);
  open_sent = open_received = false;
}

Result<pipe::Landing> DialedLane::OnHeader(const wire::FrameHeader& header, ConstBytes meta) {
  return core_.OnHeader(*this, peer_, header, meta);
}

Status DialedLane::OnMessage(const wire::FrameHeader& header, ConstBytes meta, ConstBytes) {
  return core_.OnMessage(*this, peer_, header, meta);
}

// ---- accepted ----

AcceptedLane::~AcceptedLane() {
  if (peer_ != nullptr) peer_->OnLaneClosed(this, Status::Cancelled("the endpoint was closed"));
}

pipe::FrameHandler* AcceptedLane::OnOpen(const pipe::PeerInfo& peer) {
  FUSEWIRE_CHECK(peer_ == nullptr);  // a pipe opens once
  info = peer;
  Result<PeerLink*> found = core_.PeerNamed(peer.name);
  if (!found.ok()) {
    pipe_.Close(found.status());
    return this;
  }
  peer_ = found.value();
  peer_->OnLaneOpen(this);
  return this;
}

Result<pipe::Landing> AcceptedLane::OnHeader(const wire::FrameHeader& header, ConstBytes meta) {
  if (peer_ == nullptr) return pipe::Landing::Discard();
  return core_.OnHeader(*this, *peer_, header, meta);
}

Status AcceptedLane::OnMessage(const wire::FrameHeader& header, ConstBytes meta, ConstBytes) {
  if (peer_ == nullptr) return Status::Ok();
  return core_.OnMessage(*this, *peer_, header, meta);
}

void AcceptedLane::OnClosed(Status why) {
  if (peer_ != nullptr) std::exchange(peer_, nullptr)->OnLaneClosed(this, why);
}

}  // namespace fusewire::p2p
