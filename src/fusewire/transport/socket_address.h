// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// For every backend on sockets: descriptors that are closed once, and addresses as numbers and as text.
// Home: none, plain values. Owns: an Fd its descriptor. Fails: ParseNumeric says false.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <utility>

namespace fusewire::transport {

// A file descriptor that is closed exactly once.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      Close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Fd() { Close(); }
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }
  bool valid() const { return fd_ >= 0; }
  void Close();

 private:
  int fd_ = -1;
};

// Of a TCP socket: whether the peer's host has all that was sent.
bool AllAcknowledged(int fd);

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// "10.0.0.7:5555", "[::1]:5555".
std::string ToText(const SocketAddress& address);
uint16_t PortOf(const SocketAddress& address);
void SetPort(SocketAddress* address, uint16_t port);
// Whether two IP addresses are one, whatever their ports.
bool SameNumber(const sockaddr* one, const sockaddr* other);
// 127.0.0.0/8 or ::1.
bool IsLoopback(const SocketAddress& address);
// Of numbers only; false for a name.
bool ParseNumeric(const std::string& host, uint16_t port, SocketAddress* out);

}  // namespace fusewire::transport
