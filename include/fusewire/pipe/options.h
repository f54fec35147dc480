// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The options that all pipes of one process (or one server in it) share: its name, limits and timeouts.
// Home: any, plain values. Fails: CheckOptions names the first setting that cannot be used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "fusewire/base/clock.h"
#include "fusewire/base/status.h"
#include "fusewire/wire/limits.h"

namespace fusewire::pipe {

// A peer that has received a greeting can test guesses of the secret as fast as it computes: it must have 16 letters.
constexpr size_t kSecretBytesMin = 16;

struct Options {
  std::string cluster = "default";  // only peers of the same one are admitted
  std::string name;                 // our task, "worker:3"; empty: an anonymous tool
  std::string secret;               // shared by the cluster; empty: none, and peers that have one are turned away
  uint64_t incarnation = 0;         // 0: drawn at random once per PipeContext
  wire::Limits limits;
  // Credit that each pipe has from the start. More comes from the receive budget, for peers that have something to
  // send.
  uint64_t window_bytes = 256 * 1024;
  // The limit of all these windows together: they get smaller as it is used up, and when none is left, a connection is
  // refused. 0: the process's own budget for them, a sixteenth of the memory that it may use, for all its servers,
  // nodes and endpoints together. Another number: a budget for these pipes alone.
  uint64_t window_budget_bytes = 0;
  // The bytes of messages beyond their windows that all pipes together may hold. 0: the budget that the process shares,
  // a quarter of the memory that it may use. Another number: a budget for these pipes alone.
  uint64_t receive_budget_bytes = 0;
  // Not 0: peers that have more to send than their windows hold take turns, so that about this much arrives at once, or
  // 8 times what the largest of them has under way if that is more. For servers of many peers: bytes that arrive then
  // stay in the caches until they are used. Holds for all that share the budget.
  uint64_t receive_at_once_bytes = 0;
  // Heads and small bodies that wait in our memory because a peer does not take them. Per pipe.
  uint64_t queued_bytes_max = 64 << 20;
  int64_t silent_ns_max = 20 * kSecondNs;  // a peer that sends nothing for this long is dead
  int64_t hello_ns_max = 5 * kSecondNs;    // from connected to greeted
  int64_t connect_ns_max = 5 * kSecondNs;  // one attempt
  int64_t backoff_ns_min = 20 * kMillisecondNs;
  int64_t backoff_ns_max = 2 * kSecondNs;
  int64_t goodbye_ns_max = 1 * kSecondNs;  // how long a goodbye may take
  // The most connections that have not yet proved that they belong here; beyond it, the oldest is closed. A sixteenth
  // of the process's descriptors if that is less, and 256 with TLS.
  int greetings_max = 1024;
  int connections_max = 65536;  // seven eighths of the descriptors if that is less
};

// kInvalid names the first setting that cannot be used, and its value.
Status CheckOptions(const Options& options);

// Ports of which the first that is free is taken. 0 to 0: any.
struct PortRange {
  uint16_t min = 0, max = 0;
};

}  // namespace fusewire::pipe
