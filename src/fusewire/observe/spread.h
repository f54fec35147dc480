// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// How durations are spread: counts in buckets, four for each power of two, from a microsecond to seven minutes.
// Home: any thread, all at once. Owns: numbers. Fails: never; what is shorter or longer counts into the first or last.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace fusewire::observe {

class Spread {
 public:
  static constexpr int kLeastPower = 10, kMostPower = 39;
  static constexpr size_t kBuckets = static_cast<size_t>(kMostPower - kLeastPower) * 4;

  // Counts at one time.
  struct Counts {
    std::array<uint64_t, kBuckets> buckets{};
    uint64_t count = 0, sum = 0, max = 0;
    // The upper bound of the bucket in which this share of all values ends; 0 without values.
    uint64_t Quantile(double share) const {
      uint64_t seen = 0;
      for (size_t i = 0; i < kBuckets && count > 0; ++i) {
        seen += buckets[i];
        if (seen > 0 && static_cast<double>(seen) >= share * static_cast<double>(count))
          return UpperBound(i) < max ? UpperBound(i) : max;
      }
      return count > 0 ? max : 0;
    }
  };

  void Add(uint64_t value) {
    buckets_[BucketOf(value)].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(value, std::memory_order_relaxed);
    uint64_t max = max_.load(std::memory_order_relaxed);
    while (value > max && !max_.compare_exchange_weak(max, value, std::memory_order_relaxed)) {
    }
  }
  Counts Read() const {
    Counts counts;
    for (size_t i = 0; i < kBuckets; ++i)
      counts.count += counts.buckets[i] = buckets_[i].load(std::memory_order_relaxed);
    counts.sum = sum_.load(std::memory_order_relaxed);
    counts.max = max_.load(std::memory_order_relaxed);
    return counts;
  }

  static size_t BucketOf(uint64_t value) {
    if (value < uint64_t{1} << kLeastPower) return 0;
    if (value >= uint64_t{1} << kMostPower) return kBuckets - 1;
    const int power = 63 - __builtin_clzll(value);
    return static_cast<size_t>((power - kLeastPower) * 4) + (value >> (power - 2) & 3);
  }
  // The largest value of a bucket.
  static uint64_t UpperBound(size_t bucket) {
    const int power = kLeastPower + static_cast<int>(bucket / 4);
    return ((4 + bucket % 4 + 1) << (power - 2)) - 1;
  }

 private:
  std::array<std::atomic<uint64_t>, kBuckets> buckets_{};
  std::atomic<uint64_t> sum_{0}, max_{0};
};

}  // namespace fusewire::observe
