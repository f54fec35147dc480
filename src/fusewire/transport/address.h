// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Where a task listens.
// Home: any, plain values. Owns: nothing. Fails: Parse says what is wrong with the text.
#ifndef FUSEWIRE_TRANSPORT_ADDRESS_H_
#define FUSEWIRE_TRANSPORT_ADDRESS_H_

#include <cstdint>
#include <string>

#include "fusewire/base/status.h"

namespace fusewire {
namespace transport {

// "host:port", "[::1]:port" or ":port" (every interface). The host may be a name.
struct Address {
  std::string host;
  uint16_t port = 0;

  static Result<Address> Parse(const std::string& text);
  std::string ToString() const;
};

}  // namespace transport
}  // namespace fusewire

#endif  // FUSEWIRE_TRANSPORT_ADDRESS_H_
