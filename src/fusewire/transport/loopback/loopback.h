// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A whole network inside one thread: hosts with their own manual reactors, virtual time, and every fault on demand.
// The same seed and the same calls give the same run, to the byte; fingerprint() tells whether they did.
// Home: one thread turns the world and makes the hosts' homes run. A listener or connection belongs to its host's
// reactor. Owns: the clock, the reactors, the bytes on their way. Whatever uses a reactor goes before the world does.
// Fails: as the network that it plays: words and codes are those of TCP.
#ifndef FUSEWIRE_TRANSPORT_LOOPBACK_LOOPBACK_H_
#define FUSEWIRE_TRANSPORT_LOOPBACK_LOOPBACK_H_

#include <cstdint>
#include <memory>
#include <string>

#include "fusewire/base/clock.h"
#include "fusewire/base/unique_function.h"
#include "fusewire/transport/loopback/loopback_faults.h"
#include "fusewire/transport/transport.h"

namespace fusewire {
namespace transport {

// How a host ends.
enum class LoopbackDeath {
  kReset,   // its process died: the kernel resets its connections and answers for it
  kSilent,  // its power is gone: nothing comes from it any more, until a restarted host answers old connections
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
  // A manual reactor on the world's clock. The name is also the host's address.
  reactor::Reactor* AddHost(const std::string& name);
  // Of a host that was added; it listens on that host and dials from it.
  std::unique_ptr<Transport> MakeTransport(const std::string& host);

  // Does what can be done now; if that is nothing, turns the clock to the next event. False: nothing will ever happen.
  bool Step();
  // Steps until `done` says so. False: limit_ns of virtual time passed before, or nothing will ever happen.
  bool RunUntil(UniqueFunction<bool()> done, int64_t limit_ns);
  // Lets exactly this much time pass.
  void RunFor(int64_t duration_ns);

  // Everywhere, or on the way from one host to another; may change at any time.
  void SetFaults(const LoopbackFaults& faults);
  void SetFaultsBetween(const std::string& from, const std::string& to, const LoopbackFaults& faults);
  LoopbackFaults FaultsBetween(const std::string& from, const std::string& to) const;
  // Back to those of everywhere.
  void ClearFaultsBetween(const std::string& from, const std::string& to);

  // Resets all connections between the two: both ends get an error.
  void Cut(const std::string& one, const std::string& other);
  // `to` sees the end of what `from` sends on each of their connections.
  void HalfClose(const std::string& from, const std::string& to);
  // Nothing on this host runs any more, and its listeners are gone. Its reactor lives on for the destruction of what it
  // held: by Run.
  void KillHost(const std::string& name, LoopbackDeath death);
  // A new incarnation of a killed host, with a reactor of its own; transports made from now on are on it.
  reactor::Reactor* RestartHost(const std::string& name);
  // The host stands still, as if stopped by a signal: bytes arrive in its buffers, nobody reads them.
  void PauseHost(const std::string& name);
  void ResumeHost(const std::string& name);
  // From now on `name` is an address of `host`.
  void PointName(const std::string& name, const std::string& host);

  // A sum over everything that has arrived, when and where.
  uint64_t fingerprint() const;

 private:
  std::unique_ptr<Network> network_;
  std::unique_ptr<Streams> streams_;
};

}  // namespace transport
}  // namespace fusewire

#endif  // FUSEWIRE_TRANSPORT_LOOPBACK_LOOPBACK_H_
