// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/fuse/passes.h"

#include <algorithm>
#include <atomic>
#include <tuple>
#include <utility>
#include <vector>

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <tensorflow/core/framework/control_flow.h>
#include <tensorflow/core/framework/node_def_util.h>
#include <tensorflow/core/framework/rendezvous.h>
#include <tensorflow/core/graph/algorithm.h>
#include <tensorflow/core/platform/logging.h>
#include <tensorflow/core/public/session_options.h>
#include "fusewire/base/check.h"
#include "fusewire/tf/bridge/names.h"

namespace fusewire::tf {

using tensorflow::DataType;
using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;

namespace {

std::atomic<bool> fuse_by_default{false};
std::atomic<int> holds{0};

// The attributes of one _Recv.
struct RecvNode {
  Node* node = nullptr;
  std::string send_device, recv_device, tensor_name;
  int64_t incarnation = 0;
  DataType type = tensorflow::DT_INVALID;

  bool Read() {
    bool client_terminated = false;
    const auto& attrs = node->attrs();
    return tensorflow::TryGetNodeAttr(attrs, "client_terminated", &client_terminated) && !client_terminated &&
           tensorflow::TryGetNodeAttr(attrs, "send_device", &send_device) &&
           tensorflow::TryGetNodeAttr(attrs, "recv_device", &recv_device) &&
           tensorflow::TryGetNodeAttr(attrs, "tensor_name", &tensor_name) &&
           tensorflow::TryGetNodeAttr(attrs, "send_device_incarnation", &incarnation) &&
           tensorflow::TryGetNodeAttr(attrs, "tensor_type", &type);
  }
  // The partitioner's "edge_12_dense/kernel/read" -> "dense/kernel/read"
  std::string Producer() const {
    size_t number = tensor_name.find('_');
    size_t name = number == std::string::npos ? number : tensor_name.find('_', number + 1);
    return name == std::string::npos ? tensor_name : tensor_name.substr(name + 1);
  }
  // Without the frame, which is always the outermost.
  std::string Key() const {
    std::string key = tensorflow::Rendezvous::CreateKey(send_device, static_cast<uint64_t>(incarnation), recv_device,
                                                        tensor_name, tensorflow::FrameAndIter(0, 0));
    return key;
  }
};

bool HasControlInput(const Node& node) {
  for (const Edge* edge : node.in_edges()) {
    if (edge->src()->IsOp()) return true;
  }
  return false;
}

// The destination, the source, the level, and whether it goes into host memory or the device's.
using GroupKey = std::tuple<std::string, std::string, int, bool>;

std::map<GroupKey, std::vector<RecvNode>> GroupsOf(const Graph& graph, const std::map<std::string, int>& levels) {
  std::map<GroupKey, std::vector<RecvNode>> groups;
  for (Node* node : graph.op_nodes()) {
    bool on_host = node->type_string() == "_HostRecv";
    if ((node->type_string() != "_Recv" && !on_host) || HasControlInput(*node)) continue;
    RecvNode recv;
    recv.node = node;
    if (!recv.Read() || TaskOfDevice(recv.send_device) == TaskOfDevice(recv.recv_device)) continue;
    auto level = levels.find(recv.Producer());
    if (level == levels.end()) continue;
    groups[{recv.recv_device, recv.send_device, level->second, on_host}].push_back(std::move(recv));
  }
  return groups;
}

// Kernels of stateful operations are kept by name for a session: two graphs of one session must not share one.
std::string UniqueName(const std::string& like) {
  static std::atomic<uint64_t> count{0};
  return absl::StrCat(like, "/fuse_recv_", count.fetch_add(1));
}

TfStatus Fuse(Graph* graph, const std::vector<RecvNode>& recvs, bool on_host) {
  FUSEWIRE_DCHECK(recvs.size() > 1);
  std::vector<std::string> keys;
  std::vector<DataType> types;
  for (const RecvNode& recv : recvs) {
    keys.push_back(recv.Key());
    types.push_back(recv.type);
  }
  tensorflow::NodeDef def;
  def.set_name(UniqueName(recvs[0].node->name()));
  def.set_op(on_host ? "_HostFuseRecv" : "_FuseRecv");
  def.set_device(recvs[0].recv_device);
  tensorflow::AddNodeAttr("T", types, &def);
  tensorflow::AddNodeAttr("keys", keys, &def);
  TfStatus added;
  Node* fused = graph->AddNode(std::move(def), &added);
  if (!added.ok()) return added;
  fused->set_assigned_device_name(recvs[0].recv_device);
  for (size_t i = 0; i < recvs.size(); ++i) {
    std::vector<const Edge*> edges(recvs[i].node->out_edges().begin(), recvs[i].node->out_edges().end());
    for (const Edge* edge : edges) {
      Node* to = edge->dst();
      if (!edge->IsControlEdge()) {
        int input = edge->dst_input();
        graph->RemoveEdge(edge);
        graph->AddEdge(fused, static_cast<int>(i), to, input);
      } else if (to->IsOp()) {
        graph->AddControlEdge(fused, to);
      }
    }
    graph->RemoveNode(recvs[i].node);
  }
  return TfStatus();
}

constexpr const char* kLevelsAttribute = "_fusewire_levels";

// All nodes that control flow can reach: their levels depend on iterations, and their tensors may be dead.
std::vector<bool> BehindControlFlow(const Graph& graph) {
  std::vector<bool> behind(static_cast<size_t>(graph.num_node_ids()), false);
  std::vector<const Node*> todo;
  for (const Node* node : graph.op_nodes()) {
    if (!node->IsControlFlow()) continue;
    behind[static_cast<size_t>(node->id())] = true;
    todo.push_back(node);
  }
  while (!todo.empty()) {
    const Node* node = todo.back();
    todo.pop_back();
    for (const Edge* edge : node->out_edges()) {
      size_t id = static_cast<size_t>(edge->dst()->id());
      if (!edge->dst()->IsOp() || behind[id]) continue;
      behind[id] = true;
      todo.push_back(edge->dst());
    }
  }
  return behind;
}

bool TakesRemoteReference(const Node& node, const std::string& task) {
  for (const Edge* edge : node.in_edges()) {
    if (edge->IsControlEdge() || !edge->src()->IsOp()) continue;
    bool is_remote = TaskOfDevice(edge->src()->assigned_device_name()) != task;
    if (is_remote && tensorflow::IsRefType(node.input_type(edge->dst_input()))) return true;
  }
  return false;
}

}  // namespace

void SetFuseByDefault(bool fuse) { fuse_by_default.store(fuse); }

void HoldFusion(int change) {
  const int before = holds.fetch_add(change);
  FUSEWIRE_CHECK(before + change >= 0);
}

bool AreGraphsHeld() { return holds.load() > 0; }

bool WantsFuse(const tensorflow::ConfigProto& config) {
  bool wants = fuse_by_default.load();
  // A server's and a session's config are merged, the session's last.
  for (const auto& optimizer : config.graph_options().rewrite_options().custom_optimizers()) {
    auto option = optimizer.parameter_map().find("tensor_fuse");
    if (optimizer.name() == "fusewire" && option != optimizer.parameter_map().end()) wants = option->second.b();
  }
  return wants;
}

TfStatus MarkPass::Run(const tensorflow::GraphOptimizationPassOptions& options) {
  if (options.session_options == nullptr || options.graph == nullptr || *options.graph == nullptr) return TfStatus();
  const tensorflow::ConfigProto& config = options.session_options->config;
  if (options.is_function_graph || AreGraphsHeld() || !WantsFuse(config)) return TfStatus();
  if (options.debug_filename_prefix.empty() && MarkLevels(options.graph->get()) > 0)
    VLOG(1) << "fusewire: marked a graph for tensor_fuse";
  return TfStatus();
}

TfStatus FusePass::Run(const tensorflow::GraphOptimizationPassOptions& options) {
  if (options.partition_graphs == nullptr) return TfStatus();
  for (auto& partition : *options.partition_graphs) {
    Graph* graph = partition.second.get();
    std::map<std::string, int> levels = ReadLevels(*graph);
    if (levels.empty()) continue;
    size_t before = 0, after = 0;
    for (const auto& group : GroupsOf(*graph, levels)) {
      before += group.second.size();
      ++after;
      if (group.second.size() < 2) continue;
      TF_RETURN_IF_ERROR(Fuse(graph, group.second, std::get<3>(group.first)));
    }
    if (after == before) continue;
    tensorflow::FixupSourceAndSinkEdges(graph);
    LOG(INFO) << absl::StrCat("fusewire: tensor_fuse: ", before, " receives of ", partition.first, " became ", after);
  }
  return TfStatus();
}

int MarkLevels(Graph* graph) {
  std::vector<bool> behind = BehindControlFlow(*graph);
  std::vector<Node*> order;
  tensorflow::GetReversePostOrder(*graph, &order);
  std::vector<int> levels(static_cast<size_t>(graph->num_node_ids()), 0);
  std::vector<std::string> tasks(levels.size());
  for (const Node* node : graph->op_nodes())
    tasks[static_cast<size_t>(node->id())] = std::string(TaskOfDevice(node->assigned_device_name()));

  int marked = 0;
  for (Node* node : order) {
    size_t id = static_cast<size_t>(node->id());
    FUSEWIRE_DCHECK(id < levels.size());
    if (!node->IsOp() || behind[id]) continue;
    std::vector<std::string> marks;
    for (const Edge* edge : node->in_edges()) {
      if (!edge->src()->IsOp()) continue;
      size_t from = static_cast<size_t>(edge->src()->id());
      bool crosses = tasks[from] != tasks[id];
      levels[id] = std::max(levels[id], levels[from] + (crosses ? 1 : 0));
      if (crosses) marks.push_back(absl::StrCat(edge->src()->name(), "=", levels[from]));
    }
    if (marks.empty() || TakesRemoteReference(*node, tasks[id])) continue;
    marked += static_cast<int>(marks.size());
    node->AddAttr(kLevelsAttribute, marks);
  }
  return marked;
}

std::map<std::string, int> ReadLevels(const Graph& partition) {
  std::map<std::string, int> levels;
  for (const Node* node : partition.op_nodes()) {
    std::vector<std::string> marks;
    if (!tensorflow::TryGetNodeAttr(node->attrs(), kLevelsAttribute, &marks)) continue;
    for (const std::string& mark : marks) {
      size_t end = mark.rfind('=');
      int level = 0;
      if (end == std::string::npos || !absl::SimpleAtoi(mark.substr(end + 1), &level)) continue;
      levels[mark.substr(0, end)] = level;
    }
  }
  return levels;
}

}  // namespace fusewire::tf
