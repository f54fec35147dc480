// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/ucx/control_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace fusewire::transport {
namespace {

using State = UcxControlReader::State;
using testing::HasSubstr;

std::vector<uint8_t> Encoded(const UcxControlMessage& message, const std::string& address) {
  std::vector<uint8_t> out;
  EncodeControl(message, ConstBytes(address), &out);
  return out;
}

// As a connection lands it: up to `piece` bytes at a time, until it is no longer partial.
State Read(UcxControlReader* reader, const std::vector<uint8_t>& bytes, size_t piece) {
  State state = State::kPartial;
  for (size_t at = 0; at < bytes.size() && state == State::kPartial;) {
    const size_t size = std::min({piece, bytes.size() - at, reader->room().size});
    EXPECT_GT(size, 0u);
    if (size == 0) break;
    CopyBytes(reader->room().Sub(0, size), ConstBytes(bytes.data() + at, size));
    state = reader->OnLanded(size);
    at += size;
  }
  return state;
}

UcxControlMessage Welcome() {
  UcxControlMessage message;
  message.kind = UcxControlKind::kWelcome;
  message.has_rdma = 1;
  message.id = 0x0123456789abcdef;
  message.value = 77;
  return message;
}

TEST(UcxControl, ComesAsItWasSentInPiecesOfAnySize) {
  const std::string address(1000, 'a');
  const std::vector<uint8_t> bytes = Encoded(Welcome(), address);
  ASSERT_EQ(bytes.size(), kUcxControlBytes + address.size());
  for (const size_t piece : {size_t{1}, size_t{3}, kUcxControlBytes, bytes.size()}) {
    UcxControlReader reader;
    ASSERT_EQ(Read(&reader, bytes, piece), State::kWhole);
    EXPECT_EQ(reader.message().kind, UcxControlKind::kWelcome);
    EXPECT_EQ(reader.message().has_rdma, 1u);
    EXPECT_EQ(reader.message().id, Welcome().id);
    EXPECT_EQ(reader.message().value, 77u);
    EXPECT_EQ(reader.address().ToString(), address);
  }
}

TEST(UcxControl, LeavesWhatFollowsInTheStream) {
  UcxControlMessage stay;
  stay.kind = UcxControlKind::kStay;
  UcxControlReader reader;
  EXPECT_EQ(reader.room().size, kUcxControlBytes);
  ASSERT_EQ(Read(&reader, Encoded(stay, ""), kUcxControlBytes), State::kWhole);
  EXPECT_TRUE(reader.address().empty());
  EXPECT_TRUE(reader.room().empty());
}

TEST(UcxControl, AStreamThatBeginsOtherwiseIsAStrangersAtItsFirstByte) {
  const std::string text = "GET / HTTP/1.1";
  UcxControlReader reader;
  ASSERT_EQ(Read(&reader, std::vector<uint8_t>(text.begin(), text.end()), 1), State::kStranger);
  EXPECT_EQ(reader.begun().ToString(), "G");
}

TEST(UcxControl, AWrongFieldIsNamed) {
  UcxControlMessage old = Welcome(), huge = Welcome();
  old.version = 99;
  UcxControlReader first, second;
  ASSERT_EQ(Read(&first, Encoded(old, ""), 8), State::kCorrupt);
  EXPECT_EQ(first.why().code(), Code::kCorrupt);
  EXPECT_THAT(first.why().ToString(), HasSubstr("version of the peer's control message is 99"));
  huge.address_bytes = kUcxAddressBytesMax + 1;
  const auto* raw = reinterpret_cast<const uint8_t*>(&huge);
  ASSERT_EQ(Read(&second, std::vector<uint8_t>(raw, raw + sizeof(huge)), 8), State::kCorrupt);
  EXPECT_THAT(second.why().ToString(), HasSubstr("address in the peer's control message has 16385 bytes"));
}

}  // namespace
}  // namespace fusewire::transport
