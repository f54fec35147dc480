// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Where a task listens, and how a host name becomes addresses.
// Home: any, plain values. Fails: Parse says what is wrong with the text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fusewire/base/status.h"
#include "fusewire/base/unique_function.h"

namespace fusewire::transport {

// "host:port", "[::1]:port" or ":port" (every interface). The host may be a name.
struct Address {
  std::string host;
  uint16_t port = 0;

  static Result<Address> Parse(const std::string& text);
  std::string ToString() const;
};

using Names = Result<std::vector<std::string>>;
// A program may bring its own way. Turns a host name into numeric addresses, and may block: it is called on a thread of
// its own.
using ResolveNames = UniqueFunction<Names(const std::string& host)>;

}  // namespace fusewire::transport
