// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Tests: compress/ops.cc
#include "fusewire/tf/compress/quantize.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <tensorflow/core/framework/tensor.h>
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/compress/op_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

using testing::HasSubstr;

std::vector<float> ThereAndBack(const std::vector<float>& row) {
  std::vector<int8_t> quantized(row.size() + kScaleBytes);
  QuantizeRow(row.data(), row.size(), quantized.data());
  std::vector<float> back(row.size());
  RestoreRow(quantized.data(), row.size(), back.data());
  return back;
}

TEST(Quantize, ARowComesBackToHalfAStepOfItsScale) {
  const std::vector<float> row = {1.0F, -0.5F, 0.013F, 0.0F, -2.54F, 1e-6F};
  const std::vector<float> back = ThereAndBack(row);
  for (size_t i = 0; i < row.size(); ++i) EXPECT_NEAR(back[i], row[i], 0.5F * 2.54F / 127 * 1.001F);
  EXPECT_FLOAT_EQ(back[4], -2.54F);
  EXPECT_EQ(back[3], 0.0F);
}

TEST(Quantize, ExtremesAreKept) {
  EXPECT_EQ(ThereAndBack({0.0F, 0.0F}), (std::vector<float>{0.0F, 0.0F}));
  const float largest = std::numeric_limits<float>::max() / 2, smallest = std::numeric_limits<float>::denorm_min();
  EXPECT_NEAR(ThereAndBack({largest, 1.0F})[0] / largest, 1.0F, 1e-5F);
  EXPECT_LT(std::fabs(ThereAndBack({100 * smallest, 1.0F})[1] - 1.0F), 1e-5F);
  EXPECT_LT(ThereAndBack({200 * smallest, -190 * smallest})[1], 0.0F);
  EXPECT_LT(ThereAndBack({100 * smallest, -190 * smallest})[1], 0.0F);
  EXPECT_TRUE(std::isfinite(ThereAndBack({smallest, smallest})[0]));
  for (const float odd : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    for (const float value : ThereAndBack({1.0F, odd, 2.0F})) EXPECT_TRUE(std::isnan(value));
}

TEST(Residuals, NothingIsLostInTheLongRun) {
  Residuals residuals;
  std::vector<float> row = {1.0F, 0.001F, -0.0007F}, scratch(3), sum(3, 0.0F), back(3);
  std::vector<int8_t> out(3 + kScaleBytes);
  for (int i = 0; i < 1000; ++i) {
    residuals.Quantize(7, row.data(), 3, scratch.data(), out.data());
    RestoreRow(out.data(), 3, back.data());
    for (size_t k = 0; k < 3; ++k) sum[k] += back[k];
  }
  // Alone, each of the small values would have been rounded to 0.
  EXPECT_NEAR(sum[1], 1.0F, 0.01F);
  EXPECT_NEAR(sum[2], -0.7F, 0.01F);
}

TEST(Residuals, RowsAreApartAndBounded) {
  Residuals residuals(2 * 3 * sizeof(float));
  const std::vector<float> row = {1.0F, 0.001F, 0.0F};
  std::vector<float> scratch(3);
  std::vector<int8_t> first(3 + kScaleBytes), again(3 + kScaleBytes);
  residuals.Quantize(1, row.data(), 3, scratch.data(), first.data());
  residuals.Quantize(2, row.data(), 3, scratch.data(), again.data());
  EXPECT_EQ(first, again);
  residuals.Quantize(3, row.data(), 3, scratch.data(), again.data());  // without room
  EXPECT_EQ(residuals.rows(), 2u);
  EXPECT_EQ(first, again);
  const std::vector<float> odd = {1.0F, NAN, 0.0F};
  residuals.Quantize(1, odd.data(), 3, scratch.data(), again.data());
  residuals.Quantize(1, row.data(), 3, scratch.data(), again.data());
  EXPECT_EQ(first, again);  // as if it were new
}

class QuantizeOpTest : public OpTest {
 protected:
  TfStatus Run(const std::string& op, std::vector<tensorflow::Tensor> inputs, tensorflow::Tensor* out) {
    std::vector<tensorflow::Tensor> outputs;
    const auto kernel = Make(op, inputs);
    TF_RETURN_IF_ERROR(OpTest::Run(kernel.get(), std::move(inputs), &outputs));
    *out = outputs[0];
    return TfStatus();
  }
};

TEST_F(QuantizeOpTest, RowsOfAnyRankComeBack) {
  tensorflow::Tensor rows(tensorflow::DT_FLOAT, {2, 3, 8}), small, back;
  for (int64_t i = 0; i < rows.NumElements(); ++i) rows.flat<float>()(i) = static_cast<float>(i - 20);
  ASSERT_TRUE(Run("FusewireQuantize", {rows}, &small).ok());
  EXPECT_EQ(small.shape(), tensorflow::TensorShape({2, 3, 12}));
  ASSERT_TRUE(Run("FusewireRestore", {small}, &back).ok());
  ASSERT_EQ(back.shape(), rows.shape());
  for (int64_t i = 0; i < rows.NumElements(); ++i) EXPECT_NEAR(back.flat<float>()(i), rows.flat<float>()(i), 0.12F);
  tensorflow::Tensor empty(tensorflow::DT_FLOAT, {0, 8});
  ASSERT_TRUE(Run("FusewireQuantize", {empty}, &small).ok());
  EXPECT_EQ(small.shape(), tensorflow::TensorShape({0, 12}));
}

TEST_F(QuantizeOpTest, InvalidRowsAreRefused) {
  tensorflow::Tensor out;
  for (const tensorflow::TensorShape& shape : {tensorflow::TensorShape({}), tensorflow::TensorShape({5, 4})}) {
    const TfStatus refused = Run("FusewireRestore", {tensorflow::Tensor(tensorflow::DT_INT8, shape)}, &out);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("is no tensor of rows with their scales"));
  }
  tensorflow::Tensor rows(tensorflow::DT_FLOAT, {2, 8}), ids(tensorflow::DT_INT64, {3});
  rows.flat<float>().setZero();
  ids.flat<int64_t>().setZero();
  const TfStatus refused = Run("FusewireQuantizeGradients", {rows, ids}, &out);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("3 ids for 2 rows of gradients"));
}

}  // namespace
}  // namespace fusewire::tf
