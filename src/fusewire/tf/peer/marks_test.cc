// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/peer/marks.h"

#include <string>

#include "fusewire/tf/peer/recorded_test.h"
#include "fusewire/tf/peer/world_test.h"

#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

TEST(Marks, BothEndsOfAReceiveFindTheSameFlow) {
  Recorded recorded;
  const std::string key = KeyOf("edge_5_weights");
  tensorflow::Rendezvous::ParsedKey parsed;
  ASSERT_TRUE(tensorflow::Rendezvous::ParseKey(key, &parsed).ok());
  const std::string said = key.substr(0, key.rfind(';') + 1);
  const Mark receive = MarkReceive(said), provide = MarkProvide(said, parsed);
  EXPECT_NE(receive.tag, provide.tag);
  EXPECT_EQ(receive.hash, provide.hash);
  EXPECT_EQ(FlowOf(receive, 7), FlowOf(provide, 7));
  EXPECT_NE(FlowOf(receive, 7), FlowOf(receive, 8));
  EXPECT_NE(FlowOf(receive, 7), FlowOf(MarkReceive(KeyOf("edge_6_weights")), 7));
  const observe::Tag& tag = observe::TheRecorder()->tags().at(receive.tag);
  EXPECT_EQ(tag.task, "worker:0");
  EXPECT_EQ(tag.peer, "ps:0");
  EXPECT_EQ(tag.name, "weights");
  EXPECT_EQ(observe::TheRecorder()->tags().at(provide.tag).task, "ps:0");
  EXPECT_EQ(MarkReceive("no key").hash, 0u);
}

TEST(Marks, RunsOfAPartAreTheSameFlowAtBothEnds) {
  Recorded recorded;
  const Mark out = MarkRun(observe::Kind::kRunOut, "worker:0", "ps:1", "fusewire/ps_1/round_1_0", "ps:1", 3);
  const Mark in = MarkRun(observe::Kind::kRunIn, "ps:1", "worker:0", "part 3", "ps:1", 3);
  EXPECT_EQ(FlowOf(out, 5), FlowOf(in, 5));
  EXPECT_NE(FlowOf(out, 5), FlowOf(MarkRun(observe::Kind::kRunIn, "ps:0", "worker:0", "part 3", "ps:0", 3), 5));
}

TEST(Marks, WithoutARecorderThereIsNothingToFind) {
  observe::Recorder* const before = observe::the_recorder.exchange(nullptr);  // of a server that another test has made
  EXPECT_EQ(MarkReceive(KeyOf("edge_5_weights")).tag, 0u);
  observe::the_recorder.store(before);
  EXPECT_EQ(FlowOf(Mark(), 5), 0u);
}

}  // namespace
}  // namespace fusewire::tf
