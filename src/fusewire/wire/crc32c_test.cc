// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "fusewire/base/random.h"
#include "fusewire/wire/wire.h"

namespace fusewire::wire {
namespace {

using Way = uint32_t (*)(ConstBytes, uint32_t);

uint32_t ChosenWay(ConstBytes bytes, uint32_t seed) { return Crc32c(bytes, seed); }

class Crc32cWay : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    if (GetParam() == Crc32cByInstruction && !HasCrc32cInstruction()) GTEST_SKIP() << "no such instruction here";
  }
  static uint32_t Of(ConstBytes bytes, uint32_t seed = 0) { return GetParam()(bytes, seed); }
};

std::string Counting(size_t size, int start, int step) {
  std::string bytes;
  for (size_t i = 0; i < size; ++i) bytes += static_cast<char>(start + static_cast<int>(i) * step);
  return bytes;
}

TEST_P(Crc32cWay, GivesThePublishedValues) {
  EXPECT_EQ(Of(ConstBytes()), 0u);
  EXPECT_EQ(Of(std::string("123456789")), 0xe3069283u);
  // RFC 3720, appendix B.4.
  EXPECT_EQ(Of(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Of(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(Of(Counting(32, 0, 1)), 0x46dd794eu);
  EXPECT_EQ(Of(Counting(32, 31, -1)), 0x113fdb5cu);
  EXPECT_EQ(Of(Counting(1000, 0, 7)), 0x79a16ae6u);
}

TEST_P(Crc32cWay, GoesOnFromASeedAtEverySplit) {
  const std::string bytes = Counting(100, 3, 11);
  const uint32_t whole = Of(bytes);
  for (size_t split = 0; split <= bytes.size(); ++split) {
    const ConstBytes all(bytes);
    EXPECT_EQ(Of(all.From(split), Of(all.Sub(0, split))), whole) << split;
  }
}

std::string NameOf(const testing::TestParamInfo<Way>& info) {
  const char* const names[] = {"Table", "Instruction", "Chosen"};
  return names[info.index];
}

INSTANTIATE_TEST_SUITE_P(Each, Crc32cWay, testing::Values(Crc32cByTable, Crc32cByInstruction, ChosenWay), NameOf);

TEST(Crc32c, TableAndInstructionAgree) {
  if (!HasCrc32cInstruction()) GTEST_SKIP() << "no such instruction here";
  Random random(1);
  std::string bytes(600, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.Next());
  for (int round = 0; round < 5000; ++round) {
    const size_t from = random.Below(16);
    const ConstBytes some = ConstBytes(bytes).Sub(from, random.Below(bytes.size() - from));
    const uint32_t seed = static_cast<uint32_t>(random.Next());
    ASSERT_EQ(Crc32cByTable(some, seed), Crc32cByInstruction(some, seed)) << "from " << from << ", size " << some.size;
  }
}

}  // namespace
}  // namespace fusewire::wire
