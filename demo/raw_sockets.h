// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The demo's work on plain blocking sockets: the baseline for a runtime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "fusewire/base/status.h"

namespace fusewire::demo {

// Serves one connection after another: reads a request of two u64 (how many bytes follow, how many to return),
// reads the bytes, and sends the requested number.
void ServeRaw(uint16_t port, const std::function<void(uint16_t)>& ready);

class RawClient {
 public:
  static Result<RawClient> Connect(uint16_t port);
  RawClient(RawClient&& other) noexcept;
  RawClient& operator=(RawClient&&) = delete;
  ~RawClient();

  // Sends `out_bytes` from one buffer and waits for `in_bytes` into another. False: the connection broke.
  bool Exchange(size_t out_bytes, size_t in_bytes);

 private:
  explicit RawClient(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace fusewire::demo
