// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/peer/search.h"

#include <memory>
#include <utility>

#include "fusewire/tf/bridge/threads_test.h"

#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

class SearchTest : public testing::Test {
 protected:
  SearchPtr Make() {
    return std::make_shared<Search>([this](const TfStatus& status, const ChannelPtr& channel) {
      status_ = status;
      EXPECT_EQ(channel, nullptr);
      ends_.Add();
    });
  }

  Ends ends_;
  TfStatus status_;
  Routed answer_;  // of the task that is asked
};

TEST_F(SearchTest, EndsWithWhatIsAnswered) {
  SearchPtr at_once = Make();
  at_once->Begin([](const Routed& routed) { routed(absl::UnavailableError("refused"), nullptr); });
  EXPECT_EQ(ends_.count(), 1);
  EXPECT_TRUE(absl::IsUnavailable(status_)) << status_;
  SearchPtr later = Make();
  later->Begin([this](Routed routed) { answer_ = std::move(routed); });
  EXPECT_EQ(ends_.count(), 1);
  answer_(TfStatus(), nullptr);
  EXPECT_EQ(ends_.count(), 2);
  EXPECT_TRUE(status_.ok()) << status_;
  EXPECT_TRUE(later->status().ok());
}

TEST_F(SearchTest, ThatWasGivenUpBeforeAsksNobody) {
  SearchPtr search = Make();
  search->GiveUp(absl::CancelledError("the step was cancelled"));
  EXPECT_EQ(ends_.count(), 0);  // Begin ends it
  search->Begin([](const Routed&) { ADD_FAILURE() << "asked"; });
  EXPECT_EQ(ends_.count(), 1);
  EXPECT_TRUE(absl::IsCancelled(status_)) << status_;
}

TEST_F(SearchTest, ThatIsGivenUpMeanwhileEndsOnceAndTheAnswerComesToNobody) {
  SearchPtr search = Make();
  search->Begin([this](Routed routed) { answer_ = std::move(routed); });
  search->GiveUp(absl::AbortedError("the first reason"));
  search->GiveUp(absl::InternalError("another one"));
  ASSERT_TRUE(ends_.Await(1));
  EXPECT_TRUE(absl::IsAborted(status_)) << status_;
  EXPECT_TRUE(absl::IsAborted(search->status()));
  answer_(TfStatus(), nullptr);
  EXPECT_EQ(ends_.count(), 1);
}

TEST_F(SearchTest, ThatHasEndedCannotBeGivenUp) {
  SearchPtr search = Make();
  search->Begin([](const Routed& routed) { routed(TfStatus(), nullptr); });
  search->GiveUp(absl::AbortedError("too late"));
  SearchPtr other = Make();  // what was put off by the first has been done once the second has ended
  other->Begin([this](Routed routed) { answer_ = std::move(routed); });
  other->GiveUp(absl::AbortedError("in time"));
  ASSERT_TRUE(ends_.Await(2));
  EXPECT_EQ(ends_.count(), 2);
}

}  // namespace
}  // namespace fusewire::tf
