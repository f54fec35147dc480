// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The record of one operation of a group; and while it waits, one for each of the first ranks that have not come, of
// the same name and place, without bytes. Home: the thread that runs the operation. Owns: the records, until End.
// Fails: never; without a recorder, it does nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "fusewire/collective/group/group_monitor.h"
#include "fusewire/collective/kernels/spec.h"
#include "fusewire/observe/recorder.h"

namespace fusewire::collective {

// What an operation is counted for: the larger one of its arrays.
inline uint64_t BytesOf(const CollectiveSpec& spec) { return std::max(spec.from.bytes(), spec.to.bytes()); }

class OpRecord {
 public:
  // The first turns of a group with an arena set it up.
  static constexpr int64_t kAgreement = 0;

  OpRecord() = default;
  ~OpRecord() { End(false, 0); }
  OpRecord(const OpRecord&) = delete;
  OpRecord& operator=(const OpRecord&) = delete;

  // `spec` and `shown` stay until End. place: the number of the call, from 1; -1 with a key. flow: the same at all
  // ranks.
  void Begin(GroupMonitor* shown, const CollectiveSpec& spec, int64_t place, uint64_t flow, int64_t now_ns);
  bool begun() const { return shown_ != nullptr; }
  int64_t begun_ns() const { return begun_ns_; }
  // All ranks that have not come yet, in their order; it waits since since_ns.
  void WaitFor(const std::vector<int>& missing, int64_t since_ns);
  void End(bool is_ok, uint64_t bytes);

 private:
  struct Late {
    int rank;
    observe::Op op;
  };
  uint32_t TagOf(int rank) const;

  GroupMonitor* shown_ = nullptr;
  const CollectiveSpec* wanted_ = nullptr;
  int64_t place_ = 0;
  uint64_t flow_ = 0;
  int64_t begun_ns_ = 0;
  std::vector<int> missing_;
  observe::Op whole_;
  std::vector<Late> late_;
};

}  // namespace fusewire::collective
