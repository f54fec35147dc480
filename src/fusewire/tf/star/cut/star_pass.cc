// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/cut/star_pass.h"

#include <map>
#include <memory>
#include <utility>

#include <absl/strings/str_cat.h>
#include <tensorflow/core/common_runtime/device_set.h>
#include <tensorflow/core/framework/node_def_util.h>
#include <tensorflow/core/graph/algorithm.h>
#include <tensorflow/core/platform/logging.h>
#include <tensorflow/core/public/session_options.h>
#include <tensorflow/core/util/device_name_utils.h>
#include "fusewire/base/mutex.h"
#include "fusewire/tf/bridge/names.h"
#include "fusewire/tf/fuse/passes.h"
#include "fusewire/tf/star/cut/cut.h"
#include "fusewire/tf/star/cut/grouping.h"

namespace fusewire::tf {

using tensorflow::Graph;
using tensorflow::Node;

namespace {

// A device of a parameter server: the first CPU of a task that is not of the session's own job.
class Served {
 public:
  Served(const StarHome& home, const tensorflow::DeviceSet& devices) : home_(home), devices_(devices) {
    own_ = devices.client_device()->parsed_name();
  }

  bool operator()(const std::string& device) {
    auto known = known_.find(device);
    if (known == known_.end()) known = known_.emplace(device, Look(device)).first;
    return known->second;
  }
  bool any() const {
    for (const auto& device : known_) {
      if (device.second) return true;
    }
    return false;
  }

 private:
  bool Look(const std::string& name) const {
    const tensorflow::Device* device = devices_.FindDeviceByName(name);
    if (device == nullptr || device->device_type() != tensorflow::DEVICE_CPU) return false;
    const auto& parsed = device->parsed_name();
    if (parsed.id != 0 || parsed.job == own_.job) return false;
    return home_.reaches(std::string(TaskOfDevice(name)));
  }

  const StarHome& home_;
  const tensorflow::DeviceSet& devices_;
  tensorflow::DeviceNameUtils::ParsedName own_;
  std::map<std::string, bool> known_;
};

// Feeds and fetches go between the client and the session's own task.
void MoveFeedsAndFetches(Graph* graph, const tensorflow::Device& home) {
  for (Node* node : graph->op_nodes()) {
    bool is_end = false;
    if (!node->IsSend() && !node->IsRecv()) continue;
    if (!tensorflow::TryGetNodeAttr(node->attrs(), "client_terminated", &is_end) || !is_end) continue;
    if (node->assigned_device_name() == home.name()) continue;
    node->set_assigned_device_name(home.name());
    for (const char* name : {"send_device", "recv_device", "send_device_incarnation"}) node->ClearAttr(name);
    node->AddAttr("send_device", home.name());
    node->AddAttr("recv_device", home.name());
    node->AddAttr("send_device_incarnation", static_cast<int64_t>(home.attributes().incarnation()));
  }
}

// The settings of a session that TensorFlow registers with a partition and that change its results. Not those that
// differ between workers with the same model: they share parts.
tensorflow::ConfigProto PartConfig(const tensorflow::ConfigProto& config) {
  tensorflow::ConfigProto kept;
  *kept.mutable_graph_options()->mutable_optimizer_options() = config.graph_options().optimizer_options();
  *kept.mutable_experimental() = config.experimental();
  kept.mutable_experimental()->clear_session_metadata();
  kept.mutable_experimental()->clear_coordination_config();
  kept.set_allow_soft_placement(config.allow_soft_placement());
  return kept;
}

std::string WordsOf(const std::map<std::string, int>& left) {
  std::string words;
  for (const auto& reason : left) absl::StrAppend(&words, words.empty() ? "" : ", ", reason.second, " ", reason.first);
  return words;
}

struct Homes {
  Mutex mutex;
  std::map<uint64_t, std::unique_ptr<const StarHome>> by_incarnation FUSEWIRE_GUARDED_BY(mutex);
};

Homes& AllHomes() {
  static auto* homes = new Homes;
  return *homes;
}

}  // namespace

TfStatus StarPass::Run(const tensorflow::GraphOptimizationPassOptions& options) {
  if (options.session_options == nullptr || options.graph == nullptr || *options.graph == nullptr) return TfStatus();
  if (options.is_function_graph || options.device_set == nullptr || AreGraphsHeld()) return TfStatus();
  const tensorflow::Device* client = options.device_set->client_device();
  const StarHome* home = client == nullptr ? nullptr : FindHome(client->attributes().incarnation());
  if (home == nullptr || home->mode == StarMode::kOff) return TfStatus();

  Served served(*home, *options.device_set);
  GroupingOptions grouping_options;
  grouping_options.is_served = [&served](const std::string& device) { return served(device); };
  grouping_options.library = options.flib_def;
  grouping_options.merge = home->mode == StarMode::kLite;
  // Both keep the graph's meaning, so it may stay like this if it is not cut.
  MoveFeedsAndFetches(options.graph->get(), *client);
  Straighten(grouping_options.is_served, options.graph->get());
  Grouping grouping;
  TfStatus grouped = MakeGroups(**options.graph, grouping_options, &grouping);
  if (!grouped.ok()) {
    LOG(INFO) << "fusewire: " << home->protocol << ": a graph stays with send and receive: " << grouped.message();
    return TfStatus();
  }
  if (grouping.groups.empty()) return TfStatus();

  for (const Grouping::Group& group : grouping.groups) {
    VLOG(1) << absl::StrCat("fusewire: ", group.device, ", round ", group.round);
    for (const Node* node : group.nodes)
      VLOG(1) << "fusewire:   " << node->name() << " (" << node->type_string() << ")";
  }
  size_t nodes = 0;
  for (Grouping::Group& group : grouping.groups) nodes += group.nodes.size();
  CutOptions cut;
  cut.home = client->name();
  cut.library = options.flib_def;
  cut.config = PartConfig(options.session_options->config);
  TfStatus done = CutGroups(grouping, cut, options.graph->get());
  if (!done.ok()) {
    LOG(INFO) << "fusewire: " << home->protocol << ": a graph stays with send and receive: " << done.message();
    return TfStatus();
  }
  // Of some versions, TensorFlow's libraries lack the stream's operators for numbers.
  LOG(INFO) << absl::StrCat("fusewire: ", home->protocol, ": ", nodes, " operations of parameter servers became ",
                            grouping.groups.size(), grouping.groups.size() == 1 ? " call" : " calls")
            << (grouping.left.empty() ? "" : "; left with send and receive: ") << WordsOf(grouping.left);
  return TfStatus();
}

void RegisterHome(uint64_t device_incarnation, StarHome home) {
  Homes& homes = AllHomes();
  MutexLock lock(homes.mutex);
  homes.by_incarnation.emplace(device_incarnation, std::make_unique<const StarHome>(std::move(home)));
}

const StarHome* FindHome(uint64_t device_incarnation) {
  Homes& homes = AllHomes();
  MutexLock lock(homes.mutex);
  auto found = homes.by_incarnation.find(device_incarnation);
  return found == homes.by_incarnation.end() ? nullptr : found->second.get();
}

}  // namespace fusewire::tf
