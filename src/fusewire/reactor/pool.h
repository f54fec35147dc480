// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Pool is the reactors of one process or one server: N homes, and a fair choice among them.
// Home: any thread. Owns: its reactors. Fails: Start says why and leaves nothing behind.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "fusewire/base/status.h"
#include "fusewire/reactor/options.h"
#include "fusewire/reactor/reactor.h"

namespace fusewire::reactor {

class Pool {
 public:
  static Result<std::unique_ptr<Pool>> Start(const PoolOptions& options);
  // A pool of one reactor that somebody else owns: one of another pool's, or one that a test turns by hand. It must
  // outlive the pool.
  static std::unique_ptr<Pool> Around(Reactor* reactor);
  // The same reactors once more, for another server of this process. `pool` outlives it; its own owner closes it.
  static std::unique_ptr<Pool> Share(Pool& pool);
  ~Pool();

  int size() const { return static_cast<int>(reactors_.size()); }
  Reactor& at(int index) { return *reactors_[static_cast<size_t>(index)]; }
  // Any thread. Each in turn.
  Reactor& Next();
  // Any thread but a home. Ends and joins all; may be repeated.
  void Close();

 private:
  Pool() = default;
  std::vector<std::unique_ptr<Reactor>> owned_;
  std::vector<Reactor*> reactors_;
  std::atomic<unsigned> next_{0};
};

}  // namespace fusewire::reactor
