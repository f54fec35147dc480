// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Runs of one part that have tickets: one that comes again, since its connection was lost, runs once. Its answer is
// kept until the worker has it, which later tickets say, or until the session ends.
// Home: any thread. Owns: the kept answers, and the replies of runs that have come again. Fails: Begin answers by
// itself; a large answer is not kept.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "fusewire/base/mutex.h"
#include "fusewire/buffer/buffer.h"
#include "fusewire/rpc/rpc.h"
#include "fusewire/tf/heads/calls.h"
#include "fusewire/tf/heads/snapshots.h"

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
  // Returns once all runs that are under way now have ended. False: one had not by then.
  bool AwaitEnds(int64_t deadline_ns);
  // Adds the runs that have ended and that the worker may not have an answer of.
  void Collect(std::map<uint64_t, KeptClient>* clients);
  size_t kept();   // for tests: answers and runs
  int awaiting();  // for tests: callers of AwaitEnds

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

  bool HasEnded(uint64_t client, uint64_t number) FUSEWIRE_REQUIRES(mutex_);

  Mutex mutex_;
  CondVar ended_;
  int awaiting_ FUSEWIRE_GUARDED_BY(mutex_) = 0;
  std::unordered_map<uint64_t, Client> clients_ FUSEWIRE_GUARDED_BY(mutex_);
};
// shared_ptr: as the leases of a part are shared.
using AnswersPtr = std::shared_ptr<Answers>;

// Runs that a snapshot says have ended. Their parts are placed anew after a restart, and a client numbers its tickets
// across all parts, so a ticket is found by its client and number alone.
// Home: any thread. Owns: their answers. Fails: never.
class RestoredAnswers {
 public:
  // Before the first Answer.
  void Set(std::vector<KeptClient> clients);
  // True: the run is one of them, and has its answer. False: it is to be run.
  bool Answer(const Ticket& ticket, rpc::Reply* reply);
  void Collect(std::map<uint64_t, KeptClient>* clients);

 private:
  std::atomic<bool> has_any_{false};  // mostly not: then nobody takes the lock
  Mutex mutex_;
  std::unordered_map<uint64_t, KeptClient> clients_ FUSEWIRE_GUARDED_BY(mutex_);
};

}  // namespace fusewire::tf
