// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Every peer of an endpoint, by its name.
// Home: the endpoint's. Owns: the peers, which live as long as it does. Fails: Named says why.
#ifndef FUSEWIRE_P2P_PEERS_H_
#define FUSEWIRE_P2P_PEERS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "fusewire/base/status.h"
#include "fusewire/p2p/peer_link.h"
#include "fusewire/p2p/verbs.h"

namespace fusewire {
namespace p2p {

class Peers {
 public:
  Peers(const Self& self, Verbs& verbs, PeerHandler& handler) : self_(self), verbs_(verbs), handler_(handler) {}

  // A new one, if it was not known.
  Result<PeerLink*> Named(const std::string& name);
  // From now on there are none.
  void Close() { closed_ = true; }
  // Says goodbye to all; see PeerLink. True: no pipe is left.
  bool Leave(bool at_once);
  // They go, and their pipes let go of the memory that ended operations still wait for.
  void Clear();
  // Nothing lands in this region any more.
  void AbandonRegion(uint64_t region, const Status& why);

 private:
  const Self& self_;
  Verbs& verbs_;
  PeerHandler& handler_;
  std::map<std::string, std::unique_ptr<PeerLink>> peers_;
  bool closed_ = false;
};

}  // namespace p2p
}  // namespace fusewire

#endif  // FUSEWIRE_P2P_PEERS_H_
