// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "raw_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"

namespace fusewire::faults {
namespace {

sockaddr_in At(const transport::Address& address) {
  sockaddr_in at = {};
  at.sin_family = AF_INET;
  at.sin_port = htons(address.port);
  FUSEWIRE_CHECK(inet_pton(AF_INET, address.host.c_str(), &at.sin_addr) == 1);
  return at;
}

bool Readable(int fd, int64_t end_ns) {
  pollfd readable = {fd, POLLIN, 0};
  int64_t left_ms = (end_ns - Clock::Real()->NowNs()) / kMillisecondNs;
  return left_ms > 0 && poll(&readable, 1, static_cast<int>(left_ms)) == 1;
}

}  // namespace

RawSocket& RawSocket::operator=(RawSocket&& other) noexcept {
  if (this != &other) {
    Close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

RawSocket RawSocket::Dial(const transport::Address& to) {
  RawSocket made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at = At(to);
  if (made.valid() && connect(made.fd_, reinterpret_cast<sockaddr*>(&at), sizeof(at)) != 0) made.Close();
  return made;
}

RawSocket RawSocket::Listen(const std::string& host) {
  RawSocket made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at = At({host, 0});
  FUSEWIRE_CHECK(bind(made.fd_, reinterpret_cast<sockaddr*>(&at), sizeof(at)) == 0);
  FUSEWIRE_CHECK(listen(made.fd_, 16) == 0);
  return made;
}

RawSocket RawSocket::Accept(int64_t limit_ns) const {
  if (!Readable(fd_, Clock::Real()->NowNs() + limit_ns)) return RawSocket();
  return RawSocket(accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC));
}

transport::Address RawSocket::address() const {
  sockaddr_in at = {};
  socklen_t length = sizeof(at);
  FUSEWIRE_CHECK(getsockname(fd_, reinterpret_cast<sockaddr*>(&at), &length) == 0);
  char host[INET_ADDRSTRLEN];
  FUSEWIRE_CHECK(inet_ntop(AF_INET, &at.sin_addr, host, sizeof(host)) != nullptr);
  return {host, ntohs(at.sin_port)};
}

bool RawSocket::Send(const std::string& bytes) const {
  size_t sent = 0;
  while (sent < bytes.size()) {
    ssize_t now = send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (now <= 0) return false;
    sent += static_cast<size_t>(now);
  }
  return true;
}

std::string RawSocket::Receive(size_t bytes, int64_t limit_ns) const {
  int64_t end_ns = Clock::Real()->NowNs() + limit_ns;
  std::string heard;
  while (heard.size() < bytes && Readable(fd_, end_ns)) {
    char some[4096];
    ssize_t got = recv(fd_, some, std::min(sizeof(some), bytes - heard.size()), 0);
    if (got <= 0) break;
    heard.append(some, static_cast<size_t>(got));
  }
  return heard;
}

std::string RawSocket::ReceiveAll(int64_t limit_ns, bool* ended) const {
  int64_t end_ns = Clock::Real()->NowNs() + limit_ns;
  std::string heard;
  *ended = false;
  while (Readable(fd_, end_ns)) {
    char some[4096];
    ssize_t got = recv(fd_, some, sizeof(some), 0);
    if (got <= 0) {
      *ended = true;
      break;
    }
    heard.append(some, static_cast<size_t>(got));
  }
  return heard;
}

void RawSocket::Close() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

void RawSocket::Reset() {
  linger at_once = {1, 0};
  if (fd_ >= 0) setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  Close();
}

}  // namespace fusewire::faults
