// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The rows that a worker's lookup has pulled in its last steps, so that it need not pull them in each: a row is used
// again for at most `steps_max` steps (ConfigProto(staleness=...)).
// Home: any thread. Owns: copies of the rows, up to bytes_max; rows for which there is no room are pulled in each step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "fusewire/base/mutex.h"

namespace fusewire::tf {

class RowCache {
 public:
  static constexpr size_t kBytesMax = 256 << 20;
  explicit RowCache(int64_t steps_max, size_t bytes_max = kBytesMax) : steps_max_(steps_max), bytes_max_(bytes_max) {}

  // What one step finds: copies of the rows that it uses again, and the ids of those that it pulls.
  struct Found {
    int64_t step = 0;
    std::vector<int64_t> missing;
    std::vector<int32_t> places;  // of each id: k, the k-th of `missing`; -1 - k, the k-th of `rows`
    std::vector<float> rows;
    size_t row_length = 0;
  };
  // Any thread. A step begins. No id is there twice.
  Found Begin(const std::vector<int64_t>& ids);
  // Any thread. The rows that a step has pulled. If they are of another length than those before, these are dropped.
  void Keep(int64_t step, const std::vector<int64_t>& ids, const float* rows, size_t row_length);
  size_t size() const;

 private:
  struct Row {
    int64_t step = 0;  // in which it was pulled
    std::vector<float> values;
  };
  bool IsFresh(const Row& row) const FUSEWIRE_REQUIRES(mutex_) { return step_ - row.step <= steps_max_; }
  bool MakeRoom() FUSEWIRE_REQUIRES(mutex_);

  const int64_t steps_max_;
  const size_t bytes_max_;
  mutable Mutex mutex_;
  int64_t step_ FUSEWIRE_GUARDED_BY(mutex_) = 0;
  int64_t swept_step_ FUSEWIRE_GUARDED_BY(mutex_) = 0;
  size_t row_length_ FUSEWIRE_GUARDED_BY(mutex_) = 0;
  std::unordered_map<int64_t, Row> rows_ FUSEWIRE_GUARDED_BY(mutex_);
};

}  // namespace fusewire::tf
