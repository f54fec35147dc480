// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What a group shows of itself (docs/seeing.md): the group that is shown first on an endpoint names its members rank:0,
// rank:1 ..., and this process is one of them, as a task. Later groups on that endpoint record under the same names.
// Home: the endpoint's, where no other is named. Owns: the names; its task, until Close. Fails: StartWatch, with the
// reason; groups then work as before, and nothing is shown.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "fusewire/base/mutex.h"
#include "fusewire/base/status.h"
#include "fusewire/collective/group/options.h"
#include "fusewire/collective/group/seats.h"
#include "fusewire/collective/kernels/spec.h"
#include "fusewire/observe/recorder.h"
#include "fusewire/p2p/endpoint.h"

namespace fusewire::collective {

struct TallyPlace;

struct TallySum {
  uint64_t operations = 0;
  uint64_t bytes = 0;
};
// Of all operations that have ended well since the process began. Any thread, without a lock.
TallySum TallyOfAll();

// Counts operations and their bytes in this process, at no cost to them. Home: one thread at a time. Owns: a place in a
// table of the process. Those beyond kTallies at a time share counters, with a locked instruction for each addition.
constexpr size_t kTallies = 256;

class Tally {
 public:
  Tally();
  ~Tally();
  Tally(const Tally&) = delete;
  Tally& operator=(const Tally&) = delete;

  // An operation with arrays of that size has ended well.
  void Add(uint64_t bytes);

 private:
  TallyPlace* const place_;  // null: it shares
};

// Any thread. Begins to record, and opens the status port of this process, if it has none: at `place`, in the words of
// FUSEWIRE_STATUS. `runtime`: see observe/folder.h. *is_on: whether anything is shown.
Status StartWatch(const std::string& place, const std::string& runtime, const std::string& secret, bool* is_on);

// The names of an endpoint's members, as tasks.
using TaskNames = std::map<std::string, std::string>;

class GroupMonitor {
 public:
  GroupMonitor(p2p::Endpoint& endpoint, const GroupOptions& options) : endpoint_(endpoint), options_(options) {}
  GroupMonitor(const GroupMonitor&) = delete;
  GroupMonitor& operator=(const GroupMonitor&) = delete;

  // This group's members are the tasks, unless another group of the endpoint has named them.
  void Open(const Seats& seats);
  // The ranks of an epoch.
  void Renew(const Seats& seats);
  void Close();

  // Any thread, as all below.
  bool on() const { return is_on_.load(std::memory_order_relaxed); }
  // Of an operation that waits for that rank; -1: for none in particular.
  uint32_t TagOf(const CollectiveSpec& spec, int rank);
  // Of the ranks' agreement on an arena.
  uint32_t TagOfAgreement(int rank);

 private:
  std::string NameOf(const Seats& seats, int rank) const;
  std::map<std::string, std::string> MembersOf(const Seats& seats) const;
  std::string PeerOf(int rank) const FUSEWIRE_REQUIRES(mutex_);
  uint32_t Find(int rank, const std::string& name) FUSEWIRE_REQUIRES(mutex_);

  p2p::Endpoint& endpoint_;
  const GroupOptions& options_;
  // Shared with the other groups of the endpoint.
  std::shared_ptr<const TaskNames> tasks_;
  std::string task_;  // that this group has added; empty: none
  std::atomic<bool> is_on_{false};

  Mutex mutex_;
  std::string own_ FUSEWIRE_GUARDED_BY(mutex_);
  std::vector<std::string> of_ranks_ FUSEWIRE_GUARDED_BY(mutex_);
  std::string where_ FUSEWIRE_GUARDED_BY(mutex_);  // " in NAME", of another group than the tasks'
  std::unordered_map<uint64_t, uint32_t> tags_ FUSEWIRE_GUARDED_BY(mutex_);
};

// The record of one operation of a group; and while it waits, one for each of the first ranks that have not come, of
// the same name and place, without bytes. Home: the thread that runs the operation. Owns: the records, until End.

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

  // `spec` and `monitor` stay until End. place: the number of the call, from 1; -1 with a key. flow: the same at all
  // ranks.
  void Begin(GroupMonitor* monitor, const CollectiveSpec& spec, int64_t place, uint64_t flow, int64_t now_ns);
  bool begun() const { return monitor_ != nullptr; }
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

  GroupMonitor* monitor_ = nullptr;
  const CollectiveSpec* spec_ = nullptr;
  int64_t place_ = 0;
  uint64_t flow_ = 0;
  int64_t begun_ns_ = 0;
  std::vector<int> missing_;
  observe::Op whole_;
  std::vector<Late> late_;
};

}  // namespace fusewire::collective
