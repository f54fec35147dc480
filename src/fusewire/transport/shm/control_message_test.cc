// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/shm/control_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace fusewire::transport {
namespace {

using testing::HasSubstr;

ShmControlMessage Hello() {
  ShmControlMessage hello;
  hello.ring_bytes = 512 * 1024;
  hello.bit = 63;
  hello.probe_address = 0x7fff12345678;
  hello.probe_word = UINT64_MAX - 1;
  hello.nonce = 7;
  hello.answer = 8;
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
  EXPECT_EQ(decoded.value().nonce, 7u);
  EXPECT_EQ(decoded.value().answer, 8u);
}

TEST(ShmControl, AWrongFieldIsNamed) {
  struct Case {
    std::function<void(ShmControlMessage*)> change;
    size_t bytes, files;
    const char* says;
  };
  const auto none = [](ShmControlMessage*) {};
  for (const Case& each :
       {Case{[](ShmControlMessage* message) { message->magic = 1; }, 48, 4, "has the magic number 1, not"},
        Case{[](ShmControlMessage* message) { message->version = 99; }, 48, 4, "has version 99, not 5"},
        Case{[](ShmControlMessage* message) { message->kind = ShmControlKind::kBell; }, 48, 4, "has kind 3, not 1"},
        Case{none, 47, 4, "has a length of 47, not 48"}, Case{none, 0, 0, "has a length of 0, not 48"},
        Case{none, 48, 3, "has a count of descriptors of 3, not 4"}}) {
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
}  // namespace fusewire::transport
