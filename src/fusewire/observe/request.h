// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A request of HTTP/1.x, as the status port understands it: GET or HEAD, without a body. And the head of an answer.
// Home: any thread, pure functions. Fails: with HTTP's number and a reason.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace fusewire::observe {

constexpr size_t kRequestBytesMax = 8 * 1024;
constexpr size_t kTargetBytesMax = 1024;
constexpr size_t kHeadersMax = 64;

struct Request {
  bool is_head = false;
  std::string target;  // "/status.json?ring=1"
  std::string path;    // "/status.json"
  std::string query;   // "ring=1"
  std::string host;
  std::string authorization;
};

// What is wrong with a request, for its answer.
struct Refusal {
  int status = 0;  // HTTP's; 0: nothing
  std::string reason;
};

// Whether `bytes` hold the end of a request's head, or more than one may have: then it can be read.
bool IsComplete(std::string_view bytes);
// Of all bytes that have come.
Refusal ReadRequest(std::string_view bytes, Request* request);
// The value of a parameter of the query; empty without it.
std::string_view ParameterOf(std::string_view query, std::string_view name);
// Whether the host that a request names is an address or localhost. A name could be one with which a web page makes a
// browser ask this port (DNS rebinding).
bool IsAddressOrLocalhost(std::string_view host);

struct Answer {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};
// With all headers; without the body if only the head is wanted.
std::string WriteAnswer(const Answer& answer, bool is_head);

// The address and port of a socket, of either family, and how a request names one.
// Home: any thread, plain values. Fails: Set with false, FromHost with nothing.
struct SocketName {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_storage);

  // False: `host` is not an address.
  bool Set(const std::string& host, uint16_t port);
  uint16_t port() const;
  bool is_loopback() const;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  // "10.0.0.7:9477", "[::1]:9477". An IPv4 address is written as one, even if an IPv6 socket reports it.
  std::string ToString() const;
};

// "HOST:PORT" of a Host header as ToString() writes it, so that equal places are equal texts; a name in small letters.
// Empty: there is no port, which would be HTTP's.
std::string PlaceOf(std::string_view host);

}  // namespace fusewire::observe
