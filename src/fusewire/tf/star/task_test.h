// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What tests of a parameter server's side share: a task with a device, threads and sessions, and parts to place there.
#ifndef FUSEWIRE_TF_STAR_TASK_TEST_H_
#define FUSEWIRE_TF_STAR_TASK_TEST_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include <tensorflow/core/common_runtime/device_factory.h>
#include <tensorflow/core/common_runtime/device_mgr.h>
#include <tensorflow/core/distributed_runtime/session_mgr.h>
#include <tensorflow/core/distributed_runtime/worker_cache.h>
#include <tensorflow/core/distributed_runtime/worker_env.h>
#include <tensorflow/core/framework/collective.h>
#include <tensorflow/core/lib/core/threadpool.h>
#include <tensorflow/core/protobuf/tensorflow_server.pb.h>
#include <tensorflow/core/protobuf/worker.pb.h>
#include <tensorflow/core/public/session_options.h>
#include "fusewire/tf/star/cut.h"

namespace fusewire {
namespace tf {

class Task {
 public:
  Task()
      : devices_(tensorflow::DeviceFactory::NewDevice("CPU", tensorflow::SessionOptions(), "/job:ps/replica:0/task:0")),
        pool_(tensorflow::Env::Default(), "task", 2) {
    env.env = tensorflow::Env::Default();
    env.device_mgr = &devices_;
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

  tensorflow::WorkerEnv env;

 private:
  tensorflow::StaticDeviceMgr devices_;
  tensorflow::thread::ThreadPool pool_;
  std::unique_ptr<tensorflow::SessionMgr> sessions_;
};

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

}  // namespace tf
}  // namespace fusewire

#endif  // FUSEWIRE_TF_STAR_TASK_TEST_H_
