// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Tests: compress/ops.cc
#include "fusewire/tf/compress/row_cache.h"

#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "fusewire/tf/compress/op_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Pulls what is missing: each row is {id, version}. The versions of the rows that the step uses.
std::vector<float> UseRows(RowCache* cache, const std::vector<int64_t>& ids, float version) {
  const RowCache::Found found = cache->Begin(ids);
  std::vector<float> pulled;
  for (const int64_t id : found.missing) pulled.insert(pulled.end(), {static_cast<float>(id), version});
  std::vector<float> versions;
  for (size_t i = 0; i < ids.size(); ++i) {
    const int32_t place = found.places[i];
    const float* row =
        place >= 0 ? &pulled[static_cast<size_t>(place) * 2] : &found.rows[static_cast<size_t>(-1 - place) * 2];
    EXPECT_EQ(row[0], static_cast<float>(ids[i]));
    versions.push_back(row[1]);
  }
  cache->Keep(found.step, found.missing, pulled.data(), 2);
  return versions;
}

TEST(RowCache, ARowIsUsedAgainForSoManySteps) {
  RowCache cache(2);
  EXPECT_THAT(UseRows(&cache, {7, 8}, 1), ElementsAre(1, 1));
  EXPECT_THAT(UseRows(&cache, {9, 8}, 2), ElementsAre(2, 1));
  EXPECT_THAT(UseRows(&cache, {8, 7, 9}, 3), ElementsAre(1, 1, 2));
  EXPECT_THAT(UseRows(&cache, {8, 9}, 4), ElementsAre(4, 2));
  EXPECT_THAT(UseRows(&cache, {}, 5), IsEmpty());
}

TEST(RowCache, AStepThatBeganEarlierReplacesNoNewerRow) {
  RowCache cache(5);
  const RowCache::Found slow = cache.Begin({1}), fast = cache.Begin({1});
  const float newer[] = {1, 2}, older[] = {1, 1};
  cache.Keep(fast.step, fast.missing, newer, 2);
  cache.Keep(slow.step, slow.missing, older, 2);
  EXPECT_THAT(cache.Begin({1}).rows, ElementsAre(1, 2));
}

TEST(RowCache, OldRowsMakeRoomAndNewOnesWaitForIt) {
  constexpr size_t kRows = 10;
  RowCache cache(1, kRows * (2 * sizeof(float) + 64));
  std::vector<int64_t> ids(kRows + 5);
  std::iota(ids.begin(), ids.end(), 0);
  UseRows(&cache, ids, 1);
  EXPECT_EQ(cache.size(), kRows);
  EXPECT_THAT(UseRows(&cache, {100}, 2), ElementsAre(2));
  EXPECT_EQ(cache.size(), kRows);  // all of them may still be used
  EXPECT_THAT(UseRows(&cache, {101}, 3), ElementsAre(3));
  EXPECT_EQ(cache.size(), 1u);
  EXPECT_THAT(UseRows(&cache, {101}, 4), ElementsAre(3));
}

TEST(RowCache, RowsOfAnotherLengthStartAgain) {
  RowCache cache(5);
  UseRows(&cache, {1, 2}, 1);
  const RowCache::Found found = cache.Begin({3});
  const float longer[] = {3, 1, 1};
  cache.Keep(found.step, found.missing, longer, 3);
  EXPECT_THAT(cache.Begin({1, 2}).missing, ElementsAre(1, 2));
  EXPECT_EQ(cache.Begin({3}).row_length, 3u);
}

TEST(RowCache, ThreadsShareIt) {
  RowCache cache(3);
  std::vector<std::thread> threads;
  for (int64_t thread = 0; thread < 4; ++thread)
    threads.emplace_back([&cache, thread] {
      for (int64_t step = 0; step < 300; ++step) UseRows(&cache, {step % 7, 10 + thread, 20 + step}, 1);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(cache.size(), 7u);
}

class RowCacheOpTest : public OpTest {
 protected:
  static tensorflow::Tensor Ids(const std::vector<int32_t>& values) {
    tensorflow::Tensor ids(tensorflow::DT_INT32, {static_cast<int64_t>(values.size())});
    for (size_t i = 0; i < values.size(); ++i) ids.flat<int32_t>()(static_cast<int64_t>(i)) = values[i];
    return ids;
  }
  static tensorflow::Tensor Rows(int64_t rows, const std::vector<int64_t>& row_shape, float value) {
    tensorflow::TensorShape shape({rows});
    for (const int64_t size : row_shape) shape.AddDim(size);
    tensorflow::Tensor tensor(tensorflow::DT_FLOAT, shape);
    tensor.flat<float>().setConstant(value);
    return tensor;
  }
  // What a step pulls, and then has.
  TfStatus Step(const std::vector<int32_t>& ids, const tensorflow::Tensor& pulled, Tensors* missing, Tensors* all) {
    TF_RETURN_IF_ERROR(Run(fresh_.get(), {Ids(ids)}, missing));
    return Run(all_.get(), {(*missing)[1], pulled}, all);
  }

  const std::unique_ptr<tensorflow::OpKernel> fresh_ = Make("FusewireFreshIds", {Ids({})}, {{"steps_max", 1}});
  const std::unique_ptr<tensorflow::OpKernel> all_ =
      Make("FusewireAllRows", {tensorflow::Tensor(tensorflow::DT_RESOURCE, {}), Rows(0, {}, 0)});
};

TEST_F(RowCacheOpTest, RowsOfAnyRankAreUsedAgain) {
  for (const std::vector<int64_t>& row_shape : {std::vector<int64_t>{}, {3}, {2, 3}}) {
    Tensors missing, all;
    ASSERT_TRUE(Step({4, 2}, Rows(2, row_shape, 1), &missing, &all).ok());
    EXPECT_EQ(missing[0].NumElements(), 2);
    ASSERT_TRUE(Step({2, 3, 4}, Rows(1, row_shape, 2), &missing, &all).ok());
    EXPECT_EQ(missing[0].flat<int32_t>()(0), 3);
    EXPECT_EQ(all[0].shape(), Rows(3, row_shape, 0).shape());
    const auto rows = all[0].flat_outer_dims<float>();
    EXPECT_THAT((std::vector<float>{rows(0, 0), rows(1, 0), rows(2, 0)}), ElementsAre(1, 2, 1));
    ASSERT_TRUE(Step({}, Rows(0, row_shape, 0), &missing, &all).ok());  // now all are too old
    ASSERT_TRUE(Step({}, Rows(0, row_shape, 0), &missing, &all).ok());
  }
}

TEST_F(RowCacheOpTest, RowsThatDoNotFitAreRefused) {
  Tensors missing, all;
  EXPECT_THAT(std::string(Step({4, 2}, Rows(1, {3}, 1), &missing, &all).message()),
              HasSubstr("a lookup of 2 ids gave a tensor of shape [1,3]"));
  ASSERT_TRUE(Step({4, 2}, Rows(2, {3}, 1), &missing, &all).ok());
  EXPECT_THAT(std::string(Step({4, 5}, Rows(1, {8}, 1), &missing, &all).message()),
              HasSubstr("have become longer or shorter: 3 and 8"));
}

}  // namespace
}  // namespace fusewire::tf
