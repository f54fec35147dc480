// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Region is memory that peers may write and read; a Signal is a counter to which their puts add. Peers know both by
// numbers; no pointer travels.
// Home: their endpoint's, which outlives them. Call them on any thread, but not inside a callback of another reactor.
// Owns: a Region owns its Buffer, until it is destroyed and no peer is reading it.
// Fails: Open, when there are too many. A peer that names a region or signal that does not exist gets an error.
#pragma once

#include <cstdint>
#include <memory>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/buffer/buffer.h"
#include "fusewire/p2p/op.h"

namespace fusewire::p2p {

class Core;
class Endpoint;

class Region {
 public:
  // Any thread. `memory` is given back once the region is destroyed and no peer is reading it.
  static Result<std::unique_ptr<Region>> Open(Endpoint& endpoint, Buffer memory, Access access = Access::kReadWrite);
  // Nothing is written after it.
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
  // Operations that wait for it end with kCancelled.
  ~Signal();
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;

  // Any thread.
  SignalRef ref() const { return ref_; }
  uint64_t value() const;
  // Any thread. Adds as a peer's put does. An amount that would take it past 2^64 - 1 is logged, and not added.
  void Add(uint64_t amount);

  // For its operations.
  SignalState* state() { return state_.get(); }

 private:
  Signal(Core* core, std::unique_ptr<SignalState> state, SignalRef ref);
  Core* const core_;
  const std::unique_ptr<SignalState> state_;
  const SignalRef ref_;
};

}  // namespace fusewire::p2p
