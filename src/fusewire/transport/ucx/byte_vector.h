// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Bytes that are kept in a vector until they can be sent or delivered.
#pragma once

#include <cstdint>
#include <vector>

#include "fusewire/base/bytes.h"

namespace fusewire::transport {

inline void AppendBytes(std::vector<uint8_t>* to, ConstBytes bytes) {
  to->insert(to->end(), bytes.data, bytes.data + bytes.size);
}
inline ConstBytes ViewOf(const std::vector<uint8_t>& bytes) { return ConstBytes(bytes.data(), bytes.size()); }

}  // namespace fusewire::transport
