// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "bench/raw/sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>

#include "bench/harness/harness.h"

namespace fusewire::bench {
namespace {

sockaddr_in LoopbackAddress(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

void SendAtOnce(int fd) {
  const int on = 1;
  if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0) DieOfErrno("set TCP_NODELAY");
}

void WriteWith(int fd, const void* data, size_t size, int flags) {
  const char* next = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t sent = send(fd, next, size, flags | MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (sent < 0) DieOfErrno("send");
    next += sent;
    size -= static_cast<size_t>(sent);
  }
}

bool ReadWith(int fd, void* data, size_t size, int flags) {
  char* next = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = recv(fd, next, size, flags);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got < 0 && errno != ECONNRESET) DieOfErrno("recv");
    if (got <= 0) return false;
    next += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

// Drops the first `size` bytes of parts[*first...] after a partial transfer.
void Advance(std::vector<iovec>* parts, size_t* first, size_t size) {
  while (*first < parts->size() && size >= (*parts)[*first].iov_len) {
    size -= (*parts)[*first].iov_len;
    ++*first;
  }
  if (size == 0) return;
  iovec& part = (*parts)[*first];
  part.iov_base = static_cast<char*>(part.iov_base) + size;
  part.iov_len -= size;
}

}  // namespace

int ListenOnLoopback(uint16_t port, uint16_t* bound_port) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) DieOfErrno("socket");
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address = LoopbackAddress(port);
  socklen_t length = sizeof(address);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0) DieOfErrno("bind");
  if (listen(listener, static_cast<int>(kLinks)) != 0) DieOfErrno("listen");
  if (getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0) DieOfErrno("getsockname");
  *bound_port = ntohs(address.sin_port);
  return listener;
}

int AcceptOne(int listener) {
  const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) DieOfErrno("accept");
  SendAtOnce(fd);
  return fd;
}

int ConnectToLoopback(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) DieOfErrno("socket");
  const sockaddr_in address = LoopbackAddress(port);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) DieOfErrno("connect");
  SendAtOnce(fd);
  return fd;
}

void WriteAll(int fd, const void* data, size_t size) { WriteWith(fd, data, size, 0); }
bool ReadAll(int fd, void* data, size_t size) { return ReadWith(fd, data, size, MSG_WAITALL); }
void WriteAllBusy(int fd, const void* data, size_t size) { WriteWith(fd, data, size, MSG_DONTWAIT); }
bool ReadAllBusy(int fd, void* data, size_t size) { return ReadWith(fd, data, size, MSG_DONTWAIT); }

void WriteGather(int fd, std::vector<iovec> parts) {
  size_t first = 0;
  while (first < parts.size()) {
    msghdr message{};
    message.msg_iov = parts.data() + first;
    message.msg_iovlen = parts.size() - first;
    const ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) DieOfErrno("sendmsg");
    Advance(&parts, &first, static_cast<size_t>(sent));
  }
}

bool ReadScatter(int fd, std::vector<iovec> parts) {
  size_t first = 0;
  while (first < parts.size()) {
    msghdr message{};
    message.msg_iov = parts.data() + first;
    message.msg_iovlen = parts.size() - first;
    const ssize_t got = recvmsg(fd, &message, MSG_WAITALL);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) DieOfErrno("recvmsg");
    if (got == 0) return false;
    Advance(&parts, &first, static_cast<size_t>(got));
  }
  return true;
}

}  // namespace fusewire::bench
