// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Both ends of runs with tickets, in virtual time: many seeds, each with connections that are reset at random moments.
// The part adds to a variable and returns it, so that a run which is applied twice, or not at all, shows.
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tensorflow/core/framework/resource_var.h>

#include "fusewire/base/random.h"
#include "fusewire/tf/peer/marks.h"
#include "fusewire/tf/receive/step_test.h"
#include "fusewire/tf/snapshot/snapshots.h"
#include "fusewire/tf/star/call/run_test.h"
#include "fusewire/tf/star/serve/star_service.h"
#include "fusewire/tf/star/serve/task_test.h"
#include "fusewire/tf/state/devices.h"

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

tensorflow::ServerDef PsDef() {
  tensorflow::ServerDef def;
  def.set_job_name("ps");
  return def;
}

// What happens, and how often.
struct Weather {
  int64_t cut_ns = 30 * kMillisecondNs;  // the longest time between two resets
  bool kills = false;                    // and a snapshot, and a restart from it, now and then
};

class LostWorld {
 public:
  LostWorld(uint64_t seed, int64_t recovery_ns, Weather weather = Weather()) : random_(seed), weather_(weather) {
    folder_ = absl::StrCat("ram://lost_runs/", seed);
    if (weather_.kills) OpenSnapshots();
    OpenServer();
    Tensor zero(tensorflow::DT_FLOAT, tensorflow::TensorShape({1}));
    zero.flat<float>()(0) = 0;
    TfRef<tensorflow::Var> total(new tensorflow::Var(tensorflow::DT_FLOAT));
    *total->tensor() = zero;
    total->is_initialized = true;
    EXPECT_TRUE(resources()->Create(resources()->default_container(), "total", total.release()).ok());
    on_ = std::make_unique<StepWorld>(
        true, 0, recovery_ns, [this](reactor::Pool& homes) { return service_->Methods(homes); }, seed);
    if (snapshots_ != nullptr) on_->state = StateOf(*snapshots_->devices());
    SetFaults();
    kernel_ = MakeRunOp(on_->task.cpu(), CountingPiece(), /*is_alone=*/false);
    on_->KnowPeer();
  }
  ~LostWorld() {
    ended_.clear();
    kernel_.reset();
    channels_.clear();
    if (snapshots_ != nullptr) snapshots_->Stop();
    on_->world.ClosePeer();
    service_.reset();  // its homes are the world's
  }

  // So many runs, up to four at a time.
  void Train(int runs) {
    int begun = 0;
    int64_t next_cut_ns = 0;
    std::vector<std::unique_ptr<RunningOp>> running;
    std::vector<int> kills_before;  // of each of these
    const int64_t limit_ns = NowNs() + 600 * kSecondNs;
    while (begun < runs || !running.empty()) {
      ASSERT_LT(NowNs(), limit_ns) << "a run does not end";
      while (begun < runs && running.size() < 4 && random_.Chance(0.3)) {
        running.push_back(std::make_unique<RunningOp>(&on_->task, kernel_.get(), ++begun, Ramp(1, 1)));
        kills_before.push_back(kills);
      }
      if (NowNs() >= next_cut_ns) {
        on_->world.world.Cut("worker", "ps");
        ++cuts;
        next_cut_ns = NowNs() + static_cast<int64_t>(random_.Below(static_cast<uint64_t>(weather_.cut_ns)));
      }
      if (random_.Chance(0.3)) ps_->RunHere();
      if (weather_.kills && random_.Chance(0.02)) Snapshot();
      // A run gives up at a server that dies again and again.
      const bool is_worn = !running.empty() && kills - kills_before.front() >= kKillsMax;
      if (weather_.kills && !is_worn && random_.Chance(0.005)) Kill();
      on_->world.world.RunFor(static_cast<int64_t>(random_.Below(kMillisecondNs)));
      while (!on_->grpc().awaiting.empty()) on_->grpc().AnswerStatus(TfStatus());
      while (!on_->grpc().asked.empty()) on_->AnswerPort();
      KeepChannel();
      for (size_t i = running.size(); i-- > 0;) {
        if (running[i]->ends.count() == 0) continue;
        ended_.push_back(std::move(running[i]));
        running.erase(running.begin() + static_cast<ptrdiff_t>(i));
        kills_before.erase(kills_before.begin() + static_cast<ptrdiff_t>(i));
      }
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
  float Total() const {
    tensorflow::Var* total = nullptr;
    EXPECT_TRUE(resources()->Lookup(resources()->default_container(), "total", &total).ok());
    const TfRef<tensorflow::Var> held(total);
    return total->tensor()->flat<float>()(0);
  }
  int cuts = 0;
  int kills = 0;
  size_t lost = 0;  // runs that had been answered, and were younger than the snapshot

 private:
  static constexpr int kKillsMax = 12;
  int64_t NowNs() { return on_->world.world.clock()->NowNs(); }
  tensorflow::ResourceMgr* resources() const { return ps_->env.device_mgr->ListDevices().front()->resource_manager(); }
  void SetFaults() {
    transport::LoopbackFaults slow;  // so that most resets meet a run
    slow.latency_ns_min = 500 * kMicrosecondNs;
    slow.latency_ns_max = 3 * kMillisecondNs;
    on_->world.world.SetFaults(slow);
  }
  void OpenServer() {
    ps_ = std::make_unique<Task>(/*threads=*/0, snapshots_ == nullptr ? nullptr : snapshots_->devices());
    ps_->Begin("session");
    service_ = std::make_unique<StarService>(&ps_->env, snapshots_.get());
    if (snapshots_ == nullptr) return;
    Snapshots::Hooks hooks;
    hooks.collect = [this](std::vector<KeptClient>* clients) { return service_->Collect(clients); };
    snapshots_->Start(std::move(hooks));
  }
  void KeepChannel() {
    const ChannelPtr now = on_->task.peer->channel();
    const bool is_new = now != nullptr && (channels_.empty() || channels_.back() != now);
    if (is_new) channels_.push_back(now);
  }

  void OpenSnapshots() {
    Snapshots::Options options;
    options.folder = folder_;
    EXPECT_TRUE(Snapshots::Open(options, PsDef(), &snapshots_).ok());
  }

  void Snapshot() {
    if (ended_.empty()) return;  // the server may know no part
    while (ps_->RunHere() > 0) {
    }
    in_snapshot_ = Total();
    ASSERT_TRUE(snapshots_->Write().ok());
    has_snapshot_ = true;
  }

  // What has been answered since the snapshot is lost; what runs is not.
  void Kill() {
    if (!has_snapshot_) return;
    for (; first_young_ < ended_.size(); ++first_young_) {
      ASSERT_TRUE(ended_[first_young_]->status().ok()) << ended_[first_young_]->message();
      if (ended_[first_young_]->output().flat<float>()(0) > in_snapshot_) ++lost;
    }
    ++kills;
    snapshots_->Stop();
    // What it has begun ends, and nobody hears of it.
    on_->world.world.Cut("worker", "ps");
    while (ps_->RunHere() > 0) {
    }
    on_->world.KillPeer();
    service_.reset();
    ps_.reset();
    snapshots_.reset();
    OpenSnapshots();
    ASSERT_EQ(StateOf(*snapshots_->devices()), on_->state);
    OpenServer();
    on_->world.RestartPeer();
    SetFaults();
  }

  Random random_;
  const Weather weather_;
  std::string folder_;
  std::unique_ptr<Snapshots> snapshots_;
  std::unique_ptr<Task> ps_;
  std::unique_ptr<StarService> service_;
  std::unique_ptr<StepWorld> on_;
  std::unique_ptr<tensorflow::OpKernel> kernel_;
  std::vector<std::unique_ptr<RunningOp>> ended_;
  size_t first_young_ = 0;  // of these: the first that the last kill did not see
  float in_snapshot_ = 0;
  bool has_snapshot_ = false;
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

// A server that is killed comes back with what its snapshot has. Each run that has no answer yet is applied once; what
// is lost is what had been answered, and was younger than the snapshot.
TEST(LostRuns, AreAppliedOnceByAServerThatIsBackFromItsSnapshot) {
  const char* wanted = std::getenv("FUSEWIRE_LOST_SEEDS");
  const uint64_t seeds = wanted == nullptr ? 60 : std::strtoull(wanted, nullptr, 10);
  int kills = 0;
  size_t lost = 0;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    constexpr int kRuns = 60;
    Weather weather;
    weather.kills = true;
    LostWorld world(seed, 60 * kSecondNs, weather);
    world.Train(kRuns);
    ASSERT_THAT(world.Failed(), testing::IsEmpty());
    ASSERT_EQ(world.Total(), static_cast<float>(kRuns - static_cast<int>(world.lost)));
    kills += world.kills;
    lost += world.lost;
  }
  EXPECT_GT(kills, static_cast<int>(seeds) / 2);
  EXPECT_GT(lost, 0u);
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
