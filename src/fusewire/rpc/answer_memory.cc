// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/rpc/answer_memory.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "fusewire/base/check.h"

namespace fusewire::rpc {
namespace {

// Less is the business of the limit of calls in flight.
constexpr uint64_t kCountedBytesMin = 4096;

std::atomic<uint64_t> held_bytes{0};

// The last own segment of an answer, which stands for all of them.
struct Held {
  Held(Buffer last_in, uint64_t bytes_in) : last(std::move(last_in)), bytes(bytes_in) {}
  ~Held() {
    const uint64_t before = held_bytes.fetch_sub(bytes, std::memory_order_relaxed);
    FUSEWIRE_CHECK(bytes <= before);
  }
  Buffer last;
  const uint64_t bytes;
};

void Release(void* owner, Bytes) { std::unique_ptr<Held>(static_cast<Held*>(owner)).reset(); }

}  // namespace

uint64_t HeldAnswerBytes() { return held_bytes.load(std::memory_order_relaxed); }

Status HoldAnswer(Buffers* body, uint64_t bytes_max) {
  uint64_t bytes = 0;
  Buffer* last = nullptr;
  for (Buffer& segment : *body) {
    if (!segment.is_own()) continue;
    bytes += segment.size();
    last = &segment;
  }
  if (bytes < kCountedBytesMin) return Status::Ok();
  const uint64_t before = held_bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (before > 0 && bytes > bytes_max - std::min(before, bytes_max)) {
    held_bytes.fetch_sub(bytes, std::memory_order_relaxed);
    return Status::Overloaded("callers have not taken answers of " + std::to_string(before) + " bytes")
        .Next("ask less at a time, or raise answers_bytes_max of the server");
  }
  const Bytes place = last->bytes();
  *last = Buffer::Wrap(place, std::make_unique<Held>(std::move(*last), bytes).release(), Release);
  return Status::Ok();
}

}  // namespace fusewire::rpc
