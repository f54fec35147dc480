// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/orders.h"

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
    return Obey(
        words, def_,
        [this](int index, std::string* said) {
          adopted_.push_back(index);
          *said = "it is done";
          return says_;
        },
        &done_);
  }

  tensorflow::ServerDef def_;
  std::vector<int> adopted_;
  TfStatus says_;
  std::string done_;
};

TEST_F(OrdersTest, ATaskIsAdopted) {
  const TfStatus obeyed = Order("adopt ps:3");
  EXPECT_TRUE(obeyed.ok()) << obeyed;
  EXPECT_EQ(adopted_, std::vector<int>{3});
  EXPECT_EQ(done_, "it is done");
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
                                                                  {"adopt ps:\n", "is no task"}};
  for (const auto& [words, why] : wrong) {
    const TfStatus obeyed = Order(words);
    EXPECT_THAT(std::string(obeyed.message()), testing::HasSubstr(why)) << words;
  }
  EXPECT_TRUE(adopted_.empty());
}

}  // namespace
}  // namespace fusewire::tf
