// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Where the tasks are that other processes may take over. Each server tells the others what it knows, and one that has
// lost a task asks them. One living server is enough.
// Home: any thread. Owns: plain values. Fails: never; a server that does not answer is left out.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/mutex.h"
#include "fusewire/rpc/rpc.h"
#include "fusewire/tf/heads/calls.h"
#include "fusewire/tf/peer/channel.h"

namespace fusewire::tf {

class Whereabouts {
 public:
  // For each task, the highest epoch counts. True: it was news.
  bool Learn(const Whereabout& said);
  // `task` as "ps:3". False: nothing is known of it.
  bool Find(const std::string& task, Whereabout* found) const;
  std::vector<Whereabout> All() const;

 private:
  mutable Mutex mutex_;
  std::map<std::string, Whereabout> known_ FUSEWIRE_GUARDED_BY(mutex_);
};
// shared_ptr: answers come after the peers that wanted them.
using WhereaboutsPtr = std::shared_ptr<Whereabouts>;

// Both learn what the other knows. `done` is called once, also after a failure.
void Exchange(ChannelPtr channel, WhereaboutsPtr known, std::function<void()> done);
// A thread that may wait. Whether the process that is said to have a task has it: it says so itself, in time, and
// `known` learns it.
bool HasTask(task::Task& task, const Whereabout& said, int64_t limit_ns, Whereabouts& known);
// The called side.
rpc::Method ExchangeMethod(WhereaboutsPtr known);

// Asks other tasks, one after the other, until one knows where a task is now, or nobody holds it any more.
class Scout : public std::enable_shared_from_this<Scout> {
 public:
  struct Options {
    std::string task;          // "ps:3"
    uint64_t after_epoch = 0;  // the one that was lost
    int64_t every_us = 0;
    WhereaboutsPtr known;
    std::function<ChannelPtr(uint64_t turn)> other;  // the next task to ask; null: none
    std::function<void()> found;                     // once, unless it is stopped before
  };
  explicit Scout(Options options) : options_(std::move(options)) {}
  Scout(const Scout&) = delete;

  // Once.
  void Begin() { Look(); }
  // False: it has found the task, and says so.
  bool Stop() { return !is_over_.exchange(true); }
  bool is_over() const { return is_over_; }

 private:
  void Look();
  // False: not yet.
  bool HasFound();

  const Options options_;
  std::atomic<bool> is_over_{false};
  std::atomic<uint64_t> turn_{0};
};
// shared_ptr: timers and answers may come after its end.
using ScoutPtr = std::shared_ptr<Scout>;

}  // namespace fusewire::tf
