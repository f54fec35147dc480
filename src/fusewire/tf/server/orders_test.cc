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
    Obedience obedience;
    obedience.adopt = [this](int index, std::string* said) {
      adopted_.push_back(index);
      *said = "it is done";
      return says_;
    };
    obedience.move = [this](int index, int64_t pause_ms, std::string*) {
      moved_.emplace_back(index, pause_ms);
      return says_;
    };
    obedience.drain = [this](int64_t pause_ms, std::string*) {
      drained_.push_back(pause_ms);
      return says_;
    };
    return Obey(words, def_, obedience, &done_);
  }

  tensorflow::ServerDef def_;
  std::vector<int> adopted_;
  std::vector<std::pair<int, int64_t>> moved_;
  std::vector<int64_t> drained_;
  TfStatus says_;
  std::string done_;
};

TEST_F(OrdersTest, ATaskIsAdopted) {
  const TfStatus obeyed = Order("adopt ps:3");
  EXPECT_TRUE(obeyed.ok()) << obeyed;
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
  const TfStatus obeyed = Order("adopt ps:3");
  EXPECT_EQ(obeyed.message(),
            "\"adopt ps:3\" is not done: another process serves it; see: fusewire explain elastic#orders");
}

TEST_F(OrdersTest, WhatIsNoOrderIsNotDone) {
  const std::vector<std::pair<std::string, std::string>> wrong = {{"", "it is no order"},
                                                                  {"dance", "it is no order"},
                                                                  {"adopt", "it is no order"},
                                                                  {"adopt ", "one task that is not its own"},
                                                                  {"adopt ps:1", "one task that is not its own"},
                                                                  {"adopt ps:0,ps:2", "one task that is not its own"},
                                                                  {"adopt ps:4", "the cluster has no \"ps:4\""},
                                                                  {"adopt worker:0", "a task of another job"},
                                                                  {"adopt ps:\n", "is no task"},
                                                                  {"move ps:3", "it is no order"},
                                                                  {"move ps:3 soon", "milliseconds"},
                                                                  {"move ps:3 -1", "milliseconds"},
                                                                  {"move ps:3 99999999999", "milliseconds"},
                                                                  {"move  1000", "one task that is not its own"},
                                                                  {"move ps:4 1000", "the cluster has no \"ps:4\""},
                                                                  {"drain", "it is no order"},
                                                                  {"drain ps:1", "milliseconds"}};
  for (const auto& [words, why] : wrong) {
    const TfStatus obeyed = Order(words);
    EXPECT_THAT(std::string(obeyed.message()), testing::HasSubstr(why)) << words;
  }
  EXPECT_TRUE(adopted_.empty());
  EXPECT_TRUE(moved_.empty());
  EXPECT_TRUE(drained_.empty());
}

}  // namespace
}  // namespace fusewire::tf
