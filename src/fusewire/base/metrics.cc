// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/base/metrics.h"

#include <memory>

namespace fusewire {

template <class Number>
HistogramOf<Number>::~HistogramOf() {
  for (std::atomic<Piece*>& piece : pieces_) std::unique_ptr<Piece>(piece.load(std::memory_order_relaxed)).reset();
}

template <class Number>
size_t HistogramOf<Number>::BucketOf(uint64_t value) {
  if (value < 4) return static_cast<size_t>(value);
  const auto exponent = static_cast<size_t>(63 - __builtin_clzll(value));   // at least 2
  const auto quarter = static_cast<size_t>((value >> (exponent - 2)) & 3);  // the two bits after the leading one
  return (exponent - 1) * 4 + quarter;
}

template <class Number>
uint64_t HistogramOf<Number>::UpperBound(size_t bucket) {
  if (bucket < 4) return bucket;
  const size_t exponent = bucket / 4 + 1;
  const uint64_t step = uint64_t{1} << (exponent - 2);
  return (4 + bucket % 4) * step + (step - 1);
}

template <class Number>
Number& HistogramOf<Number>::NumberOf(size_t bucket) {
  std::atomic<Piece*>& place = pieces_[bucket / std::tuple_size_v<Piece>];
  Piece* piece = place.load(std::memory_order_acquire);
  if (piece == nullptr) {
    auto made = std::make_unique<Piece>();
    // Another writer may be first.
    if (place.compare_exchange_strong(piece, made.get(), std::memory_order_acq_rel)) piece = made.release();
  }
  return (*piece)[bucket % std::tuple_size_v<Piece>];
}

template <class Number>
uint64_t HistogramOf<Number>::CountIn(size_t bucket) const {
  const Piece* piece = pieces_[bucket / std::tuple_size_v<Piece>].load(std::memory_order_acquire);
  return piece == nullptr ? 0 : (*piece)[bucket % std::tuple_size_v<Piece>].Read();
}

template <class Number>
void HistogramOf<Number>::Add(uint64_t value) {
  NumberOf(BucketOf(value)).Add();
  sum_.Add(value);
  max_.RaiseTo(value);
}

template <class Number>
void HistogramOf<Number>::Merge(const HistogramOf& other) {
  for (size_t i = 0; i < kBuckets; ++i) {
    if (const uint64_t count = other.CountIn(i); count > 0) NumberOf(i).Add(count);
  }
  sum_.Add(other.sum_.Read());
  max_.RaiseTo(other.max_.Read());
}

template <class Number>
HistogramSnapshot HistogramOf<Number>::Read(Counts* counts) const {
  HistogramSnapshot snapshot;
  for (size_t i = 0; i < kBuckets; ++i) snapshot.count += (*counts)[i] = CountIn(i);
  snapshot.sum = sum_.Read();
  snapshot.max = max_.Read();
  struct Quantile {
    double share;
    uint64_t* value;
  } wanted[] = {{0.5, &snapshot.p50}, {0.9, &snapshot.p90}, {0.99, &snapshot.p99}, {0.999, &snapshot.p999}};
  uint64_t seen = 0;
  size_t next = 0;
  for (size_t i = 0; i < kBuckets && next < 4; ++i) {
    seen += (*counts)[i];
    while (next < 4 && seen > 0 &&
           static_cast<double>(seen) >= wanted[next].share * static_cast<double>(snapshot.count)) {
      uint64_t bound = UpperBound(i);
      *wanted[next].value = bound > snapshot.max ? snapshot.max : bound;
      ++next;
    }
  }
  return snapshot;
}

template class HistogramOf<Counter>;
template class HistogramOf<SharedCounter>;

}  // namespace fusewire
