// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Future events, in virtual time. Events of the same time run in the order in which they were added.
// Home: the world's thread. Owns: the events.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "fusewire/base/clock.h"
#include "fusewire/base/unique_function.h"

namespace fusewire::transport {

class EventQueue {
 public:
  using Event = UniqueFunction<void()>;

  void At(int64_t due_ns, Event event) { events_.emplace(Key(due_ns, order_++), std::move(event)); }
  int64_t NextNs() const { return events_.empty() ? kForeverNs : events_.begin()->first.first; }
  // Runs all due events, including those that they add for the same time.
  void RunDue(int64_t now_ns) {
    while (NextNs() <= now_ns) {
      Event event = std::move(events_.begin()->second);
      events_.erase(events_.begin());
      event();
    }
  }
  void Clear() { events_.clear(); }

 private:
  using Key = std::pair<int64_t, uint64_t>;
  std::map<Key, Event> events_;
  uint64_t order_ = 0;
};

}  // namespace fusewire::transport
