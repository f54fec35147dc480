// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/base/metrics.h"

#include <memory>

namespace fusewire {

Histogram::~Histogram() {
  for (std::atomic<Piece*>& piece : pieces_) std::unique_ptr<Piece>(piece.load(std::memory_order_relaxed)).reset();
}

size_t Histogram::BucketOf(uint64_t value) {
  if (value < 4) return static_cast<size_t>(value);
  const auto exponent = static_cast<size_t>(63 - __builtin_clzll(value));   // at least 2
  const auto quarter = static_cast<size_t>((value >> (exponent - 2)) & 3);  // the two bits after the leading one
  return (exponent - 1) * 4 + quarter;
}

uint64_t Histogram::UpperBound(size_t bucket) {
  if (bucket < 4) return bucket;
  const size_t exponent = bucket / 4 + 1;
  const uint64_t step = uint64_t{1} << (exponent - 2);
  return (4 + bucket % 4) * step + (step - 1);
}

Counter& Histogram::CounterOf(size_t bucket) {
  std::atomic<Piece*>& place = pieces_[bucket / std::tuple_size_v<Piece>];
  Piece* piece = place.load(std::memory_order_relaxed);
  if (piece == nullptr) {
    piece = std::make_unique<Piece>().release();
    place.store(piece, std::memory_order_release);
  }
  return (*piece)[bucket % std::tuple_size_v<Piece>];
}

uint64_t Histogram::CountIn(size_t bucket) const {
  const Piece* piece = pieces_[bucket / std::tuple_size_v<Piece>].load(std::memory_order_acquire);
  return piece == nullptr ? 0 : (*piece)[bucket % std::tuple_size_v<Piece>].Read();
}

void Histogram::Add(uint64_t value) {
  CounterOf(BucketOf(value)).Add();
  sum_.Add(value);
  if (value > max_.Read()) max_.Set(value);
}

void Histogram::Merge(const Histogram& other) {
  for (size_t i = 0; i < kBuckets; ++i) {
    if (const uint64_t count = other.CountIn(i); count > 0) CounterOf(i).Add(count);
  }
  sum_.Add(other.sum_.Read());
  if (other.max_.Read() > max_.Read()) max_.Set(other.max_.Read());
}

HistogramSnapshot Histogram::Read() const {
  HistogramSnapshot snapshot;
  std::array<uint64_t, kBuckets> counts;
  for (size_t i = 0; i < kBuckets; ++i) snapshot.count += counts[i] = CountIn(i);
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
      uint64_t bound = UpperBound(i);
      *wanted[next].value = bound > snapshot.max ? snapshot.max : bound;
      ++next;
    }
  }
  return snapshot;
}

}  // namespace fusewire
