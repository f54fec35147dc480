// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/rpc/peer_calls.h"

#include <gtest/gtest.h>

namespace fusewire::rpc {
namespace {

constexpr size_t kMany = 10'000;

Buffers Own(size_t bytes) {
  Buffers body;
  body.emplace_back();
  body.push_back(Buffer::TryAllocate(bytes));
  return body;
}

TEST(AnswerMemory, IsCountedUntilItIsReleased) {
  {
    Buffers body = Own(kMany);
    body[1].bytes().data[kMany - 1] = 7;
    ASSERT_TRUE(HoldAnswer(&body, kMany).ok());
    EXPECT_EQ(HeldAnswerBytes(), kMany);
    ASSERT_EQ(body[1].size(), kMany);
    EXPECT_EQ(body[1].bytes().data[kMany - 1], 7);
  }
  EXPECT_EQ(HeldAnswerBytes(), 0u);
}

TEST(AnswerMemory, IsRefusedBeyondItsLimitUnlessItIsAlone) {
  Buffers large = Own(5 * kMany), other = Own(kMany);
  ASSERT_TRUE(HoldAnswer(&large, 2 * kMany).ok());
  const Status refused = HoldAnswer(&other, 2 * kMany);
  EXPECT_EQ(refused.code(), Code::kOverloaded);
  EXPECT_FALSE(refused.next().empty());
  EXPECT_EQ(HeldAnswerBytes(), 5 * kMany);
  large.clear();
  EXPECT_TRUE(HoldAnswer(&other, 2 * kMany).ok());
}

TEST(AnswerMemory, IsNotWhatAHandlerLends) {
  static uint8_t lent[kMany];
  Buffers body;
  body.push_back(Buffer::Wrap(Bytes(lent, kMany), nullptr, nullptr));
  EXPECT_TRUE(HoldAnswer(&body, 0).ok());
  EXPECT_EQ(HeldAnswerBytes(), 0u);
}

}  // namespace
}  // namespace fusewire::rpc
