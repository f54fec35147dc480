// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/p2p/peers.h"

#include "fusewire/base/check.h"

namespace fusewire::p2p {
namespace {

Status WasClosed() {
  return Status::Unavailable("the endpoint was closed").Next("nothing, if its task was meant to end");
}

}  // namespace

Result<PeerLink*> Peers::Named(const std::string& name) {
  // A peer may still have been greeting when we closed: its pipe must not begin again.
  if (closed_) return WasClosed();
  auto found = peers_.find(name);
  if (found != peers_.end()) return found->second.get();
  if (name.empty() || name == self_.name) {
    return Status::Refused(name.empty() ? "name: the peer has none" : "name: the peer has our own, \"" + name + "\"")
        .Phase("greeting")
        .Next("give every endpoint a name of its own");
  }
  if (peers_.size() >= self_.limits.peers_max) {
    return Status::Overloaded("peers_max (" + std::to_string(self_.limits.peers_max) + ") is reached")
        .Phase("greeting")
        .Next("raise Limits::peers_max, or use fewer names");
  }
  return (peers_[name] = std::make_unique<PeerLink>(self_, verbs_, handler_, drain_, name)).get();
}

void Peers::Clear() {
  FUSEWIRE_DCHECK(closed_);
  peers_.clear();
}

void Peers::Leave(bool at_once) {
  FUSEWIRE_DCHECK(closed_);
  for (auto& [name, peer] : peers_) peer->Leave(at_once, WasClosed());
}

void Peers::AbandonRegion(uint64_t region, const Status& why) {
  for (auto& [name, peer] : peers_) peer->AbandonRegion(region, why);
}

}  // namespace fusewire::p2p
