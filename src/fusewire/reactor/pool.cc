// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/reactor/pool.h"

#include <algorithm>

#include "fusewire/base/log.h"
#include "fusewire/reactor/process_limits.h"

namespace fusewire::reactor {

Result<std::unique_ptr<Pool>> Pool::Start(const PoolOptions& options) {
  std::unique_ptr<Pool> pool(new Pool);
  int count = options.reactors > 0 ? options.reactors : std::clamp(UsableCpuCount() / 2, 1, 4);
  std::vector<int> cpus = AllowedCpus();
  bool pin = options.pin && static_cast<int>(cpus.size()) >= count;
  if (options.pin && !pin) {
    FUSEWIRE_LOG(kWarn, "pool %s runs unpinned: %d reactors on %d processors", options.name.c_str(), count,
                 static_cast<int>(cpus.size()));
  }
  for (int i = 0; i < count; ++i) {
    Options one;
    one.name = options.name + "/" + std::to_string(i);
    one.busy_poll = options.busy_poll;
    one.spin_ns_max = options.spin_ns_max;
    if (pin) one.cpu = cpus[cpus.size() - 1 - static_cast<size_t>(i)];
    Result<std::unique_ptr<Reactor>> reactor = Reactor::Start(one);
    if (!reactor.ok()) return reactor.status();
    pool->reactors_.push_back(reactor.value().get());
    pool->owned_.push_back(std::move(reactor).value());
  }
  return pool;
}

std::unique_ptr<Pool> Pool::Around(Reactor* reactor) {
  std::unique_ptr<Pool> pool(new Pool);
  pool->reactors_.push_back(reactor);
  return pool;
}

std::unique_ptr<Pool> Pool::Share(Pool& pool) {
  std::unique_ptr<Pool> shared(new Pool);
  shared->reactors_ = pool.reactors_;
  return shared;
}

Pool::~Pool() { Close(); }

Reactor& Pool::Next() {
  unsigned index = next_.fetch_add(1, std::memory_order_relaxed);
  return *reactors_[index % reactors_.size()];
}

void Pool::Close() {
  for (auto& reactor : owned_) reactor->Close();
  for (auto& reactor : owned_) reactor->Join();
}

}  // namespace fusewire::reactor
