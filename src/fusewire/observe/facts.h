// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What the pages say about a process besides its operations.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fusewire::observe {

// A task of a cluster that lives in this process.
struct TaskFacts {
  std::string task;      // "ps:0"
  std::string protocol;  // "grpc++"
  uint16_t data_port = 0;
  std::map<std::string, std::string> members;  // of its cluster: "ps:0" -> "host:port"
};

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
  uint64_t start = 0;    // of the process, in clock ticks since the machine's start
  int64_t now_ns = 0;    // by the clock of the operations
  int64_t begun_ns = 0;  // since then operations are recorded
  double time_s = 0;     // since 1970
  std::vector<TaskFacts> tasks;
  std::vector<Number> numbers;
};

}  // namespace fusewire::observe
