// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/fuse/passes.h"

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <tensorflow/core/common_runtime/graph_constructor.h>
#include <tensorflow/core/framework/node_def_util.h>
#include <tensorflow/core/graph/algorithm.h>
#include <tensorflow/core/graph/node_builder.h>
#include <tensorflow/core/public/session_options.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::NodeBuilder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

// The worker's partition of a graph: what it receives, and what takes that.
class FusePassTest : public testing::Test {
 protected:
  static constexpr const char* kServer = "/job:ps/replica:0/task:0/device:CPU:0";
  static constexpr const char* kOwn = "/job:worker/replica:0/task:0/device:CPU:0";

  Node* Finish(const NodeBuilder& builder) {
    Node* node = nullptr;
    NodeBuilder mine = builder;
    TfStatus made = mine.Finalize(graph_.get(), &node);
    EXPECT_TRUE(made.ok()) << made;
    node->set_assigned_device_name(kOwn);
    return node;
  }
  Node* Recv(const std::string& producer, const char* from = kServer, bool is_feed = false) {
    return Finish(NodeBuilder("recv_" + producer, "_Recv")
                      .Attr("tensor_type", tensorflow::DT_FLOAT)
                      .Attr("tensor_name", "edge_7_" + producer)
                      .Attr("send_device", from)
                      .Attr("send_device_incarnation", int64_t{11})
                      .Attr("recv_device", kOwn)
                      .Attr("client_terminated", is_feed));
  }
  // Takes a tensor; `levels` is what the master has marked it with.
  Node* Take(Node* from, const std::vector<std::string>& levels = {}) {
    Node* node = Finish(NodeBuilder("take_" + from->name(), "Neg").Input(from));
    if (!levels.empty()) node->AddAttr("_fusewire_levels", levels);
    return node;
  }
  void RunPass() {
    tensorflow::FixupSourceAndSinkEdges(graph_.get());
    std::unordered_map<std::string, std::unique_ptr<Graph>> partitions;
    partitions[kOwn] = std::move(graph_);
    tensorflow::GraphOptimizationPassOptions options;
    options.partition_graphs = &partitions;
    TfStatus run = FusePass().Run(options);
    EXPECT_TRUE(run.ok()) << run;
    graph_ = std::move(partitions[kOwn]);
  }
  std::vector<Node*> Of(const std::string& op) const {
    std::vector<Node*> nodes;
    for (Node* node : graph_->op_nodes()) {
      if (node->type_string() == op) nodes.push_back(node);
    }
    return nodes;
  }
  // From which output of what node it takes its input.
  static std::string InputOf(const Node* node) {
    const tensorflow::Edge* edge = nullptr;
    EXPECT_TRUE(node->input_edge(0, &edge).ok());
    return edge->src()->type_string() + ":" + std::to_string(edge->src_output());
  }

  std::unique_ptr<Graph> graph_ = std::make_unique<Graph>(tensorflow::OpRegistry::Global());
};

TEST_F(FusePassTest, ReceivesOfOneLevelBecomeOne) {
  Node* first = Take(Recv("a"), {"a=0", "b=0", "c=1"});
  Node* second = Take(Recv("b"));
  Node* other = Take(Recv("c"));
  RunPass();
  ASSERT_EQ(Of("_FuseRecv").size(), 1u);
  EXPECT_EQ(InputOf(first), "_FuseRecv:0");
  EXPECT_EQ(InputOf(second), "_FuseRecv:1");
  EXPECT_EQ(InputOf(other), "_Recv:0");  // of another level
  const Node* fused = Of("_FuseRecv")[0];
  EXPECT_EQ(fused->assigned_device_name(), kOwn);
  std::vector<std::string> keys;
  ASSERT_TRUE(tensorflow::GetNodeAttr(fused->attrs(), "keys", &keys).ok());
  EXPECT_THAT(keys, ElementsAre(HasSubstr("edge_7_a;"), HasSubstr("edge_7_b;")));
  EXPECT_THAT(keys[0], HasSubstr(std::string(kServer) + ";000000000000000b;" + kOwn));
}

TEST_F(FusePassTest, AControlDependencyOnOneOfThemStays) {
  Node* recv = Recv("b");
  Take(Recv("a"), {"a=0", "b=0"});
  Take(recv);
  Node* after = Finish(NodeBuilder("after", "NoOp").ControlInput(recv));
  RunPass();
  ASSERT_EQ(Of("_FuseRecv").size(), 1u);
  std::vector<std::string> before;
  for (const tensorflow::Edge* edge : after->in_edges()) {
    if (edge->src()->IsOp()) before.push_back(edge->src()->type_string());
  }
  EXPECT_THAT(before, ElementsAre("_FuseRecv"));
}

TEST_F(FusePassTest, FeedsOwnTensorsAndThoseThatWaitStayAsTheyAre) {
  Take(Recv("a"), {"a=0", "fed=0", "own=0", "late=0"});
  Take(Recv("fed", kServer, /*is_feed=*/true));
  Take(Recv("own", "/job:worker/replica:0/task:0/device:CPU:1"));
  Node* late = Recv("late");
  graph_->AddControlEdge(Finish(NodeBuilder("first", "NoOp")), late);
  Take(late);
  RunPass();
  EXPECT_TRUE(Of("_FuseRecv").empty());
  EXPECT_EQ(Of("_Recv").size(), 4u);
}

TEST_F(FusePassTest, WithoutMarksNothingIsFused) {
  Take(Recv("a"));
  Take(Recv("b"));
  RunPass();
  EXPECT_EQ(Of("_Recv").size(), 2u);
}

// ---- in the master ----

class MarkPassTest : public FusePassTest {
 protected:
  MarkPassTest() {
    auto* option = session_.config.mutable_graph_options()->mutable_rewrite_options()->add_custom_optimizers();
    option->set_name("fusewire");
    (*option->mutable_parameter_map())["tensor_fuse"].set_b(true);
    Node* weights = Finish(NodeBuilder("weights", "Placeholder").Attr("dtype", tensorflow::DT_FLOAT));
    weights->set_assigned_device_name(kServer);
    Take(weights);
    tensorflow::FixupSourceAndSinkEdges(graph_.get());
  }
  bool Marks(bool is_function = false) {
    auto graph = std::make_unique<Graph>(tensorflow::OpRegistry::Global());
    tensorflow::CopyGraph(*graph_, graph.get());
    tensorflow::GraphOptimizationPassOptions options;
    options.session_options = &session_;
    options.graph = &graph;
    options.is_function_graph = is_function;
    EXPECT_TRUE(MarkPass().Run(options).ok());
    return !ReadLevels(*graph).empty();
  }
  tensorflow::SessionOptions session_;
};

TEST_F(MarkPassTest, MarksWhereTheSessionAsksForIt) {
  EXPECT_TRUE(Marks());
  session_.config.Clear();
  EXPECT_FALSE(Marks());
}

TEST_F(MarkPassTest, LeavesFunctionsAndGraphsThatAreHeld) {
  EXPECT_FALSE(Marks(/*is_function=*/true));
  HoldFusion(1);
  EXPECT_TRUE(AreGraphsHeld());
  EXPECT_FALSE(Marks());
  HoldFusion(-1);
  EXPECT_TRUE(Marks());
}

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

TEST(TensorFuse, TheLastSettingCounts) {
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
