// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>

namespace fusewire {
namespace observe {
namespace {

constexpr int kBacklog = 64;
constexpr size_t kReadBytes = 4096;
constexpr int kReadsMax = 16;  // of what follows a request

// Either family of addresses.
struct SocketName {
  sockaddr_storage storage{};
  socklen_t size = 0;
  bool Set(const std::string& host, uint16_t port) {
    auto* four = reinterpret_cast<sockaddr_in*>(&storage);
    auto* six = reinterpret_cast<sockaddr_in6*>(&storage);
    if (inet_pton(AF_INET, host.c_str(), &four->sin_addr) == 1) {
      four->sin_family = AF_INET;
      four->sin_port = htons(port);
      size = sizeof(*four);
      return true;
    }
    if (inet_pton(AF_INET6, host.c_str(), &six->sin6_addr) != 1) return false;
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(port);
    size = sizeof(*six);
    return true;
  }
  uint16_t port() const {
    return ntohs(storage.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in*>(&storage)->sin_port
                                              : reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  }
};

}  // namespace

Result<std::unique_ptr<Port>> Port::Open(Options options) {
  SocketName name;
  if (!name.Set(options.host, options.port)) return Status::Invalid("\"" + options.host + "\" is not an address");
  const std::string where = options.host + ":" + std::to_string(options.port);
  const int listener = socket(name.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0) return Status::FromErrno(Code::kUnavailable, "socket", errno);
  const int on = 1;
  // After a restart, connections of the process before may still be closing.
  (void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const char* call = "bind";
  bool is_open = bind(listener, reinterpret_cast<sockaddr*>(&name.storage), name.size) == 0;
  if (is_open) {
    call = "listen";
    is_open = listen(listener, kBacklog) == 0;
  }
  socklen_t size = sizeof(name.storage);
  if (is_open) {
    call = "getsockname";
    is_open = getsockname(listener, reinterpret_cast<sockaddr*>(&name.storage), &size) == 0;
  }
  const int wake = is_open ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
  if (is_open && wake < 0) call = "eventfd";
  if (wake < 0) {
    const int error = errno;
    close(listener);
    return Status::FromErrno(Code::kUnavailable, call, error).Phase("opening the status port at " + where);
  }
  return std::unique_ptr<Port>(new Port(std::move(options), listener, wake, name.port()));
}

Port::Port(Options options, int listener, int wake, uint16_t port)
    : options_(std::move(options)),
      listener_(listener),
      wake_(wake),
      port_(port),
      access_(options_.secret),
      connections_(kConnectionsMax) {
  for (auto& socket : sockets_) socket.store(-1);
  thread_ = std::thread([this] { Work(); });
}

Port::~Port() {
  ends_.store(true);
  const uint64_t one = 1;
  while (write(wake_, &one, sizeof(one)) < 0 && errno == EINTR) {
  }
  thread_.join();
  for (Connection& connection : connections_) Close(&connection);
  close(listener_);
  close(wake_);
}

void Port::CloseInChild() {
  close(listener_);
  close(wake_);
  for (const auto& socket : sockets_) {
    if (socket.load() >= 0) close(socket.load());
  }
}

void Port::Work() {
  pthread_setname_np(pthread_self(), "fusewire/status");
  std::vector<pollfd> waits;
  while (!ends_.load()) {
    const int64_t now_ns = Clock::Real()->NowNs();
    int64_t until_ns = kForeverNs;
    bool is_full = true;
    waits.assign(1, {wake_, POLLIN, 0});
    for (Connection& connection : connections_) {
      if (connection.socket >= 0 && connection.until_ns <= now_ns) Close(&connection);
      if (connection.socket < 0) {
        is_full = false;
        continue;
      }
      until_ns = std::min(until_ns, connection.until_ns);
      waits.push_back({connection.socket, static_cast<short>(connection.out.empty() ? POLLIN : POLLOUT), 0});
    }
    // If all places are taken, the next waits in the kernel's queue until one is free, or out of patience.
    if (!is_full) waits.push_back({listener_, POLLIN, 0});
    const int64_t left_ms = until_ns == kForeverNs ? -1 : (until_ns - now_ns) / kMillisecondNs + 1;
    if (poll(waits.data(), waits.size(), static_cast<int>(left_ms)) <= 0) continue;
    for (const pollfd& ready : waits) {
      if (ready.revents == 0 || ready.fd == wake_) continue;
      if (ready.fd == listener_) {
        Accept();
        continue;
      }
      for (Connection& connection : connections_) {
        if (connection.socket != ready.fd) continue;
        if (connection.out.empty()) {
          Read(&connection);
        } else {
          Write(&connection);
        }
        break;
      }
    }
  }
}

void Port::Accept() {
  const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (socket < 0) return;
  for (size_t i = 0; i < connections_.size(); ++i) {
    Connection& connection = connections_[i];
    if (connection.socket >= 0) continue;
    connection = Connection();
    connection.socket = socket;
    connection.until_ns = AddNs(Clock::Real()->NowNs(), options_.patience_ns);
    sockets_[i].store(socket);
    return;
  }
  close(socket);
}

void Port::Read(Connection* connection) {
  char bytes[kReadBytes];
  const ssize_t got = recv(connection->socket, bytes, sizeof(bytes), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    Close(connection);
    return;
  }
  connection->in.append(bytes, static_cast<size_t>(got));
  if (!IsComplete(connection->in)) return;
  Request request;
  Refusal refusal = ReadRequest(connection->in, &request);
  if (refusal.status == 0) refusal = access_.Check(request, std::time(nullptr));
  Answer answer;
  if (refusal.status == 0) {
    answer = options_.answer(request);
  } else {
    answer.status = refusal.status;
    answer.body = refusal.reason + "\n";
  }
  connection->out = WriteAnswer(answer, request.is_head);
  Write(connection);
}

void Port::Write(Connection* connection) {
  const char* rest = connection->out.data() + connection->sent;
  const size_t size = connection->out.size() - connection->sent;
  const ssize_t put = send(connection->socket, rest, size, MSG_NOSIGNAL);
  if (put < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (put > 0) connection->sent += static_cast<size_t>(put);
  if (put > 0 && connection->sent < connection->out.size()) return;
  // What the peer has sent and nobody has read would make the kernel drop the end of the answer.
  shutdown(connection->socket, SHUT_WR);
  char bytes[kReadBytes];
  for (int i = 0; i < kReadsMax && recv(connection->socket, bytes, sizeof(bytes), 0) > 0; ++i) {
  }
  Close(connection);
}

void Port::Close(Connection* connection) {
  if (connection->socket < 0) return;
  sockets_[connection - connections_.data()].store(-1);
  close(connection->socket);
  *connection = Connection();
}

}  // namespace observe
}  // namespace fusewire
