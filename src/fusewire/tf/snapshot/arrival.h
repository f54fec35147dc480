// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The new side of a move: what the old server holds, read from it round by round while it serves, until what is left
// can be copied within the pause that is allowed; and the last round, once it has closed.
// Home: one thread, which may wait. Owns: the tensors. Fails: with the old server's reason, or if the pause would be
// longer; the old server then goes on.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <tensorflow/core/common_runtime/device_mgr.h>
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/heads/snapshots.h"
#include "fusewire/tf/snapshot/departure.h"
#include "fusewire/tf/snapshot/folder.h"
#include "fusewire/tf/state/inventory.h"

namespace fusewire::tf {

class Arrival {
 public:
  Arrival(std::unique_ptr<Predecessor> from, int64_t pause_ns_max)
      : from_(std::move(from)), pause_ns_max_(pause_ns_max) {}
  // Without SayDone, the old server is told that no server takes over.
  ~Arrival();
  Arrival(const Arrival&) = delete;

  // The state as it is now, and its devices' numbers.
  TfStatus Begin(const std::string& task, const std::string& cluster);
  // Puts variables that have come into the devices; the tensors stay shared, so that later rows arrive there as well.
  TfStatus Restore(tensorflow::DeviceMgr* devices, Inventory* inventory);
  // Rounds, until the pause is short.
  TfStatus Follow();
  // The old server has closed. The last round is in the devices, which have the tensors alone.
  TfStatus Close(tensorflow::DeviceMgr* devices, Inventory* inventory);
  // This one serves the task. What came over, in words.
  std::string SayDone();

  const Manifest& manifest() const { return manifest_; }
  Tenure tenure() const { return {begun_.epoch, begun_.holder}; }
  // As the old server has placed them, each behind its fingerprint.
  const std::vector<std::string>& parts() const { return parts_; }
  // Of steps under way, after Close.
  const std::string& values() const { return values_; }

 private:
  TfStatus Round(MoveWant want, uint64_t* bytes);
  void Say(MoveWant want);

  const std::unique_ptr<Predecessor> from_;
  const int64_t pause_ns_max_;
  Manifest begun_, manifest_;
  std::vector<std::string> parts_;
  std::string values_;
  HeldState state_;
  std::set<Holding> changed_;  // that the devices don't have yet; rows of variables reach them by themselves
  uint64_t bytes_ = 0;         // of all rounds
  int64_t first_ns_ = 1;       // that the first one took
  uint64_t first_bytes_ = 0, last_bytes_ = 0;
  bool is_done_ = false;
  int64_t closed_ns_ = 0;  // when it was asked to close
};

}  // namespace fusewire::tf
