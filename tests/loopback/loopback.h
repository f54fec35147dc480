// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A network inside one thread: hosts with their own manual reactors, virtual time, and every fault on demand.
// The same seed and the same calls give the same run, to the byte; fingerprint() tells whether they did.
// Home: one thread advances the world and runs the hosts' homes. A listener or connection belongs to its host's
// reactor. Owns: the clock, the reactors, the bytes in flight. Users of a reactor are destroyed before the world.
// Fails: as the simulated network, with the texts and codes of TCP.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fusewire/base/clock.h"
#include "fusewire/base/unique_function.h"
#include "fusewire/transport/transport.h"
#include "loopback/loopback_faults.h"

namespace fusewire::transport {

// How a host ends.
enum class LoopbackDeath {
  kReset,   // its process died: the kernel resets its connections
  kSilent,  // its power failed: it sends nothing any more, until a restarted host answers old connections
};

class Network;
class Streams;

class LoopbackWorld {
 public:
  LoopbackWorld(uint64_t seed, const LoopbackFaults& faults);
  ~LoopbackWorld();
  LoopbackWorld(const LoopbackWorld&) = delete;
  LoopbackWorld& operator=(const LoopbackWorld&) = delete;

  ManualClock* clock();
  // Adds a host: a manual reactor on the world's clock. The name is also the host's address.
  reactor::Reactor* AddHost(const std::string& name);
  // The transport of an existing host; it listens on that host and dials from it.
  std::unique_ptr<Transport> MakeTransport(const std::string& host);

  // Runs what is due now; if nothing is, advances the clock to the next event. False: there are no events left.
  bool Step();
  // Steps until `done` returns true. False: limit_ns of virtual time has passed, or there are no events left.
  bool RunUntil(UniqueFunction<bool()> done, int64_t limit_ns);
  // Advances by exactly this time.
  void RunFor(int64_t duration_ns);

  // Sets the faults of all paths, or of the path from one host to another; may change at any time.
  void SetFaults(const LoopbackFaults& faults);
  void SetFaultsBetween(const std::string& from, const std::string& to, const LoopbackFaults& faults);
  LoopbackFaults FaultsBetween(const std::string& from, const std::string& to) const;
  // Back to the faults of all paths.
  void ClearFaultsBetween(const std::string& from, const std::string& to);

  // Resets all connections between the two hosts: both ends get an error.
  void Cut(const std::string& one, const std::string& other);
  // `to` sees the end of the stream from `from` on each of their connections.
  void HalfClose(const std::string& from, const std::string& to);
  // Nothing on this host runs any more, and its listeners are gone. Its reactor remains, to destroy the objects that it
  // held, with Run.
  void KillHost(const std::string& name, LoopbackDeath death);
  // A new incarnation of a killed host, with its own reactor; transports created from now on are on it.
  reactor::Reactor* RestartHost(const std::string& name);
  // Stops the host, as by SIGSTOP: bytes arrive in its buffers, but are not read.
  void PauseHost(const std::string& name);
  void ResumeHost(const std::string& name);
  // From now on `name` is an address of `host`.
  void PointName(const std::string& name, const std::string& host);

  // A checksum of all arrivals: bytes, times and places.
  uint64_t fingerprint() const;

 private:
  std::unique_ptr<Network> network_;
  std::unique_ptr<Streams> streams_;
};

}  // namespace fusewire::transport
