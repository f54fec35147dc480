// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/kernels/arithmetic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "fusewire/base/random.h"
#include "fusewire/collective/kernels/scalar_test.h"

namespace fusewire::collective {
namespace {

std::vector<Level> LevelsHere() {
  std::vector<Level> levels = {Level::kBase};
  if (BestLevel() >= Level::kAvx2) levels.push_back(Level::kAvx2);
  if (BestLevel() >= Level::kAvx512) levels.push_back(Level::kAvx512);
  return levels;
}

// Random bits are every kind of float: NaN, infinities, subnormals and zeros of both signs are mixed in on purpose.
std::vector<uint8_t> RandomArray(Type type, size_t count, Random* random) {
  std::vector<uint8_t> bytes(count * SizeOf(type));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random->Next());
  for (size_t i = 0; i < count; ++i) {
    uint8_t* at = bytes.data() + i * SizeOf(type);
    if (type == Type::kF32) {
      const float some[] = {0.0F, -0.0F,  INFINITY, -INFINITY,
                            NAN,  1e-40F, 3.4e38F,  static_cast<float>(random->Fraction())};
      if (random->Chance(0.7)) std::memcpy(at, &some[random->Below(8)], 4);
    } else if (type == Type::kF64) {
      const double some[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1e-310, 1.7e308, random->Fraction()};
      if (random->Chance(0.7)) std::memcpy(at, &some[random->Below(8)], 8);
    } else if (type == Type::kF16 || type == Type::kBf16) {
      const uint16_t some[] = {0, 0x8000, 0x7c00, 0xfc00, 0x7f80, 0x0001, 0x3c00, 0x3f80};
      if (random->Chance(0.3)) std::memcpy(at, &some[random->Below(8)], 2);
    }
  }
  return bytes;
}

bool IsNan(Type type, const uint8_t* at) {
  if (type == Type::kF64) {
    double value;
    std::memcpy(&value, at, sizeof(value));
    return std::isnan(value);
  }
  if (type == Type::kF32) {
    float value;
    std::memcpy(&value, at, sizeof(value));
    return std::isnan(value);
  }
  uint16_t half;
  std::memcpy(&half, at, sizeof(half));
  return std::isnan(type == Type::kF16 ? HalfToFloat(half) : scalar::Bf16ToFloat(half));
}

// The same bits, or two NaN.
::testing::AssertionResult Same(Type type, const uint8_t* a, const uint8_t* b, size_t count) {
  const bool real = type >= Type::kF16 && type <= Type::kF64;
  for (size_t i = 0; i < count; ++i) {
    const size_t at = i * SizeOf(type);
    if (std::memcmp(a + at, b + at, SizeOf(type)) == 0) continue;
    if (real && IsNan(type, a + at) && IsNan(type, b + at)) continue;
    return ::testing::AssertionFailure() << "element " << i << " of " << count << " differs";
  }
  return ::testing::AssertionSuccess();
}

TEST(Arithmetic, EveryLevelIsTheReferenceBitForBit) {
  Random random(20260817);
  const size_t counts[] = {0, 1, 3, 7, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 255, 257, 1000};
  for (uint8_t type_number = 0; type_number < kTypes; ++type_number) {
    const Type type = static_cast<Type>(type_number);
    for (uint8_t op_number = 0; op_number < kBuiltInOps; ++op_number) {
      Reduction reduction;
      reduction.op = static_cast<Op>(op_number);
      reduction.type = type;
      const ReduceKernel reference = scalar::Find(reduction.op, type);
      ASSERT_EQ(reference != nullptr, CheckReduction(reduction).ok()) << OpName(reduction.op) << TypeName(type);
      for (const Level level : LevelsHere()) {
        const ReduceKernel kernel = FindKernel(reduction.op, type, level);
        ASSERT_EQ(kernel != nullptr, reference != nullptr);
        if (kernel == nullptr) continue;
        for (const size_t count : counts) {
          const size_t shift = random.Below(64);  // no alignment is promised
          const size_t k = 1 + random.Below(5);
          std::vector<std::vector<uint8_t>> arrays;
          std::vector<const void*> sources;
          for (size_t s = 0; s < k; ++s) {
            std::vector<uint8_t> array = RandomArray(type, count, &random);
            array.insert(array.begin(), shift + s, 0);
            arrays.push_back(std::move(array));
          }
          for (size_t s = 0; s < k; ++s) sources.push_back(arrays[s].data() + shift + s);
          const size_t bytes = count * SizeOf(type);
          std::vector<uint8_t> want(bytes + 1, 0xa5), got(bytes + 65, 0xa5);
          ReduceCall call;
          call.sources = sources.data();
          call.sources_count = k;
          call.count = count;
          call.divisor = reduction.op == Op::kAverage ? k : 1;
          call.to = want.data();
          reference(call);
          call.to = got.data() + shift;
          kernel(call);
          const std::string what = OpName(reduction.op) + " " + TypeName(type) + " level " +
                                   std::to_string(static_cast<int>(level)) + " k " + std::to_string(k);
          ASSERT_TRUE(Same(type, want.data(), got.data() + shift, count)) << what;
          ASSERT_EQ(got[shift + bytes], 0xa5) << "wrote beyond the end: " << what;
        }
      }
    }
  }
}

TEST(Arithmetic, ToMayBeASource) {
  for (const Level level : LevelsHere()) {
    for (size_t in_place = 0; in_place < 3; ++in_place) {
      std::vector<std::vector<float>> arrays(3, std::vector<float>(77));
      for (size_t s = 0; s < 3; ++s) {
        for (size_t i = 0; i < 77; ++i) arrays[s][i] = static_cast<float>(i + s * 100);
      }
      const void* const sources[] = {arrays[0].data(), arrays[1].data(), arrays[2].data()};
      ReduceCall call;
      call.to = arrays[in_place].data();
      call.sources = sources;
      call.sources_count = 3;
      call.count = 77;
      FindKernel(Op::kSum, Type::kF32, level)(call);
      for (size_t i = 0; i < 77; ++i) ASSERT_EQ(arrays[in_place][i], static_cast<float>(3 * i + 300));
    }
  }
}

TEST(Arithmetic, NanWinsAndTheFirstOfEqualsIsKept) {
  for (const ReduceKernel kernel : {scalar::Find(Op::kMin, Type::kF32), FindKernel(Op::kMin, Type::kF32, Level::kBase),
                                    FindKernel(Op::kMin, Type::kF32, BestLevel())}) {
    const float a[] = {NAN, 1, 0.0F, -0.0F, -INFINITY, 2};
    const float b[] = {1, NAN, -0.0F, 0.0F, 5, INFINITY};
    float to[6];
    const void* const sources[] = {a, b};
    ReduceCall call;
    call.to = to;
    call.sources = sources;
    call.sources_count = 2;
    call.count = 6;
    kernel(call);
    EXPECT_TRUE(std::isnan(to[0]));
    EXPECT_TRUE(std::isnan(to[1]));
    EXPECT_FALSE(std::signbit(to[2]));
    EXPECT_TRUE(std::signbit(to[3]));
    EXPECT_EQ(to[4], -INFINITY);
    EXPECT_EQ(to[5], 2);
  }
}

TEST(Arithmetic, AUsersFunctionIsCalledInTheOrderOfTheSources) {
  Reduction reduction;
  reduction.op = Op::kUser;
  reduction.type = Type::kI32;
  EXPECT_FALSE(CheckReduction(reduction).ok());
  reduction.user.combine = [](void* into, const void* from, size_t count, void* context) {
    auto* to = static_cast<int32_t*>(into);
    const auto* add = static_cast<const int32_t*>(from);
    for (size_t i = 0; i < count; ++i) to[i] = to[i] * *static_cast<int32_t*>(context) + add[i];
  };
  int32_t ten = 10;
  reduction.user.context = &ten;
  const int32_t one[] = {1, 4}, two[] = {2, 5}, three[] = {3, 6};
  const void* const sources[] = {one, two, three};
  int32_t to[2];
  Reducer(reduction).Reduce(to, sources, 3, 2, 1);
  EXPECT_EQ(to[0], 123);
  EXPECT_EQ(to[1], 456);
}

TEST(Halves, EveryHalfRoundTrips) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    if (!std::isnan(HalfToFloat(half))) {
      ASSERT_EQ(FloatToHalf(HalfToFloat(half)), half);
    } else {
      ASSERT_TRUE(std::isnan(HalfToFloat(FloatToHalf(HalfToFloat(half)))));
    }
    if (!std::isnan(scalar::Bf16ToFloat(half))) {
      ASSERT_EQ(scalar::FloatToBf16(scalar::Bf16ToFloat(half)), half);
    } else {
      ASSERT_TRUE(std::isnan(scalar::Bf16ToFloat(scalar::FloatToBf16(scalar::Bf16ToFloat(half)))));
    }
  }
}

TEST(Halves, RoundToTheNearestAndTiesToEven) {
  EXPECT_EQ(FloatToHalf(65519.9F), 0x7bff);
  EXPECT_EQ(FloatToHalf(65520.0F), 0x7c00);
  EXPECT_EQ(FloatToHalf(1.0F + 0x1p-11F), 0x3c00);
  EXPECT_EQ(FloatToHalf(1.0F + 0x3p-11F), 0x3c02);
  EXPECT_EQ(FloatToHalf(0x1p-25F), 0);
  EXPECT_EQ(FloatToHalf(0x1.8p-25F), 1);
  EXPECT_EQ(scalar::FloatToBf16(1.0F + 0x1p-8F), 0x3f80);
  EXPECT_EQ(scalar::FloatToBf16(1.0F + 0x3p-8F), 0x3f82);
  EXPECT_EQ(scalar::FloatToBf16(std::numeric_limits<float>::max()), 0x7f80);
}

}  // namespace
}  // namespace fusewire::collective
