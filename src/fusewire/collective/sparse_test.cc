// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/sparse.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <vector>

#include "fusewire/base/clock.h"
#include "fusewire/base/random.h"
#include "fusewire/collective/crew_test.h"

namespace fusewire {
namespace collective {
namespace {

constexpr size_t kRow = 5;
constexpr int64_t kTable = 1000;

SparseShape ShapeOf(Op op) {
  SparseShape shape;
  shape.reduction.op = op;
  shape.row_count = kRow;
  shape.table_rows = kTable;
  return shape;
}

std::vector<float> FloatsOf(const SparseRows& rows) {
  std::vector<float> values(rows.values.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), rows.values.data(), rows.values.size());
  return values;
}

template <class Index>
SparseView ViewOf(const std::vector<Index>& indices, const std::vector<float>& values) {
  SparseView view;
  view.index_type = sizeof(Index) == 8 ? Type::kI64 : Type::kI32;
  view.indices = indices.data();
  view.values = values.data();
  view.rows = indices.size();
  return view;
}

TEST(Sparse, DuplicatesAreAddedUpAndTheResultIsSorted) {
  const std::vector<int32_t> indices = {7, 3, 7, 0};
  std::vector<float> values(4 * kRow);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const Result<SparseRows> merged = MergeSparse(ShapeOf(Op::kSum), {ViewOf(indices, values)}, 1);
  ASSERT_TRUE(merged.ok());
  EXPECT_EQ(merged.value().indices, (std::vector<int64_t>{0, 3, 7}));
  const std::vector<float> sums = FloatsOf(merged.value());
  EXPECT_EQ(sums[0], 15);
  EXPECT_EQ(sums[kRow], 5);
  EXPECT_EQ(sums[2 * kRow], 0 + 10);
}

TEST(Sparse, IndicesBeyondTheTableAreRefused) {
  const std::vector<float> values(kRow);
  for (const int64_t index : {int64_t{-1}, kTable}) {
    const std::vector<int64_t> indices = {index};
    EXPECT_EQ(MergeSparse(ShapeOf(Op::kSum), {ViewOf(indices, values)}, 1).status().code(), Code::kInvalid);
  }
}

TEST(Sparse, AllReduceIsTheSumOfAllRows) {
  Crew::RunThreads(4, {}, [](Arena& arena) {
    const int64_t deadline_ns = Clock::Real()->NowNs() + 20 * kSecondNs;
    for (const Op op : {Op::kSum, Op::kAverage}) {
      std::map<int64_t, std::vector<float>> want;
      std::vector<int64_t> indices;
      std::vector<float> values;
      for (int rank = 0; rank < 4; ++rank) {
        Random random(static_cast<uint64_t>(rank) + 1);
        const size_t rows = rank == 2 ? 0 : 700 + static_cast<size_t>(rank);  // one has nothing
        for (size_t row = 0; row < rows; ++row) {
          const auto index = static_cast<int64_t>(random.Below(kTable));
          std::vector<float>& sum = want[index];
          sum.resize(kRow);
          if (rank == arena.rank()) indices.push_back(index);
          for (float& element : sum) {
            const auto value = static_cast<float>(random.Below(1000));
            element += value;
            if (rank == arena.rank()) values.push_back(value);
          }
        }
      }
      const Result<SparseRows> got = AllReduceSparse(ShapeOf(op), ViewOf(indices, values), &arena, deadline_ns);
      ASSERT_TRUE(got.ok()) << got.status().ToString();
      ASSERT_EQ(got.value().indices.size(), want.size());
      const std::vector<float> sums = FloatsOf(got.value());
      size_t row = 0;
      for (const auto& [index, sum] : want) {
        ASSERT_EQ(got.value().indices[row], index);
        for (size_t i = 0; i < kRow; ++i) {
          ASSERT_EQ(sums[row * kRow + i], op == Op::kAverage ? sum[i] / 4 : sum[i]);
        }
        ++row;
      }
    }
  });
}

TEST(Sparse, ARankThatCannotTakePartIsNamedOnTheOthers) {
  Crew::RunThreads(2, {}, [](Arena& arena) {
    const std::vector<int64_t> indices = {arena.rank() == 1 ? kTable : 0};
    const std::vector<float> values(kRow);
    const Result<SparseRows> got =
        AllReduceSparse(ShapeOf(Op::kSum), ViewOf(indices, values), &arena, Clock::Real()->NowNs() + 20 * kSecondNs);
    EXPECT_EQ(got.status().code(), Code::kInvalid);
    EXPECT_TRUE(arena.rank() == 1 || got.status().peer() == "rank 1") << got.status().ToString();
  });
}

}  // namespace
}  // namespace collective
}  // namespace fusewire
