// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/composed.h"

#include <cmath>
#include <vector>

#include "fusewire/base/random.h"
#include "fusewire/collective/party_test.h"

namespace fusewire {
namespace collective {
namespace {

TEST(Composed, SparseRowsOfAllRanksAreAddedUp) {
  constexpr int kRanks = 3;
  Party party(kRanks);
  party.Run([](int rank, Group& group) {
    SparseShape shape;
    shape.reduction.type = Type::kF32;
    shape.row_count = 2;
    shape.table_rows = 100;
    const std::vector<int64_t> indices = {50, rank, 50};
    const std::vector<float> values = {1, 2, 10, 20, 3, 4};
    SparseView mine;
    mine.indices = indices.data();
    mine.values = values.data();
    mine.rows = indices.size();
    const Result<SparseRows> rows = AllReduceSparse(shape, mine, &group);
    ASSERT_TRUE(rows.ok()) << rows.status().ToString();
    EXPECT_EQ(rows.value().indices, (std::vector<int64_t>{0, 1, 2, 50}));
    const auto* sums = reinterpret_cast<const float*>(rows.value().values.data());
    EXPECT_EQ(std::vector<float>(sums, sums + 8), (std::vector<float>{10, 20, 10, 20, 10, 20, 12, 18}));
  });
}

// What is lost comes back: the sum over many runs is as exact as one run is not.
TEST(Composed, CompressedSumsAreCloseAndErrorsDoNotAddUp) {
  constexpr int kRanks = 3, kRuns = 30;
  constexpr size_t kCount = 1001;
  for (const Compression compression : {Compression::kF16, Compression::kBf16, Compression::kInt8}) {
    Party party(kRanks);
    std::vector<std::vector<float>> results(kRanks);
    party.Run([compression, &results](int rank, Group& group) {
      std::vector<std::vector<float>> brought(kRanks, std::vector<float>(kCount));
      Random random(11);
      for (auto& one : brought) {
        for (float& value : one) value = static_cast<float>(random.Fraction() * 2 - 1);
      }
      CompressedAllReduce reduce(&group, compression, kCount, true);
      EXPECT_LT(reduce.sent_bytes(), kCount * sizeof(float));
      std::vector<double> sums(kCount);
      for (int run = 0; run < kRuns; ++run) {
        std::vector<float> array = brought[static_cast<size_t>(rank)];
        const Status status = reduce.Run(array.data());
        ASSERT_TRUE(status.ok()) << status.ToString();
        for (size_t i = 0; i < kCount; ++i) sums[i] += static_cast<double>(array[i]);
        results[static_cast<size_t>(rank)] = array;
      }
      for (size_t i = 0; i < kCount; ++i) {
        double exact = 0;
        for (const auto& one : brought) exact += static_cast<double>(one[i]) / kRanks;
        EXPECT_NEAR(sums[i] / kRuns, exact, 0.02 / kRuns * 2) << i;
      }
    });
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
  }
}

}  // namespace
}  // namespace collective
}  // namespace fusewire
