// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// input := expected:u8 file_count:u8 packet
// A control message of a neighbour, and as many descriptors as it says. What is accepted is of the kind that is
// expected and has its descriptors, and says the same when it is encoded again.
#include <cstddef>
#include <cstdint>

#include "fusewire/base/check.h"
#include "fusewire/transport/shm/control_message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fusewire;             // NOLINT(google-build-using-namespace)
  using namespace fusewire::transport;  // NOLINT(google-build-using-namespace)
  if (size < 2) return 0;
  constexpr ShmControlKind kKinds[] = {ShmControlKind::kHello, ShmControlKind::kWelcome, ShmControlKind::kBell,
                                       ShmControlKind::kKnock};
  const ShmControlKind expected = kKinds[data[0] % 4];
  const size_t files = data[1] % 8;
  const ConstBytes packet(data + 2, size - 2);
  const Result<ShmControlMessage> message = DecodeControl(packet, files, expected);
  if (!message.ok()) {
    FUSEWIRE_CHECK(message.status().code() == Code::kCorrupt);
    FUSEWIRE_CHECK(!message.status().next().empty());
    return 0;
  }
  FUSEWIRE_CHECK(message.value().kind == expected);
  FUSEWIRE_CHECK(FilesOf(expected) == files);
  FUSEWIRE_CHECK(files <= kShmControlFilesMax);
  const auto again = EncodeControl(message.value());
  FUSEWIRE_CHECK(ConstBytes(again.data(), again.size()).ToString() == packet.ToString());
  return 0;
}
