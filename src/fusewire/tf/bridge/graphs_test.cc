// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/bridge/graphs.h"

#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <tensorflow/core/common_runtime/device_factory.h>
#include <tensorflow/core/common_runtime/device_mgr.h>
#include <tensorflow/core/distributed_runtime/worker_env.h>
#include <tensorflow/core/public/session_options.h>
#include "fusewire/tf/bridge/compat.h"

namespace fusewire::tf {
namespace {

class Fake final : public tensorflow::Executor {
 public:
  Fake(std::unique_ptr<tensorflow::Executor> usual, bool* is_gone) : usual_(std::move(usual)), is_gone_(is_gone) {}
  ~Fake() override { *is_gone_ = true; }

 private:
  void RunAsyncInternal(const Args& args, DoneCallback done) override { usual_->RunAsync(args, std::move(done)); }

  const std::unique_ptr<tensorflow::Executor> usual_;
  bool* const is_gone_;
};

TEST(RegisteredGraphs, AnotherExecutorTakesThePlaceUntilTheGraphGoes) {
  std::unique_ptr<tensorflow::Device> device =
      tensorflow::DeviceFactory::NewDevice("CPU", tensorflow::SessionOptions(), "/job:worker/replica:0/task:0");
  const tensorflow::Device* const cpu = device.get();
  tensorflow::StaticDeviceMgr devices(std::move(device));
  tensorflow::WorkerEnv env;
  env.env = tensorflow::Env::Default();
  env.device_mgr = &devices;
  tensorflow::GraphMgr graphs(&env, &devices);
  tensorflow::GraphDef graph;
  tensorflow::NodeDef* node = graph.add_node();
  node->set_name("nothing");
  node->set_op("NoOp");
  node->set_device(cpu->name());
  std::string handle;
  TfStatus registered = graphs.Register("session", graph, tensorflow::GraphOptions(), tensorflow::DebugOptions(),
                                        tensorflow::ConfigProto(), tensorflow::BuildGraphOptions::kNoCollectiveGraphKey,
                                        nullptr, nullptr, &handle);
  ASSERT_TRUE(registered.ok()) << registered;

  int wrapped = 0;
  bool is_gone = false;
  auto wrap = [&](const RegisteredGraph& found, std::unique_ptr<tensorflow::Executor> usual) {
    ++wrapped;
    EXPECT_EQ(found.graph->num_op_nodes(), 1);
    EXPECT_EQ(found.device, cpu);
    EXPECT_NE(found.library, nullptr);
    return std::make_unique<Fake>(std::move(usual), &is_gone);
  };
  ReplaceExecutor(&graphs, "no such graph", wrap);
  EXPECT_EQ(wrapped, 0);
  ReplaceExecutor(&graphs, handle, wrap);
  EXPECT_EQ(wrapped, 1);
  EXPECT_FALSE(is_gone);
  EXPECT_TRUE(graphs.Deregister(handle).ok());
  EXPECT_TRUE(is_gone);
}

}  // namespace
}  // namespace fusewire::tf
