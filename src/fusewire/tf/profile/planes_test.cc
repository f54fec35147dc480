// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/profile/profiler.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>

namespace fusewire::tf {
namespace {

using tensorflow::profiler::XEvent;
using tensorflow::profiler::XLine;
using tensorflow::profiler::XPlane;
using tensorflow::profiler::XStat;

class WirePlaneTest : public testing::Test {
 protected:
  WirePlaneTest() {
    record_.begun_ns = 1'000'000;
    record_.ended_ns = 2'000'000;
  }

  observe::EventFacts& Add(observe::Kind kind, const std::string& peer, const std::string& name, int64_t begun_ns,
                           int64_t ended_ns) {
    observe::EventFacts& event = record_.events.emplace_back();
    event.kind = kind;
    event.peer = peer;
    event.name = name;
    event.begun_ns = begun_ns;
    event.ended_ns = ended_ns;
    return event;
  }
  void Write() { WritePlane(std::move(record_), &plane_); }

  std::string NameOf(const XEvent& event) const { return plane_.event_metadata().at(event.metadata_id()).name(); }
  std::map<std::string, XStat> StatsOf(const XEvent& event) const {
    std::map<std::string, XStat> stats;
    for (const XStat& stat : event.stats()) stats[plane_.stat_metadata().at(stat.metadata_id()).name()] = stat;
    return stats;
  }

  WireRecord record_;
  XPlane plane_;
};

TEST_F(WirePlaneTest, AnEventSaysItsPeerTensorBytesAndWaits) {
  observe::EventFacts& event = Add(observe::Kind::kReceive, "ps:0", "weights", 1'100'000, 1'150'000);
  event.step = 77;
  event.bytes_in = 4096;
  event.arrived_ns = 1'130'000;
  Write();
  EXPECT_EQ(plane_.name(), kWirePlane);
  ASSERT_EQ(plane_.lines_size(), 1);
  EXPECT_EQ(plane_.lines(0).name(), "received from ps:0");
  EXPECT_EQ(plane_.lines(0).timestamp_ns(), 1'000'000);
  ASSERT_EQ(plane_.lines(0).events_size(), 1);
  const XEvent& written = plane_.lines(0).events(0);
  EXPECT_EQ(NameOf(written), "weights");
  EXPECT_EQ(written.offset_ps(), 100'000'000);
  EXPECT_EQ(written.duration_ps(), 50'000'000);
  auto stats = StatsOf(written);
  EXPECT_EQ(stats["peer"].str_value(), "ps:0");
  EXPECT_EQ(stats["tensor"].str_value(), "weights");
  EXPECT_EQ(stats["step"].int64_value(), 77);
  EXPECT_EQ(stats["bytes_in"].uint64_value(), 4096u);
  EXPECT_EQ(stats["queue"].uint64_value(), 1u);
  EXPECT_DOUBLE_EQ(stats["wait_us"].double_value(), 30);
  EXPECT_DOUBLE_EQ(stats["land_us"].double_value(), 20);
  EXPECT_EQ(stats.count("error"), 0u);
}

TEST_F(WirePlaneTest, EachPeerAndKindHasALine) {
  Add(observe::Kind::kReceive, "ps:0", "a", 1'000'000, 1'000'100);
  Add(observe::Kind::kReceive, "ps:1", "b", 1'000'000, 1'000'100);
  Add(observe::Kind::kProvide, "ps:0", "c", 1'000'000, 1'000'100);
  Add(observe::Kind::kRunOut, "ps:0", "d", 1'000'000, 1'000'100);
  Add(observe::Kind::kRunIn, "worker:0", "e", 1'000'000, 1'000'100);
  Add(observe::Kind::kCollective, "group 1 of 2", "f", 1'000'000, 1'000'100);
  Write();
  std::map<std::string, int> lines;
  for (const XLine& line : plane_.lines()) lines[line.name()] = line.events_size();
  EXPECT_EQ(lines, (std::map<std::string, int>{{"received from ps:0", 1},
                                               {"received from ps:1", 1},
                                               {"sent to ps:0", 1},
                                               {"run by ps:0", 1},
                                               {"run for worker:0", 1},
                                               {"collectives of group 1 of 2", 1}}));
}

// A viewer draws events of a line inside each other or side by side.
TEST_F(WirePlaneTest, EventsThatOverlapOtherwiseGetAnotherLine) {
  Add(observe::Kind::kReceive, "ps:0", "inner", 1'000'000, 1'000'200);  // in the order of their ends
  Add(observe::Kind::kReceive, "ps:0", "outer", 1'000'000, 1'000'300);
  Add(observe::Kind::kReceive, "ps:0", "across", 1'000'100, 1'000'400);
  Add(observe::Kind::kReceive, "ps:0", "later", 1'000'300, 1'000'500);
  Write();
  ASSERT_EQ(plane_.lines_size(), 2);
  const XLine &first = plane_.lines(0), &second = plane_.lines(1);
  EXPECT_EQ(second.name(), "received from ps:0 (2)");
  ASSERT_EQ(first.events_size(), 3);
  EXPECT_EQ(NameOf(first.events(0)), "outer");
  EXPECT_EQ(NameOf(first.events(1)), "inner");
  EXPECT_EQ(NameOf(first.events(2)), "later");
  ASSERT_EQ(second.events_size(), 1);
  EXPECT_EQ(NameOf(second.events(0)), "across");
  EXPECT_EQ(StatsOf(second.events(0))["queue"].uint64_value(), 3u);
  EXPECT_EQ(StatsOf(first.events(2))["queue"].uint64_value(), 2u);  // with "across"
}

TEST_F(WirePlaneTest, TimesOutsideOfTheProfileAreClipped) {
  Add(observe::Kind::kReceive, "ps:0", "begun before", 0, 1'500'000);
  observe::EventFacts& odd = Add(observe::Kind::kReceive, "ps:0", "a clock that was set back", 1'900'000, 1'800'000);
  odd.arrived_ns = 5;
  Add(observe::Kind::kReceive, "ps:0", "ended after", 1'700'000, 9'000'000);
  Write();
  for (const XLine& line : plane_.lines()) {
    for (const XEvent& event : line.events()) {
      EXPECT_GE(event.offset_ps(), 0) << NameOf(event);
      EXPECT_GE(event.duration_ps(), 0) << NameOf(event);
      EXPECT_LE(event.offset_ps() + event.duration_ps(), 1'000'000'000) << NameOf(event);
      auto stats = StatsOf(event);
      EXPECT_GE(stats["wait_us"].double_value(), 0) << NameOf(event);
      EXPECT_GE(stats["land_us"].double_value(), 0) << NameOf(event);
    }
  }
}

TEST_F(WirePlaneTest, AFailureHasItsErrorAndTheLostAreCounted) {
  Add(observe::Kind::kReceive, "ps:0", "weights", 1'000'000, 1'000'100).error = "UNAVAILABLE: gone";
  record_.left_out = 3;
  Write();
  EXPECT_EQ(StatsOf(plane_.lines(0).events(0))["error"].str_value(), "UNAVAILABLE: gone");
  ASSERT_EQ(plane_.stats_size(), 1);
  EXPECT_EQ(plane_.stat_metadata().at(plane_.stats(0).metadata_id()).name(), "left_out");
  EXPECT_EQ(plane_.stats(0).uint64_value(), 3u);
}

TEST_F(WirePlaneTest, ManyThatOverlapStayWithinTheirLines) {
  for (int i = 0; i < 1000; ++i) Add(observe::Kind::kReceive, "ps:0", "one", 1'000'000 + i, 1'500'000 + i);
  Write();
  int events = 0;
  for (const XLine& line : plane_.lines()) events += line.events_size();
  EXPECT_EQ(events, 1000);
  EXPECT_EQ(plane_.lines_size(), 64);
}

}  // namespace
}  // namespace fusewire::tf
