// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/pipe_context.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "fusewire/base/random.h"
#include "fusewire/reactor/process_limits.h"
#include "fusewire/wire/hello.h"

namespace fusewire::pipe {
namespace {

// A smaller window would make small messages wait for each other.
constexpr uint64_t kWindowBytesMin = 16 * 1024;
// No pipe takes more of what is left than this part of it. So 256 MiB, a sixteenth of 4 GiB, are windows for 3,800
// pipes, the last of 16 KiB; with a 64th they would be for 500.
constexpr uint64_t kWindowShare = 1024;

uint64_t MemoryBytes() {
  long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  bool known = pages > 0 && page_bytes > 0;
  uint64_t machine = known ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes) : uint64_t{4} << 30;
  // A container that goes beyond its own bound is killed, however much its host has.
  uint64_t group = reactor::ControlGroupMemoryBytes();
  return group == 0 ? machine : std::min(machine, group);
}

// Others need descriptors as well: TensorFlow's gRPC server never accepts again once it has run out of them. A quarter
// is for greetings, as each service counts its own, and a task has up to four: those that read hellos, rpc and
// endpoints.
Options Complete(Options options) {
  if (options.incarnation == 0) options.incarnation = SystemRandom64() | 1;
  const auto descriptors = static_cast<int>(std::min<uint64_t>(reactor::DescriptorsMax(), 1 << 20));
  options.greetings_max = std::min(options.greetings_max, std::max(descriptors / 16, 1));
  options.connections_max = std::min(options.connections_max, std::max(descriptors / 8 * 7, 1));
  return options;
}

// Of all servers, nodes and endpoints of this process that ask for none of their own; until it ends.
Budget& ProcessReceiveBudget() {
  static auto* const budget = std::make_unique<Budget>(MemoryBytes() / 4).release();
  return *budget;
}

WindowBudget& ProcessWindows() {
  static auto* const windows = std::make_unique<WindowBudget>(MemoryBytes() / 16).release();
  return *windows;
}

template <class BudgetType>
std::unique_ptr<BudgetType> OwnBudget(uint64_t limit_bytes) {
  return limit_bytes == 0 ? nullptr : std::make_unique<BudgetType>(limit_bytes);
}

}  // namespace

PipeContext::PipeContext(Options options)
    : options_(Complete(std::move(options))),
      own_receive_budget_(OwnBudget<Budget>(options_.receive_budget_bytes)),
      own_windows_(OwnBudget<WindowBudget>(options_.window_budget_bytes)),
      receive_budget_(own_receive_budget_ != nullptr ? *own_receive_budget_ : ProcessReceiveBudget()),
      windows_(own_windows_ != nullptr ? *own_windows_ : ProcessWindows()) {
  FUSEWIRE_CHECK(CheckOptions(options_).ok());
  if (options_.receive_at_once_bytes != 0) receive_budget_.SetPace(options_.receive_at_once_bytes);
}

PipeContext::PipeContext(Options options, PipeContext& budgets_of)
    : options_(Complete(std::move(options))),
      receive_budget_(budgets_of.receive_budget()),
      windows_(budgets_of.windows()) {
  FUSEWIRE_CHECK(CheckOptions(options_).ok());
}

std::optional<uint64_t> WindowBudget::Take(uint64_t wish_bytes) {
  uint64_t used = used_bytes();
  for (;;) {
    uint64_t left = limit_bytes_ - std::min(used, limit_bytes_);
    uint64_t smallest = std::min(kWindowBytesMin, wish_bytes);
    uint64_t window = std::clamp(left / kWindowShare, smallest, wish_bytes);
    if (window > left) return std::nullopt;
    FUSEWIRE_DCHECK(window <= wish_bytes);
    if (used_bytes_.compare_exchange_weak(used, used + window, std::memory_order_relaxed)) return window;
  }
}

Status CheckOptions(const Options& options) {
  wire::Hello hello;
  hello.chunk_bytes = options.limits.chunk_bytes_max;
  hello.window_bytes = options.window_bytes;
  hello.cluster = options.cluster;
  hello.name = options.name;
  Status checked = wire::CheckHello(hello);
  const std::pair<const char*, int64_t> positive[] = {
      {"silent_ns_max", options.silent_ns_max},    {"hello_ns_max", options.hello_ns_max},
      {"connect_ns_max", options.connect_ns_max},  {"goodbye_ns_max", options.goodbye_ns_max},
      {"backoff_ns_min", options.backoff_ns_min},  {"greetings_max", options.greetings_max},
      {"connections_max", options.connections_max}};
  for (const auto& [name, value] : positive) {
    if (checked.ok() && value <= 0)
      checked = Status::Invalid(std::string(name) + " " + std::to_string(value) + ", must be over 0");
  }
  if (checked.ok() && options.backoff_ns_max < options.backoff_ns_min) {
    checked = Status::Invalid("backoff_ns_max " + std::to_string(options.backoff_ns_max) +
                              ", must be at least backoff_ns_min, " + std::to_string(options.backoff_ns_min));
  }
  if (checked.ok() && !options.secret.empty() && options.secret.size() < kSecretBytesMin) {
    checked = Status::Invalid("a secret of " + std::to_string(options.secret.size()) + " bytes, must have at least " +
                              std::to_string(kSecretBytesMin))
                  .Next("make one with `openssl rand -hex 32`, the same for all tasks of the cluster");
  }
  return checked.Phase("check the options").Next("correct this setting");
}

}  // namespace fusewire::pipe
