// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// For tests of a parameter server's side: a task with a device, threads and sessions, and parts to place there.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include <tensorflow/core/common_runtime/device_factory.h>
#include <tensorflow/core/common_runtime/device_mgr.h>
#include <tensorflow/core/distributed_runtime/session_mgr.h>
#include <tensorflow/core/distributed_runtime/worker_cache.h>
#include <tensorflow/core/distributed_runtime/worker_env.h>
#include <tensorflow/core/framework/collective.h>
#include <tensorflow/core/framework/function.pb.h>
#include <tensorflow/core/lib/core/threadpool.h>
#include <tensorflow/core/protobuf/tensorflow_server.pb.h>
#include <tensorflow/core/protobuf/worker.pb.h>
#include <tensorflow/core/public/session_options.h>
#include "fusewire/tf/bridge/threads_test.h"
#include "fusewire/tf/star/cut/cut.h"

namespace fusewire::tf {

class Task {
 public:
  // Without threads its work is done where RunHere is called: a loopback world is turned by one thread alone, and an
  // answer from another one would turn it too.
  // `devices` outlive it; null: it makes its own.
  explicit Task(int threads = 2, tensorflow::DeviceMgr* devices = nullptr)
      : own_devices_(
            tensorflow::DeviceFactory::NewDevice("CPU", tensorflow::SessionOptions(), "/job:ps/replica:0/task:0")),
        threads_(threads),
        pool_(&threads_) {
    env.env = tensorflow::Env::Default();
    env.device_mgr = devices != nullptr ? devices : &own_devices_;
    env.compute_pool = &pool_;
    auto no_cache = [](const tensorflow::ServerDef&, tensorflow::WorkerCacheInterface** cache) {
      *cache = nullptr;
      return TfStatus();
    };
    sessions_ = std::make_unique<tensorflow::SessionMgr>(&env, "/job:ps/replica:0/task:0", nullptr, no_cache, nullptr);
    env.session_mgr = sessions_.get();
  }
  void Begin(const std::string& session) {
    tensorflow::ServerDef def;
    def.set_job_name("ps");
    TfStatus made = sessions_->CreateSession(session, def, /*isolate_session_state=*/false);
    ASSERT_TRUE(made.ok()) << made;
  }
  void End(const std::string& session) {
    TfStatus ended = sessions_->DeleteSession(session);
    ASSERT_TRUE(ended.ok()) << ended;
  }

  // Its threads have done all that they were given.
  bool AwaitIdle() { return threads_.AwaitIdle(); }

  int RunHere() { return threads_.RunHere(); }

  tensorflow::WorkerEnv env;

 private:
  tensorflow::StaticDeviceMgr own_devices_;
  TestThreads threads_;
  tensorflow::thread::ThreadPool pool_;
  std::unique_ptr<tensorflow::SessionMgr> sessions_;
};

// name(x: float) -> y: what `op` makes of it.
inline tensorflow::FunctionDef* AddFunction(tensorflow::GraphDef* graph, const std::string& name,
                                            const std::string& op) {
  tensorflow::FunctionDef* function = graph->mutable_library()->add_function();
  auto* signature = function->mutable_signature();
  signature->set_name(name);
  auto* in = signature->add_input_arg();
  in->set_name("x");
  in->set_type(tensorflow::DT_FLOAT);
  auto* out = signature->add_output_arg();
  out->set_name("y");
  out->set_type(tensorflow::DT_FLOAT);
  tensorflow::NodeDef* node = function->add_node_def();
  node->set_name("inner");
  node->set_op(op);
  node->add_input("x");
  if (op == "Neg") (*node->mutable_attr())["T"].set_type(tensorflow::DT_FLOAT);
  (*function->mutable_ret())["y"] = "inner:y:0";
  return function;
}

// A part as it is cut: arguments, an operation, its result.
class Piece {
 public:
  // Of floats: `op` has so many arguments.
  Piece(const std::string& op, int args) {
    tensorflow::NodeDef* result = Add("result", op);
    for (int i = 0; i < args; ++i) {
      tensorflow::NodeDef* arg = Add("arg" + std::to_string(i), "_Arg");
      (*arg->mutable_attr())["index"].set_i(i);
      result->add_input(arg->name());
    }
    tensorflow::NodeDef* end = Add("end", "_Retval");
    (*end->mutable_attr())["index"].set_i(0);
    end->add_input("result");
  }
  // The argument was left by an earlier part, under this number.
  Piece& Take(int arg, int64_t number) {
    for (tensorflow::NodeDef& node : *request.mutable_graph_def()->mutable_node()) {
      if (node.name() == "arg" + std::to_string(arg)) (*node.mutable_attr())[kTakeAttribute].set_i(number);
    }
    return *this;
  }
  // With a queue of its own, that no other session may see.
  Piece& WithState() {
    tensorflow::NodeDef* queue = Add("queue", "FIFOQueueV2");
    queue->mutable_attr()->erase("T");
    (*queue->mutable_attr())["component_types"].mutable_list()->add_type(tensorflow::DT_FLOAT);
    return *this;
  }
  // The operation gets one more argument: what a function makes of this node's result.
  Piece& Call(const std::string& of) {
    AddFunction(request.mutable_graph_def(), "negative", "Neg");
    tensorflow::NodeDef* call = Add("call", "PartitionedCall");
    call->mutable_attr()->erase("T");
    for (const char* types : {"Tin", "Tout"})
      (*call->mutable_attr())[types].mutable_list()->add_type(tensorflow::DT_FLOAT);
    (*call->mutable_attr())["f"].mutable_func()->set_name("negative");
    call->add_input(of);
    for (tensorflow::NodeDef& node : *request.mutable_graph_def()->mutable_node()) {
      if (node.name() == "result") node.add_input("call");
    }
    return *this;
  }
  Piece& CallOnConstant() {
    tensorflow::NodeDef* constant = Add("constant", "Const");
    constant->mutable_attr()->erase("T");
    (*constant->mutable_attr())["dtype"].set_type(tensorflow::DT_FLOAT);
    tensorflow::Tensor(1.0F).AsProtoTensorContent((*constant->mutable_attr())["value"].mutable_tensor());
    return Call("constant");
  }
  // Two more results: this argument, of bool, where it is false, and where it is true.
  Piece& Choose(int arg) {
    const std::string name = "arg" + std::to_string(arg);
    std::vector<tensorflow::NodeDef*> nodes = {Add(name, "_Arg"), Add("choice", "Switch"), Add("no", "_Retval"),
                                               Add("yes", "_Retval")};
    for (tensorflow::NodeDef* node : nodes) (*node->mutable_attr())["T"].set_type(tensorflow::DT_BOOL);
    (*nodes[0]->mutable_attr())["index"].set_i(arg);
    for (int i = 0; i < 2; ++i) {
      nodes[1]->add_input(name);
      nodes[2 + static_cast<size_t>(i)]->add_input("choice:" + std::to_string(i));
      (*nodes[2 + static_cast<size_t>(i)]->mutable_attr())["index"].set_i(1 + i);
    }
    return *this;
  }
  // Writes its first argument into a checkpoint.
  Piece& WithSave() {
    tensorflow::Tensor text(tensorflow::DT_STRING, tensorflow::TensorShape({1}));
    tensorflow::NodeDef* save = Add("save", "SaveV2");
    save->mutable_attr()->erase("T");
    (*save->mutable_attr())["dtypes"].mutable_list()->add_type(tensorflow::DT_FLOAT);
    for (const char* input : {"prefix", "names", "slices"}) {
      tensorflow::NodeDef* constant = Add(input, "Const");
      constant->mutable_attr()->erase("T");
      (*constant->mutable_attr())["dtype"].set_type(tensorflow::DT_STRING);
      text.AsProtoField((*constant->mutable_attr())["value"].mutable_tensor());
      save->add_input(input);
    }
    save->add_input("arg0");
    return *this;
  }
  // The next part takes its result under this number.
  Piece& Leave(int64_t number) {
    for (tensorflow::NodeDef& node : *request.mutable_graph_def()->mutable_node()) {
      if (node.name() != "end") continue;
      (*node.mutable_attr())[kKeepAttribute].set_i(number);
      (*node.mutable_attr())[kHolderAttribute].set_s("");
      (*node.mutable_attr())[kTakersAttribute].set_i(1);
    }
    return *this;
  }
  // Puts its first argument into a staging area.
  Piece& WithStaging() {
    tensorflow::NodeDef* stage = Add("stage", "Stage");
    stage->mutable_attr()->erase("T");
    (*stage->mutable_attr())["dtypes"].mutable_list()->add_type(tensorflow::DT_FLOAT);
    stage->add_input("arg0");
    return *this;
  }

  tensorflow::RegisterGraphRequest request;

 private:
  tensorflow::NodeDef* Add(const std::string& name, const std::string& op) {
    tensorflow::NodeDef* node = request.mutable_graph_def()->add_node();
    node->set_name(name);
    node->set_op(op);
    node->set_device("/job:ps/replica:0/task:0/device:CPU:0");
    (*node->mutable_attr())["T"].set_type(tensorflow::DT_FLOAT);
    return node;
  }
};

}  // namespace fusewire::tf
