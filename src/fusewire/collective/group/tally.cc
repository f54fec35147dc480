// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/group/tally.h"

#include <array>
#include <atomic>

namespace fusewire::collective {

// A cache line of its own: its writer is the only one that takes it. The counts stay when the place is free again.
struct alignas(64) TallyPlace {
  std::atomic<bool> is_taken{false};
  std::atomic<uint64_t> operations{0}, bytes{0};
};

namespace {

std::array<TallyPlace, kTallies> places;

TallyPlace* TakePlace() {
  for (size_t i = 0; i + 1 < kTallies; ++i) {
    if (!places[i].is_taken.exchange(true, std::memory_order_acquire)) return &places[i];
  }
  return &places.back();
}

// A load and a store, as Counter of base/metrics.h.
void AddAlone(std::atomic<uint64_t>* number, uint64_t amount) {
  number->store(number->load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

}  // namespace

Tally::Tally() : place_(TakePlace()) {}

Tally::~Tally() { place_->is_taken.store(false, std::memory_order_release); }

void Tally::Add(uint64_t bytes) {
  if (place_ != &places.back()) {
    AddAlone(&place_->operations, 1);
    AddAlone(&place_->bytes, bytes);
    return;
  }
  place_->operations.fetch_add(1, std::memory_order_relaxed);
  place_->bytes.fetch_add(bytes, std::memory_order_relaxed);
}

TallySum TallyOfAll() {
  TallySum sum;
  for (const TallyPlace& place : places) {
    sum.operations += place.operations.load(std::memory_order_relaxed);
    sum.bytes += place.bytes.load(std::memory_order_relaxed);
  }
  return sum;
}

}  // namespace fusewire::collective
