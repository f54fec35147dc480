// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Region is memory that peers may write and read; a Signal is a counter that their writes add to. Both are named by
// numbers: no pointer travels.
// Home: their endpoint's; made, asked and destroyed on any thread but inside a callback of another reactor. The
// endpoint outlives them. Owns: a Region its Buffer, until it is destroyed and no reading of it is under way.
// Fails: Open, when there are too many. A peer that names what is not there gets an error, and touches nothing.
#ifndef FUSEWIRE_P2P_REGION_H_
#define FUSEWIRE_P2P_REGION_H_

#include <cstdint>
#include <memory>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/buffer/buffer.h"
#include "fusewire/p2p/op.h"

namespace fusewire {
namespace p2p {

class Core;
class Endpoint;

class Region {
 public:
  // Any thread. `memory` is given back once the region is gone and nobody reads it any more.
  static Result<std::unique_ptr<Region>> Open(Endpoint& endpoint, Buffer memory, Access access = Access::kReadWrite);
  // From its return on, nothing is written any more.
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  RegionRef ref() const { return ref_; }
  Bytes bytes() const { return bytes_; }

 private:
  Region(Core* core, RegionRef ref, Bytes bytes) : core_(core), ref_(ref), bytes_(bytes) {}
  Core* const core_;
  const RegionRef ref_;
  const Bytes bytes_;
};

class Signal {
 public:
  static Result<std::unique_ptr<Signal>> Open(Endpoint& endpoint);
  // Waits for it end with kCancelled.
  ~Signal();
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;

  // Any thread.
  SignalRef ref() const { return ref_; }
  uint64_t value() const;
  // Any thread. As a peer does. A sum over 2^64 - 1 is not added, but logged.
  void Add(uint64_t amount);

  // For its operations.
  SignalState* state() { return state_.get(); }

 private:
  Signal(Core* core, std::unique_ptr<SignalState> state, SignalRef ref);
  Core* const core_;
  const std::unique_ptr<SignalState> state_;
  const SignalRef ref_;
};

}  // namespace p2p
}  // namespace fusewire

#endif  // FUSEWIRE_P2P_REGION_H_
