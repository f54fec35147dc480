// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/base/metrics.h"

namespace fusewire {

int Histogram::BucketOf(uint64_t value) {
  if (value < 4) return static_cast<int>(value);
  int exponent = 63 - __builtin_clzll(value);                     // at least 2
  int quarter = static_cast<int>((value >> (exponent - 2)) & 3);  // the two bits after the leading one
  return (exponent - 1) * 4 + quarter;
}

uint64_t Histogram::UpperBound(int bucket) {
  if (bucket < 4) return static_cast<uint64_t>(bucket);
  int exponent = bucket / 4 + 1;
  uint64_t quarter = static_cast<uint64_t>(bucket % 4);
  uint64_t step = uint64_t{1} << (exponent - 2);
  return (4 + quarter) * step + (step - 1);
}

void Histogram::Add(uint64_t value) {
  buckets_[static_cast<size_t>(BucketOf(value))].Add();
  sum_.Add(value);
  if (value > max_.Read()) max_.Set(value);
}

void Histogram::Merge(const Histogram& other) {
  for (size_t i = 0; i < kBuckets; ++i) buckets_[i].Add(other.buckets_[i].Read());
  sum_.Add(other.sum_.Read());
  if (other.max_.Read() > max_.Read()) max_.Set(other.max_.Read());
}

HistogramSnapshot Histogram::Read() const {
  HistogramSnapshot snapshot;
  std::array<uint64_t, kBuckets> counts;
  for (size_t i = 0; i < kBuckets; ++i) snapshot.count += counts[i] = buckets_[i].Read();
  snapshot.sum = sum_.Read();
  snapshot.max = max_.Read();
  struct Quantile {
    double share;
    uint64_t* value;
  } wanted[] = {{0.5, &snapshot.p50}, {0.9, &snapshot.p90}, {0.99, &snapshot.p99}, {0.999, &snapshot.p999}};
  uint64_t seen = 0;
  size_t next = 0;
  for (size_t i = 0; i < kBuckets && next < 4; ++i) {
    seen += counts[i];
    while (next < 4 && seen > 0 &&
           static_cast<double>(seen) >= wanted[next].share * static_cast<double>(snapshot.count)) {
      uint64_t bound = UpperBound(static_cast<int>(i));
      *wanted[next].value = bound > snapshot.max ? snapshot.max : bound;
      ++next;
    }
  }
  return snapshot;
}

}  // namespace fusewire
