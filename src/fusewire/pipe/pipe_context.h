// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What all pipes of one name in a task share: its options, its budgets, and the log of peers that violated the
// protocol. Home: any thread; constant after construction, apart from the budgets and counters. Owns: its budgets,
// where it has its own. Fails: never; TakeWindow returns nothing when no window is left.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"
#include "fusewire/base/log.h"
#include "fusewire/buffer/budget.h"
#include "fusewire/pipe/options.h"

namespace fusewire::pipe {

// The standing windows of many pipes: the more there are, the smaller is the next.
class WindowBudget {
 public:
  explicit WindowBudget(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}
  // The window for one more pipe, `wish_bytes` at the most, if there is one left. Given back with Return.
  std::optional<uint64_t> Take(uint64_t wish_bytes);
  void Return(uint64_t bytes) {
    const uint64_t before = used_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    FUSEWIRE_CHECK(bytes <= before);
  }
  uint64_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }

 private:
  const uint64_t limit_bytes_;
  std::atomic<uint64_t> used_bytes_{0};
};

// Lets one line about each source through per interval, so that neither a scanner nor a broken peer fills a disk, and
// none hides another. Sources are hosts; a few may share a limiter.
class SourceLog {
 public:
  // True if a line about this peer may be written; *held_back is then how many were not since the last.
  bool Allow(const std::string& peer_address, int64_t now_ns, uint64_t* held_back) {
    std::string host = peer_address.substr(0, peer_address.rfind(':'));
    return limiters_[std::hash<std::string>()(host) % limiters_.size()].Allow(now_ns, held_back);
  }

 private:
  struct Limiter : LogLimiter {
    Limiter() : LogLimiter(10 * kSecondNs) {}
  };
  std::array<Limiter, 64> limiters_;
};

class PipeContext {
 public:
  // The options have passed CheckOptions().
  explicit PipeContext(Options options);
  // Another name in the same task: it counts into the budgets of `budgets_of`, which outlives it, whatever its options
  // say of budgets.
  PipeContext(Options options, PipeContext& budgets_of);

  const Options& options() const { return options_; }
  // Its own, or that of the process: see Options.
  Budget& receive_budget() { return receive_budget_; }
  // Any thread. The standing window for one more pipe, if there is one left. Given back with ReturnWindow.
  std::optional<uint64_t> TakeWindow() { return windows_.Take(options_.window_bytes); }
  void ReturnWindow(uint64_t bytes) { windows_.Return(bytes); }
  WindowBudget& windows() { return windows_; }
  // Any thread. For lines about peers that violated the protocol.
  SourceLog& broken_log() { return broken_log_; }

 private:
  const Options options_;
  const std::unique_ptr<Budget> own_receive_budget_;  // null: the process's, or another one's
  const std::unique_ptr<WindowBudget> own_windows_;
  Budget& receive_budget_;
  WindowBudget& windows_;
  SourceLog broken_log_;
};

}  // namespace fusewire::pipe
