// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The place of a task that other processes may take over, as its server announces it: where it serves, and, once
// another process has the task, where that process is.
// Home: any thread. Owns: what is known of where tasks are. Fails: never; an unknown place is asked for again.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/mutex.h"
#include "fusewire/tf/heads/snapshots.h"
#include "fusewire/tf/peer/peer.h"
#include "fusewire/tf/peer/whereabouts.h"
#include "fusewire/tf/receive/step_context.h"

namespace fusewire::tf {

class Succession {
 public:
  // `known` is shared by all servers of the process.
  Succession(std::string task, WhereaboutsPtr known) : task_(std::move(task)), known_(std::move(known)) {}
  Succession(const Succession&) = delete;

  const WhereaboutsPtr& known() const { return known_; }
  // A thread that may wait. Whether the process to which the owner file belongs serves the task.
  bool IsServed(task::Task& own, const Owner& owner);
  // This process serves it there. Without an epoch, nobody takes it over.
  void Serve(const Whereabout& place);
  // Sends what is known here; they answer with what they know.
  void Tell(const std::vector<Ways>& siblings);
  Whereabout place() const;
  // How the task came here, in words; empty: it did not move.
  void SetSaid(std::string said);
  std::string said() const;

  // Another process has had the task since `epoch`; the siblings are asked where.
  void Yield(uint64_t epoch, std::function<std::vector<Ways>()> siblings);
  // Afterwards. False: it is not known yet.
  bool Where(PortWords* words);
  // A thread that may wait: a moment. True: another process has the task; in words.
  bool AwaitSuccessor(std::string* said);

 private:
  const std::string task_;  // "ps:3"
  const WhereaboutsPtr known_;
  mutable Mutex mutex_;
  Whereabout place_ FUSEWIRE_GUARDED_BY(mutex_);
  std::string said_ FUSEWIRE_GUARDED_BY(mutex_);
  ScoutPtr scout_ FUSEWIRE_GUARDED_BY(mutex_);
  // Since Yield.
  uint64_t epoch_ FUSEWIRE_GUARDED_BY(mutex_) = 0;
  std::function<std::vector<Ways>()> siblings_ FUSEWIRE_GUARDED_BY(mutex_);
  uint64_t turn_ FUSEWIRE_GUARDED_BY(mutex_) = 0;
  int64_t asked_ns_ FUSEWIRE_GUARDED_BY(mutex_) = 0;
};

}  // namespace fusewire::tf
