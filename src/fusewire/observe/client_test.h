// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// For tests: a client of the status port.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>
#include <string>

namespace fusewire::observe {

class Client {
 public:
  explicit Client(uint16_t port) : port_(port), socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(port);
    const timeval limit{20, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    is_connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0;
  }
  ~Client() { close(socket_); }
  Client(const Client&) = delete;

  bool is_connected() const { return is_connected_; }
  bool Send(const std::string& bytes) {
    return send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }
  // Until the port closes it.
  std::string ReadAll() {
    std::string all;
    char bytes[4096];
    ssize_t got;
    while ((got = recv(socket_, bytes, sizeof(bytes), 0)) > 0) all.append(bytes, static_cast<size_t>(got));
    return got == 0 || !all.empty() ? all : "no end within 20 s";
  }
  std::string Get(const std::string& target, const std::string& more = "") {
    Send("GET " + target + " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port_) + "\r\n" + more + "\r\n");
    return ReadAll();
  }

 private:
  const uint16_t port_;
  const int socket_;
  bool is_connected_ = false;
};

inline std::string Get(uint16_t port, const std::string& target) { return Client(port).Get(target); }

}  // namespace fusewire::observe
