// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/serve/part.h"

#include <pthread.h>

#include <atomic>
#include <future>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

using testing::ElementsAre;

TEST(EndThreadTest, DoesInTurnAllThatWasLeftBeforeItEnds) {
  std::vector<int> done;
  {
    EndThread ends;
    for (int number : {1, 2, 3}) ends.Leave([&done, number] { done.push_back(number); });
  }
  EXPECT_THAT(done, ElementsAre(1, 2, 3));
}

TEST(EndThreadTest, LeaveDoesNotWaitForEarlierObjects) {
  std::promise<void> may_end;
  std::atomic<bool> has_ended{false};
  EndThread ends;
  ends.Leave([&] {
    may_end.get_future().wait();
    has_ended = true;
  });
  ends.Leave([] {});
  EXPECT_FALSE(has_ended);
  may_end.set_value();
}

// A thread has its maker's name until it takes its own, and a reactor may be the maker: servers' reactors are counted
// by their names.
TEST(EndThreadTest, HasANameOfItsOwn) {
  std::string name(16, '\0');
  {
    EndThread ends;
    ends.Leave([&name] { pthread_getname_np(pthread_self(), name.data(), name.size()); });
  }
  EXPECT_STREQ(name.c_str(), "fusewire/ends");
}

}  // namespace
}  // namespace fusewire::tf
