// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The place of the endpoints of p2p_simulation: hosts of a loopback world, in virtual time; or this process, over a
// real transport, where a restart is the only possible fault.
// Home: the main thread. Owns: the network between them; not the endpoints, which are destroyed first. Fails: never;
// WhyNot has the reason if this machine lacks a transport.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fusewire/base/unique_function.h"
#include "fusewire/p2p/p2p.h"
#include "fusewire/task/transport_choice.h"
#include "loopback/loopback.h"

namespace fusewire::p2p {

class Place {
 public:
  virtual ~Place() = default;
  // The second of a name stands where the first one stood.
  virtual std::unique_ptr<Endpoint> Open(EndpointOptions options) = 0;
  virtual transport::Address AddressOf(const std::string& name) = 0;
  virtual int64_t NowNs() = 0;
  // Lets things happen.
  virtual void Run(int64_t ns) = 0;
  virtual bool RunUntil(UniqueFunction<bool()> done, int64_t limit_ns) = 0;
  // Long enough for all that is under way to arrive, and for goodbyes.
  virtual void Settle() = 0;
  // The connections between two; the host of one, before its endpoint is taken down.
  virtual void Cut(const std::string& a, const std::string& b) = 0;
  virtual void Kill(const std::string& name, bool silently) = 0;
  // The operations that wait for a message, and for a peer.
  virtual int64_t timeout_ns() const = 0;
  virtual int64_t patience_ns() const = 0;
};

std::unique_ptr<Place> MakeLoopbackPlace(uint64_t seed, const transport::LoopbackFaults& faults);
std::unique_ptr<Place> MakeWirePlace(task::TransportChoice wire);

}  // namespace fusewire::p2p
