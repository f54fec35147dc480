// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Encodes and sends the messages between endpoints. wire/p2p.h lists the verbs.
// Home: the endpoint's. Owns: the memory in which a head is put together. Fails: Send closes a pipe whose peer takes no
// more small messages.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "fusewire/base/bytes.h"
#include "fusewire/base/check.h"
#include "fusewire/base/status.h"
#include "fusewire/p2p/lane.h"
#include "fusewire/pipe/pipe.h"
#include "fusewire/wire/p2p.h"

namespace fusewire::p2p {

// The sum of the sizes.
template <class Segment>
uint64_t TotalOf(const std::vector<Segment>& segments) {
  uint64_t sum = 0;
  for (const Segment& segment : segments) sum += segment.size;
  return sum;
}

// Copies `from`, an eager message or what a get brought, into the segments, one after the other. They must have room
// for it. In pieces that don't count as large: a message that nobody expected has to be copied.
inline void Scatter(ConstBytes from, const std::vector<Bytes>& segments) {
  FUSEWIRE_DCHECK(from.size <= TotalOf(segments));
  for (const Bytes& segment : segments) {
    const size_t size = std::min(segment.size, from.size);
    for (size_t at = 0; at < size; at += kCopyBytesMax / 2) {
      CopyBytes(segment.From(at), from.Sub(at, std::min(size - at, kCopyBytesMax / 2)));
    }
    from = from.From(size);
  }
  FUSEWIRE_DCHECK(from.empty());
}

// Sets `front` to the first `bytes` of the segments, without empty ones.
inline void TakeFront(const std::vector<Bytes>& segments, uint64_t bytes, std::vector<Bytes>* front) {
  FUSEWIRE_DCHECK(bytes <= TotalOf(segments));
  front->clear();
  for (const Bytes& segment : segments) {
    if (bytes == 0) break;
    if (segment.size == 0) continue;
    auto size = static_cast<size_t>(std::min<uint64_t>(segment.size, bytes));
    front->push_back(segment.Sub(0, size));
    bytes -= size;
  }
  FUSEWIRE_DCHECK(bytes == 0);
}

// Up to this size a payload travels in the head: one copy, no segments.
constexpr uint64_t kInlineBytes = 2048;

class Verbs {
 public:
  // Does nothing if the pipe is not open.
  void Send(Lane* lane, wire::P2pVerb verb, uint64_t call, uint32_t aux, std::initializer_list<uint64_t> numbers,
            ConstBytes behind = ConstBytes());
  // The code, and the whole status if it is an error. `lane` may be null.
  void SendStatus(Lane* lane, wire::P2pVerb verb, uint64_t call, const Status& status);
  void SendResult(Lane* lane, uint64_t send, const Status& status) {
    SendStatus(lane, wire::P2pVerb::kResult, send, status);
  }
  // A message with a payload: a small one in its head, which is copied; otherwise as its body, which the pipe holds.
  // Send it before the next call here: the head is in memory that is used again.
  pipe::Message Payload(wire::P2pVerb verb, uint64_t call, uint32_t aux, std::initializer_list<uint64_t> numbers,
                        ConstBytes head, const std::vector<ConstBytes>& segments, bool express);
  // Ok, or why the message cannot be sent now.
  static Status Fits(const pipe::Pipe& pipe, const pipe::Message& message);

 private:
  ConstBytes Encode(wire::P2pVerb verb, std::initializer_list<uint64_t> numbers, ConstBytes one,
                    const std::vector<ConstBytes>& segments);

  std::vector<uint8_t> scratch_;
};

}  // namespace fusewire::p2p
