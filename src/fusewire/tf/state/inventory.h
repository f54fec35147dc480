// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What a task holds, as far as its graphs show. It only grows: what a session has made outlives it.
// Home: any thread. Owns: the names, and the marks of their writers. Fails: never; what can't be copied is the
// obstacle.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tensorflow/core/framework/graph.pb.h>
#include <tensorflow/core/framework/tensor.h>
#include "fusewire/base/mutex.h"
#include "fusewire/tf/state/holding.h"

namespace fusewire::tf {

// The part of one holding that was written since it was copied: rows, one bit each, those of a table by their keys, or
// the whole. A writer marks it afterwards, and a copy takes the marks before it begins: a write that one copy has
// missed is in the next one. Home: any thread; Take, SetRows and SetKeys: one. Owns: the bits, and the keys. Fails:
// never; a write that is not known to be of rows is one of the whole.
class WriteMarks {
 public:
  void Whole() { is_whole_.store(true, std::memory_order_release); }
  void Rows(const tensorflow::Tensor& indices);  // of a table: keys
  // From now on it counts as always written: one of its writers does not mark.
  void AlwaysWhole() { is_always_whole_.store(true, std::memory_order_release); }

  struct Taken {
    bool is_whole = false;
    std::vector<uint64_t> rows;  // otherwise; in order
    std::vector<int64_t> keys;   // of a table: instead of rows; in order
    bool empty() const { return !is_whole && rows.empty() && keys.empty(); }
  };
  Taken Take();
  // How many rows it has: from now on they are marked. Only the first call counts; with others, it is always whole.
  void SetRows(uint64_t rows);
  // It is a table: from now on, the keys of what is written are marked.
  void SetKeys() { has_keys_.store(true, std::memory_order_release); }

 private:
  // With more than this, the whole is copied.
  static constexpr size_t kKeysMax = size_t{1} << 20;
  struct Bits {
    explicit Bits(uint64_t count) : rows(count), words((count + 63) / 64) {}
    const uint64_t rows;
    std::vector<std::atomic<uint64_t>> words;
  };
  template <class Index>
  void MarkRows(const tensorflow::Tensor& indices, Bits* bits);
  void MarkKeys(const tensorflow::Tensor& keys);

  std::atomic<bool> is_whole_{true};
  std::atomic<bool> is_always_whole_{false};
  std::atomic<Bits*> bits_{nullptr};  // kept_'s, for writers
  std::unique_ptr<Bits> kept_;
  std::atomic<bool> has_keys_{false};
  Mutex mutex_;
  std::vector<int64_t> keys_ FUSEWIRE_GUARDED_BY(mutex_);
};

class Inventory {
 public:
  // True: the graph has what can't be copied, and it is the first. `is_marked`: its runner marks what it writes.
  bool Learn(const tensorflow::GraphDef& graph, bool is_marked);
  // True: it is the first.
  bool SetObstacle(const std::string& obstacle);
  // Its marks live as long as the inventory, but for Clear.
  WriteMarks* Add(Holding holding);
  void Clear();  // before there are writers

  std::vector<std::pair<Holding, WriteMarks*>> holdings();
  // Null: no graph has it.
  WriteMarks* MarksOf(const Holding& holding);
  // Something was written, and it is not known what.
  void MarkAll();
  std::string obstacle();  // "the FIFOQueueV2 sync_token_q"; empty: none

  // For the status port: the bytes of all holdings when they were last copied, and how long parts have run.
  void SetBytes(uint64_t bytes) { bytes_.store(bytes, std::memory_order_relaxed); }
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  void CountBusy(int64_t ns) { busy_ns_.fetch_add(static_cast<uint64_t>(ns), std::memory_order_relaxed); }
  uint64_t busy_ns() const { return busy_ns_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> bytes_{0}, busy_ns_{0};
  Mutex mutex_;
  std::map<Holding, std::unique_ptr<WriteMarks>> holdings_ FUSEWIRE_GUARDED_BY(mutex_);
  std::string obstacle_ FUSEWIRE_GUARDED_BY(mutex_);
};

}  // namespace fusewire::tf
