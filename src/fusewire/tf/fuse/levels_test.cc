// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/fuse/levels.h"

#include <string>
#include <vector>

#include "fusewire/tf/fuse/passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tensorflow/core/framework/node_def_util.h>
#include <tensorflow/core/graph/algorithm.h>
#include <tensorflow/core/graph/node_builder.h>

namespace fusewire::tf {
namespace {

using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::NodeBuilder;
using testing::Pair;
using testing::UnorderedElementsAre;

constexpr const char* kPs = "/job:ps/replica:0/task:0/device:CPU:0";
constexpr const char* kWorker = "/job:worker/replica:0/task:0/device:CPU:0";

class Drawing {
 public:
  Node* Source(const std::string& name, const char* device) {
    return Done(NodeBuilder(name, "Placeholder").Attr("dtype", tensorflow::DT_FLOAT), device);
  }
  Node* Sum(const std::string& name, const char* device, Node* left, Node* right) {
    return Done(NodeBuilder(name, "Add").Input(left).Input(right), device);
  }
  Node* Done(const NodeBuilder& builder, const char* device) {
    Node* node = nullptr;
    NodeBuilder mine = builder;
    TfStatus made = mine.Finalize(&graph, &node);
    EXPECT_TRUE(made.ok()) << made;
    node->set_assigned_device_name(device);
    return node;
  }
  int Mark() {
    tensorflow::FixupSourceAndSinkEdges(&graph);
    return MarkLevels(&graph);
  }
  Graph graph{tensorflow::OpRegistry::Global()};
};

TEST(Levels, CountHowOftenTensorsCross) {
  Drawing drawing;
  Node* weights = drawing.Source("weights", kPs);
  Node* bias = drawing.Source("bias", kPs);
  Node* loss = drawing.Sum("loss", kWorker, weights, bias);
  Node* update = drawing.Sum("update", kPs, weights, loss);
  Node* after = drawing.Sum("after", kWorker, update, loss);
  EXPECT_EQ(drawing.Mark(), 4);
  EXPECT_THAT(ReadLevels(drawing.graph),
              UnorderedElementsAre(Pair("weights", 0), Pair("bias", 0), Pair("loss", 1), Pair("update", 2)));
  EXPECT_EQ(after->assigned_device_name(), kWorker);
}

TEST(Levels, CountControlEdgesToo) {
  Drawing drawing;
  Node* first = drawing.Source("first", kWorker);
  Node* second = drawing.Source("second", kPs);
  drawing.graph.AddControlEdge(first, second);
  Node* third = drawing.Sum("third", kWorker, second, first);
  EXPECT_EQ(drawing.Mark(), 2);
  EXPECT_THAT(ReadLevels(drawing.graph), UnorderedElementsAre(Pair("first", 0), Pair("second", 1)));
  EXPECT_NE(third, nullptr);
}

TEST(Levels, SayNothingBehindControlFlow) {
  Drawing drawing;
  Node* weights = drawing.Source("weights", kPs);
  Node* choice = drawing.Done(NodeBuilder("choice", "Placeholder").Attr("dtype", tensorflow::DT_BOOL), kWorker);
  Node* either = drawing.Done(NodeBuilder("either", "Switch").Input(weights).Input(choice), kWorker);
  drawing.Sum("dead_perhaps", kPs, either, either);
  drawing.Sum("alive", kWorker, weights, weights);
  EXPECT_EQ(drawing.Mark(), 2);  // both inputs of "alive"
  EXPECT_THAT(ReadLevels(drawing.graph), UnorderedElementsAre(Pair("weights", 0)));
}

TEST(Levels, AreNotReadFromNonsense) {
  Drawing drawing;
  Node* node = drawing.Source("node", kPs);
  node->AddAttr("_fusewire_levels", std::vector<std::string>{"", "a", "a=", "=b", "a=b", "c=1"});
  EXPECT_THAT(ReadLevels(drawing.graph), UnorderedElementsAre(Pair("c", 1)));
}

TEST(TensorFuse, IsWhatTheLastWordSays) {
  tensorflow::ConfigProto config;
  EXPECT_FALSE(WantsFuse(config));
  SetFuseByDefault(true);
  EXPECT_TRUE(WantsFuse(config));
  auto* option = config.mutable_graph_options()->mutable_rewrite_options()->add_custom_optimizers();
  option->set_name("fusewire");
  (*option->mutable_parameter_map())["tensor_fuse"].set_b(false);
  EXPECT_FALSE(WantsFuse(config));
  config.MergeFrom(tensorflow::ConfigProto(config));
  (*config.mutable_graph_options()
        ->mutable_rewrite_options()
        ->mutable_custom_optimizers(1)
        ->mutable_parameter_map())["tensor_fuse"]
      .set_b(true);
  EXPECT_TRUE(WantsFuse(config));
  SetFuseByDefault(false);
}

}  // namespace
}  // namespace fusewire::tf
