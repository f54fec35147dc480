// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Counters and latency histograms that are always on: each has one writer or, if it is shared, any number of them.
// Home: Add on the writer's thread, if shared on any; Read on any. Owns: plain numbers; a histogram, pieces of them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <tuple>

namespace fusewire {

// A number that only its home writes: an increment is a load and a store, without a locked instruction.
class Counter {
 public:
  void Add(uint64_t amount = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  void Set(uint64_t value) { value_.store(value, std::memory_order_relaxed); }
  void RaiseTo(uint64_t value) {
    if (value > Read()) Set(value);
  }
  uint64_t Read() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// A number that any thread writes.
class SharedCounter {
 public:
  void Add(uint64_t amount = 1) { value_.fetch_add(amount, std::memory_order_relaxed); }
  void RaiseTo(uint64_t value) {
    uint64_t now = Read();
    while (value > now && !value_.compare_exchange_weak(now, value, std::memory_order_relaxed)) {
    }
  }
  uint64_t Read() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// The contents of a Histogram at one time.
struct HistogramSnapshot {
  uint64_t count = 0;
  uint64_t sum = 0;
  uint64_t max = 0;
  uint64_t p50 = 0, p90 = 0, p99 = 0, p999 = 0;  // upper bounds of their buckets: at most 25 % too high
  double mean() const { return count == 0 ? 0.0 : static_cast<double>(sum) / static_cast<double>(count); }
};

// Counts values in buckets, four for each power of two. Has memory for those near its values, as each connection has a
// histogram.
template <class Number>
class HistogramOf {
 public:
  static constexpr size_t kBuckets = 64 * 4;
  using Counts = std::array<uint64_t, kBuckets>;

  HistogramOf() = default;
  ~HistogramOf();
  HistogramOf(const HistogramOf&) = delete;
  HistogramOf& operator=(const HistogramOf&) = delete;

  void Add(uint64_t value);
  HistogramSnapshot Read() const {
    Counts counts;
    return Read(&counts);
  }
  // The same, and how many values each bucket has.
  HistogramSnapshot Read(Counts* counts) const;
  // Adds the counts of `other`; at home of this one.
  void Merge(const HistogramOf& other);
  // The largest value of a bucket.
  static uint64_t UpperBound(size_t bucket);

 private:
  using Piece = std::array<Number, 16>;
  static size_t BucketOf(uint64_t value);
  Number& NumberOf(size_t bucket);
  uint64_t CountIn(size_t bucket) const;
  std::array<std::atomic<Piece*>, kBuckets / std::tuple_size_v<Piece>> pieces_ = {};  // null: without values
  Number sum_, max_;
};
using Histogram = HistogramOf<Counter>;
using SharedHistogram = HistogramOf<SharedCounter>;

}  // namespace fusewire
