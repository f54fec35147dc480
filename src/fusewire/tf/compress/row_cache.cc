// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/compress/row_cache.h"

#include <iterator>

namespace fusewire::tf {

namespace {

constexpr size_t kOverheadBytes = 64;  // of a row: its node in the map

}  // namespace

RowCache::Found RowCache::Begin(const std::vector<int64_t>& ids) {
  Found found;
  found.places.reserve(ids.size());
  MutexLock lock(mutex_);
  found.step = ++step_;
  found.row_length = row_length_;
  int32_t used = 0;
  for (const int64_t id : ids) {
    auto it = rows_.find(id);
    if (it != rows_.end() && IsFresh(it->second)) {
      found.places.push_back(-1 - used++);
      found.rows.insert(found.rows.end(), it->second.values.begin(), it->second.values.end());
    } else {
      found.places.push_back(static_cast<int32_t>(found.missing.size()));
      found.missing.push_back(id);
    }
  }
  return found;
}

void RowCache::Keep(int64_t step, const std::vector<int64_t>& ids, const float* rows, size_t row_length) {
  MutexLock lock(mutex_);
  if (row_length != row_length_) rows_.clear();
  row_length_ = row_length;
  for (const int64_t id : ids) {
    auto it = rows_.find(id);
    if (it == rows_.end()) {
      if (!MakeRoom()) return;
      it = rows_.emplace(id, Row()).first;
    }
    // A step that began later may have kept it already.
    if (it->second.step <= step) {
      it->second.step = step;
      it->second.values.assign(rows, rows + row_length);
    }
    rows += row_length;
  }
}

// For one more row. Drops old rows, if that may help and was not done lately: it reads all rows.
bool RowCache::MakeRoom() {
  const size_t rows_max = bytes_max_ / (row_length_ * sizeof(float) + kOverheadBytes);
  if (rows_.size() < rows_max) return true;
  if (step_ - swept_step_ < (steps_max_ + 1) / 2) return false;
  swept_step_ = step_;
  for (auto it = rows_.begin(); it != rows_.end();) it = IsFresh(it->second) ? std::next(it) : rows_.erase(it);
  return rows_.size() < rows_max;
}

size_t RowCache::size() const {
  MutexLock lock(mutex_);
  return rows_.size();
}

}  // namespace fusewire::tf
