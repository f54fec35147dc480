// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Peer is another endpoint, by its name: dialled, awaited, or come by itself. There is one pipe to it at a time,
// whoever dialled.
// Home: its endpoint's; what is here may be read on any thread. Owns: nothing; it lives as long as its endpoint.
// Fails: through the operations that are under way with it, and a PeerEvent.
#ifndef FUSEWIRE_P2P_PEER_H_
#define FUSEWIRE_P2P_PEER_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "fusewire/base/status.h"
#include "fusewire/base/unique_function.h"

namespace fusewire {
namespace p2p {

class Peer {
 public:
  // Any thread.
  const std::string& name() const { return name_; }
  bool up() const { return up_.load(std::memory_order_acquire); }
  // Which process it is: the one that is connected, or was last. 0: there was none yet.
  uint64_t incarnation() const { return incarnation_.load(std::memory_order_acquire); }
  // What its bytes go over, or went over last: "tcp", "uring", "shm", "ucx"; empty: it was never up.
  const char* wire() const { return wire_.load(std::memory_order_acquire); }

 protected:
  explicit Peer(std::string name) : name_(std::move(name)) {}
  ~Peer() = default;
  const std::string name_;
  std::atomic<bool> up_{false};
  std::atomic<uint64_t> incarnation_{0};
  std::atomic<const char*> wire_{""};
};

enum class PeerEvent {
  kUp,         // connected
  kRestarted,  // connected, to another incarnation than before; what was under way with the old one has ended
  kDown,       // and why; what was under way with it has ended
  kRefused,    // it refused what nobody waits for: a put without `confirm`
};

// At home; may post operations, must not wait.
using OnPeer = UniqueFunction<void(Peer& peer, PeerEvent event, const Status& why)>;

}  // namespace p2p
}  // namespace fusewire

#endif  // FUSEWIRE_P2P_PEER_H_
