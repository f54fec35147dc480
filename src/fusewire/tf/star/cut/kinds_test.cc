// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/cut/kinds.h"

#include "fusewire/tf/star/cut/sketch_test.h"

#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

TEST(Kinds, OfOperationsThatWaitForOtherSteps) {
  for (const char* op : {"QueueDequeueV2", "QueueEnqueueManyV2", "BarrierTakeMany", "Stage", "AccumulatorTakeGradient",
                         "IteratorGetNext", "MutexLock", "EagerPyFunc", "BatchFunction", "UnbatchGrad"})
    EXPECT_TRUE(MayBlock(op)) << op;
  for (const char* op : {"MatMul", "BatchMatMulV2", "AssignAddVariableOp", "QueueSizeV2", "FakeQueue"})
    EXPECT_FALSE(MayBlock(op)) << op;
}

TEST(Kinds, OfOperationsThatTakeLong) {
  for (const char* op : {"QueueDequeueV2", "SaveV2", "RestoreV2", "ReadFile", "ReduceDataset", "MakeIterator"})
    EXPECT_TRUE(MayTakeLong(op)) << op;
  for (const char* op : {"MatMul", "ReadVariableOp"}) EXPECT_FALSE(MayTakeLong(op)) << op;
}

TEST(Kinds, OfOperationsThatBelongToTheSessionOrToOthers) {
  for (const char* op : {"_Send", "_Recv", "_Arg", "_Retval", "_HostRecv", "_FuseRecv", "CollectiveReduceV2",
                         "GetSessionHandleV2", "RemoteCall"})
    EXPECT_TRUE(BelongsElsewhere(op)) << op;
  for (const char* op : {"AddV2", "_SwitchN", "Identity"}) EXPECT_FALSE(BelongsElsewhere(op)) << op;
}

TEST(Kinds, OfNodes) {
  Sketch sketch;
  tensorflow::Node* variable = sketch.Variable("variable", Sketch::kPs);
  tensorflow::Node* read = sketch.Read("read", variable);
  tensorflow::Node* one = sketch.Constant("one", Sketch::kPs, 1);
  tensorflow::Node* fed = sketch.Fed("fed", Sketch::kWorker);
  tensorflow::Node* choice = sketch.Fed("choice", Sketch::kWorker, tensorflow::DT_BOOL);
  tensorflow::Node* two = sketch.Op("two", "Switch", Sketch::kPs, {one, choice});
  EXPECT_TRUE(IsNamed(*variable));
  EXPECT_TRUE(IsNamed(*one));
  EXPECT_FALSE(IsNamed(*fed));  // it has no inputs, and is computed all the same
  EXPECT_FALSE(IsNamed(*read));
  EXPECT_FALSE(HasInputs(*variable));
  EXPECT_TRUE(HasInputs(*read));
  EXPECT_TRUE(IsSwitchOfTwo(*two));
  EXPECT_FALSE(IsSwitchOfTwo(*read));
  EXPECT_TRUE(IsHandle(variable->output_type(0)));
  EXPECT_FALSE(IsHandle(read->output_type(0)));
  EXPECT_TRUE(IsHandle(tensorflow::DT_FLOAT_REF));
}

TEST(Kinds, OfASwitchWithManyBranches) {
  Sketch sketch;
  tensorflow::Node* one = sketch.Constant("one", Sketch::kPs, 1);
  tensorflow::Node* index = sketch.Fed("index", Sketch::kWorker, tensorflow::DT_INT32);
  tensorflow::Node* many =
      sketch.Add(Sketch::NodeBuilder("many", "_SwitchN").Input(one).Input(index).Attr("num_outs", 3), Sketch::kPs);
  EXPECT_TRUE(many->IsSwitch());
  EXPECT_FALSE(IsSwitchOfTwo(*many));
}

}  // namespace
}  // namespace fusewire::tf
