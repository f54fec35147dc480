// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/cut/grouping.h"

#include <algorithm>
#include <initializer_list>
#include <tuple>
#include <utility>

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <tensorflow/core/graph/control_flow.h>
#include <tensorflow/core/util/device_name_utils.h>
#include "fusewire/base/check.h"
#include "fusewire/tf/bridge/names.h"

namespace fusewire::tf {

using tensorflow::DataType;
using tensorflow::DeviceNameUtils;
using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::NodeDef;

namespace {

void Add(const Functions::Facts& more, Functions::Facts* facts) {
  facts->may_block = facts->may_block || more.may_block;
  facts->is_elsewhere = facts->is_elsewhere || more.is_elsewhere;
}

// An operation of a function is on the caller's device, unless it requests another one.
bool Contradicts(const std::string& asked, const std::string& device) {
  DeviceNameUtils::ParsedName wanted, there;
  if (asked.empty() || !DeviceNameUtils::ParseFullName(device, &there)) return false;
  if (!DeviceNameUtils::ParseFullName(asked, &wanted)) return true;
  return !DeviceNameUtils::IsCompleteSpecification(wanted, there);
}

bool HasAnyOf(const std::string& op, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(), [&op](const char* word) { return absl::StrContains(op, word); });
}

constexpr int kNowhere = Placed::kNowhere;  // the worker's, or left to send and receive
constexpr int kNoChoice = -1;               // for a condition that is a bool
constexpr int kOwn = -1;                    // the output of a condition that is a node of its own

class Grouper {
 public:
  Grouper(const Graph& graph, const GroupingOptions& options)
      : graph_(graph),
        options_(options),
        functions_(options.library),
        nodes_(static_cast<size_t>(graph.num_node_ids())) {}

  TfStatus Make(Grouping* out) {
    TF_RETURN_IF_ERROR(FindFrames());
    if (!Order()) return absl::UnimplementedError("its loops depend on each other in a circle");
    Classify();
    // A node that has to be left out may be an input of others, which then have to be left out, too.
    do {
      has_changed_ = false;
      FindPlaces();
      FindRounds();
      FindCrossings();
      LeaveBroken();
    } while (has_changed_);
    if (options_.merge) Merge();
    PostponeNodes();
    Write(out);
    return TfStatus();
  }

 private:
  enum class Kind { kFree, kMember, kSource };
  using Facts = int;  // a number of sets_

  // Conditions that an edge, or a node, stands under: those that its group's call stands under, and the group's own.
  struct Under {
    Facts guards = 0, inner = 0;
  };
  // What is known of a node.
  struct Known {
    int unit = 0;  // the nodes of a loop are one, named by its first
    bool in_loop = false;
    bool is_served = false;
    bool may_block = false;  // of those that are served
    Kind kind = Kind::kFree;
    Under under;
    Facts waits = 0;  // the blocking operations that it waits for
    int place = kNowhere;
    int round = 0;
  };

  static size_t Id(const Node* node) { return static_cast<size_t>(node->id()); }
  Known& Of(const Node* node) { return nodes_[Id(node)]; }
  const Known& Of(const Node* node) const { return nodes_[Id(node)]; }

  // All nodes of an outermost loop are one unit: its ends wait for all of its beginnings.
  TfStatus FindFrames() {
    std::vector<tensorflow::ControlFlowInfo> info;
    TF_RETURN_IF_ERROR(tensorflow::BuildControlFlowInfo(&graph_, &info));
    std::map<std::string, int> frames;
    for (const Node* node : graph_.op_nodes()) {
      Of(node).unit = node->id();
      const tensorflow::ControlFlowInfo* at = &info[Id(node)];
      if (at->frame_name.empty()) continue;
      while (at->parent_frame != nullptr && !info[Id(at->parent_frame)].frame_name.empty())
        at = &info[Id(at->parent_frame)];
      Of(node).in_loop = true;
      Of(node).unit = frames.emplace(at->frame_name, node->id()).first->second;
    }
    return TfStatus();
  }

  // Orders nodes so that each is behind its inputs, and those of a unit are together. False: units form a circle.
  bool Order() {
    std::vector<std::vector<Node*>> members(nodes_.size());
    std::vector<std::vector<int>> next(nodes_.size());
    std::vector<int> missing(nodes_.size(), 0);
    for (Node* node : graph_.op_nodes()) {
      int unit = Of(node).unit;
      members[static_cast<size_t>(unit)].push_back(node);
      for (const Edge* edge : node->in_edges()) {
        int from = edge->src()->IsOp() ? Of(edge->src()).unit : unit;
        if (from == unit) continue;
        next[static_cast<size_t>(from)].push_back(unit);
        ++missing[static_cast<size_t>(unit)];
      }
    }
    std::vector<int> ready;
    size_t units = 0, ordered = 0;
    for (size_t unit = 0; unit < nodes_.size(); ++unit) {
      if (members[unit].empty()) continue;
      ++units;
      if (missing[unit] == 0) ready.push_back(static_cast<int>(unit));
    }
    while (!ready.empty()) {
      size_t unit = static_cast<size_t>(ready.back());
      ready.pop_back();
      ++ordered;
      order_.push_back(members[unit]);
      for (int to : next[unit]) {
        FUSEWIRE_DCHECK(missing[static_cast<size_t>(to)] > 0);
        if (--missing[static_cast<size_t>(to)] == 0) ready.push_back(to);
      }
    }
    FUSEWIRE_DCHECK(ordered <= units);
    FUSEWIRE_DCHECK(order_.size() == ordered);
    return ordered == units;
  }

  void Classify() {
    for (const Node* node : graph_.op_nodes()) {
      if (!options_.is_served(node->assigned_device_name())) continue;
      Known& known = Of(node);
      known.is_served = true;
      const Functions::Facts functions = functions_.Of(*node);
      known.may_block = functions.may_block || MayBlock(node->type_string());
      if (known.in_loop) {
        Leave(node, "in a loop");
      } else if (node->IsControlFlow() && !node->IsMerge() && !IsSwitchOfTwo(*node)) {
        Leave(node, "control flow");
      } else if (BelongsElsewhere(node->type_string())) {
        Leave(node, "of the session");
      } else if (functions.is_elsewhere) {
        Leave(node, "a function of several tasks");
      } else {
        known.kind = IsNamed(*node) ? Kind::kSource : Kind::kMember;
      }
    }
  }

  void Leave(const Node* node, const char* why) {
    Of(node).kind = Kind::kFree;
    why_[node->id()] = why;
  }

  // A source with other consumers, or with none, also runs in a group of its own.
  bool RunsItself(const Node* node) const {
    bool is_used = false, is_copied = true;
    for (const Edge* edge : node->out_edges()) {
      if (!edge->dst()->IsOp() || edge->IsControlEdge()) continue;
      const Known& to = Of(edge->dst());
      if (to.is_served && to.kind == Kind::kFree) return false;  // the source stays where it is, for this consumer
      is_used = true;
      is_copied = is_copied && IsCopied(edge);
    }
    return !is_used || !is_copied;
  }
  // From a source to a group of its own device.
  bool IsCopied(const Edge* edge) const {
    const Node* from = edge->src();
    const Node* to = edge->dst();
    return Of(from).kind == Kind::kSource && to->IsOp() && Of(to).kind != Kind::kFree &&
           from->assigned_device_name() == to->assigned_device_name();
  }

  // ---- places: the device, the guards, the blocking operations that a node waits for, and whether it is for the next
  // step ----

  void FindPlaces() {
    std::map<std::tuple<std::string, Facts, Facts, bool>, int> places;
    for (const std::vector<Node*>& unit : order_) {
      Under under;
      Facts waits = 0;
      for (const Node* node : unit) {
        for (const Edge* edge : node->in_edges()) {
          if (!edge->src()->IsOp() || Of(edge->src()).unit == Of(node).unit || IsCopied(edge)) continue;
          Under there = UnderOf(edge);
          under.guards = sets_.Union(under.guards, there.guards);
          under.inner = sets_.Union(under.inner, there.inner);
          waits = sets_.Union(waits, Of(edge->src()).waits);
        }
      }
      if (unit.size() == 1 && unit[0]->IsMerge() && !Of(unit[0]).in_loop) under = UnderMerge(unit[0]);
      for (const Node* node : unit) {
        Known& known = Of(node);
        known.under = under;
        known.waits = known.may_block ? sets_.Union(waits, sets_.Number({node->id()})) : waits;
        known.place = kNowhere;
        if (!IsGrouped(node)) continue;
        const bool is_ahead = node->def().attr().count(kAheadAttribute) > 0;
        auto key = std::make_tuple(node->assigned_device_name(), under.guards, known.waits, is_ahead);
        known.place = places.emplace(key, static_cast<int>(places.size())).first->second;
      }
    }
  }

  bool IsGrouped(const Node* node) const {
    return Of(node).kind == Kind::kMember || (Of(node).kind == Kind::kSource && RunsItself(node));
  }
  // May both ends be in one group? As far as is known yet.
  bool StaysInside(const Edge* edge) const {
    const Node *from = edge->src(), *to = edge->dst();
    return IsGrouped(from) && IsGrouped(to) && from->assigned_device_name() == to->assigned_device_name() &&
           crossing_.count(edge->id()) == 0;
  }

  // As its consumer sees it: conditions inside another group are outside of this one.
  Under UnderOf(const Edge* edge) {
    const Node* from = edge->src();
    Under under = Of(from).under;
    if (from->IsSwitch() && !Of(from).in_loop) under.inner = sets_.Union(under.inner, FactOf(edge));
    if (StaysInside(edge)) return under;
    return Under{sets_.Union(under.guards, under.inner), 0};
  }

  // A fact is the branch of a condition.
  Facts FactOf(const Edge* edge) {
    FUSEWIRE_DCHECK(edge->src()->IsSwitch());
    const Edge* condition = nullptr;
    if (edge->IsControlEdge()) return 0;  // the Switch itself is not under its condition
    if (!edge->src()->input_edge(1, &condition).ok()) return sets_.Number({Fact(edge->src(), kOwn, 0)});
    const Edge* origin = OriginOf(condition);
    if (IsSwitchOfTwo(*edge->src()))
      return sets_.Number({Fact(origin->src(), origin->src_output(), edge->src_output())});
    // Of tf.switch_case: each branch is a condition of its own.
    return sets_.Number({Fact(origin->src(), origin->src_output(), 0, edge->src_output())});
  }

  // Two branches of one condition meet: the conditions that they have in common remain.
  Under UnderMerge(Node* merge) {
    std::vector<Under> inputs;
    bool is_inside = IsGrouped(merge);
    for (const Edge* edge : merge->in_edges()) {
      if (!edge->src()->IsOp() || edge->IsControlEdge()) continue;
      inputs.push_back(UnderOf(edge));
      is_inside = is_inside && StaysInside(edge);
    }
    Under under;
    for (const Under& input : inputs) under.guards = sets_.Union(under.guards, input.guards);
    if (IsGrouped(merge)) {
      bool are_same =
          std::all_of(inputs.begin(), inputs.end(), [&](const Under& input) { return input.guards == under.guards; });
      if (is_inside && are_same && Meet(inputs, &Under::inner, &under.inner)) return under;
      // Of its inputs only one is alive, so they cannot be those of a call.
      if (IsHandle(merge->output_type(0))) {
        Leave(merge, "control flow");
      } else {
        Of(merge).kind = Kind::kFree;
        Of(merge).is_served = false;
        to_home_.push_back(merge);
      }
      has_changed_ = true;
      return under;
    }
    if (!Meet(inputs, &Under::guards, &under.guards)) under.guards = sets_.Number({Fact(merge, kOwn, 0)});
    return under;
  }

  bool Meet(const std::vector<Under>& inputs, Facts Under::*facts, Facts* out) {
    if (inputs.size() != 2) return false;
    const Sets::Set left = sets_.at(inputs[0].*facts), right = sets_.at(inputs[1].*facts);
    Sets::Set common, only_left, only_right;
    std::set_intersection(left.begin(), left.end(), right.begin(), right.end(), std::inserter(common, common.end()));
    std::set_difference(left.begin(), left.end(), right.begin(), right.end(),
                        std::inserter(only_left, only_left.end()));
    std::set_difference(right.begin(), right.end(), left.begin(), left.end(),
                        std::inserter(only_right, only_right.end()));
    if (only_left.size() != 1 || only_right.size() != 1) return false;
    if (*only_left.begin() / 2 != *only_right.begin() / 2) return false;
    *out = sets_.Number(common);
    return true;
  }

  // The two branches of a condition are neighbours: 2n and 2n + 1.
  // `choice`: for a condition that is a number, the value that it must have.
  int Fact(Node* node, int output, int branch, int choice = kNoChoice) {
    FUSEWIRE_DCHECK(branch == 0 || branch == 1);
    auto added = condition_number_.emplace(std::make_tuple(node, output, choice), static_cast<int>(conditions_.size()));
    if (added.second) conditions_.push_back({node, output});
    FUSEWIRE_DCHECK(condition_number_.size() == conditions_.size());
    return 2 * added.first->second + branch;
  }

  // ---- rounds ----

  int FirstRound(const Node* node) const {
    int place = Of(node).place;
    int round = place == kNowhere ? 0 : 1;
    for (const Edge* edge : node->in_edges()) {
      const Node* from = edge->src();
      if (!from->IsOp() || IsCopied(edge)) continue;
      int there = Of(from).round, other = Of(from).place;
      if (other == kNowhere) {
        round = std::max(round, place == kNowhere ? there : there + 1);
      } else if (place == kNowhere) {
        round = std::max(round, there + 1);
      } else {
        round = std::max(round, place == other ? there : there + 2);
      }
    }
    return round;
  }

  void FindRounds() {
    for (Known& known : nodes_) known.round = 0;  // nodes of one unit read each other's
    for (const std::vector<Node*>& unit : order_) {
      int round = 0;
      for (const Node* node : unit) round = std::max(round, FirstRound(node));
      for (const Node* node : unit) {
        auto least = least_.find({Of(node).place, round});
        while (Of(node).place != kNowhere && least != least_.end()) {
          FUSEWIRE_DCHECK(least->second > round);  // otherwise this would not end
          round = least->second;
          least = least_.find({Of(node).place, round});
        }
        // Even for the worker, odd for a parameter server.
        FUSEWIRE_DCHECK(Of(node).in_loop || round % 2 == (Of(node).place == kNowhere ? 0 : 1));
        Of(node).round = round;
      }
    }
  }

  bool AreTogether(const Node* left, const Node* right) const {
    return Of(left).place != kNowhere && Of(left).place == Of(right).place && Of(left).round == Of(right).round;
  }

  // Finds tensors that leave their group under a condition after all.
  void FindCrossings() {
    for (const Edge* edge : graph_.edges()) {
      if (!edge->src()->IsOp() || !edge->dst()->IsOp() || !StaysInside(edge)) continue;
      if (AreTogether(edge->src(), edge->dst()) || UnderOf(edge).inner == 0) continue;
      crossing_.insert(edge->id());
      has_changed_ = true;
    }
  }

  // Handles and references do not travel.
  bool IsBroken(const Edge* edge) const {
    const Node *from = edge->src(), *to = edge->dst();
    if (!from->IsOp() || !to->IsOp() || edge->IsControlEdge() || IsCopied(edge)) return false;
    if (!Of(from).is_served || !Of(to).is_served || from->assigned_device_name() != to->assigned_device_name())
      return false;
    DataType type = from->output_type(edge->src_output());
    if (!IsHandle(type)) return false;
    if (tensorflow::IsRefType(type) && !tensorflow::IsRefType(to->input_type(edge->dst_input()))) return false;
    bool are_left = Of(to).kind == Kind::kFree && Of(from).kind != Kind::kMember;
    return !are_left && !AreTogether(from, to);
  }
  void LeaveBroken() {
    for (const Edge* edge : graph_.edges()) {
      if (!IsBroken(edge)) continue;
      // Leave out the consumer, or, if that is left out already, the producer of the handle.
      const Node* node = Of(edge->dst()).kind == Kind::kFree ? edge->src() : edge->dst();
      Leave(node, "a handle from elsewhere");
      has_changed_ = true;
    }
  }

  // ---- star_server_lite ----

  using Spot = std::pair<int, int>;  // place and round

  std::set<Spot> Spots() const {
    std::set<Spot> spots;
    for (const Node* node : graph_.op_nodes()) {
      if (Of(node).place != kNowhere) spots.insert({Of(node).place, Of(node).round});
    }
    return spots;
  }

  // A group may merge with the next one of its place, if no other group becomes later.
  void Merge() {
    // The worker's own rounds are not counted: most of its nodes there only wait for others.
    const auto last_of = [](const std::set<Spot>& spots) {
      int last = 0;
      for (const Spot& spot : spots) last = std::max(last, spot.second);
      return last;
    };
    bool again = true;
    while (again) {
      again = false;
      const std::set<Spot> spots = Spots();
      for (auto spot = spots.begin(); spot != spots.end() && !again; ++spot) {
        auto next = std::next(spot);
        if (next == spots.end() || next->first != spot->first) continue;
        const std::vector<Known> before = nodes_;
        least_[*spot] = next->second;
        FindRounds();
        const std::set<Spot> merged = Spots();
        again = merged.size() < spots.size() && last_of(merged) <= last_of(spots) && !IsAnyBroken();
        if (again) continue;
        least_.erase(*spot);
        nodes_ = before;
      }
    }
  }

  bool IsAnyBroken() {
    for (const Edge* edge : graph_.edges()) {
      if (!edge->src()->IsOp() || !edge->dst()->IsOp()) continue;
      bool crosses = StaysInside(edge) && !AreTogether(edge->src(), edge->dst()) && UnderOf(edge).inner != 0;
      if (crosses || IsBroken(edge)) return true;
    }
    return false;
  }

  void PostponeNodes() {
    std::vector<Placed> placed(nodes_.size());
    std::vector<Node*> order;
    for (const std::vector<Node*>& unit : order_) {
      for (Node* node : unit) {
        const Known& known = Of(node);
        const bool is_alone = unit.size() == 1 && known.kind == Kind::kMember && !known.may_block;
        const bool makes_handles = std::any_of(node->output_types().begin(), node->output_types().end(), IsHandle);
        placed[Id(node)] = Placed{known.place, known.round, is_alone && known.under.inner == 0 && !makes_handles};
        order.push_back(node);
      }
    }
    Postpone(
        order, [this](const Edge* edge) { return IsCopied(edge); }, &placed);
    for (const Node* node : order) Of(node).round = placed[Id(node)].round;
  }

  void Write(Grouping* out) {
    out->group_of.assign(nodes_.size(), Grouping::kNone);
    out->is_source.assign(nodes_.size(), false);
    out->conditions.resize(nodes_.size());
    out->to_home = to_home_;
    std::map<Spot, std::vector<Node*>> groups;  // by round first
    for (Node* node : graph_.op_nodes()) {
      if (Of(node).place != kNowhere) groups[{Of(node).round, Of(node).place}].push_back(node);
      if (Of(node).place != kNowhere) {
        for (int fact : sets_.at(Of(node).under.inner)) {
          FUSEWIRE_DCHECK(static_cast<size_t>(fact / 2) < conditions_.size());
          const auto& condition = conditions_[static_cast<size_t>(fact / 2)];
          out->conditions[Id(node)].push_back({condition.first, condition.second, fact % 2});
        }
      }
      out->is_source[Id(node)] = Of(node).kind == Kind::kSource;
    }
    for (auto& found : groups) {
      Grouping::Group group;
      group.nodes = std::move(found.second);
      FUSEWIRE_DCHECK(!group.nodes.empty());
      std::sort(group.nodes.begin(), group.nodes.end(),
                [](const Node* left, const Node* right) { return left->name() < right->name(); });
      group.device = group.nodes[0]->assigned_device_name();
      group.round = found.first.first;
      for (const Node* node : group.nodes) out->group_of[Id(node)] = static_cast<int>(out->groups.size());
      out->groups.push_back(std::move(group));
    }
    FUSEWIRE_DCHECK(std::is_sorted(out->groups.begin(), out->groups.end(),
                                   [](const auto& left, const auto& right) { return left.round < right.round; }));
    for (const auto& reason : why_) ++out->left[reason.second];
  }

  const Graph& graph_;
  const GroupingOptions& options_;
  Functions functions_;
  std::vector<Known> nodes_;  // by id
  std::vector<std::vector<Node*>> order_;
  std::map<int, std::string> why_;  // by node id: why it is left to send and receive
  Sets sets_;
  std::vector<std::pair<Node*, int>> conditions_;
  std::map<std::tuple<Node*, int, int>, int> condition_number_;
  std::set<int> crossing_;  // edges, by id
  std::vector<Node*> to_home_;
  bool has_changed_ = false;   // everything has to be computed again
  std::map<Spot, int> least_;  // the earliest rounds of groups that merging has delayed
};

}  // namespace

Functions::Facts Functions::Of(const tensorflow::Node& node) {
  bool has_any = library_ != nullptr && library_->num_functions() > 0;
  return has_any ? OfCalled(node.def(), node.assigned_device_name()) : Facts();
}

Functions::Facts Functions::OfCalled(const NodeDef& def, const std::string& device) {
  Facts facts = OfName(def.op(), device);
  for (const auto& attr : def.attr()) {
    if (attr.second.has_func()) Add(OfName(attr.second.func().name(), device), &facts);
    for (const auto& function : attr.second.list().func()) Add(OfName(function.name(), device), &facts);
  }
  return facts;
}

Functions::Facts Functions::OfName(const std::string& name, const std::string& device) {
  const tensorflow::FunctionDef* function = library_->Find(name);
  if (function == nullptr) return Facts();
  auto known = known_.emplace(std::make_pair(name, device), Facts());
  if (!known.second) return known.first->second;  // a recursive function: the facts so far
  Facts facts;
  for (const NodeDef& def : function->node_def()) {
    facts.may_block = facts.may_block || MayBlock(def.op());
    facts.is_elsewhere = facts.is_elsewhere || BelongsElsewhere(def.op()) || Contradicts(def.device(), device);
    Add(OfCalled(def, device), &facts);
  }
  std::string gradient = library_->FindGradient(name);
  if (!gradient.empty()) Add(OfName(gradient, device), &facts);
  known.first->second = facts;
  return facts;
}

TfStatus MakeGroups(const Graph& graph, const GroupingOptions& options, Grouping* out) {
  return Grouper(graph, options).Make(out);
}

bool MayBlock(const std::string& op) {
  if (op == "Batch" || op == "BatchFunction" || absl::StartsWith(op, "Unbatch") || absl::StartsWith(op, "Rpc"))
    return true;
  return HasAnyOf(op, {"Dequeue", "Enqueue", "ReaderRead", "BarrierTake", "BarrierInsert", "Stage", "Unstage", "Peek",
                       "TakeGradient", "GetNext", "MutexLock", "PyFunc"});
}

bool MayTakeLong(const std::string& op) {
  if (op == "ReduceDataset" || op == "DatasetToSingleElement" || op == "RecordInput") return true;
  return MayBlock(op) || HasAnyOf(op, {"Save", "Restore", "Checkpoint", "ReadFile", "WriteFile", "MatchingFiles",
                                       "FromTextFile", "MakeIterator"});
}

bool OnlyReads(const Node& node) {
  static const auto* const readers = new std::set<std::string>{
      // Variables and tables are made by their first use, and found by all others.
      "Variable", "VariableV2", "VarHandleOp", "HashTable", "HashTableV2", "MutableHashTable", "MutableHashTableV2",
      "MutableHashTableOfTensors", "MutableHashTableOfTensorsV2", "MutableDenseHashTable", "MutableDenseHashTableV2",
      "TFRA>CuckooHashTableOfTensors",
      // Their content.
      "ReadVariableOp", "_ReadVariablesOp", "VarIsInitializedOp", "IsVariableInitialized", "VariableShape",
      "ResourceGather", "ResourceGatherNd", "LookupTableFind", "LookupTableFindV2", "LookupTableSize",
      "LookupTableSizeV2", "LookupTableExport", "LookupTableExportV2", "TFRA>CuckooHashTableFind",
      "TFRA>CuckooHashTableFindWithExists", "TFRA>CuckooHashTableSize", "TFRA>CuckooHashTableExport",
      // The state of these is a message.
      "Assert", "Print", "PrintV2"};
  const std::string& op = node.type_string();
  if (readers->count(op) != 0) return true;
  const tensorflow::OpDef& def = node.op_def();
  if (def.is_stateful()) return false;
  // A reference variable is changed through its input: Assign and ScatterAdd have no flag.
  const bool is_passed_on = op == "RefIdentity" || op == "RefSwitch" || op == "RefMerge" || op == "RefSelect";
  return is_passed_on || std::none_of(def.input_arg().begin(), def.input_arg().end(),
                                      [](const tensorflow::OpDef::ArgDef& input) { return input.is_ref(); });
}

bool SavesFiles(const std::string& op) { return op == "SaveV2" || op == "Save" || op == "SaveSlices"; }

bool BelongsElsewhere(const std::string& op) {
  for (const char* start : {"Collective", "GetSession", "DeleteSession", "RemoteCall", "_Host", "_Fuse"}) {
    if (absl::StartsWith(op, start)) return true;
  }
  return op == "_Send" || op == "_Recv" || op == "_Arg" || op == "_Retval";
}

bool IsHandle(DataType type) {
  return tensorflow::IsRefType(type) || type == tensorflow::DT_RESOURCE || type == tensorflow::DT_VARIANT;
}

bool HasInputs(const Node& node) {
  return std::any_of(node.in_edges().begin(), node.in_edges().end(),
                     [](const Edge* edge) { return edge->src()->IsOp(); });
}

bool IsSwitchOfTwo(const Node& node) { return node.IsSwitch() && node.type_string() != "_SwitchN"; }

bool IsNamed(const Node& node) {
  if (HasInputs(node)) return false;
  if (node.IsConstant()) return true;
  return node.num_outputs() == 1 && IsHandle(node.output_type(0));
}

}  // namespace fusewire::tf
