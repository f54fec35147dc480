// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/compression.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "fusewire/base/random.h"

namespace fusewire {
namespace collective {
namespace {

constexpr Compression kAll[] = {Compression::kF16, Compression::kBf16, Compression::kInt8};

std::vector<float> Floats(size_t count, Random* random, bool wild) {
  std::vector<float> floats(count);
  for (float& value : floats) {
    value = static_cast<float>(random->Fraction() * 2 - 1);
    if (wild && random->Chance(0.002)) value = random->Chance(0.5) ? NAN : -INFINITY;
    if (wild && random->Chance(0.05)) value *= random->Chance(0.5) ? 1e-39F : 1e6F;
  }
  return floats;
}

bool Same(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y) || (std::isnan(x) && std::isnan(y));
  });
}

TEST(Compression, EveryLevelIsTheReference) {
  Random random(99);
  for (const Compression compression : kAll) {
    for (const Level level : {Level::kBase, Level::kAvx2, Level::kAvx512}) {
      if (level > BestLevel()) continue;
      for (const size_t count : {0, 1, 15, 16, 17, 255, 256, 257, 1000}) {
        for (const bool wild : {false, true}) {
          std::vector<std::vector<uint8_t>> packed[2];
          std::vector<float> sums[2];
          for (size_t source = 0; source < 3; ++source) {
            const std::vector<float> from = Floats(count, &random, wild);
            const std::vector<float> residual = Floats(count, &random, false);
            std::vector<float> left[2] = {residual, residual};
            for (size_t which = 0; which < 2; ++which) {
              packed[which].emplace_back(CompressedBytes(compression, count));
              CompressCall call;
              call.to = packed[which].back().data();
              call.from = from.data();
              call.residual = left[which].data();
              call.count = count;
              Compress(compression, call, which == 0 ? Level::kScalar : level);
            }
            ASSERT_TRUE(Same(left[0], left[1])) << "residuals, count " << count;
          }
          for (size_t which = 0; which < 2; ++which) {
            const void* const sources[] = {packed[which][0].data(), packed[which][1].data(), packed[which][2].data()};
            sums[which].resize(count);
            DecompressCall call;
            call.to = sums[which].data();
            call.sources = sources;
            call.sources_count = 3;
            call.count = count;
            call.divisor = 3;
            DecompressSum(compression, call, which == 0 ? Level::kScalar : level);
          }
          ASSERT_TRUE(Same(sums[0], sums[1])) << "sums, count " << count << " level " << static_cast<int>(level)
                                              << " compression " << static_cast<int>(compression) << " wild " << wild;
        }
      }
    }
  }
}

// What is sent over many rounds is what was wanted, less one residual: nothing is lost for good.
TEST(Compression, TheResidualIsMadeUpForLater) {
  Random random(3);
  for (const Compression compression : kAll) {
    const std::vector<float> from = Floats(600, &random, false);
    std::vector<float> residual(600, 0), decoded(600);
    std::vector<double> sent(600, 0);
    std::vector<uint8_t> packed(CompressedBytes(compression, 600));
    for (int round = 0; round < 100; ++round) {
      CompressCall call;
      call.to = packed.data();
      call.from = from.data();
      call.residual = residual.data();
      call.count = 600;
      Compress(compression, call);
      const void* const sources[] = {packed.data()};
      DecompressCall back;
      back.to = decoded.data();
      back.sources = sources;
      back.sources_count = 1;
      back.count = 600;
      DecompressSum(compression, back);
      for (size_t i = 0; i < 600; ++i) sent[i] += static_cast<double>(decoded[i]);
    }
    for (size_t i = 0; i < 600; ++i) {
      EXPECT_NEAR(sent[i] + static_cast<double>(residual[i]), 100.0 * static_cast<double>(from[i]), 1e-3);
      EXPECT_LT(std::fabs(residual[i]), 0.01F);
    }
  }
}

TEST(Compression, ABlockWithNanIsNanAndItsResidualIsNot) {
  std::vector<float> from(300, 1), residual(300, 0), to(300);
  from[3] = NAN;
  std::vector<uint8_t> packed(CompressedBytes(Compression::kInt8, 300));
  CompressCall call;
  call.to = packed.data();
  call.from = from.data();
  call.residual = residual.data();
  call.count = 300;
  Compress(Compression::kInt8, call);
  const void* const sources[] = {packed.data()};
  DecompressCall back;
  back.to = to.data();
  back.sources = sources;
  back.sources_count = 1;
  back.count = 300;
  DecompressSum(Compression::kInt8, back);
  EXPECT_TRUE(std::isnan(to[0]));
  EXPECT_EQ(to[299], 1) << "the next block";
  for (const float left : residual) EXPECT_EQ(left, 0);
}

}  // namespace
}  // namespace collective
}  // namespace fusewire
