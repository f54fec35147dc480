// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/collective/groups.h"

#include <string>
#include <thread>
#include <vector>

#include "fusewire/base/clock.h"
#include "fusewire/tf/collective/members_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

TEST(CollectiveGroups, TellTheirRanksApartByWhatTasksSayOfTheirHosts) {
  EXPECT_EQ(HostsOf({7, 7}), (std::vector<int>{0, 0}));
  EXPECT_EQ(HostsOf({9, 7, 9, 7, 8}), (std::vector<int>{0, 1, 0, 1, 4}));
  EXPECT_EQ(HostsOf({0xffffffffffffffff, 0x7fffffffffffffff}), (std::vector<int>{0, 1}));
}

TEST(CollectiveGroups, KnowNoHostsWhereOneTaskSaysNothing) {
  EXPECT_TRUE(HostsOf({7, 0, 7}).empty());
  EXPECT_TRUE(HostsOf({0, 0}).empty());
}

// ---- one member's side of a group of two ----

class GroupOfTwoTest : public testing::Test {
 protected:
  void Find(FoundGroup* found) { own_.groups->Find(params_, 0, found->Take()); }
  // Of the other task, to the oldest question.
  void Answer(const PortWords& words) { own_.grpc().Answer(words); }

  Member own_{0}, other_{1};
  tensorflow::CollGroupParams params_ = PairOfMembers();
};

TEST_F(GroupOfTwoTest, IsMadeOnceTheOtherHasAnswered) {
  FoundGroup first, second, late;
  Find(&first);
  Find(&second);
  ASSERT_EQ(own_.grpc().asked.size(), 1u);
  EXPECT_EQ(first.count + second.count, 0);
  EXPECT_EQ(own_.groups->Get(params_), nullptr);
  Answer(other_.Words());
  ASSERT_EQ(first.count, 1);
  ASSERT_TRUE(first.status.ok()) << first.status;
  ASSERT_NE(first.group, nullptr);
  EXPECT_EQ(second.group, first.group);
  EXPECT_EQ(own_.groups->Get(params_), first.group);
  Find(&late);
  EXPECT_EQ(late.group, first.group);
  EXPECT_TRUE(own_.grpc().asked.empty());
}

TEST_F(GroupOfTwoTest, IsAnotherOneOnceAMemberWasRestarted) {
  FoundGroup found;
  Find(&found);
  Answer(other_.Words());
  ASSERT_NE(found.group, nullptr);
  params_.members[1].device.set_incarnation(999);
  EXPECT_EQ(own_.groups->Get(params_), nullptr);
}

TEST_F(GroupOfTwoTest, IsTensorFlowsToServeWithoutThePluginAtTheOther) {
  FoundGroup found, again;
  Find(&found);
  own_.grpc().Answer(absl::UnimplementedError("no such method"));
  EXPECT_EQ(found.count, 1);
  EXPECT_TRUE(found.status.ok()) << found.status;
  EXPECT_EQ(found.group, nullptr);
  Find(&again);  // and that is known from now on
  EXPECT_EQ(again.count, 1);
  EXPECT_TRUE(own_.grpc().asked.empty());
}

TEST_F(GroupOfTwoTest, IsTensorFlowsToServeUnlessEachTaskHasOneProcessor) {
  tensorflow::CollGroupParams one_task = params_, alone = params_, accelerators = params_;
  one_task.num_tasks = 1;
  alone.group_size = alone.num_tasks = 1;
  accelerators.device_type = tensorflow::DeviceType("GPU");
  for (const auto& params : {one_task, alone, accelerators}) {
    FoundGroup found;
    own_.groups->Find(params, 0, found.Take());
    EXPECT_EQ(found.count, 1);
    EXPECT_TRUE(found.status.ok()) << found.status;
    EXPECT_EQ(found.group, nullptr);
  }
  EXPECT_TRUE(own_.grpc().asked.empty());
}

TEST_F(GroupOfTwoTest, AMemberThatCannotBeAskedIsAskedAgain) {
  FoundGroup found, again;
  Find(&found);
  own_.grpc().Answer(absl::UnavailableError("connection refused"));
  EXPECT_TRUE(absl::IsUnavailable(found.status)) << found.status;
  Find(&again);
  Answer(other_.Words());
  EXPECT_TRUE(again.status.ok()) << again.status;
  EXPECT_NE(again.group, nullptr);
}

TEST_F(GroupOfTwoTest, AnUnknownMemberIsAnError) {
  params_.members[1].task = "/job:worker/replica:0/task:9";
  FoundGroup found;
  Find(&found);
  EXPECT_EQ(found.count, 1);
  EXPECT_THAT(std::string(found.status.message()), testing::HasSubstr("No worker known as"));
}

// ---- a group begins once all members have it ----

class JoiningTest : public GroupOfTwoTest {
 protected:
  JoiningTest() { own_.joins = other_.joins = true; }
  void FindOther(FoundGroup* found) {
    other_.groups->Find(params_, 1, found->Take());
    other_.grpc().Answer(own_.Words());
  }
  static bool Await(const FoundGroup& found) {
    const int64_t deadline_ns = AddNs(Clock::Real()->NowNs(), 20 * kSecondNs);
    while (found.count == 0 && Clock::Real()->NowNs() < deadline_ns) std::this_thread::yield();
    return found.count == 1;
  }
};

// Otherwise the first one could end its operation, go on to its next cluster, and answer with that one's age.
TEST_F(JoiningTest, NoMemberGoesOnBeforeTheOtherHasFoundIt) {
  FoundGroup first, second;
  Find(&first);
  Answer(other_.Words());
  EXPECT_EQ(own_.groups->Known().size(), 1u);  // it is made
  EXPECT_EQ(first.count, 0);
  FindOther(&second);
  ASSERT_TRUE(Await(first));
  ASSERT_TRUE(Await(second));
  EXPECT_TRUE(first.status.ok()) << first.status;
  EXPECT_TRUE(second.status.ok()) << second.status;
  EXPECT_NE(first.group, nullptr);
}

TEST_F(JoiningTest, AnAbortEndsTheWait) {
  FoundGroup found;
  Find(&found);
  Answer(other_.Words());
  own_.groups->Abort(absl::UnavailableError("a task was lost"));
  ASSERT_TRUE(Await(found));
  EXPECT_THAT(std::string(found.status.message()), testing::HasSubstr("a task was lost"));
}

TEST_F(JoiningTest, ANewClusterEndsTheWait) {
  FoundGroup found;
  Find(&found);
  Answer(other_.Words());
  CollectiveGroupsPtr before = own_.groups;
  own_.groups = own_.home->Renew();
  ASSERT_TRUE(Await(found));
  EXPECT_FALSE(found.status.ok());
}

TEST_F(GroupOfTwoTest, ANewClusterEndsTheSearchOfTheOldOne) {
  FoundGroup found;
  Find(&found);
  CollectiveGroupsPtr before = own_.groups;
  const uint32_t age = own_.home->age();
  own_.groups = own_.home->Renew();
  EXPECT_EQ(own_.home->age(), age + 1);
  Answer(other_.Words());
  EXPECT_TRUE(absl::IsAborted(found.status)) << found.status;
  EXPECT_EQ(found.group, nullptr);
}

}  // namespace
}  // namespace fusewire::tf
