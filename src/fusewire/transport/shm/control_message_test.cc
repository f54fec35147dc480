// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/shm/control_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace fusewire {
namespace transport {
namespace {

using testing::HasSubstr;

ShmControlMessage Hello() {
  ShmControlMessage hello;
  hello.ring_bytes = 512 * 1024;
  hello.bit = 63;
  hello.probe_address = 0x7fff12345678;
  hello.probe_word = UINT64_MAX - 1;
  return hello;
}

TEST(ShmControl, IsDecodedAsItWasEncoded) {
  const auto packet = EncodeControl(Hello());
  Result<ShmControlMessage> decoded =
      DecodeControl(ConstBytes(packet.data(), packet.size()), 4, ShmControlKind::kHello);
  ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
  EXPECT_EQ(decoded.value().kind, ShmControlKind::kHello);
  EXPECT_EQ(decoded.value().ring_bytes, Hello().ring_bytes);
  EXPECT_EQ(decoded.value().bit, 63u);
  EXPECT_EQ(decoded.value().probe_address, Hello().probe_address);
  EXPECT_EQ(decoded.value().probe_word, Hello().probe_word);
}

TEST(ShmControl, AWrongFieldIsNamed) {
  struct Case {
    std::function<void(ShmControlMessage*)> change;
    size_t bytes, files;
    const char* says;
  };
  const auto none = [](ShmControlMessage*) {};
  for (const Case& each :
       {Case{[](ShmControlMessage* message) { message->magic = 1; }, 32, 4, "has the magic number 1, not"},
        Case{[](ShmControlMessage* message) { message->version = 99; }, 32, 4, "has version 99, not 4"},
        Case{[](ShmControlMessage* message) { message->kind = ShmControlKind::kBell; }, 32, 4, "has kind 3, not 1"},
        Case{none, 31, 4, "has a length of 31, not 32"}, Case{none, 0, 0, "has a length of 0, not 32"},
        Case{none, 32, 3, "has a count of descriptors of 3, not 4"}}) {
    ShmControlMessage message = Hello();
    each.change(&message);
    const auto packet = EncodeControl(message);
    Result<ShmControlMessage> decoded =
        DecodeControl(ConstBytes(packet.data(), each.bytes), each.files, ShmControlKind::kHello);
    EXPECT_EQ(decoded.status().code(), Code::kCorrupt);
    EXPECT_THAT(decoded.status().ToString(), HasSubstr(each.says));
  }
}

}  // namespace
}  // namespace transport
}  // namespace fusewire
