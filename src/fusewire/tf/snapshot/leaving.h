// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The copier's side of a move: the rounds, the last one, and then the question who has the task.
// Home: the thread that writes the task's snapshots. Fails: with the reason why the task stays.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fusewire/base/log.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/heads/snapshots.h"
#include "fusewire/tf/snapshot/departure.h"
#include "fusewire/tf/snapshot/ownership.h"
#include "fusewire/tf/state/inventory.h"

namespace fusewire::tf {

// What the server of a task does for its snapshots.
struct SnapshotHooks {
  // Called after the last row was copied: returns once all runs of parts that had begun have ended, with those whose
  // clients may not have their answers. Fails if one does not end in time.
  std::function<TfStatus(std::vector<KeptClient>* clients)> collect;
  // Another server has taken the task, and nothing in the folder is changed any more. `has_moved`: it has been given
  // all that was here.
  std::function<void(const Owner& successor, bool has_moved)> yield;
  // For a task that moves. parts: its parts, each behind its fingerprint. close: returns once no run is under way, and
  // none begins. values: those of steps. open: it did not move, and this server has it with that epoch.
  std::function<std::vector<std::string>()> parts;
  std::function<TfStatus()> close;
  std::function<TfStatus(std::string* values)> values;
  std::function<void(uint64_t epoch)> open;
};

struct Leaving {
  // How long an owner that has closed waits for the server that takes its task.
  static constexpr int64_t kSuccessorNs = 3 * kSecondNs;

  // All outlive it.
  Departure* departure = nullptr;
  Ownership* ownership = nullptr;
  Inventory* inventory = nullptr;
  const SnapshotHooks* hooks = nullptr;
  std::function<Manifest()> describe;
  // All that the task holds, or what was written since.
  std::function<TfStatus(StateWriter* writer, bool is_full)> copy;
  // A moment. False: the server ends.
  std::function<bool()> wait;

  // Once. *has_moved: another server has the task.
  TfStatus Run(bool* has_moved);

 private:
  TfStatus GiveLast(bool* has_moved);
  LogLimiter warnings_{60 * kSecondNs};
};

}  // namespace fusewire::tf
