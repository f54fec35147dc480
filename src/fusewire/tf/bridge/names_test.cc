// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/bridge/names.h"

#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

TEST(ShortNames, OfTasks) {
  EXPECT_EQ(ShortTask("/job:ps/replica:0/task:12/device:CPU:0"), "ps:12");
  EXPECT_EQ(ShortTask("/job:worker/replica:0/task:0"), "worker:0");
  EXPECT_EQ(ShortTask("worker:3 10.0.0.7:2222"), "worker:3");
  for (const char* other : {"/job:ps", "somewhere", ""}) EXPECT_EQ(ShortTask(other), other);
}

TEST(ShortNames, OfTensors) {
  EXPECT_EQ(ShortEdge("edge_17_weights/read"), "weights/read");
  for (const char* other : {"edge_", "edge_12", "edge_17_", "edge_x_1", "weights", "", "edge__a"})
    EXPECT_EQ(ShortEdge(other), other);
  EXPECT_EQ(EdgeOfKey("/job:ps/task:0;1;/job:worker/task:0;edge_3_weights;0:0"), "weights");
  EXPECT_EQ(EdgeOfKey("no key"), "no key");
}

tensorflow::NodeDef* Add(tensorflow::GraphDef* part, const std::string& name, const std::string& op, int64_t rows = 0) {
  tensorflow::NodeDef* node = part->add_node();
  node->set_name(name);
  node->set_op(op);
  if (rows > 0) (*node->mutable_attr())["shape"].mutable_shape()->add_dim()->set_size(rows);
  return node;
}

TEST(ShortNames, OfParts) {
  tensorflow::GraphDef part;
  EXPECT_EQ(NameOfPart(part), "");
  Add(&part, "fusewire/arg_0", "_Arg");
  Add(&part, "size", "Const");
  Add(&part, "sum", "Sum");
  EXPECT_EQ(NameOfPart(part), "sum");
  Add(&part, "fusewire/ret_0", "_Retval")->add_input("mean:0");
  EXPECT_EQ(NameOfPart(part), "mean");
  Add(&part, "weights", "VariableV2", 10);
  Add(&part, "weights/Adagrad", "VariableV2", 10);
  EXPECT_EQ(NameOfPart(part), "weights");
  Add(&part, "table", "VarHandleOp", 100);
  EXPECT_EQ(NameOfPart(part), "table, weights");
  Add(&part, "bias", "Variable");
  Add(&part, "step", "VarHandleOp", 1);
  Add(&part, "sparse", "ResourceSparseApplyAdagrad");
  EXPECT_EQ(NameOfPart(part), "table, weights and 2 more (update)");
}

}  // namespace
}  // namespace fusewire::tf
