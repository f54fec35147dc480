// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The peers of an endpoint, by name.
// Home: the endpoint's. Owns: the peers, which live as long as it does. Fails: Named returns the reason.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "fusewire/base/status.h"
#include "fusewire/p2p/peer_link.h"
#include "fusewire/p2p/verbs.h"

namespace fusewire::p2p {

class Peers {
 public:
  Peers(const Self& self, Verbs& verbs, PeerHandler& handler, reactor::Drain& drain)
      : self_(self), verbs_(verbs), handler_(handler), drain_(drain) {}

  // The peer of this name; a new one, if there is none yet.
  Result<PeerLink*> Named(const std::string& name);
  // From now on Named fails.
  void Close() { closed_ = true; }
  // Closes the pipes of all peers; see PeerLink::Leave.
  void Leave(bool at_once);
  // Destroys all peers. Their pipes give back the memory that ending operations still wait for.
  void Clear();
  // Drops what is landing in this region.
  void AbandonRegion(uint64_t region, const Status& why);

 private:
  const Self& self_;
  Verbs& verbs_;
  PeerHandler& handler_;
  reactor::Drain& drain_;
  std::map<std::string, std::unique_ptr<PeerLink>> peers_;
  bool closed_ = false;
};

}  // namespace fusewire::p2p
