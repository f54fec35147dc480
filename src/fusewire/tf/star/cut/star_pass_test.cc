// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/cut/star_pass.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tensorflow/core/common_runtime/device_factory.h>
#include <tensorflow/core/common_runtime/device_set.h>
#include <tensorflow/core/common_runtime/graph_constructor.h>
#include <tensorflow/core/public/session_options.h>
#include "fusewire/tf/fuse/passes.h"
#include "fusewire/tf/star/cut/sketch_test.h"

#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

// The master of a session: its graph adds to a variable of a parameter server what is fed.
class StarPassTest : public testing::Test {
 protected:
  StarPassTest() {
    for (const char* task : {"/job:worker/replica:0/task:0", "/job:ps/replica:0/task:0"}) {
      owned_.push_back(tensorflow::DeviceFactory::NewDevice("CPU", tensorflow::SessionOptions(), task));
      devices_.AddDevice(owned_.back().get());
    }
    devices_.set_client_device(owned_[0].get());
    graph_ = std::make_unique<tensorflow::Graph>(tensorflow::OpRegistry::Global());
    Sketch sketch;
    tensorflow::Node* weights = sketch.Variable("weights", Sketch::kPs);
    tensorflow::Node* update = sketch.Update("update", weights, sketch.Fed("fed", Sketch::kWorker));
    sketch.Op("after", "Neg", Sketch::kWorker, {sketch.Read("read", weights, {update})});
    tensorflow::FixupSourceAndSinkEdges(&sketch.graph);
    tensorflow::CopyGraph(sketch.graph, graph_.get());
  }

  void Register(StarMode mode, bool reaches) {
    StarHome home;
    home.mode = mode;
    home.protocol = "star_server";
    home.reaches = [this, reaches](const std::string& task) {
      asked_.push_back(task);
      return reaches;
    };
    RegisterHome(owned_[0]->attributes().incarnation(), std::move(home));
  }
  void RunPass(bool is_function = false) {
    tensorflow::GraphOptimizationPassOptions options;
    options.session_options = &session_;
    options.graph = &graph_;
    options.device_set = &devices_;
    options.flib_def = &library_;
    options.is_function_graph = is_function;
    TfStatus run = StarPass().Run(options);
    EXPECT_TRUE(run.ok()) << run;
  }
  int Count(const std::string& op) const {
    int count = 0;
    for (const tensorflow::Node* node : graph_->op_nodes()) count += node->type_string() == op ? 1 : 0;
    return count;
  }

  std::vector<std::unique_ptr<tensorflow::Device>> owned_;
  tensorflow::DeviceSet devices_;
  tensorflow::SessionOptions session_;
  tensorflow::FunctionLibraryDefinition library_{tensorflow::OpRegistry::Global(), tensorflow::FunctionDefLibrary()};
  std::unique_ptr<tensorflow::Graph> graph_;
  std::vector<std::string> asked_;
};

TEST_F(StarPassTest, MakesCallsOfWhatStandsOnParameterServers) {
  Register(StarMode::kFull, true);
  RunPass();
  EXPECT_GT(Count("_FusewireRun"), 0);
  EXPECT_EQ(Count("AssignAddVariableOp"), 0);
  EXPECT_EQ(Count("VarHandleOp"), 0);
  for (const tensorflow::Node* node : graph_->op_nodes())
    EXPECT_EQ(node->assigned_device_name(), Sketch::kWorker) << node->name();
  EXPECT_EQ(asked_, std::vector<std::string>{"/job:ps/replica:0/task:0"});  // once, whatever stands there
}

TEST_F(StarPassTest, LeavesOperationsOfAnUnreachableTask) {
  Register(StarMode::kFull, false);
  RunPass();
  EXPECT_EQ(Count("_FusewireRun"), 0);
  EXPECT_EQ(Count("AssignAddVariableOp"), 1);
}

TEST_F(StarPassTest, LeavesGraphsOfOtherProtocols) {
  RunPass();  // of a session of stock TensorFlow's server
  EXPECT_EQ(Count("_FusewireRun"), 0);
  Register(StarMode::kOff, true);
  RunPass();
  EXPECT_EQ(Count("_FusewireRun"), 0);
  EXPECT_TRUE(asked_.empty());
}

TEST_F(StarPassTest, LeavesFunctionsAndGraphsThatAreHeld) {
  Register(StarMode::kFull, true);
  RunPass(/*is_function=*/true);
  HoldFusion(1);
  RunPass();
  HoldFusion(-1);
  EXPECT_EQ(Count("_FusewireRun"), 0);
  RunPass();
  EXPECT_GT(Count("_FusewireRun"), 0);
}

TEST_F(StarPassTest, LeavesWhatStandsInTheSessionsOwnJob) {
  for (tensorflow::Node* node : graph_->op_nodes()) {
    if (node->assigned_device_name() == Sketch::kPs) node->set_assigned_device_name(Sketch::kWorker);
  }
  Register(StarMode::kFull, true);
  RunPass();
  EXPECT_EQ(Count("_FusewireRun"), 0);
  EXPECT_TRUE(asked_.empty());
}

StarHome HomeOf(const std::string& protocol) {
  StarHome home;
  home.mode = StarMode::kLite;
  home.protocol = protocol;
  home.reaches = [](const std::string& task) { return task == "/job:ps/replica:0/task:0"; };
  return home;
}

TEST(StarHomes, AreFoundByTheIncarnationOfADevice) {
  constexpr uint64_t kIncarnation = 0x1f2e3d4c5b6a7988;  // of no device
  EXPECT_EQ(FindHome(kIncarnation), nullptr);
  RegisterHome(kIncarnation, HomeOf("star_server_lite"));
  const StarHome* home = FindHome(kIncarnation);
  ASSERT_NE(home, nullptr);
  EXPECT_EQ(home->mode, StarMode::kLite);
  EXPECT_EQ(home->protocol, "star_server_lite");
  EXPECT_TRUE(home->reaches("/job:ps/replica:0/task:0"));
  EXPECT_FALSE(home->reaches("/job:ps/replica:0/task:1"));
  EXPECT_EQ(FindHome(kIncarnation + 1), nullptr);
}

// A pass may look at it when another server of the process begins.
TEST(StarHomes, StayWhereTheyAre) {
  constexpr uint64_t kIncarnation = 0x2f2e3d4c5b6a7988;
  RegisterHome(kIncarnation, HomeOf("first"));
  const StarHome* first = FindHome(kIncarnation);
  for (uint64_t i = 1; i < 100; ++i) RegisterHome(kIncarnation + i, HomeOf("other"));
  RegisterHome(kIncarnation, HomeOf("second"));
  EXPECT_EQ(FindHome(kIncarnation), first);
  EXPECT_EQ(first->protocol, "first");
}

}  // namespace
}  // namespace fusewire::tf
