// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "raw_sockets.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

namespace fusewire::demo {
namespace {

constexpr size_t kBufferBytes = 32 << 20;

struct Ask {
  uint64_t follow_bytes;
  uint64_t wanted_bytes;
};

bool ReadAll(int fd, void* into, size_t size) {
  auto* at = static_cast<uint8_t*>(into);
  while (size > 0) {
    ssize_t got = recv(fd, at, size, MSG_WAITALL);
    if (got <= 0) return false;
    at += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

// One gathered write for both parts, as a careful programmer would do.
bool WriteBoth(int fd, const void* first, size_t first_size, const void* second, size_t second_size) {
  iovec parts[2] = {{const_cast<void*>(first), first_size}, {const_cast<void*>(second), second_size}};
  msghdr message = {};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  while (parts[0].iov_len + parts[1].iov_len > 0) {
    ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    for (iovec& part : parts) {
      size_t step = std::min(part.iov_len, static_cast<size_t>(sent));
      part.iov_base = static_cast<uint8_t*>(part.iov_base) + step;
      part.iov_len -= step;
      sent -= static_cast<ssize_t>(step);
    }
  }
  return true;
}

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

std::vector<uint8_t>& Memory() {
  static std::vector<uint8_t> memory(kBufferBytes, 1);
  return memory;
}

void NoDelay(int fd) {
  int on = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

void ServeOne(int fd) {
  NoDelay(fd);
  Ask ask;
  while (ReadAll(fd, &ask, sizeof(ask))) {
    if (ask.follow_bytes > kBufferBytes || ask.wanted_bytes > kBufferBytes) break;
    if (!ReadAll(fd, Memory().data(), ask.follow_bytes)) break;
    if (!WriteBoth(fd, nullptr, 0, Memory().data(), ask.wanted_bytes)) break;
  }
  close(fd);
}

}  // namespace

void ServeRaw(uint16_t port, const std::function<void(uint16_t)>& ready) {
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(port);
  socklen_t length = sizeof(address);
  auto* where = reinterpret_cast<sockaddr*>(&address);
  if (listener < 0 || bind(listener, where, length) != 0 || listen(listener, 8) != 0) return;
  if (getsockname(listener, where, &length) != 0) return;
  Memory();
  ready(ntohs(address.sin_port));
  for (;;) {
    int fd = accept(listener, nullptr, nullptr);
    if (fd >= 0) ServeOne(fd);
  }
}

Result<RawClient> RawClient::Connect(uint16_t port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(port);
  if (fd < 0 || connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    return Status::FromErrno(Code::kUnavailable, "connect", errno).Phase("connect a raw socket");
  }
  NoDelay(fd);
  Memory();
  return RawClient(fd);
}

RawClient::RawClient(RawClient&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

RawClient::~RawClient() {
  if (fd_ >= 0) close(fd_);
}

bool RawClient::Exchange(size_t out_bytes, size_t in_bytes) {
  Ask ask = {out_bytes, in_bytes};
  return WriteBoth(fd_, &ask, sizeof(ask), Memory().data(), out_bytes) && ReadAll(fd_, Memory().data(), in_bytes);
}

}  // namespace fusewire::demo
