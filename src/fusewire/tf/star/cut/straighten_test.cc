// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/cut/grouping.h"

#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tensorflow/core/graph/algorithm.h>
#include <tensorflow/core/graph/control_flow.h>
#include "fusewire/tf/star/cut/sketch_test.h"

namespace fusewire::tf {
namespace {

using tensorflow::DT_BOOL;
using tensorflow::Edge;
using tensorflow::Node;
using tensorflow::NodeBuilder;
using tensorflow::Tensor;
using testing::ElementsAre;

void RunStraighten(Sketch* sketch) {
  tensorflow::FixupSourceAndSinkEdges(&sketch->graph);
  Straighten(Sketch::IsServed, &sketch->graph);
}

Node* InputOf(Node* node, int input) {
  Node* from = nullptr;
  EXPECT_TRUE(node->input_node(input, &from).ok());
  return from;
}

std::set<std::string> WaitsFor(const Node* node) {
  std::set<std::string> names;
  for (const Edge* edge : node->in_edges()) {
    if (edge->IsControlEdge() && edge->src()->IsOp()) names.insert(edge->src()->name());
  }
  return names;
}

TEST(Straighten, WhatComesBackThroughAnIdentityComesFromHome) {
  Sketch sketch;
  Node* read = sketch.Read("read", sketch.Variable("variable", Sketch::kPs));
  Node* first = sketch.Op("first", "Identity", Sketch::kWorker, {read});
  Node* second = sketch.Op("second", "Identity", Sketch::kWorker, {first});
  Node* used = sketch.Op("used", "Neg", Sketch::kPs, {second});
  Node* elsewhere = sketch.Op("elsewhere", "Neg", Sketch::kOtherPs, {second});
  RunStraighten(&sketch);
  EXPECT_EQ(InputOf(used, 0), read);
  EXPECT_EQ(InputOf(elsewhere, 0), second);
}

TEST(Straighten, AnIdentityThatWaitsStays) {
  Sketch sketch;
  Node* read = sketch.Read("read", sketch.Variable("variable", Sketch::kPs));
  Node* waits = sketch.Op("waits", "Identity", Sketch::kWorker, {read}, {sketch.Fed("fed", Sketch::kWorker)});
  Node* used = sketch.Op("used", "Neg", Sketch::kPs, {waits});
  RunStraighten(&sketch);
  EXPECT_EQ(InputOf(used, 0), waits);
}

TEST(Straighten, GroupOfTheWorkerIsWaitedForItself) {
  Sketch sketch;
  Node* fed = sketch.Fed("fed", Sketch::kWorker);
  Node* here = sketch.Update("here", sketch.Variable("first", Sketch::kPs), fed);
  Node* there = sketch.Update("there", sketch.Variable("second", Sketch::kOtherPs), fed);
  Node* inner = sketch.Op("inner", "NoOp", Sketch::kWorker, {}, {here});
  Node* group = sketch.Op("group", "NoOp", Sketch::kWorker, {}, {inner, there});
  Node* count = sketch.Update("count", sketch.Variable("step", Sketch::kPs), fed, {group});
  RunStraighten(&sketch);
  EXPECT_THAT(WaitsFor(count), ElementsAre("here", "there"));
}

TEST(Straighten, ConstantOfTheWorkerIsHadByEachServer) {
  Sketch sketch;
  Node* update = sketch.Update("update", sketch.Variable("first", Sketch::kPs), sketch.Fed("fed", Sketch::kWorker));
  Node* one = sketch.Constant("one", Sketch::kWorker, 1.0F);
  sketch.graph.AddControlEdge(update, one);
  Node* here = sketch.Update("here", sketch.Variable("second", Sketch::kPs), one);
  Node* also = sketch.Update("also", sketch.Variable("third", Sketch::kPs), one);
  Node* there = sketch.Update("there", sketch.Variable("fourth", Sketch::kOtherPs), one);
  RunStraighten(&sketch);
  EXPECT_EQ(InputOf(here, 1)->assigned_device_name(), Sketch::kPs);
  EXPECT_EQ(InputOf(here, 1), InputOf(also, 1));
  EXPECT_EQ(InputOf(there, 1)->assigned_device_name(), Sketch::kOtherPs);
  EXPECT_NE(InputOf(here, 1)->name(), InputOf(there, 1)->name());
  // The control input of the constant.
  EXPECT_THAT(WaitsFor(here), ElementsAre("update"));
  EXPECT_THAT(WaitsFor(there), ElementsAre("update"));
}

TEST(Straighten, LoopThatBeginsWithAConstantOfTheWorkerIsStillALoop) {
  Sketch sketch;
  Node* begin = sketch.Constant("begin", Sketch::kWorker, 1);
  Node* enter = sketch.Add(NodeBuilder("enter", "Enter").Input(begin).Attr("frame_name", "loop"), Sketch::kPs);
  Node* inside =
      sketch.Add(NodeBuilder("inside", "Const").Attr("dtype", DT_BOOL).Attr("value", Tensor(true)).ControlInput(enter),
                 Sketch::kPs);
  RunStraighten(&sketch);
  std::vector<tensorflow::ControlFlowInfo> info;
  ASSERT_TRUE(tensorflow::BuildControlFlowInfo(&sketch.graph, &info).ok());
  EXPECT_EQ(info[static_cast<size_t>(inside->id())].frame_name, "loop");
}

// It is dead in the other branch by what it waits for, and a Merge asks each of its inputs.
TEST(Straighten, ConstantOfABranchComesToAMergeFromItsBranch) {
  Sketch sketch;
  Node* choice = sketch.Fed("choice", Sketch::kWorker, DT_BOOL);
  Node* either = sketch.Op("either", "Switch", Sketch::kWorker, {choice, choice});
  Node* pivot = sketch.Op("pivot", "Identity", Sketch::kWorker, {{either, 1}});
  Node* one = sketch.Constant("one", Sketch::kWorker, 1.0F);
  sketch.graph.AddControlEdge(pivot, one);
  Node* always = sketch.Constant("always", Sketch::kWorker, 2.0F);
  Node* merged = sketch.Merge("merged", Sketch::kPs, {one, always});
  RunStraighten(&sketch);
  EXPECT_EQ(InputOf(merged, 0), one);
  EXPECT_NE(InputOf(merged, 1), always);
}

// A constant is in a loop because it waits for something there: a copy that waits for nothing is in no loop.
TEST(Straighten, ConstantInALoopStaysInTheLoop) {
  Sketch sketch;
  Node* begin = sketch.Fed("begin", Sketch::kWorker);
  Node* enter = sketch.Add(NodeBuilder("enter", "Enter").Input(begin).Attr("frame_name", "loop"), Sketch::kPs);
  Node* one = sketch.Constant("one", Sketch::kWorker, 1.0F);
  sketch.graph.AddControlEdge(enter, one);
  Node* sum = sketch.Sum("sum", Sketch::kPs, enter, one);
  RunStraighten(&sketch);
  EXPECT_EQ(InputOf(sum, 1), one);
  std::vector<tensorflow::ControlFlowInfo> info;
  EXPECT_TRUE(tensorflow::BuildControlFlowInfo(&sketch.graph, &info).ok());
}

TEST(Straighten, PivotIsMadeWhereItIsNeeded) {
  Sketch sketch;
  Node* choice = sketch.Fed("choice", Sketch::kWorker, DT_BOOL);
  Node* either = sketch.Op("either", "Switch", Sketch::kWorker, {choice, choice});
  Node* pivot = sketch.Op("pivot", "Identity", Sketch::kWorker, {{either, 1}});
  Node* one = sketch.Constant("one", Sketch::kPs, 1.0F);
  Node* update = sketch.Update("update", sketch.Variable("variable", Sketch::kPs), one, {pivot});
  RunStraighten(&sketch);
  ASSERT_EQ(WaitsFor(update).size(), 1);
  Node* made = sketch.Find(*WaitsFor(update).begin());
  EXPECT_NE(made, pivot);
  EXPECT_EQ(made->assigned_device_name(), Sketch::kPs);
  EXPECT_TRUE(InputOf(made, 0)->IsSwitch());
  EXPECT_EQ(InputOf(InputOf(made, 0), 1), choice);
  const Edge* through = nullptr;
  ASSERT_TRUE(made->input_edge(0, &through).ok());
  EXPECT_EQ(through->src_output(), 1);
}

// A Switch of another tensor depends on more than its condition: on that tensor.
TEST(Straighten, ASwitchOfAnotherValueIsNotAPivot) {
  Sketch sketch;
  Node* choice = sketch.Fed("choice", Sketch::kWorker, DT_BOOL);
  Node* either = sketch.Op("either", "Switch", Sketch::kWorker, {sketch.Fed("fed", Sketch::kWorker), choice});
  Node* taken = sketch.Op("taken", "Identity", Sketch::kWorker, {{either, 1}});
  Node* one = sketch.Constant("one", Sketch::kPs, 1.0F);
  Node* update = sketch.Update("update", sketch.Variable("variable", Sketch::kPs), one, {taken});
  RunStraighten(&sketch);
  EXPECT_THAT(WaitsFor(update), ElementsAre("taken"));
}

}  // namespace
}  // namespace fusewire::tf
