// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/part.h"

#include <string>

#include <gtest/gtest.h>
#include <tensorflow/core/framework/node_def_util.h>
#include "fusewire/tf/star/cut.h"
#include "fusewire/tf/star/sketch.h"

namespace fusewire {
namespace tf {
namespace {

using tensorflow::DT_FLOAT;
using tensorflow::Node;
using tensorflow::NodeBuilder;

// Of the only part of a graph.
bool NeedsSession(Sketch* sketch) {
  Grouping grouping = sketch->Group();
  EXPECT_EQ(grouping.groups.size(), 1);
  CutOptions options;
  options.home = Sketch::kWorker;
  EXPECT_TRUE(CutGroups(grouping, options, &sketch->graph).ok());
  for (const Node* node : sketch->graph.op_nodes()) {
    std::string text;
    if (node->type_string() != kRunOp || !tensorflow::GetNodeAttr(node->attrs(), "piece", &text).ok()) continue;
    tensorflow::RegisterGraphRequest piece;
    EXPECT_TRUE(piece.ParseFromString(text));
    return Part::NeedsSession(piece.graph_def());
  }
  ADD_FAILURE() << "nothing was cut";
  return false;
}

TEST(StarPart, OfVariablesIsSharedWhateverItsEndsAre) {
  Sketch sketch;
  Node* variable = sketch.Variable("variable", Sketch::kPs);
  Node* update = sketch.Update("update", variable, sketch.Fed("fed", Sketch::kWorker));
  sketch.Op("home", "Neg", Sketch::kWorker, {sketch.Read("read", variable, {update})});
  EXPECT_FALSE(NeedsSession(&sketch));
}

TEST(StarPart, OfANamedQueueIsShared) {
  Sketch sketch;
  NodeBuilder queue("queue", "FIFOQueueV2");
  queue.Attr("component_types", {DT_FLOAT}).Attr("shared_name", "queue");
  NodeBuilder taken("taken", "QueueDequeueV2");
  taken.Input(sketch.Add(queue, Sketch::kPs)).Attr("component_types", {DT_FLOAT});
  sketch.Add(taken, Sketch::kPs);
  EXPECT_FALSE(NeedsSession(&sketch));
}

TEST(StarPart, OfAQueueWithoutANameBelongsToItsSession) {
  Sketch sketch;
  NodeBuilder queue("queue", "FIFOQueueV2");
  queue.Attr("component_types", {DT_FLOAT});
  NodeBuilder taken("taken", "QueueDequeueV2");
  taken.Input(sketch.Add(queue, Sketch::kPs)).Attr("component_types", {DT_FLOAT});
  sketch.Add(taken, Sketch::kPs);
  EXPECT_TRUE(NeedsSession(&sketch));
}

TEST(StarPart, OfAGeneratorBelongsToItsSession) {
  Sketch sketch;
  NodeBuilder drawn("drawn", "RandomUniform");
  drawn
      .Input(
          sketch.Constant("shape", Sketch::kPs, tensorflow::Tensor(tensorflow::DT_INT32, tensorflow::TensorShape({0}))))
      .Attr("dtype", DT_FLOAT);
  sketch.Add(drawn, Sketch::kPs);
  EXPECT_TRUE(NeedsSession(&sketch));
}

}  // namespace
}  // namespace tf
}  // namespace fusewire
