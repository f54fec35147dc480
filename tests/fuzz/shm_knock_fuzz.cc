// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// input := count:u8 packet
// What a process says where `count` ranks of a host gather. What is accepted is the knock of one of them, and says the
// same when it is encoded again.
#include <cstddef>
#include <cstdint>

#include "fusewire/base/check.h"
#include "fusewire/transport/shm/gathering.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fusewire;             // NOLINT(google-build-using-namespace)
  using namespace fusewire::transport;  // NOLINT(google-build-using-namespace)
  if (size < 1) return 0;
  const ConstBytes packet(data + 1, size - 1);
  const Result<Knock> knock = DecodeKnock(packet, data[0]);
  if (!knock.ok()) {
    FUSEWIRE_CHECK(knock.status().code() == Code::kCorrupt);
    FUSEWIRE_CHECK(!knock.status().next().empty());
    return 0;
  }
  FUSEWIRE_CHECK(knock.value().number < data[0]);
  FUSEWIRE_CHECK(knock.value().count == data[0]);
  const auto again = EncodeKnock(knock.value());
  FUSEWIRE_CHECK(ConstBytes(again.data(), again.size()).ToString() == packet.ToString());
  return 0;
}
