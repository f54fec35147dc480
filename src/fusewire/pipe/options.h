// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The options that all pipes of one process (or one server in it) share: its name, limits and timeouts.
// Home: any thread; constant after construction, apart from the budgets and counters. Owns: its budgets, where it has
// its own.
#ifndef FUSEWIRE_PIPE_OPTIONS_H_
#define FUSEWIRE_PIPE_OPTIONS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"
#include "fusewire/base/status.h"
#include "fusewire/buffer/budget.h"
#include "fusewire/pipe/source_log.h"
#include "fusewire/wire/wire.h"

namespace fusewire {
namespace pipe {

struct Options {
  std::string cluster = "default";  // only peers that say the same are let in
  std::string name;                 // our task, "worker:3"; empty: an anonymous tool
  std::string secret;               // shared by the cluster; empty: none, and peers that have one are turned away
  uint64_t incarnation = 0;         // 0: drawn at random once per Shared
  wire::Limits limits;
  // Credit that each pipe has from the start. More comes from the receive budget, for peers that have something to
  // send.
  uint64_t window_bytes = 256 * 1024;
  // The limit of all these windows together: they get smaller as it is used up, and when none is left, a connection is
  // refused. 0: the process's own budget for them, a sixteenth of the memory that it may use, for all its servers,
  // nodes and endpoints together. Another number: a budget of this one's own.
  uint64_t window_budget_bytes = 0;
  // The bytes of messages beyond their windows that all pipes together may hold. 0: the process's own budget, a quarter
  // of the memory that it may use for all of it. Another number: a budget of this one's own.
  uint64_t receive_budget_bytes = 0;
  // Heads and small bodies that wait in our memory because a peer does not take them. Per pipe.
  uint64_t queued_bytes_max = 64 << 20;
  int64_t silent_ns_max = 20 * kSecondNs;  // a peer that says nothing for so long is dead
  int64_t hello_ns_max = 5 * kSecondNs;    // from connected to greeted
  int64_t connect_ns_max = 5 * kSecondNs;  // one attempt
  int64_t backoff_ns_min = 20 * kMillisecondNs;
  int64_t backoff_ns_max = 2 * kSecondNs;
  int64_t goodbye_ns_max = 1 * kSecondNs;  // how long the last words may take
  int greetings_max = 1024;                // connections that have not said hello yet; more: the oldest goes
  int connections_max = 65536;
};

// kInvalid names the first setting that cannot be used, and its value.
Status CheckOptions(const Options& options);

// The standing windows of many pipes: the more there are, the smaller is the next. Home: any thread.
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

class Shared {
 public:
  // The options have passed CheckOptions().
  explicit Shared(Options options);
  // Another name in the same task: it counts into the budgets of `budgets_of`, which outlives it, whatever its options
  // say of budgets.
  Shared(Options options, Shared& budgets_of);

  const Options& options() const { return options_; }
  // This one's own, or the process's: see Options.
  Budget& receive_budget() { return receive_budget_; }
  // Any thread. The standing window for one more pipe, if there is one left. Given back with ReturnWindow.
  std::optional<uint64_t> TakeWindow() { return windows_.Take(options_.window_bytes); }
  void ReturnWindow(uint64_t bytes) { windows_.Return(bytes); }
  WindowBudget& windows() { return windows_; }
  // Any thread. For lines about peers that broke the law.
  SourceLog& broken_log() { return broken_log_; }

 private:
  const Options options_;
  const std::unique_ptr<Budget> own_receive_budget_;  // null: the process's, or another one's
  const std::unique_ptr<WindowBudget> own_windows_;
  Budget& receive_budget_;
  WindowBudget& windows_;
  SourceLog broken_log_;
};

}  // namespace pipe
}  // namespace fusewire

#endif  // FUSEWIRE_PIPE_OPTIONS_H_
