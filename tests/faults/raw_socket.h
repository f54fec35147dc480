// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A bare socket, for peers that do not follow the protocol.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "fusewire/transport/transport.h"

namespace fusewire::faults {

class RawSocket {
 public:
  RawSocket() = default;
  explicit RawSocket(int fd) : fd_(fd) {}
  RawSocket(RawSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RawSocket& operator=(RawSocket&& other) noexcept;
  ~RawSocket() { Close(); }

  // Waits until it is connected, or not.
  static RawSocket Dial(const transport::Address& to);
  // Listens on a port of the kernel's choice; with the shortest queue.
  static RawSocket Listen(const std::string& host);
  RawSocket Accept(int64_t limit_ns) const;
  transport::Address address() const;
  bool valid() const { return fd_ >= 0; }
  int fd() const { return fd_; }

  bool Send(const std::string& bytes) const;
  // So many bytes, or fewer if the end or the limit comes first.
  std::string Receive(size_t bytes, int64_t limit_ns) const;
  // The bytes until the end; *ended is false if the end does not come in time.
  std::string ReceiveAll(int64_t limit_ns, bool* ended) const;
  void Close();
  // With a reset instead of a goodbye.
  void Reset();

 private:
  int fd_ = -1;
};

}  // namespace fusewire::faults
