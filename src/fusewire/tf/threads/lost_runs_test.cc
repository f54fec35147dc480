// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Both ends of runs with tickets, in virtual time: many seeds, each with connections that are reset at random moments.
// The part adds to a variable and returns it, so that a run which is applied twice, or not at all, shows.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tensorflow/core/framework/resource_var.h>

#include "fusewire/base/random.h"
#include "fusewire/tf/peer/marks.h"
#include "fusewire/tf/receive/step_test.h"
#include "fusewire/tf/star/call/run_test.h"
#include "fusewire/tf/star/serve/star_service.h"
#include "fusewire/tf/star/serve/task_test.h"

namespace fusewire::tf {
namespace {

using tensorflow::NodeDef;
using tensorflow::Tensor;

// total += arg; end: total.
std::string CountingPiece() {
  tensorflow::RegisterGraphRequest request;
  auto add = [&request](const char* name, const char* op, const std::vector<const char*>& inputs) {
    NodeDef* node = request.mutable_graph_def()->add_node();
    node->set_name(name);
    node->set_op(op);
    node->set_device("/job:ps/replica:0/task:0/device:CPU:0");
    for (const char* input : inputs) node->add_input(input);
    return node;
  };
  auto set_type = [](NodeDef* node, const char* attribute) {
    (*node->mutable_attr())[attribute].set_type(tensorflow::DT_FLOAT);
  };
  NodeDef* arg = add("arg", "_Arg", {});
  set_type(arg, "T");
  (*arg->mutable_attr())["index"].set_i(0);
  NodeDef* variable = add("total", "VarHandleOp", {});
  set_type(variable, "dtype");
  (*variable->mutable_attr())["shape"].mutable_shape()->add_dim()->set_size(1);
  (*variable->mutable_attr())["shared_name"].set_s("total");
  (*variable->mutable_attr())["container"].set_s("");
  set_type(add("update", "AssignAddVariableOp", {"total", "arg"}), "dtype");
  set_type(add("read", "ReadVariableOp", {"total", "^update"}), "dtype");
  NodeDef* end = add("end", "_Retval", {"read"});
  set_type(end, "T");
  (*end->mutable_attr())["index"].set_i(0);
  return request.SerializeAsString();
}

class LostWorld {
 public:
  LostWorld(uint64_t seed, int64_t recovery_ns) : random_(seed) {
    ps_.Begin("session");
    Tensor zero(tensorflow::DT_FLOAT, tensorflow::TensorShape({1}));
    zero.flat<float>()(0) = 0;
    *total_->tensor() = zero;
    total_->is_initialized = true;
    total_->Ref();  // for the resources
    tensorflow::ResourceMgr* resources = ps_.env.device_mgr->ListDevices().front()->resource_manager();
    EXPECT_TRUE(resources->Create(resources->default_container(), "total", total_.get()).ok());
    on_ = std::make_unique<StepWorld>(
        true, 0, recovery_ns, [this](reactor::Pool& homes) { return service_->Methods(homes); }, seed);
    transport::LoopbackFaults slow;  // so that most resets meet a run
    slow.latency_ns_min = 500 * kMicrosecondNs;
    slow.latency_ns_max = 3 * kMillisecondNs;
    on_->world.world.SetFaults(slow);
    kernel_ = MakeRunOp(on_->task.cpu(), CountingPiece(), /*is_alone=*/false);
    on_->KnowPeer();
  }
  ~LostWorld() {
    ended_.clear();
    kernel_.reset();
    channels_.clear();
    on_->world.ClosePeer();
    service_.reset();  // its homes are the world's
  }

  // So many runs, up to four at a time, while connections are reset.
  void Train(int runs) {
    int begun = 0;
    int64_t next_cut_ns = 0;
    std::vector<std::unique_ptr<RunningOp>> running;
    const int64_t limit_ns = NowNs() + 600 * kSecondNs;
    while (begun < runs || !running.empty()) {
      ASSERT_LT(NowNs(), limit_ns) << "a run does not end";
      while (begun < runs && running.size() < 4 && random_.Chance(0.3))
        running.push_back(std::make_unique<RunningOp>(&on_->task, kernel_.get(), ++begun, Ramp(1, 1)));
      if (NowNs() >= next_cut_ns) {
        on_->world.world.Cut("worker", "ps");
        ++cuts;
        next_cut_ns = NowNs() + static_cast<int64_t>(random_.Below(30 * kMillisecondNs));
      }
      if (random_.Chance(0.3)) ps_.RunHere();
      on_->world.world.RunFor(static_cast<int64_t>(random_.Below(kMillisecondNs)));
      while (!on_->grpc().asked.empty()) on_->AnswerPort();
      const ChannelPtr now = on_->task.peer->channel();
      const bool is_new = now != nullptr && (channels_.empty() || channels_.back() != now);
      if (is_new) channels_.push_back(now);
      for (auto& one : running) {
        if (one->ends.count() == 0) continue;
        ended_.push_back(std::move(one));
      }
      running.erase(std::remove(running.begin(), running.end(), nullptr), running.end());
    }
  }

  // The errors of runs that have failed; and the answers of the others.
  std::vector<std::string> Failed() const {
    std::vector<std::string> errors;
    for (const auto& one : ended_) {
      if (!one->status().ok()) errors.push_back(one->message());
    }
    return errors;
  }
  std::set<float> Answers() {
    std::set<float> answers;
    for (const auto& one : ended_) {
      if (one->status().ok()) answers.insert(one->output().flat<float>()(0));
    }
    return answers;
  }
  float Total() const { return total_->tensor()->flat<float>()(0); }
  int cuts = 0;

 private:
  int64_t NowNs() { return on_->world.world.clock()->NowNs(); }

  Random random_;
  const TfRef<tensorflow::Var> total_{new tensorflow::Var(tensorflow::DT_FLOAT)};
  Task ps_{/*threads=*/0};
  std::unique_ptr<StarService> service_ = std::make_unique<StarService>(&ps_.env);
  std::unique_ptr<StepWorld> on_;
  std::unique_ptr<tensorflow::OpKernel> kernel_;
  std::vector<std::unique_ptr<RunningOp>> ended_;
  std::vector<ChannelPtr> channels_;  // that the peer has had: they end here, and not on a thread of TensorFlow's
};

TEST(LostRuns, AreAppliedOnceWheneverTheConnectionIsReset) {
  const char* wanted = std::getenv("FUSEWIRE_LOST_SEEDS");
  const uint64_t seeds = wanted == nullptr ? 60 : std::strtoull(wanted, nullptr, 10);
  const uint64_t before = GlobalCounters().calls_repeated.load();
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    constexpr int kRuns = 40;
    LostWorld world(seed, 60 * kSecondNs);
    world.Train(kRuns);
    ASSERT_THAT(world.Failed(), testing::IsEmpty());
    ASSERT_EQ(world.Total(), kRuns);
    ASSERT_EQ(world.Answers().size(), static_cast<size_t>(kRuns));  // no two runs were answered alike
  }
  EXPECT_GT(GlobalCounters().calls_repeated.load(), before + 10 * seeds);
}

// As before tickets: a lost run is an error, and nobody knows whether it was applied.
TEST(LostRuns, WithoutRecoveryEndTheirSteps) {
  LostWorld world(3, 0);
  world.Train(40);
  const size_t failed = world.Failed().size();
  EXPECT_GT(failed, 0u);
  EXPECT_GE(world.Total(), 40 - static_cast<float>(failed));
}

}  // namespace
}  // namespace fusewire::tf
