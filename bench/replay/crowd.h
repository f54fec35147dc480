// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Workers that are not there: each has a connection of its own to one parameter server, places its parts, and then
// makes recorded steps one after the other: pull, think, push. Home: one reactor, that of a task with one. Owns: the
// workers and their connections, until the process ends. Fails: ends the program, and says what the server said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "bench/harness/harness.h"
#include "bench/replay/record.h"
#include "fusewire/reactor/completion.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/rpc/rpc.h"

namespace fusewire::bench {

struct CrowdOptions {
  size_t workers = 1;
  int64_t think_ns = 0;  // the mean; each time a random one between half of it and one and a half
  uint32_t seed = 1;
};

class Crowd {
 public:
  Crowd(task::Task* task, const Record& record, const CrowdOptions& options);
  ~Crowd();
  Crowd(const Crowd&) = delete;

  // Not at home. Returns when every worker has a connection, and its parts are placed.
  void Open();
  // Not at home. All begin, each after a random part of its thinking.
  void Go();

  struct Count {
    Latencies waits;  // what a worker waits for its server in a step, without thinking
    uint64_t request_bytes = 0, reply_bytes = 0;
  };
  // Not at home. What has ended since the last one was taken.
  Count Take();
  // Not at home. How often a request had to wait for the server's credit, since the beginning.
  uint64_t Stalls();

 private:
  class Worker;
  void OpenNext();
  void OnOpened();
  void OnStep(int64_t waited_ns, uint64_t request_bytes, uint64_t reply_bytes);

  task::Task& task_;
  reactor::Reactor& home_;
  const Record& record_;
  const CrowdOptions options_;
  // At home.
  std::vector<std::unique_ptr<Worker>> workers_;
  size_t opening_ = 0, opened_ = 0;
  reactor::Completion all_open_;
  Count count_;
};

}  // namespace fusewire::bench
