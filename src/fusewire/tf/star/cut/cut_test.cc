// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/cut/cut.h"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tensorflow/core/common_runtime/graph_constructor.h>
#include <tensorflow/core/framework/node_def_util.h>
#include <tensorflow/core/protobuf/worker.pb.h>
#include "fusewire/tf/bridge/names.h"
#include "fusewire/tf/star/cut/sketch_test.h"

namespace fusewire::tf {
namespace {

using tensorflow::DT_BOOL;
using tensorflow::Node;
using testing::ElementsAre;

std::vector<Node*> RunsOf(const Sketch& sketch) {
  std::vector<Node*> runs;
  for (Node* node : sketch.graph.op_nodes()) {
    if (node->type_string() == kRunOp) runs.push_back(node);
  }
  return runs;
}

std::string TextOf(const Node* run, const char* name) {
  std::string text;
  EXPECT_TRUE(tensorflow::GetNodeAttr(run->attrs(), name, &text).ok());
  return text;
}

void CutAll(Sketch* sketch) {
  Straighten(Sketch::IsServed, &sketch->graph);
  Grouping grouping = sketch->Group();
  CutOptions options;
  options.home = Sketch::kWorker;
  TfStatus done = CutGroups(grouping, options, &sketch->graph);
  EXPECT_TRUE(done.ok()) << done;
}

// All that a piece can have: copies, arguments that are used twice, controls, conditions, results.
std::vector<std::function<void(Sketch*)>> Pieces() {
  auto find = [](Sketch* sketch, const char* name) { return sketch->Find(name); };
  return {
      [](Sketch* sketch) { sketch->Constant("one", Sketch::kWorker, 1.0F); },
      [](Sketch* sketch) { sketch->Variable("first", Sketch::kPs); },
      [](Sketch* sketch) { sketch->Variable("second", Sketch::kOtherPs); },
      [](Sketch* sketch) { sketch->Fed("fed", Sketch::kWorker); },
      [](Sketch* sketch) { sketch->Fed("choice", Sketch::kWorker, DT_BOOL); },
      [find](Sketch* sketch) { sketch->Read("read", find(sketch, "first")); },
      [find](Sketch* sketch) { sketch->Op("negated", "Neg", Sketch::kPs, {find(sketch, "read")}); },
      [find](Sketch* sketch) { sketch->Sum("loss", Sketch::kWorker, find(sketch, "negated"), find(sketch, "fed")); },
      [find](Sketch* sketch) { sketch->Update("update", find(sketch, "first"), find(sketch, "loss")); },
      [find](Sketch* sketch) { sketch->Update("other", find(sketch, "second"), find(sketch, "one")); },
      [find](Sketch* sketch) {
        sketch->Update("count", find(sketch, "first"), find(sketch, "one"), {find(sketch, "update")});
      },
      [find](Sketch* sketch) {
        sketch->Op("either", "Switch", Sketch::kPs, {find(sketch, "loss"), find(sketch, "choice")});
      },
      [find](Sketch* sketch) {
        sketch->Op("taken", "Square", Sketch::kPs, {{find(sketch, "either"), 1}});
      },
      [find](Sketch* sketch) { sketch->Op("home", "Neg", Sketch::kWorker, {find(sketch, "taken")}); },
  };
}

TEST(StarCut, PiecesAreGraphsWithEndsAndNothingIsLeft) {
  Sketch sketch;
  for (const auto& draw : Pieces()) draw(&sketch);
  CutAll(&sketch);
  EXPECT_EQ(RunsOf(sketch).size(), 3);
  for (const Node* node : sketch.graph.op_nodes())
    EXPECT_EQ(node->assigned_device_name(), Sketch::kWorker) << node->name();
  for (const Node* run : RunsOf(sketch)) {
    tensorflow::RegisterGraphRequest request;
    ASSERT_TRUE(request.ParseFromString(TextOf(run, "piece")));
    const tensorflow::GraphDef& piece = request.graph_def();
    tensorflow::Graph graph(tensorflow::OpRegistry::Global());
    tensorflow::GraphConstructorOptions options;
    options.allow_internal_ops = true;
    options.expect_device_spec = true;
    TfStatus made = tensorflow::ConvertGraphDefToGraph(options, piece, &graph);
    EXPECT_TRUE(made.ok()) << made << "\n" << piece.DebugString();
    auto count = [&piece](const std::string& op) {
      return std::count_if(piece.node().begin(), piece.node().end(), [&](const auto& node) { return node.op() == op; });
    };
    EXPECT_EQ(count("_Arg"), run->num_inputs());
    EXPECT_EQ(count("_Retval"), run->num_outputs());
    EXPECT_EQ(TextOf(run, "shown"), NameOfPart(piece));
    EXPECT_THAT(TextOf(run, "task"), testing::StartsWith("/job:ps/replica:0/task:"));
  }
}

TEST(StarCut, WhatLeavesUnderAConditionGoesThroughASwitchAtHome) {
  Sketch sketch;
  for (const auto& draw : Pieces()) draw(&sketch);
  CutAll(&sketch);
  Node *through = nullptr, *condition = nullptr;
  ASSERT_TRUE(sketch.Find("home")->input_node(0, &through).ok());
  EXPECT_TRUE(through->IsSwitch());
  ASSERT_TRUE(through->input_node(1, &condition).ok());
  EXPECT_EQ(condition->name(), "choice");
}

TEST(StarCut, EqualGraphsHaveEqualFingerprintsWhateverTheOrder) {
  std::vector<std::string> first;
  std::vector<std::function<void(Sketch*)>> pieces = Pieces();
  for (int order = 0; order < 8; ++order) {
    Sketch sketch;
    std::vector<std::function<void(Sketch*)>> drawn = pieces;
    // As far as inputs allow: the first five have none; what stands at the two servers needs nothing of the other.
    std::rotate(drawn.begin(), drawn.begin() + order % 5, drawn.begin() + 5);
    if (order % 2 == 1) std::rotate(drawn.begin() + 5, drawn.begin() + 9, drawn.begin() + 10);
    if (order % 4 == 2) std::rotate(drawn.begin() + 9, drawn.begin() + 10, drawn.end());
    for (const auto& draw : drawn) draw(&sketch);
    CutAll(&sketch);
    std::vector<std::string> fingerprints;
    for (const Node* run : RunsOf(sketch)) fingerprints.push_back(TextOf(run, "fingerprint"));
    std::sort(fingerprints.begin(), fingerprints.end());
    if (first.empty()) first = fingerprints;
    EXPECT_EQ(fingerprints, first) << "order " << order;
  }
}

TEST(StarCut, OtherGraphsHaveOtherFingerprints) {
  std::vector<std::string> seen;
  for (float value : {1.0F, 2.0F}) {
    Sketch sketch;
    sketch.Update("update", sketch.Variable("variable", Sketch::kPs), sketch.Constant("one", Sketch::kPs, value));
    CutAll(&sketch);
    ASSERT_EQ(RunsOf(sketch).size(), 1);
    seen.push_back(TextOf(RunsOf(sketch)[0], "fingerprint"));
  }
  EXPECT_NE(seen[0], seen[1]);
}

TEST(StarCut, WaitsAreKept) {
  Sketch sketch;
  Node* fed = sketch.Fed("fed", Sketch::kWorker);
  Node* update =
      sketch.Update("update", sketch.Variable("variable", Sketch::kPs), fed, {sketch.Fed("go", Sketch::kWorker)});
  Node* after = sketch.Op("after", "Neg", Sketch::kWorker, {fed}, {update});
  CutAll(&sketch);
  ASSERT_EQ(RunsOf(sketch).size(), 1);
  auto waits = [](const Node* node) {
    std::vector<std::string> names;
    for (const tensorflow::Edge* edge : node->in_edges()) {
      if (edge->IsControlEdge() && edge->src()->IsOp()) names.push_back(edge->src()->name());
    }
    return names;
  };
  EXPECT_THAT(waits(RunsOf(sketch)[0]), ElementsAre("go"));
  EXPECT_THAT(waits(after), ElementsAre(RunsOf(sketch)[0]->name()));
}

}  // namespace
}  // namespace fusewire::tf
