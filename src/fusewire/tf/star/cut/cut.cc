// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/cut/cut.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <absl/strings/str_cat.h>
#include <tensorflow/core/framework/node_def_util.h>
#include <tensorflow/core/graph/algorithm.h>
#include <tensorflow/core/lib/strings/proto_serialization.h>
#include <tensorflow/core/platform/fingerprint.h>
#include <tensorflow/core/protobuf/worker.pb.h>
#include <tensorflow/core/util/device_name_utils.h>
#include "fusewire/base/check.h"
#include "fusewire/tf/bridge/names.h"

namespace fusewire::tf {

using tensorflow::DataType;
using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::NodeDef;

namespace {

using Port = std::pair<Node*, int>;

// One group that is cut out.
struct Piece {
  tensorflow::GraphDef graph;
  // Its ends towards home; behind these are the ends that stay among parameter servers.
  std::vector<Port> inputs, outputs;
  std::map<Port, int> input_index, output_index;
  std::set<Port> taken;
  std::set<Node*> control_inputs;
  std::set<size_t> earlier;       // pieces from which it takes values
  std::set<std::string> holders;  // tasks that keep values of it for later pieces
  int64_t kept = 0;               // how often these values will be taken
  Node* run = nullptr;
};

bool IsNamedBefore(const Port& left, const Port& right) {
  int names = left.first->name().compare(right.first->name());
  return names != 0 ? names < 0 : left.second < right.second;
}

class Cutter {
 public:
  Cutter(const Grouping& grouping, const CutOptions& options, Graph* graph)
      : grouping_(grouping),
        options_(options),
        home_(options.home),
        library_(options.library != nullptr ? *options.library : graph->flib_def()),
        graph_(graph),
        pieces_(grouping.groups.size()) {
    FUSEWIRE_DCHECK(!home_.empty());
    FUSEWIRE_DCHECK(grouping.group_of.size() == grouping.is_source.size());
    FUSEWIRE_DCHECK(grouping.group_of.size() == grouping.conditions.size());
  }

  TfStatus Cut() {
    FindConditions();
    for (size_t i = 0; i < pieces_.size(); ++i) FindTaken(i);
    NumberTaken();
    for (size_t i = 0; i < pieces_.size(); ++i) {
      Collect(i);
      TfStatus added = AddRun(i);
      if (added.ok()) continue;
      for (const Piece& piece : pieces_) {
        if (piece.run != nullptr) graph_->RemoveNode(piece.run);
      }
      return added;
    }
    for (Node* node : grouping_.to_home) node->set_assigned_device_name(home_);
    Connect();
    if (!status_.ok()) return status_;  // cannot be: all kinds of nodes that it adds have been checked
    Remove();
    tensorflow::FixupSourceAndSinkEdges(graph_);
    return TfStatus();
  }

 private:
  int GroupOf(const Node* node) const {
    size_t id = static_cast<size_t>(node->id());
    return id < grouping_.group_of.size() ? grouping_.group_of[id] : Grouping::kNone;  // our own are not in any
  }
  bool IsSource(const Node* node) const {
    size_t id = static_cast<size_t>(node->id());
    return id < grouping_.is_source.size() && grouping_.is_source[id];
  }

  // A group of this device has its own copy.
  bool IsCopied(const Node* from, const std::string& device) const {
    return IsSource(from) && from->assigned_device_name() == device;
  }
  bool LeavesGroup(const Edge* edge) const {
    const Node *from = edge->src(), *to = edge->dst();
    if (!to->IsOp() || GroupOf(to) == GroupOf(from)) return false;
    return GroupOf(to) == Grouping::kNone || !IsCopied(from, to->assigned_device_name());
  }
  // The conditions of its group under which a tensor stands.
  std::vector<Grouping::Condition> ConditionsOf(const Port& port) const {
    std::vector<Grouping::Condition> all = grouping_.conditions[static_cast<size_t>(port.first->id())];
    const Edge* condition = nullptr;
    if (port.second >= 0 && port.first->IsSwitch() && port.first->input_edge(1, &condition).ok())
      all.push_back({OriginOf(condition)->src(), OriginOf(condition)->src_output(), port.second});
    return all;
  }

  // A tensor that leaves a group under a condition needs the condition at home.
  void FindConditions() {
    for (const Grouping::Group& group : grouping_.groups) {
      for (Node* node : group.nodes) {
        for (const Edge* edge : node->out_edges()) {
          if (!LeavesGroup(edge)) continue;
          for (const Grouping::Condition& condition : ConditionsOf({node, edge->src_output()}))
            wanted_conditions_.insert({condition.node, condition.output});
        }
      }
    }
  }

  // A value that goes to another parameter server, or stays at its own for a later round, need not pass home, unless it
  // may be dead, which only home can tell.
  bool IsTaken(const Edge* edge) const {
    const Node* from = edge->src();
    int group = GroupOf(from);
    if (edge->IsControlEdge() || group == Grouping::kNone || GroupOf(edge->dst()) == Grouping::kNone) return false;
    return LeavesGroup(edge) && ConditionsOf({edge->src(), edge->src_output()}).empty();
  }
  void FindTaken(size_t index) {
    for (const Node* node : grouping_.groups[index].nodes) {
      for (const Edge* edge : node->in_edges()) {
        if (!edge->src()->IsOp() || !IsTaken(edge)) continue;
        Port from{edge->src(), edge->src_output()};
        FUSEWIRE_DCHECK(static_cast<size_t>(GroupOf(from.first)) != index);
        if (!pieces_[index].taken.insert(from).second) continue;
        pieces_[index].earlier.insert(static_cast<size_t>(GroupOf(from.first)));
        ++takers_[from][grouping_.groups[index].device];
      }
    }
  }

  // The same numbers in equal graphs.
  void NumberTaken() {
    std::vector<Port> ports;
    for (const auto& port : takers_) ports.push_back(port.first);
    std::sort(ports.begin(), ports.end(), IsNamedBefore);
    for (const Port& port : ports) numbers_.emplace(port, static_cast<int64_t>(numbers_.size()));
  }

  // The group's nodes as they stand, its inputs in the order in which they are met.
  void Collect(size_t index) {
    Piece& piece = pieces_[index];
    const Grouping::Group& group = grouping_.groups[index];
    *piece.graph.mutable_versions() = graph_->versions();
    std::set<Node*> copied;
    for (Node* node : group.nodes) {
      NodeDef* def = AddCopy(*node, &piece.graph);
      std::vector<const Edge*> data(static_cast<size_t>(node->num_inputs()), nullptr);
      std::set<std::string> controls;
      for (const Edge* edge : node->in_edges()) {
        Node* from = edge->src();
        if (!from->IsOp()) continue;
        bool is_inside = GroupOf(from) == static_cast<int>(index);
        if (!edge->IsControlEdge()) {
          data[static_cast<size_t>(edge->dst_input())] = edge;
        } else if (is_inside) {
          controls.insert(absl::StrCat("^", from->name()));
        } else if (!IsSource(from)) {
          piece.control_inputs.insert(from);
        }
      }
      for (const Edge* edge : data) {
        FUSEWIRE_CHECK(edge != nullptr);  // each input has its edge
        Node* from = edge->src();
        bool is_inside = GroupOf(from) == static_cast<int>(index);
        bool is_copied = !is_inside && IsCopied(from, group.device);
        if (is_copied && copied.insert(from).second) AddCopy(*from, &piece.graph);
        def->add_input(is_inside || is_copied ? absl::StrCat(from->name(), ":", edge->src_output())
                                              : Argument({from, edge->src_output()}, group.device, &piece));
      }
      for (const std::string& control : controls) def->add_input(control);
    }
    for (Node* node : group.nodes) CollectOutputs(node, index);
    AddTaken(group.device, &piece);
    AddKept(group, &piece);
    // A function is called by its own name, or named in an attribute; and calls others.
    if (library_.num_functions() > 0)
      *piece.graph.mutable_library() = library_.ReachableDefinitions(piece.graph).ToProto();
  }

  static NodeDef* AddCopy(const Node& node, tensorflow::GraphDef* graph) {
    NodeDef* def = graph->add_node();
    *def = node.def();
    def->clear_input();
    def->set_device(node.assigned_device_name());
    // Without debug information, and the attributes for placement: it is placed.
    def->clear_experimental_debug_info();
    for (const char* name : {"_class", "_output_shapes", "_fusewire_levels"}) def->mutable_attr()->erase(name);
    return def;
  }

  std::string Argument(const Port& from, const std::string& device, Piece* piece) {
    if (piece->taken.count(from) > 0) return absl::StrCat("fusewire/take/", from.first->name(), "/", from.second);
    int next = static_cast<int>(piece->inputs.size());
    auto added = piece->input_index.emplace(from, next);
    std::string name = absl::StrCat("fusewire/arg_", added.first->second);
    if (!added.second) return name;
    FUSEWIRE_DCHECK(from.second >= 0);
    piece->inputs.push_back(from);
    FUSEWIRE_DCHECK(piece->inputs.size() == piece->input_index.size());
    AddEnd(name, "_Arg", next, tensorflow::BaseType(from.first->output_type(from.second)), device, &piece->graph);
    return name;
  }

  void CollectOutputs(Node* node, size_t index) {
    Piece& piece = pieces_[index];
    std::set<int> wanted;
    for (const Edge* edge : node->out_edges()) {
      if (!edge->IsControlEdge() && LeavesGroup(edge) && !IsTaken(edge)) wanted.insert(edge->src_output());
    }
    for (int output = 0; output < node->num_outputs(); ++output) {
      if (wanted_conditions_.count({node, output}) > 0) wanted.insert(output);
    }
    for (int output : wanted) {
      int next = static_cast<int>(piece.outputs.size());
      piece.output_index[{node, output}] = next;
      piece.outputs.push_back({node, output});
      FUSEWIRE_DCHECK(piece.outputs.size() == piece.output_index.size());
      NodeDef* def =
          AddEnd(absl::StrCat("fusewire/ret_", next), "_Retval", next, tensorflow::BaseType(node->output_type(output)),
                 node->assigned_device_name(), &piece.graph);
      def->add_input(absl::StrCat(node->name(), ":", output));
    }
  }

  void AddTaken(const std::string& device, Piece* piece) {
    int index = static_cast<int>(piece->inputs.size());
    std::vector<Port> ports(piece->taken.begin(), piece->taken.end());
    std::sort(ports.begin(), ports.end(), IsNamedBefore);
    for (const Port& from : ports) {
      NodeDef* def = AddEnd(Argument(from, device, piece), "_Arg", index++,
                            tensorflow::BaseType(from.first->output_type(from.second)), device, &piece->graph);
      tensorflow::AddNodeAttr(kTakeAttribute, numbers_.at(from), def);
    }
  }

  // Once for each parameter server that wants it.
  void AddKept(const Grouping::Group& group, Piece* piece) {
    int index = static_cast<int>(piece->outputs.size());
    for (Node* node : group.nodes) {
      for (int output = 0; output < node->num_outputs(); ++output) {
        auto takers = takers_.find({node, output});
        if (takers == takers_.end()) continue;
        for (const auto& taker : takers->second) {
          NodeDef* def = AddEnd(absl::StrCat("fusewire/keep_", index), "_Retval", index,
                                tensorflow::BaseType(node->output_type(output)), group.device, &piece->graph);
          def->add_input(absl::StrCat(node->name(), ":", output));
          std::string task(TaskOfDevice(taker.first));
          tensorflow::AddNodeAttr(kKeepAttribute, numbers_.at({node, output}), def);
          FUSEWIRE_DCHECK(taker.second > 0);
          tensorflow::AddNodeAttr(kTakersAttribute, taker.second, def);
          tensorflow::AddNodeAttr(kHolderAttribute, taker.first == group.device ? "" : task, def);
          piece->holders.insert(task);
          piece->kept += taker.second;
          ++index;
        }
      }
    }
  }

  static NodeDef* AddEnd(const std::string& name, const char* op, int index, DataType type, const std::string& device,
                         tensorflow::GraphDef* graph) {
    NodeDef* def = graph->add_node();
    FUSEWIRE_DCHECK(index >= 0);
    def->set_name(name);
    def->set_op(op);
    def->set_device(device);
    tensorflow::AddNodeAttr("T", type, def);
    tensorflow::AddNodeAttr("index", index, def);
    return def;
  }

  // "ps_0/round_1": what timelines show.
  static std::string NameOf(const Grouping::Group& group) {
    tensorflow::DeviceNameUtils::ParsedName parsed;
    tensorflow::DeviceNameUtils::ParseFullName(group.device, &parsed);
    return absl::StrCat(parsed.job, "_", parsed.task, "/round_", group.round);
  }

  TfStatus AddRun(size_t index) {
    // Kernels of stateful operations are kept by name for a session: two graphs of one session must not share one.
    static std::atomic<uint64_t> count{0};
    Piece& piece = pieces_[index];
    const std::string shown = NameOfPart(piece.graph);
    tensorflow::RegisterGraphRequest request;
    request.mutable_graph_def()->Swap(&piece.graph);
    *request.mutable_graph_options() = options_.config.graph_options();
    *request.mutable_config_proto() = options_.config;
    request.mutable_config_proto()->clear_graph_options();
    std::string text;
    if (!tensorflow::SerializeToStringDeterministic(request, &text))
      return absl::ResourceExhaustedError("a parameter server's part is more than protobuf can carry (2 GiB)");
    auto fingerprint = tensorflow::Fingerprint128(text);
    std::vector<DataType> in, out;
    for (const Port& port : piece.inputs) in.push_back(tensorflow::BaseType(port.first->output_type(port.second)));
    for (const Port& port : piece.outputs) out.push_back(tensorflow::BaseType(port.first->output_type(port.second)));
    NodeDef def;
    def.set_name(absl::StrCat("fusewire/", NameOf(grouping_.groups[index]), "_", count.fetch_add(1)));
    def.set_op(kRunOp);
    def.set_device(home_);
    tensorflow::AddNodeAttr("Tin", in, &def);
    tensorflow::AddNodeAttr("Tout", out, &def);
    tensorflow::AddNodeAttr("holders", std::vector<std::string>(piece.holders.begin(), piece.holders.end()), &def);
    tensorflow::AddNodeAttr("kept", piece.kept, &def);
    tensorflow::AddNodeAttr("taken", static_cast<int64_t>(piece.taken.size()), &def);
    int round = grouping_.groups[index].round;
    auto in_round = std::count_if(grouping_.groups.begin(), grouping_.groups.end(),
                                  [round](const Grouping::Group& group) { return group.round == round; });
    FUSEWIRE_DCHECK(in_round >= 1);
    FUSEWIRE_DCHECK(round % 2 == 1);  // as all of parameter servers
    tensorflow::AddNodeAttr("alone", in_round == 1, &def);
    tensorflow::AddNodeAttr("task", std::string(TaskOfDevice(grouping_.groups[index].device)), &def);
    tensorflow::AddNodeAttr("shown", shown, &def);
    tensorflow::AddNodeAttr("piece", text, &def);
    tensorflow::AddNodeAttr(
        "fingerprint",
        absl::StrCat(absl::Hex(fingerprint.high64, absl::kZeroPad16), absl::Hex(fingerprint.low64, absl::kZeroPad16)),
        &def);
    TfStatus added;
    piece.run = graph_->AddNode(std::move(def), &added);
    if (added.ok()) piece.run->set_assigned_device_name(home_);
    return added;
  }

  void Connect() {
    for (Piece& piece : pieces_) {
      FUSEWIRE_CHECK(piece.run != nullptr);
      for (size_t i = 0; i < piece.inputs.size(); ++i) {
        Port from = Now(piece.inputs[i]);
        graph_->AddEdge(from.first, from.second, piece.run, static_cast<int>(i));
      }
      for (Node* from : piece.control_inputs) graph_->AddControlEdge(End(from), piece.run);
      for (size_t earlier : piece.earlier) graph_->AddControlEdge(pieces_[earlier].run, piece.run);
    }
    for (const Grouping::Group& group : grouping_.groups) {
      for (Node* node : group.nodes) ConnectConsumers(node);
    }
  }

  void ConnectConsumers(Node* node) {
    std::vector<const Edge*> edges(node->out_edges().begin(), node->out_edges().end());
    for (const Edge* edge : edges) {
      Node* to = edge->dst();
      if (!to->IsOp() || GroupOf(to) != Grouping::kNone || !LeavesGroup(edge)) continue;
      if (edge->IsControlEdge()) {
        graph_->AddControlEdge(End(node), to);
        continue;
      }
      Port from = Now({node, edge->src_output()});
      int input = edge->dst_input();
      graph_->RemoveEdge(edge);
      graph_->AddEdge(from.first, from.second, to, input);
    }
  }

  // The new source of a tensor.
  Port Now(const Port& port) {
    int group = GroupOf(port.first);
    if (group == Grouping::kNone) return port;
    auto known = now_.find(port);
    if (known != now_.end()) return known->second;
    const Piece& piece = pieces_[static_cast<size_t>(group)];
    Port from = Under({piece.run, piece.output_index.at(port)}, ConditionsOf(port));
    now_[port] = from;
    return from;
  }

  // The same tensor, dead if one of the conditions does not hold.
  Port Under(Port from, const std::vector<Grouping::Condition>& conditions) {
    for (const Grouping::Condition& condition : conditions)
      from = {Add("Switch", {from, Now({condition.node, condition.output})}), condition.branch};
    return from;
  }

  // A node that ends after this one has. Under conditions it is dead if this one is.
  Node* End(Node* node) {
    int group = GroupOf(node);
    if (group == Grouping::kNone) return node;
    Node* run = pieces_[static_cast<size_t>(group)].run;
    std::vector<Grouping::Condition> conditions = ConditionsOf({node, -1});
    if (conditions.empty()) return run;
    Node*& end = ends_[node];
    if (end != nullptr) return end;
    end = Add("Identity", {Under(Now({conditions[0].node, conditions[0].output}), conditions)});
    graph_->AddControlEdge(run, end);
    return end;
  }

  // An operation at home, of the type of its first input.
  Node* Add(const char* op, const std::vector<Port>& inputs) {
    FUSEWIRE_DCHECK(!inputs.empty());
    static std::atomic<uint64_t> count{0};
    NodeDef def;
    def.set_name(absl::StrCat("fusewire/under_", count.fetch_add(1)));
    def.set_op(op);
    def.set_device(home_);
    tensorflow::AddNodeAttr("T", tensorflow::BaseType(inputs[0].first->output_type(inputs[0].second)), &def);
    TfStatus added;
    Node* node = graph_->AddNode(std::move(def), &added);
    if (!added.ok()) {
      status_ = added;
      return inputs[0].first;
    }
    node->set_assigned_device_name(home_);
    for (size_t i = 0; i < inputs.size(); ++i)
      graph_->AddEdge(inputs[i].first, inputs[i].second, node, static_cast<int>(i));
    return node;
  }

  void Remove() {
    for (const Grouping::Group& group : grouping_.groups) {
      for (Node* node : group.nodes) graph_->RemoveNode(node);
    }
    // Sources of which every consumer's group has a copy.
    std::vector<Node*> nodes;
    for (Node* node : graph_->op_nodes()) {
      if (IsSource(node)) nodes.push_back(node);
    }
    for (Node* node : nodes) {
      bool is_used = false;
      for (const Edge* edge : node->out_edges()) is_used = is_used || edge->dst()->IsOp();
      if (!is_used) graph_->RemoveNode(node);
    }
  }

  const Grouping& grouping_;
  const CutOptions& options_;
  const std::string& home_;
  const tensorflow::FunctionLibraryDefinition& library_;
  Graph* const graph_;
  std::vector<Piece> pieces_;
  std::set<Port> wanted_conditions_;
  std::map<Port, std::map<std::string, int>> takers_;  // how many groups of which device
  std::map<Port, int64_t> numbers_;
  std::map<Port, Port> now_;
  std::map<Node*, Node*> ends_;
  TfStatus status_;
};

}  // namespace

TfStatus CutGroups(const Grouping& grouping, const CutOptions& options, Graph* graph) {
  return Cutter(grouping, options, graph).Cut();
}

}  // namespace fusewire::tf
