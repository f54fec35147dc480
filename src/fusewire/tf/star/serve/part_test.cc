// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/serve/part.h"

#include <string>

#include <gtest/gtest.h>
#include <tensorflow/core/framework/node_def_util.h>
#include "fusewire/tf/star/cut/cut.h"
#include "fusewire/tf/star/cut/sketch_test.h"
#include "fusewire/tf/star/serve/task_test.h"

namespace fusewire::tf {
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

PartPtr Make(Task* task, const Piece& piece) {
  Part::Owner owner;
  owner.env = &task->env;
  owner.handle = "session";
  PartPtr part;
  TfStatus made = Part::Make(piece.request, owner, &part);
  EXPECT_TRUE(made.ok()) << made;
  return part;
}

// The worker checks the types of all results. A function needs TensorFlow's executor, which returns no type for a dead
// result.
TEST(StarPart, ResultsHaveTheirTypesDeadOrAlive) {
  for (bool has_function : {false, true}) {
    Piece piece(has_function ? "AddV2" : "Neg", 1);
    if (has_function) piece.Call("arg0");
    piece.Choose(1);
    Task task;
    PartPtr part = Make(&task, piece);
    ASSERT_NE(part, nullptr);
    PartRun run;
    run.args = {tensorflow::Tensor(2.0F), tensorflow::Tensor(true)};
    Ends ends;
    part->Run(&run, [&ends](const TfStatus& status) {
      EXPECT_TRUE(status.ok()) << status;
      ends.Add();
    });
    ASSERT_TRUE(ends.Await(1));
    ASSERT_EQ(run.rets.size(), 3u);
    EXPECT_EQ(run.rets[0].scalar<float>()(), has_function ? 0.0F : -2.0F);
    EXPECT_EQ(run.rets[1].dtype(), tensorflow::DT_BOOL);
    ASSERT_EQ(run.rets[2].dtype(), tensorflow::DT_BOOL);
    EXPECT_TRUE(run.rets[2].scalar<bool>()());
  }
}

// Whether it is for a reactor after a run that was quick.
bool IsQuick(const Piece& piece, size_t args) {
  Task task;
  PartPtr part = Make(&task, piece);
  if (part == nullptr) return false;
  EXPECT_FALSE(part->is_quick());  // not known yet
  PartRun run;
  run.args.assign(args, tensorflow::Tensor(1.0F));
  TfStatus ended = absl::UnknownError("it has not ended");
  part->Run(&run, [&ended](const TfStatus& status) { ended = status; });
  EXPECT_TRUE(ended.ok()) << ended;
  return part->is_quick();
}

TEST(StarPart, ThatWasQuickIsForAReactor) { EXPECT_TRUE(IsQuick(Piece("Neg", 1), 1)); }

// A staging area that had room may be full the next time: the kernel would hold the reactor, and all that it serves.
TEST(StarPart, ThatMayWaitIsForNoReactor) {
  Piece piece("Neg", 1);
  piece.WithStaging();
  EXPECT_FALSE(IsQuick(piece, 1));
}

}  // namespace
}  // namespace fusewire::tf
