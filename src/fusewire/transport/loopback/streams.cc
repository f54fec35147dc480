// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/loopback/streams.h"

namespace fusewire::transport {

Streams::Pair Streams::Connect(Host* one, Host* other) {
  // shared_ptr: each end, the other direction and pending events hold a stream, and any of them may be the last.
  auto there = std::make_shared<Stream>(&network_, one, other);
  // shared_ptr: as above.
  auto back = std::make_shared<Stream>(&network_, other, one);
  there->set_reverse(back);
  back->set_reverse(there);
  streams_.push_back(there);
  streams_.push_back(back);
  return {std::move(there), std::move(back)};
}

std::vector<std::shared_ptr<Stream>> Streams::InUse() {
  // shared_ptr: the callee may release the last other reference.
  std::vector<std::shared_ptr<Stream>> alive;
  std::vector<std::weak_ptr<Stream>> still;
  for (const auto& stream : streams_) {
    if (auto held = stream.lock()) {
      alive.push_back(std::move(held));
      still.push_back(stream);
    }
  }
  streams_ = std::move(still);
  return alive;
}

void Streams::PumpAll() {
  for (const auto& stream : InUse()) stream->Pump();
}

}  // namespace fusewire::transport
