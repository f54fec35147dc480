// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A status of TensorFlow's in a message, as plain values. bridge/status.h draws the format and writes it.
// Home: none, pure functions. Owns: nothing: it points into the message. Fails: with the field that is wrong.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/tf/heads/varint.h"

namespace fusewire::tf {

constexpr uint64_t kStatusCodeMax = 16;
constexpr uint64_t kStatusPayloadsMax = 64;

struct StatusHead {
  uint64_t code = 0;  // 0 has nothing else
  ConstBytes message;
  std::vector<std::pair<ConstBytes, ConstBytes>> payloads;  // url, value
};
Status DecodeStatusHead(VarReader* reader, StatusHead* head);

}  // namespace fusewire::tf
