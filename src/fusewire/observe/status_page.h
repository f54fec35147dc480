// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// /status.json and /ring.json: the whole state of a process, for `fusewire top`, `why` and `trace`, and for the page.
// Home: the port's thread. Fails: never; each list has a limit, and its whole number beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fusewire/observe/json.h"
#include "fusewire/observe/recorder.h"

namespace fusewire::observe {

// What the pages say about a process besides its operations.

using Members = std::map<std::string, std::string>;  // "ps:0" -> "host:port"

// A task of a cluster that lives in this process.
struct TaskFacts {
  std::string task;      // "ps:0"
  std::string protocol;  // "grpc++"
  uint16_t data_port = 0;
  // Of its cluster. shared_ptr: all its tasks here have the same, of which there may be hundreds.
  std::shared_ptr<const Members> members = std::make_shared<Members>();
};
// A task's members, unless the task before it has the same.
void WriteMembers(const std::vector<TaskFacts>& tasks, size_t task, JsonWriter* json);

// A number that only this process counts: a row of /metrics.
struct Number {
  std::string name;  // "calls_out": without prefix and ending
  std::string help;
  bool is_gauge = false;
  uint64_t value = 0;
};

struct Facts {
  std::string version;
  int64_t pid = 0;
  uint64_t start = 0;   // of the process, in clock ticks since the machine's start
  std::string machine;  // see process.h, as the next two
  uint64_t cpu_ns = 0, memory_bytes = 0;
  int64_t now_ns = 0;    // by the clock of the operations
  int64_t begun_ns = 0;  // since then operations are recorded
  double time_s = 0;     // since 1970
  std::vector<TaskFacts> tasks;
  std::vector<Number> numbers;
};

// /metrics: the numbers of a process in Prometheus' text format.
// Home: the port's thread. The number of series is bounded: one for each kind of operation
// with each peer, and none for a tensor.
std::string MetricsText(Recorder& recorder, const Facts& facts);

// The page at /: one text that asks /status.json and /history.json every second and shows them. It loads nothing else.
// Home: any thread. Owns: the text.
std::string_view Page();

constexpr size_t kOpenShown = 512;   // the oldest
constexpr size_t kNamesShown = 64;   // those with most bytes, and as many with most time
constexpr size_t kRingShown = 8192;  // the latest

std::string StatusJson(Recorder& recorder, const Facts& facts);
// The operations that have ended after this time, and those that have not, oldest first.
std::string RingJson(Recorder& recorder, const Facts& facts, int64_t after_ns);

}  // namespace fusewire::observe
