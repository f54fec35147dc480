// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Runs of one part that have tickets: one that comes again, since its connection was lost, runs once. Its answer is
// kept until the worker has it, which later tickets say, or until the session ends.
// Home: any thread. Owns: the kept answers, and the replies of runs that have come again. Fails: Begin answers by
// itself; a large answer is not kept.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "fusewire/base/mutex.h"
#include "fusewire/buffer/buffer.h"
#include "fusewire/rpc/rpc.h"
#include "fusewire/tf/heads/calls.h"

namespace fusewire::tf {

class Answers {
 public:
  static constexpr size_t kKeptBytesMax = 64 * 1024;
  static constexpr size_t kClientsMax = 4096;
  static constexpr uint64_t kOpenMax = 65536;  // of one client

  // True: it has not come before; run it, and call End. False: it has its answer, or gets it when the run ends.
  bool Begin(const Ticket& ticket, rpc::Reply* reply);
  // Its answer. *reply becomes that of the connection that has asked last.
  void End(const Ticket& ticket, ConstBytes head, const Buffers& body, rpc::Reply* reply);
  size_t kept();  // for tests: answers and runs

 private:
  struct Run {
    uint64_t number = 0;
    bool has_ended = false, is_kept = false;
    std::string head;
    Buffers body;
    rpc::Reply again;  // of the connection that has asked last, while it runs
  };
  struct Client {
    uint64_t open = 0;
    std::vector<Run> runs;  // few: those that the worker has no answer to
  };

  Mutex mutex_;
  std::unordered_map<uint64_t, Client> clients_ FUSEWIRE_GUARDED_BY(mutex_);
};
// shared_ptr: as the leases of a part are shared.
using AnswersPtr = std::shared_ptr<Answers>;

}  // namespace fusewire::tf
