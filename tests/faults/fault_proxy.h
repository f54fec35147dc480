// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Stands between a client and a server and does to their connections what a bad network, or a bad peer, would do.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "fusewire/transport/transport.h"
#include "mangler.h"
#include "raw_socket.h"

namespace fusewire::faults {

// kUp: from the dialler to the listener.
enum Way { kUp = 0, kDown = 1 };

class FaultProxy {
 public:
  // The fault for each direction of each connection, counted from 0. On the proxy's thread.
  using Planner = std::function<Plan(int connection, Way way)>;

  explicit FaultProxy(const transport::Address& target, Planner planner = nullptr);
  ~FaultProxy();
  const transport::Address& address() const { return address_; }

  // All below: any thread, for all connections.
  // Reads nothing from this side until it is released.
  void Hold(Way way, bool hold) { held_[way].store(hold); }
  // One byte every 20 ms.
  void Trickle(Way way) { trickles_[way].store(true); }
  // Nothing more comes on this way; the other goes on.
  void HalfClose(Way way) { half_close_[way].store(true); }
  // Both sides see a reset.
  void Reset() { reset_.store(true); }
  int connections() const { return connections_.load(); }  // ever
  int struck() const { return struck_.load(); }            // plans that came to pass
  uint64_t bytes(Way way) const { return bytes_[way].load(); }

 private:
  struct Stream {
    explicit Stream(const Plan& plan) : mangler(plan) {}
    Mangler mangler;
    std::string waiting;  // for the other side
    bool ended = false;   // nothing more is read
    bool closed = false;  // and the other side has seen it
    bool counted = false;
  };
  struct Relay {
    RawSocket ends[2];  // the dialler, the listener
    std::unique_ptr<Stream> ways[2];
    bool over = false;
  };

  void Run();
  void Accept();
  void Move(Relay* relay, Way way);
  void Read(Relay* relay, Way way);
  void Obey(Relay* relay);

  const transport::Address target_;
  const Planner planner_;
  RawSocket listener_;
  transport::Address address_;
  std::vector<std::unique_ptr<Relay>> relays_;
  bool tick_ = false;  // a trickle may move now
  int64_t next_tick_ns_ = 0;
  std::atomic<bool> held_[2] = {false, false}, trickles_[2] = {false, false}, half_close_[2] = {false, false};
  std::atomic<bool> reset_{false}, closing_{false};
  std::atomic<int> connections_{0}, struck_{0};
  std::atomic<uint64_t> bytes_[2] = {0, 0};
  std::thread thread_;  // last: it uses all of them
};

}  // namespace fusewire::faults
