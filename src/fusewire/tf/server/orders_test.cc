// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/moving.h"

#include <string>
#include <utility>
#include <vector>

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

class OrdersTest : public testing::Test {
 protected:
  OrdersTest() {
    def_.set_job_name("ps");
    def_.set_task_index(1);
    tensorflow::JobDef* job = def_.mutable_cluster()->add_job();
    job->set_name("ps");
    for (int i = 0; i < 4; ++i) (*job->mutable_tasks())[i] = absl::StrCat("host:", i + 1);
  }
  TfStatus Order(const std::string& words) {
    OrderHandlers handlers;
    handlers.adopt = [this](int index, std::string* said) {
      adopted_.push_back(index);
      *said = "it is done";
      return says_;
    };
    handlers.move = [this](int index, int64_t pause_ms, std::string*) {
      moved_.emplace_back(index, pause_ms);
      return says_;
    };
    handlers.drain = [this](int64_t pause_ms, std::string*) {
      drained_.push_back(pause_ms);
      return says_;
    };
    return CarryOut(words, def_, handlers, &done_);
  }

  tensorflow::ServerDef def_;
  std::vector<int> adopted_;
  std::vector<std::pair<int, int64_t>> moved_;
  std::vector<int64_t> drained_;
  TfStatus says_;
  std::string done_;
};

TEST_F(OrdersTest, ATaskIsAdopted) {
  const TfStatus status = Order("adopt ps:3");
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(adopted_, std::vector<int>{3});
  EXPECT_EQ(done_, "it is done");
}

TEST_F(OrdersTest, ATaskIsMovedEvenIfItIsTheProcesssOwnInTheCluster) {
  EXPECT_TRUE(Order("move ps:3 1000").ok());
  EXPECT_TRUE(Order("move ps:1 0").ok());
  EXPECT_EQ(moved_, (std::vector<std::pair<int, int64_t>>{{3, 1000}, {1, 0}}));
}

TEST_F(OrdersTest, AProcessIsDrained) {
  EXPECT_TRUE(Order("drain 50").ok());
  EXPECT_EQ(drained_, std::vector<int64_t>{50});
}

TEST_F(OrdersTest, WhatCannotBeDoneIsSaid) {
  says_ = absl::FailedPreconditionError("another process serves it");
  const TfStatus status = Order("adopt ps:3");
  EXPECT_EQ(status.message(),
            "\"adopt ps:3\" is not done: another process serves it; see: fusewire explain elastic#orders");
}

TEST_F(OrdersTest, UnknownOrdersAreRefused) {
  const std::vector<std::pair<std::string, std::string>> wrong = {{"", "it is not an order"},
                                                                  {"dance", "it is not an order"},
                                                                  {"adopt", "it is not an order"},
                                                                  {"adopt ", "one task that is not its own"},
                                                                  {"adopt ps:1", "one task that is not its own"},
                                                                  {"adopt ps:0,ps:2", "one task that is not its own"},
                                                                  {"adopt ps:4", "the cluster has no \"ps:4\""},
                                                                  {"adopt worker:0", "a task of another job"},
                                                                  {"adopt ps:\n", "is not a task"},
                                                                  {"move ps:3", "it is not an order"},
                                                                  {"move ps:3 soon", "milliseconds"},
                                                                  {"move ps:3 -1", "milliseconds"},
                                                                  {"move ps:3 99999999999", "milliseconds"},
                                                                  {"move  1000", "one task that is not its own"},
                                                                  {"move ps:4 1000", "the cluster has no \"ps:4\""},
                                                                  {"drain", "it is not an order"},
                                                                  {"drain ps:1", "milliseconds"}};
  for (const auto& [words, why] : wrong) {
    const TfStatus status = Order(words);
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(why)) << words;
  }
  EXPECT_TRUE(adopted_.empty());
  EXPECT_TRUE(moved_.empty());
  EXPECT_TRUE(drained_.empty());
}

}  // namespace
}  // namespace fusewire::tf
