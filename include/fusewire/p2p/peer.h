// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Peer is another endpoint, known by its name: we dial it, or it dials us. One pipe to it is in use at a time,
// whichever side dialled.
// Home: its endpoint's; its accessors may be called on any thread. Owns: nothing; it lives as long as its endpoint.
// Fails: through the operations that are under way with it, and a PeerEvent.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "fusewire/base/status.h"
#include "fusewire/base/unique_function.h"

namespace fusewire::p2p {

class Peer {
 public:
  // Any thread.
  const std::string& name() const { return name_; }
  bool up() const { return up_.load(std::memory_order_acquire); }
  // Of the process that is connected, or was last. 0: none has been connected yet.
  uint64_t incarnation() const { return incarnation_.load(std::memory_order_acquire); }
  // The transport in use, or used last: "tcp", "shm", "ucx"; empty: it has never been connected.
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
  kRestarted,  // connected, to another incarnation than before; operations with the old one have ended
  kDown,       // disconnected, and why; operations under way with it have ended
  kRefused,    // it refused something that no operation waits for: a put without `confirm`
};

// Runs at home. It may post operations, and must not wait.
using OnPeer = UniqueFunction<void(Peer& peer, PeerEvent event, const Status& why)>;

}  // namespace fusewire::p2p
