// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What groups record of themselves: as a reader of the status port sees it. A process has one recorder, so the test
// that shows nothing comes first.
#include "fusewire/collective/group/group_monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "fusewire/base/clock.h"
#include "fusewire/collective/group/party_test.h"
#include "fusewire/observe/recorder.h"
#include "fusewire/observe/watch.h"

namespace fusewire::collective {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// A record, in words.
struct Row {
  std::string task, peer, name;
  bool is_open = false;
  int64_t place = 0;
  uint64_t bytes = 0, flow = 0;
};

std::vector<Row> Rows() {
  std::vector<Row> rows;
  observe::Recorder* const recorder = observe::TheRecorder();
  if (recorder == nullptr) return rows;
  for (const observe::Seen& seen : recorder->Read()) {
    const observe::Tag& tag = recorder->tags().at(seen.tag);
    rows.push_back({tag.task, tag.peer, tag.name, seen.is_open, seen.step, seen.bytes, seen.flow});
  }
  return rows;
}

bool IsWait(const Row& row) { return row.peer.rfind("rank:", 0) == 0; }

// The operations of a task, without its waits for single ranks.
std::vector<Row> RowsOf(const std::string& task, const std::string& name_part) {
  std::vector<Row> rows;
  for (const Row& row : Rows()) {
    if (row.task == task && !IsWait(row) && row.name.find(name_part) != std::string::npos) rows.push_back(row);
  }
  return rows;
}

// The peers for which a task waits now.
std::vector<std::string> WaitsOf(const std::string& task) {
  std::vector<std::string> peers;
  for (const Row& row : Rows()) {
    if (row.is_open && row.task == task && IsWait(row)) peers.push_back(row.peer);
  }
  std::sort(peers.begin(), peers.end());
  return peers;
}

void Await(const std::function<bool()>& condition) {
  const int64_t until_ns = Clock::Real()->NowNs() + 20 * kSecondNs;
  while (!condition()) {
    ASSERT_LT(Clock::Real()->NowNs(), until_ns);
    std::this_thread::yield();
  }
}

std::string Folder() {
  std::string folder = testing::TempDir() + "shown_test." + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  return folder;
}

void ShowAll(Party& party, const std::string& place = "") {
  for (int rank = 0; rank < party.ranks(); ++rank) {
    const Status shown = party.at(rank).Show(place, Folder());
    EXPECT_TRUE(shown.ok()) << shown.ToString();
  }
}

std::string StatusText() {
  observe::Request request;
  request.path = "/status.json";
  return observe::Watch::Get()->AnswerTo(request).body;
}

class OneHostOrNot : public testing::TestWithParam<bool> {
 protected:
  static GroupOptions Options(int ranks) { return GetParam() ? OneHost(ranks) : GroupOptions(); }
};

TEST(GroupMonitor, AGroupThatIsNotShownOrOffRecordsNothing) {
  Party party(2, task::TransportChoice::kAuto, OneHost(2));
  ShowAll(party, "off");
  party.Run([](int, Group& group) { ExpectSum(group); });
  EXPECT_EQ(observe::TheRecorder(), nullptr);
  EXPECT_EQ(observe::Watch::Get(), nullptr);
  EXPECT_EQ(party.at(0).Show("somewhere").code(), Code::kInvalid);
  const Status open = party.at(0).Show("0.0.0.0:0");  // without a secret
  EXPECT_EQ(open.code(), Code::kRefused);
  EXPECT_THAT(open.ToString(), HasSubstr("FUSEWIRE_SECRET"));
  EXPECT_EQ(observe::Watch::Get(), nullptr);
}

TEST(GroupMonitor, RanksAreTasksOfOneClusterUntilTheirGroupGoes) {
  {
    Party party(2);
    ShowAll(party);
    const std::string members = "\"members\":{\"rank:0\":\"" + party.endpoints[0]->address().ToString() +
                                "\",\"rank:1\":\"" + party.endpoints[1]->address().ToString() + "\"}";
    EXPECT_THAT(StatusText(), HasSubstr("\"task\":\"rank:0\",\"protocol\":\"collective\""));
    EXPECT_THAT(StatusText(), HasSubstr("\"task\":\"rank:1\",\"protocol\":\"collective\""));
    EXPECT_THAT(StatusText(), HasSubstr(members));
    // Another group of the endpoints makes no other task, and its operations are those of the same ranks.
    std::vector<std::unique_ptr<Group>> pairs(2);
    party.Run([&pairs](int rank, Group& group) {
      auto made = group.MakeSubgroup("pair", {1, 0});
      ASSERT_TRUE(made.ok()) << made.status().ToString();
      pairs[static_cast<size_t>(rank)] = std::move(made).value();
      ExpectSum(*pairs[static_cast<size_t>(rank)], 77);
    });
    EXPECT_THAT(StatusText(), Not(HasSubstr("\"task\":\"rank:2\"")));
    const std::vector<Row> rows = RowsOf("rank:1", "all-reduce i32 77 in party/pair");
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows[0].bytes, 77 * sizeof(int32_t));
    EXPECT_EQ(rows[0].place, 1);
  }
  EXPECT_THAT(StatusText(), HasSubstr("\"tasks\":[]"));
}

TEST(GroupMonitor, ShortOperationsInAnArenaAreCountedAndNotRecorded) {
  constexpr int kTimes = 1000;
  Party party(2, task::TransportChoice::kAuto, OneHost(2));
  ShowAll(party);
  party.Run([](int, Group& group) { ExpectSum(group, 16); });  // agrees on an arena
  ASSERT_TRUE(party.at(0).in_arena());
  observe::short_ops_wanted.store(0);
  TallySum before, after;
  size_t recorded = kTimes;
  // On a busy machine a rank may wait for longer than its spin, again and again: each such wait is recorded.
  for (int round = 0; round < 20 && recorded > kTimes / 2; ++round) {
    before = TallyOfAll();
    const size_t known = RowsOf("rank:0", "i32 16").size();
    party.Run([](int, Group& group) {
      for (int i = 0; i < kTimes; ++i) ExpectSum(group, 16);
    });
    after = TallyOfAll();
    recorded = RowsOf("rank:0", "i32 16").size() - known;
  }
  EXPECT_EQ(after.operations - before.operations, 2u * kTimes);
  EXPECT_EQ(after.bytes - before.bytes, 2u * kTimes * 16 * sizeof(int32_t));
  EXPECT_LE(recorded, kTimes / 2u);

  // A large one is recorded, as is a short one while the records are read.
  party.Run([](int, Group& group) { ExpectSum(group, 40000); });
  ASSERT_EQ(RowsOf("rank:0", "all-reduce i32 40,000").size(), 1u);
  EXPECT_EQ(RowsOf("rank:0", "all-reduce i32 40,000")[0].bytes, 160000u);
  observe::short_ops_wanted.store(100);
  party.Run([](int, Group& group) { ExpectSum(group, 17); });
  EXPECT_EQ(RowsOf("rank:0", "all-reduce i32 17").size(), 1u);
  EXPECT_EQ(RowsOf("rank:1", "all-reduce i32 17").size(), 1u);
}

TEST_P(OneHostOrNot, ALongWaitNamesTheMissingRanks) {
  Party party(4, task::TransportChoice::kAuto, Options(4));
  ShowAll(party);
  const size_t count = GetParam() ? 22 : 23;
  const std::string name = "all-reduce i32 " + std::to_string(count);
  party.Run([](int, Group& group) { ExpectSum(group, 21); });
  ASSERT_EQ(party.at(0).in_arena(), GetParam());
  auto run = [&party, count](int rank) {
    return std::thread([&party, rank, count] { ExpectSum(party.at(rank), count); });
  };
  std::vector<std::thread> threads;
  for (const int rank : {0, 2}) threads.push_back(run(rank));
  if (GetParam()) {
    Await([] { return WaitsOf("rank:0") == std::vector<std::string>{"rank:1", "rank:3"}; });
  } else {  // who waits for whom is the algorithm's choice
    Await([] { return !WaitsOf("rank:0").empty() && !WaitsOf("rank:2").empty(); });
    EXPECT_THAT(WaitsOf("rank:0"), Not(Contains("rank:0")));
  }
  for (const char* task : {"rank:0", "rank:2"}) {
    for (const Row& row : RowsOf(task, name)) {
      EXPECT_EQ(row.place, 2);
      EXPECT_EQ(row.flow, RowsOf("rank:0", name)[0].flow);
    }
  }
  threads.push_back(run(1));
  if (GetParam()) Await([] { return WaitsOf("rank:0") == std::vector<std::string>{"rank:3"}; });
  EXPECT_THAT(WaitsOf("rank:3"), IsEmpty());
  threads.push_back(run(3));
  for (std::thread& thread : threads) thread.join();
  for (const char* task : {"rank:0", "rank:1", "rank:2", "rank:3"}) EXPECT_THAT(WaitsOf(task), IsEmpty());
}
INSTANTIATE_TEST_SUITE_P(Ways, OneHostOrNot, testing::Bool());

TEST(GroupMonitor, AnOperationThatFailsEndsItsRecord) {
  for (const bool arena : {false, true}) {
    Party party(2, task::TransportChoice::kAuto, arena ? OneHost(2) : GroupOptions());
    ShowAll(party);
    party.Run([](int, Group& group) { ExpectSum(group, 31); });
    Numbers ones(32, 1);
    EXPECT_EQ(party.at(0).Run(Sum(&ones, 300 * kMillisecondNs)).code(), Code::kTimeout);
    EXPECT_THAT(WaitsOf("rank:0"), IsEmpty());
    for (const Row& row : RowsOf("rank:0", "i32 32")) EXPECT_FALSE(row.is_open);
    EXPECT_FALSE(RowsOf("rank:0", "i32 32").empty());
  }
}

TEST(GroupMonitor, AGroupThatShrinksHasFewerMembers) {
  Party party(3);
  ShowAll(party);
  party.Run([](int, Group& group) { ExpectSum(group); });
  party.Leave(1);
  party.Run([](int, Group& group) { EXPECT_TRUE(group.Shrink(20 * kSecondNs).ok()); });
  const std::string status = StatusText();
  EXPECT_THAT(status, HasSubstr("\"task\":\"rank:2\""));  // by its number at the beginning
  EXPECT_THAT(status, Not(HasSubstr("\"rank:1\":")));
  party.Run([](int, Group& group) { ExpectSum(group, 51); });
  EXPECT_EQ(RowsOf("rank:2", "all-reduce i32 51").size(), 1u);
}

}  // namespace
}  // namespace fusewire::collective
