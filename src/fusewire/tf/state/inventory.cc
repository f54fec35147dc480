// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/state/inventory.h"

#include <algorithm>

namespace fusewire::tf {

template <class Index>
void WriteMarks::MarkRows(const tensorflow::Tensor& indices, Bits* bits) {
  const auto flat = indices.flat<Index>();
  // A set bit is left as it is. It may be the one that a copier is just taking, so the rows were written before this
  // fence, and a copier reads them after its own: it sees the write, or we see that the bit is gone.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (int64_t i = 0; i < flat.size(); ++i) {
    const uint64_t row = static_cast<uint64_t>(flat(i));
    // Its kernel refuses it.
    if (row >= bits->rows) return Whole();
    std::atomic<uint64_t>& word = bits->words[row / 64];
    const uint64_t bit = uint64_t{1} << row % 64;
    if ((word.load(std::memory_order_relaxed) & bit) == 0) word.fetch_or(bit, std::memory_order_acq_rel);
  }
}

void WriteMarks::MarkKeys(const tensorflow::Tensor& keys) {
  if (keys.dtype() != tensorflow::DT_INT64) return Whole();
  const auto flat = keys.flat<int64_t>();
  MutexLock lock(mutex_);
  if (keys_.size() + static_cast<size_t>(flat.size()) <= kKeysMax) {
    keys_.insert(keys_.end(), flat.data(), flat.data() + flat.size());
  } else {
    keys_.clear();
    Whole();
  }
}

void WriteMarks::Rows(const tensorflow::Tensor& indices) {
  if (has_keys_.load(std::memory_order_acquire)) return MarkKeys(indices);
  Bits* bits = bits_.load(std::memory_order_acquire);
  if (bits == nullptr) return Whole();
  if (indices.dtype() == tensorflow::DT_INT32) return MarkRows<int32_t>(indices, bits);
  if (indices.dtype() == tensorflow::DT_INT64) return MarkRows<int64_t>(indices, bits);
  Whole();
}

WriteMarks::Taken WriteMarks::Take() {
  Taken taken;
  taken.is_whole = is_whole_.exchange(false, std::memory_order_acq_rel);
  if (is_always_whole_.load(std::memory_order_acquire)) taken.is_whole = true;
  {
    MutexLock lock(mutex_);
    taken.keys.swap(keys_);
  }
  if (taken.is_whole) taken.keys.clear();
  std::sort(taken.keys.begin(), taken.keys.end());
  taken.keys.erase(std::unique(taken.keys.begin(), taken.keys.end()), taken.keys.end());
  if (kept_ == nullptr) return taken;
  for (size_t word = 0; word < kept_->words.size(); ++word) {
    if (kept_->words[word].load(std::memory_order_relaxed) == 0) continue;
    const uint64_t bits = kept_->words[word].exchange(0, std::memory_order_acq_rel);
    for (uint64_t bit = 0; bit < 64 && !taken.is_whole; ++bit) {
      if ((bits >> bit & 1) != 0) taken.rows.push_back(64 * word + bit);
    }
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);  // see MarkRows
  return taken;
}

void WriteMarks::SetRows(uint64_t rows) {
  if (kept_ != nullptr && kept_->rows != rows) AlwaysWhole();
  if (kept_ != nullptr) return;
  kept_ = std::make_unique<Bits>(rows);
  bits_.store(kept_.get(), std::memory_order_release);
}

bool Inventory::Learn(const tensorflow::GraphDef& graph, bool is_marked) {
  Findings found = FindHoldings(graph);
  if (!found.obstacle.empty()) return SetObstacle(found.obstacle);
  for (Holding& holding : found.holdings) {
    WriteMarks* marks = Add(std::move(holding));
    if (!is_marked) marks->AlwaysWhole();
  }
  return false;
}

bool Inventory::SetObstacle(const std::string& obstacle) {
  MutexLock lock(mutex_);
  const bool is_first = obstacle_.empty();
  if (is_first) obstacle_ = obstacle;
  return is_first;
}

WriteMarks* Inventory::Add(Holding holding) {
  MutexLock lock(mutex_);
  // What makes it is the latest graph's: a program may have cleared the containers, and use the name for another type.
  auto known = holdings_.extract(holding);
  if (known.empty()) return holdings_.emplace(std::move(holding), std::make_unique<WriteMarks>()).first->second.get();
  known.key() = std::move(holding);
  return holdings_.insert(std::move(known)).position->second.get();
}

void Inventory::Clear() {
  MutexLock lock(mutex_);
  holdings_.clear();
}

std::vector<std::pair<Holding, WriteMarks*>> Inventory::holdings() {
  std::vector<std::pair<Holding, WriteMarks*>> all;
  MutexLock lock(mutex_);
  for (const auto& [holding, marks] : holdings_) all.emplace_back(holding, marks.get());
  return all;
}

WriteMarks* Inventory::MarksOf(const Holding& holding) {
  MutexLock lock(mutex_);
  const auto found = holdings_.find(holding);
  return found == holdings_.end() ? nullptr : found->second.get();
}

void Inventory::MarkAll() {
  MutexLock lock(mutex_);
  for (const auto& one : holdings_) one.second->Whole();
}

std::string Inventory::obstacle() {
  MutexLock lock(mutex_);
  return obstacle_;
}

}  // namespace fusewire::tf
