// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/compress/compress_pass.h"

#include <memory>
#include <string>
#include <vector>

#include <tensorflow/core/framework/tensor.h>
#include <tensorflow/core/graph/algorithm.h>
#include <tensorflow/core/graph/node_builder.h>
#include <tensorflow/core/public/session_options.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

using tensorflow::Edge;
using tensorflow::Node;
using tensorflow::NodeBuilder;
using testing::HasSubstr;

// A lookup in a table, and its gradient, as tf.compat.v1's optimizers write them.
class CompressTest : public testing::Test {
 protected:
  static constexpr const char* kPs = "/job:ps/replica:0/task:0/device:CPU:0";
  static constexpr const char* kWorker = "/job:worker/replica:0/task:0/device:CPU:0";

  Node* Put(const std::string& device, const NodeBuilder& builder) {
    Node* node = nullptr;
    NodeBuilder mine = builder;
    TfStatus made = mine.Finalize(graph_.get(), &node);
    EXPECT_TRUE(made.ok()) << made;
    node->set_assigned_device_name(device);
    return node;
  }
  Node* Fed(const std::string& name, tensorflow::DataType type, const tensorflow::PartialTensorShape& shape) {
    return Put(kWorker, NodeBuilder(name, "Placeholder").Attr("dtype", type).Attr("shape", shape));
  }
  Node* Constant(const std::string& device, const std::string& name, const std::vector<int32_t>& values, bool scalar) {
    tensorflow::Tensor value(tensorflow::DT_INT32,
                             scalar ? tensorflow::TensorShape({}) : tensorflow::TensorShape({int64_t(values.size())}));
    for (size_t i = 0; i < values.size(); ++i) value.flat<int32_t>()(int64_t(i)) = values[i];
    return Put(device, NodeBuilder(name, "Const").Attr("dtype", tensorflow::DT_INT32).Attr("value", value));
  }
  Node* Table(const std::string& name, tensorflow::DataType type = tensorflow::DT_FLOAT) {
    return Put(kPs,
               NodeBuilder(name, "VarHandleOp").Attr("dtype", type).Attr("shape", tensorflow::TensorShape({9, 4})));
  }
  // The rows go through an Identity beside the table to the worker.
  Node* Lookup(const std::string& name, Node* table, Node* ids) {
    Node* rows =
        Put(kPs, NodeBuilder(name, "ResourceGather").Input(table).Input(ids).Attr("dtype", tensorflow::DT_FLOAT));
    return Put(kWorker,
               NodeBuilder(name + "/used", "Neg").Input(Put(kPs, NodeBuilder(name + "/id", "Identity").Input(rows))));
  }
  // Sums of a repeated id's gradients beside the table, which they change.
  Node* Train(const std::string& name, Node* table, Node* ids, Node* gradients) {
    Node* unique = Put(kPs, NodeBuilder(name + "/unique", "Unique").Input(ids));
    Node* shape = Put(kPs, NodeBuilder(name + "/shape", "Shape").Input(unique));
    Node* number = Put(kPs, NodeBuilder(name + "/number", "StridedSlice")
                                .Input(shape)
                                .Input(Constant(kPs, name + "/begin", {0}, false))
                                .Input(Constant(kPs, name + "/end", {1}, false))
                                .Input(Constant(kPs, name + "/step", {1}, false))
                                .Attr("shrink_axis_mask", 1));
    Node* sum =
        Put(kPs, NodeBuilder(name + "/sum", "UnsortedSegmentSum").Input(gradients).Input(unique, 1).Input(number));
    Node* scaled = Put(kPs, NodeBuilder(name + "/scaled", "Mul").Input(sum).Input(Rate()));
    return Put(kPs, NodeBuilder(name, "ResourceScatterSub").Input(table).Input(unique).Input(scaled));
  }
  // A number that the worker computes.
  Node* Rate() {
    if (rate_ == nullptr) rate_ = Fed("rate", tensorflow::DT_FLOAT, tensorflow::PartialTensorShape({}));
    return rate_;
  }

  Compressed Apply(const CompressOptions& options) {
    tensorflow::FixupSourceAndSinkEdges(graph_.get());
    Compressed done;
    TfStatus status = Compress(options, graph_.get(), &done);
    EXPECT_TRUE(status.ok()) << status;
    tensorflow::FixupSourceAndSinkEdges(graph_.get());
    return done;
  }
  Node* Find(const std::string& name) {
    for (Node* node : graph_->op_nodes()) {
      if (node->name() == name) return node;
    }
    ADD_FAILURE() << "no node " << name;
    return nullptr;
  }
  // The operation that makes an input, and where.
  std::string Before(const std::string& name, int input) {
    const Edge* edge = nullptr;
    EXPECT_TRUE(Find(name)->input_edge(input, &edge).ok());
    return edge->src()->type_string() + (edge->src()->assigned_device_name() == kPs ? " ps" : " worker");
  }
  std::string Name(const std::string& name, int input) {
    const Edge* edge = nullptr;
    EXPECT_TRUE(Find(name)->input_edge(input, &edge).ok());
    return edge->src()->name();
  }
  static CompressOptions Unique() {
    CompressOptions options;
    options.unique_ids = true;
    return options;
  }
  static CompressOptions Bf16(const std::string& tables = "") {
    CompressOptions options;
    EXPECT_TRUE(options.ReadCompression("bf16").ok());
    options.ReadTables(tables);
    return options;
  }

  std::unique_ptr<tensorflow::Graph> graph_ = std::make_unique<tensorflow::Graph>(tensorflow::OpRegistry::Global());
  Node* rate_ = nullptr;
  Node* ids_ = Fed("ids", tensorflow::DT_INT64, tensorflow::PartialTensorShape({-1}));
  Node* gradients_ = Fed("gradients", tensorflow::DT_FLOAT, tensorflow::PartialTensorShape({-1, 4}));
};

TEST_F(CompressTest, IdsOfALookupAreSentOnce) {
  Lookup("rows", Table("table"), ids_);
  EXPECT_EQ(Apply(Unique()).lookups, 1);
  EXPECT_EQ(Before("rows", 1), "Unique worker");
  EXPECT_EQ(Before("rows/used", 0), "GatherV2 worker");
  EXPECT_EQ(Apply(Unique()).lookups, 0);  // they are unique already
}

TEST_F(CompressTest, RowsThatAreUsedAgainAreNotPulled) {
  CompressOptions options = Unique();
  options.staleness = 3;
  Lookup("rows", Table("table"), ids_);
  Lookup("ahead", Table("other"), ids_);
  Find("ahead")->AddAttr("_fusewire_ahead", true);
  const Compressed done = Apply(options);
  EXPECT_EQ(done.lookups, 2);
  EXPECT_EQ(done.caches, 1);
  EXPECT_EQ(Before("rows", 1), "FusewireFreshIds worker");
  EXPECT_EQ(Before(Name("rows", 1), 0), "Unique worker");
  EXPECT_EQ(Before("rows/used", 0), "GatherV2 worker");
  EXPECT_EQ(Before(Name("rows/used", 0), 0), "FusewireAllRows worker");
  EXPECT_EQ(Before("ahead", 1), "Unique worker");  // its rows are a step old already
}

TEST_F(CompressTest, SumsOfGradientsMoveToTheWorker) {
  Train("train", Table("table"), ids_, gradients_);
  EXPECT_EQ(Apply(Unique()).sums, 1);
  EXPECT_EQ(Before("train/scaled", 0), "UnsortedSegmentSum worker");
  EXPECT_EQ(Before("train", 1), "Unique worker");
  EXPECT_EQ(Before("train/number", 0), "Shape worker");
}

TEST_F(CompressTest, ASumOfWhatAParameterServerHasStays) {
  Node* table = Table("table");
  Node* read = Put(kPs, NodeBuilder("read", "ReadVariableOp").Input(table).Attr("dtype", tensorflow::DT_FLOAT));
  Train("train", table, ids_, read);
  EXPECT_EQ(Apply(Unique()).sums, 0);
  EXPECT_EQ(Before("train/scaled", 0), "UnsortedSegmentSum ps");
}

TEST_F(CompressTest, GraphsWithLoopsKeepTheirIds) {
  Lookup("rows", Table("table"), ids_);
  Put(kWorker, NodeBuilder("enter", "Enter").Input(ids_).Attr("frame_name", "loop"));
  EXPECT_EQ(Apply(Unique()).lookups, 0);
}

TEST_F(CompressTest, IdsOnAGpuStayAsTheyAre) {
  ids_->set_assigned_device_name("/job:worker/replica:0/task:0/device:GPU:0");
  Lookup("rows", Table("table"), ids_);
  EXPECT_EQ(Apply(Unique()).lookups, 0);
}

TEST_F(CompressTest, LookupsWhoseRowsAreUsedBesideTheTableStay) {
  Node* rows = Put(
      kPs, NodeBuilder("rows", "ResourceGather").Input(Table("table")).Input(ids_).Attr("dtype", tensorflow::DT_FLOAT));
  Put(kPs, NodeBuilder("norm", "L2Loss").Input(rows));
  Put(kWorker, NodeBuilder("used", "Neg").Input(rows));
  EXPECT_EQ(Apply(Unique()).lookups, 0);
}

TEST_F(CompressTest, RowsAndGradientsOfNamedTablesAreHalfAsLarge) {
  Node *named = Table("deep/table"), *other = Table("wide/table");
  Lookup("deep", named, ids_);
  Lookup("wide", other, ids_);
  Train("train_deep", named, ids_, gradients_);
  Train("train_wide", other, ids_, gradients_);
  const Compressed done = Apply(Bf16("deep/,another/"));
  EXPECT_EQ(done.rows, 1);
  EXPECT_EQ(Before("deep/used", 0), "Cast worker");
  EXPECT_EQ(Before("wide/used", 0), "Identity ps");
  // One tensor goes to both; for the other table it is whole.
  EXPECT_EQ(done.gradients, 1);
  EXPECT_EQ(Before("train_deep/sum", 0), "Cast ps");
  EXPECT_EQ(Before("train_wide/sum", 0), "Placeholder worker");
}

TEST_F(CompressTest, ARateIsNotAGradient) {
  Train("train", Table("table"), ids_, gradients_);
  EXPECT_EQ(Apply(Bf16()).gradients, 1);
  EXPECT_EQ(Before("train/scaled", 1), "Placeholder worker");
}

TEST_F(CompressTest, ValuesThatAreAssignedStayAsTheyAre) {
  Put(kPs, NodeBuilder("assign", "AssignVariableOp").Input(Table("table")).Input(gradients_));
  Put(kPs, NodeBuilder("set", "ResourceScatterUpdate").Input(Table("rows")).Input(ids_).Input(gradients_));
  EXPECT_FALSE(Apply(Bf16()).any());
}

TEST_F(CompressTest, TheSumIsMovedFirstSoThatItIsWhatShrinks) {
  Train("train", Table("table"), ids_, gradients_);
  CompressOptions both = Bf16();
  both.unique_ids = true;
  const Compressed done = Apply(both);
  EXPECT_EQ(done.sums, 1);
  EXPECT_EQ(done.gradients, 1);
  EXPECT_EQ(Before("train/scaled", 0), "Cast ps");
  EXPECT_EQ(Before("train/sum", 0), "Placeholder worker");
}

TEST_F(CompressTest, In8BitsGradientsHaveTheIdsOfTheirRows) {
  Node* table = Table("table");
  Node* large = Put(kPs, NodeBuilder("large", "VarHandleOp")
                             .Attr("dtype", tensorflow::DT_FLOAT)
                             .Attr("shape", tensorflow::TensorShape({9, 16})));
  Lookup("small_rows", table, ids_);
  Lookup("large_rows", large, ids_);
  Train("train", large, ids_, gradients_);
  CompressOptions options;
  ASSERT_TRUE(options.ReadCompression("int8").ok());
  const Compressed done = Apply(options);
  EXPECT_EQ(done.rows, 2);
  EXPECT_EQ(Before("small_rows/used", 0), "Cast worker");  // 4 values and a scale would take as much
  EXPECT_EQ(Before("large_rows/used", 0), "FusewireRestore worker");
  EXPECT_EQ(done.sums, 1);
  EXPECT_EQ(Before("train/scaled", 0), "FusewireRestore ps");
  const std::string small = Name("train/scaled", 0);
  EXPECT_EQ(Before(small, 0), "FusewireQuantizeGradients worker");
  EXPECT_EQ(Before(Name(small, 0), 1), "Unique worker");
}

TEST_F(CompressTest, ThePassFollowsTheSession) {
  Lookup("rows", Table("table"), ids_);
  tensorflow::FixupSourceAndSinkEdges(graph_.get());
  tensorflow::SessionOptions session;
  tensorflow::GraphOptimizationPassOptions options;
  options.session_options = &session;
  options.graph = &graph_;
  EXPECT_TRUE(CompressPass().Run(options).ok());
  EXPECT_EQ(Before("rows", 1), "Placeholder worker");
  auto* ours = session.config.mutable_graph_options()->mutable_rewrite_options()->add_custom_optimizers();
  ours->set_name("fusewire");
  (*ours->mutable_parameter_map())["compression"].set_s("int4");
  EXPECT_THAT(std::string(CompressPass().Run(options).message()), HasSubstr("it can be \"bf16\", \"int8\" or \"off\""));
  (*ours->mutable_parameter_map())["compression"].set_s("off");
  (*ours->mutable_parameter_map())["unique_ids"].set_b(true);
  EXPECT_TRUE(CompressPass().Run(options).ok());
  EXPECT_EQ(Before("rows", 1), "Unique worker");
}

TEST_F(CompressTest, StaleRowsAreRefusedWhereGradientsAreGathered) {
  CompressOptions stale;
  stale.staleness = 1;
  tensorflow::GraphDef graph;
  EXPECT_TRUE(CheckOptions(stale, graph).ok());
  auto* node = graph.add_node();
  node->set_name("gather");
  node->set_op("ResourceAccumulatorApplyGradient");
  EXPECT_THAT(std::string(CheckOptions(stale, graph).message()), HasSubstr("Leave out staleness"));
}

TEST_F(CompressTest, TablesThatAreNotThereAreNamed) {
  Table("deep/table");
  Table("counts", tensorflow::DT_INT32);
  tensorflow::GraphDef graph;
  graph_->ToGraphDef(&graph);
  EXPECT_TRUE(CheckOptions(Bf16("deep"), graph).ok());
  EXPECT_THAT(std::string(CheckOptions(Bf16("deep,wide"), graph).message()), HasSubstr("\"wide\""));
  EXPECT_THAT(std::string(CheckOptions(Bf16("counts"), graph).message()), HasSubstr("holds int32"));
  CompressOptions unique = Unique();
  unique.ReadTables("counts");
  EXPECT_TRUE(CheckOptions(unique, graph).ok());
}

}  // namespace
}  // namespace fusewire::tf
