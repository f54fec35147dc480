// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/compress/compress_pass.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <tensorflow/core/common_runtime/shape_refiner.h>
#include <tensorflow/core/framework/node_def_util.h>
#include <tensorflow/core/framework/op.h>
#include <tensorflow/core/framework/tensor.h>
#include <tensorflow/core/graph/algorithm.h>
#include <tensorflow/core/graph/node_builder.h>
#include <tensorflow/core/platform/logging.h>
#include <tensorflow/core/public/session_options.h>
#include "fusewire/base/mutex.h"
#include "fusewire/tf/bridge/graphs.h"
#include "fusewire/tf/bridge/names.h"
#include "fusewire/tf/fuse/passes.h"

namespace fusewire::tf {

using tensorflow::DataType;
using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::NodeBuilder;

namespace {

constexpr const char *kUniqueIds = "unique_ids", *kCompression = "compression", *kTables = "compressed_tables",
                     *kStaleness = "staleness";

// By these operations, SyncReplicasOptimizer gathers the gradients of its workers.
constexpr const char* kGathering = "AccumulatorApplyGradient";

struct Default {
  Mutex mutex;
  CompressOptions options FUSEWIRE_GUARDED_BY(mutex);
};

Default& TheDefault() {
  static auto* one = new Default;
  return *one;
}

using Types = std::set<absl::string_view>;

const Types& Lookups() {
  static const auto* types = new Types{"Gather", "GatherV2", "ResourceGather"};
  return *types;
}

const Types& Variables() {
  static const auto* types = new Types{"VarHandleOp", "Variable", "VariableV2"};
  return *types;
}

bool IsOf(const Types& types, const Node& node) { return types.count(node.type_string()) > 0; }

absl::string_view TaskOf(const Node& node) { return TaskOfDevice(node.assigned_device_name()); }

// GPUs lack some of the operations that are put beside tensors.
bool IsCpu(absl::string_view device) { return absl::StrContains(device, "/device:CPU:"); }

bool Crosses(const Edge& edge) {
  return !edge.IsControlEdge() && edge.src()->IsOp() && edge.dst()->IsOp() &&
         TaskOf(*edge.src()) != TaskOf(*edge.dst());
}

// The variable whose handle, reference or value this is; null: none.
const Node* VariableOf(const Node* node) {
  static const auto* ways = new Types{"Identity", "ReadVariableOp", "RefIdentity", "Snapshot"};
  while (!IsOf(Variables(), *node)) {
    if (!IsOf(*ways, *node)) return nullptr;
    const Edge* edge = InputOf(*node, 0);
    if (edge == nullptr) return nullptr;
    node = edge->src();
  }
  return node;
}

// Whether it is a constant, the number 0.
bool IsZero(const Edge* edge) { return NumbersOf(edge) == std::vector<int64_t>{0}; }

// The edges with the tensor of a lookup, also behind operations on its task that only pass the tensor on.
class Rows {
 public:
  explicit Rows(Node* lookup) { Follow(lookup, TaskOf(*lookup)); }
  // Whether they all go to other tasks.
  bool all_leave() const { return all_leave_; }
  const std::vector<const Edge*>& leaving() const& { return leaving_; }

 private:
  void Follow(Node* node, absl::string_view task) {
    for (const Edge* edge : node->out_edges()) {
      if (edge->IsControlEdge() || !edge->dst()->IsOp()) continue;
      if (TaskOf(*edge->dst()) != task) {
        leaving_.push_back(edge);
      } else if (edge->dst()->type_string() == "Identity") {
        Follow(edge->dst(), task);
      } else {
        all_leave_ = false;
      }
    }
  }

  std::vector<const Edge*> leaving_;
  bool all_leave_ = true;
};

// The index of the operation's input of this name, or -1. None of the inputs before it is a list.
int PlaceOf(absl::string_view name, const Node& node) {
  const auto& args = node.op_def().input_arg();
  for (int i = 0; i < args.size(); ++i) {
    if (args.Get(i).name() == name) return i;
  }
  return -1;
}

// Whether an input of this operation is added to a variable or an accumulator, or changes it as an optimizer says.
bool IsUpdate(const Node& node, int input) {
  const absl::string_view type = absl::StripPrefix(node.type_string(), "Resource");
  const auto is = [&](absl::string_view name) { return PlaceOf(name, node) == input; };
  if (absl::StartsWith(type, "Apply") || absl::StartsWith(type, "SparseApply")) return is("grad") || is("delta");
  if (absl::EndsWith(type, kGathering)) return is("gradient") || is("gradient_values");
  static const auto* adding = new Types{"ScatterAdd", "ScatterNdAdd", "ScatterNdSub", "ScatterSub"};
  return adding->count(type) > 0 && is("updates");
}

// What TensorFlow can tell of the shapes in a graph.
class Ranks {
 public:
  explicit Ranks(Graph* graph) : refiner_(graph->versions(), graph->op_registry()) {
    std::vector<Node*> order;
    tensorflow::GetReversePostOrder(*graph, &order);
    for (Node* node : order) refiner_.AddNode(node).IgnoreError();  // then its shape is not known
  }
  // Whether it is known to be more than one number: a rate is not a gradient.
  bool IsArray(const Edge& edge) const {
    auto* shapes = refiner_.GetContext(edge.src());
    if (shapes == nullptr) return false;
    const auto shape = shapes->output(edge.src_output());
    return shapes->RankKnown(shape) && shapes->Rank(shape) > 0;
  }

 private:
  tensorflow::ShapeRefiner refiner_;
};

class Compressor {
 public:
  Compressor(const CompressOptions& options, Graph* graph, Compressed* done)
      : options_(options), graph_(graph), done_(done) {
    for (Node* node : graph->op_nodes()) {
      nodes_.push_back(node);
      has_loops_ |= node->IsEnter();
    }
    // Equal graphs must stay equal: workers share parts on parameter servers.
    std::sort(nodes_.begin(), nodes_.end(), [](const Node* a, const Node* b) { return a->name() < b->name(); });
  }

  TfStatus Work() {
    // Gradients in 8 bits need the ids of their rows.
    if (options_.unique_ids || options_.compression == Compression::kInt8) {
      for (Node* node : nodes_) MoveSum(node);
    }
    if (options_.unique_ids) {
      for (Node* node : nodes_) TF_RETURN_IF_ERROR(SendIdsOnce(node));
    }
    if (options_.staleness > 0) {
      for (Node* node : nodes_) TF_RETURN_IF_ERROR(UseRowsAgain(node));
    }
    if (options_.compression != Compression::kOff) {
      for (Node* node : nodes_) TF_RETURN_IF_ERROR(ShrinkRows(node));
      TF_RETURN_IF_ERROR(ShrinkGradients());
    }
    return TfStatus();
  }

 private:
  bool IsTable(const Node& lookup) const {
    const Edge* params = InputOf(lookup, 0);
    const Node* variable = params == nullptr ? nullptr : VariableOf(params->src());
    return variable != nullptr && options_.IsNamed(variable->name());
  }

  TfStatus Add(const NodeBuilder& builder, const std::string& device, Node** out) {
    NodeBuilder mine = builder;
    TF_RETURN_IF_ERROR(mine.Finalize(graph_, out));
    (*out)->set_requested_device(device);
    (*out)->set_assigned_device_name(device);
    return TfStatus();
  }

  void Replace(const Edge* edge, Node* by, int output) {
    Node* to = edge->dst();
    const int input = edge->dst_input();
    graph_->RemoveEdge(edge);
    graph_->AddEdge(by, output, to, input);
  }

  // A lookup of whole rows in a table, whose ids come from the worker that uses the rows; nothing else uses them.
  struct Lookup {
    const Edge* ids = nullptr;
    std::vector<const Edge*> rows;
    std::string home;  // the worker's device
    // By us, by tf.nn.embedding_lookup_sparse or feature columns.
    bool has_unique_ids() const { return ids->src()->type_string() == "Unique" && ids->src_output() == 0; }
  };
  bool FindLookup(Node* node, Lookup* found) const;
  TfStatus ReplaceRows(const Lookup& lookup,
                       const std::function<NodeBuilder(int number, const NodeBuilder::NodeOut& rows)>& build);
  TfStatus SendIdsOnce(Node* node);
  TfStatus UseRowsAgain(Node* node);
  void MoveSum(Node* sum);
  bool CollectSum(Node* node, absl::string_view task, std::set<Node*>* moved, std::string* from) const;
  // A tensor that becomes smaller between two tasks.
  struct Way {
    enum Form { kBf16, kInt8 };
    const Edge* edge = nullptr;
    Form form = kBf16;
    // Of the rows of gradients in 8 bits.
    Node* ids = nullptr;
    int ids_output = 0;
  };
  TfStatus Shrink(const std::vector<Way>& ways, int* count);
  TfStatus UseInt8(Way* way);
  TfStatus ShrinkRows(Node* lookup);
  TfStatus ShrinkGradients();
  bool EndsInUpdates(const Edge& edge, std::map<const Edge*, bool>* known) const;

  const CompressOptions& options_;
  Graph* const graph_;
  Compressed* const done_;
  std::vector<Node*> nodes_;
  std::map<std::string, Node*> dense_ids_;  // by the device: a constant without elements
  bool has_loops_ = false;                  // in which a constant would need to enter
};

bool Compressor::FindLookup(Node* node, Lookup* found) const {
  if (has_loops_ || !IsOf(Lookups(), *node) || !IsTable(*node)) return false;
  int64_t batch_dims = 0;
  if (tensorflow::TryGetNodeAttr(node->attrs(), "batch_dims", &batch_dims) && batch_dims != 0) return false;
  if (node->type_string() == "GatherV2" && !IsZero(InputOf(*node, 2))) return false;  // along the rows only
  found->ids = InputOf(*node, 1);
  if (found->ids == nullptr || !Crosses(*found->ids)) return false;
  const Rows rows(node);
  found->rows = rows.leaving();
  found->home = found->ids->src()->assigned_device_name();
  if (!rows.all_leave() || found->rows.empty() || !IsCpu(found->home)) return false;
  return std::all_of(found->rows.begin(), found->rows.end(),
                     [&](const Edge* edge) { return edge->dst()->assigned_device_name() == found->home; });
}

// ids -> lookup -> rows   becomes   ids -> Unique -> lookup -> rows of each id once -> Gather -> rows
TfStatus Compressor::SendIdsOnce(Node* node) {
  Lookup lookup;
  if (!FindLookup(node, &lookup) || lookup.has_unique_ids()) return TfStatus();
  const std::string& home = lookup.home;
  const std::string name = node->name() + "/fusewire_unique";
  const NodeBuilder::NodeOut source(lookup.ids->src(), lookup.ids->src_output());
  tensorflow::Tensor minus_one(tensorflow::DT_INT32, {1}), zero(tensorflow::DT_INT32, {});
  minus_one.flat<int32_t>()(0) = -1;
  zero.scalar<int32_t>()() = 0;
  Node *flat_shape, *flat, *unique, *shape, *places, *axis;
  auto constant = [](const std::string& called, const tensorflow::Tensor& value) {
    return NodeBuilder(called, "Const").Attr("dtype", value.dtype()).Attr("value", value);
  };
  TF_RETURN_IF_ERROR(Add(constant(name + "/flat_shape", minus_one), home, &flat_shape));
  TF_RETURN_IF_ERROR(Add(constant(name + "/axis", zero), home, &axis));
  TF_RETURN_IF_ERROR(Add(NodeBuilder(name + "/flat", "Reshape").Input(source).Input(flat_shape), home, &flat));
  TF_RETURN_IF_ERROR(Add(NodeBuilder(name + "/ids", "Unique").Input(flat), home, &unique));
  TF_RETURN_IF_ERROR(Add(NodeBuilder(name + "/shape", "Shape").Input(source), home, &shape));
  TF_RETURN_IF_ERROR(Add(NodeBuilder(name + "/places", "Reshape").Input(unique, 1).Input(shape), home, &places));
  Replace(lookup.ids, unique, 0);
  TF_RETURN_IF_ERROR(ReplaceRows(lookup, [&](int number, const NodeBuilder::NodeOut& rows) {
    return NodeBuilder(absl::StrCat(name, "/rows_", number), "GatherV2").Input(rows).Input(places).Input(axis);
  }));
  ++done_->lookups;
  return TfStatus();
}

// ids -> lookup -> rows   becomes   ids -> FusewireFreshIds -> lookup -> rows of some ids -> FusewireAllRows -> rows
TfStatus Compressor::UseRowsAgain(Node* node) {
  Lookup lookup;
  if (node->output_type(0) != tensorflow::DT_FLOAT || !FindLookup(node, &lookup) || !lookup.has_unique_ids())
    return TfStatus();
  if (node->def().attr().count(kAheadAttribute) > 0) return TfStatus();  // it is a step old already
  const std::string name = node->name() + "/fusewire_again";
  Node* fresh;
  TF_RETURN_IF_ERROR(Add(NodeBuilder(name + "/ids", "FusewireFreshIds")
                             .Input(lookup.ids->src(), lookup.ids->src_output())
                             .Attr("steps_max", options_.staleness),
                         lookup.home, &fresh));
  Replace(lookup.ids, fresh, 0);
  TF_RETURN_IF_ERROR(ReplaceRows(lookup, [&](int number, const NodeBuilder::NodeOut& rows) {
    return NodeBuilder(absl::StrCat(name, "/rows_", number), "FusewireAllRows").Input(fresh, 1).Input(rows);
  }));
  ++done_->caches;
  return TfStatus();
}

// Between the lookup and those who use its rows, `build(number, rows)`: one for each output that they come out of.
TfStatus Compressor::ReplaceRows(
    const Lookup& lookup, const std::function<NodeBuilder(int number, const NodeBuilder::NodeOut& rows)>& build) {
  std::map<const Node*, Node*> built;
  for (const Edge* edge : lookup.rows) {
    Node*& whole = built[edge->src()];
    if (whole == nullptr) {
      const NodeBuilder::NodeOut rows(edge->src(), edge->src_output());
      TF_RETURN_IF_ERROR(Add(build(static_cast<int>(built.size()), rows), lookup.home, &whole));
    }
    Replace(edge, whole, 0);
  }
  return TfStatus();
}

// TensorFlow's optimizers add up the gradients of each repeated id where the variable stands:
//   UnsortedSegmentSum(gradients, places of Unique(ids), their number)
// If all of that comes from one worker, it is computed there. It gives the same bits anywhere.
void Compressor::MoveSum(Node* sum) {
  if (sum->type_string() != "UnsortedSegmentSum") return;
  const Edge* places = InputOf(*sum, 1);
  if (places == nullptr || places->src()->type_string() != "Unique") return;
  std::set<Node*> moved;
  std::string from;
  if (!CollectSum(sum, TaskOf(*sum), &moved, &from) || !IsCpu(from)) return;
  for (Node* node : moved) {
    node->set_requested_device(from);
    node->set_assigned_device_name(from);
  }
  ++done_->sums;
}

// The nodes before `node` on its task, and with it. False if one of them has to stay.
bool Compressor::CollectSum(Node* node, absl::string_view task, std::set<Node*>* moved, std::string* from) const {
  static const auto* pure = new Types{"Cast",  "Const", "ExpandDims",   "Identity", "Reshape",
                                      "Shape", "Size",  "StridedSlice", "Unique",   "UnsortedSegmentSum"};
  if (TaskOf(*node) != task) {
    if (from->empty()) *from = node->assigned_device_name();
    return *from == node->assigned_device_name();
  }
  if (!IsOf(*pure, *node)) return false;
  if (!moved->insert(node).second) return true;
  for (const Edge* edge : node->in_edges()) {
    if (edge->IsControlEdge() ? edge->src()->IsOp() : !CollectSum(edge->src(), task, moved, from)) return false;
  }
  return true;
}

// Between both ends of each edge, an operation that makes its tensor smaller, and one that makes it whole again.
TfStatus Compressor::Shrink(const std::vector<Way>& ways, int* count) {
  // By the source, the form, and the ids of its rows.
  std::map<std::tuple<const Node*, int, Way::Form, const Node*>, Node*> shrunk;
  std::map<std::pair<const Node*, std::string>, Node*> restored;  // by what is shrunk, and the device
  for (const Way& way : ways) {
    Node* source = way.edge->src();
    const int output = way.edge->src_output();
    const std::string here = source->assigned_device_name(), there = way.edge->dst()->assigned_device_name();
    const std::string name = absl::StrCat(source->name(), "/fusewire_small_", output, "_", shrunk.size());
    Node*& small = shrunk[{source, output, way.form, way.ids}];
    if (small == nullptr) {
      NodeBuilder shrink(name, way.form == Way::kBf16 ? "Cast"
                               : way.ids == nullptr   ? "FusewireQuantize"
                                                      : "FusewireQuantizeGradients");
      shrink.Input(source, output);
      if (way.ids != nullptr) shrink.Input(way.ids, way.ids_output);
      if (way.form == Way::kBf16) shrink.Attr("DstT", tensorflow::DT_BFLOAT16);
      TF_RETURN_IF_ERROR(Add(shrink, here, &small));
      if (source->def().attr().count(kAheadAttribute) > 0) small->AddAttr(kAheadAttribute, true);
      ++*count;
    }
    Node*& whole = restored[{small, there}];
    if (whole == nullptr) {
      NodeBuilder restore(absl::StrCat(small->name(), "/back_", restored.size()),
                          way.form == Way::kBf16 ? "Cast" : "FusewireRestore");
      restore.Input(small);
      if (way.form == Way::kBf16) restore.Attr("DstT", tensorflow::DT_FLOAT);
      TF_RETURN_IF_ERROR(Add(restore, there, &whole));
    }
    Replace(way.edge, whole, 0);
  }
  return TfStatus();
}

// Short rows would not become smaller by it, and rows of tables have two dimensions.
bool IsForInt8(const Node* variable) {
  constexpr int64_t kLengthMin = 8;
  tensorflow::TensorShape shape;
  return variable != nullptr && tensorflow::TryGetNodeAttr(variable->attrs(), "shape", &shape) && shape.dims() == 2 &&
         shape.dim_size(1) >= kLengthMin;
}

TfStatus Compressor::ShrinkRows(Node* lookup) {
  if (!IsOf(Lookups(), *lookup) || lookup->output_type(0) != tensorflow::DT_FLOAT || !IsTable(*lookup))
    return TfStatus();
  const bool in_int8 = options_.compression == Compression::kInt8 && IsForInt8(VariableOf(InputOf(*lookup, 0)->src()));
  const Rows rows(lookup);
  std::vector<Way> ways;
  for (const Edge* edge : rows.leaving()) {
    const bool on_cpus = IsCpu(edge->src()->assigned_device_name()) && IsCpu(edge->dst()->assigned_device_name());
    ways.push_back({edge, in_int8 && on_cpus ? Way::kInt8 : Way::kBf16});
  }
  return Shrink(ways, &done_->rows);
}

TfStatus Compressor::ShrinkGradients() {
  std::map<const Edge*, bool> known;
  std::vector<const Edge*> edges;
  const Ranks ranks(graph_);
  for (Node* node : nodes_) {
    for (int i = 0; i < node->num_inputs(); ++i) {
      const Edge* edge = InputOf(*node, i);
      if (edge != nullptr && Crosses(*edge) && EndsInUpdates(*edge, &known) &&
          (IsUpdate(*node, i) || ranks.IsArray(*edge)))
        edges.push_back(edge);
    }
  }
  std::vector<Way> ways(edges.size());
  for (size_t i = 0; i < edges.size(); ++i) {
    ways[i].edge = edges[i];
    if (options_.compression == Compression::kInt8) TF_RETURN_IF_ERROR(UseInt8(&ways[i]));
  }
  return Shrink(ways, &done_->gradients);
}

// If the gradient changes a dense variable, or rows of a table whose ids come from the same worker.
TfStatus Compressor::UseInt8(Way* way) {
  static const auto* by_element = new Types{"Identity", "Mul", "Neg", "Square"};
  const Node* node = way->edge->dst();
  int input = way->edge->dst_input();
  while (!IsUpdate(*node, input)) {
    if (!IsOf(*by_element, *node)) return TfStatus();
    for (const Edge* edge : node->out_edges()) {
      if (edge->IsControlEdge() || !edge->dst()->IsOp()) continue;
      node = edge->dst();
      input = edge->dst_input();
      break;
    }
  }
  const Edge* handle = InputOf(*node, 0);
  if (handle == nullptr || !IsForInt8(VariableOf(handle->src()))) return TfStatus();
  const std::string home = way->edge->src()->assigned_device_name();
  if (has_loops_ || !IsCpu(home) || !IsCpu(way->edge->dst()->assigned_device_name())) return TfStatus();
  const int place = PlaceOf("indices", *node);
  if (place < 0) {
    if (dense_ids_[home] == nullptr) {
      const NodeBuilder none = NodeBuilder(absl::StrCat("fusewire_no_ids_", dense_ids_.size()), "Const")
                                   .Attr("dtype", tensorflow::DT_INT32)
                                   .Attr("value", tensorflow::Tensor(tensorflow::DT_INT32, {0}));
      TF_RETURN_IF_ERROR(Add(none, home, &dense_ids_[home]));
    }
    way->ids = dense_ids_[home];
  } else {
    const Edge* ids = InputOf(*node, place);
    if (ids == nullptr || ids->src()->assigned_device_name() != home) return TfStatus();
    way->ids = ids->src();
    way->ids_output = ids->src_output();
  }
  way->form = Way::kInt8;
  return TfStatus();
}

// Whether the task that receives this tensor uses it only to update tables that are to be compressed.
bool Compressor::EndsInUpdates(const Edge& edge, std::map<const Edge*, bool>* known) const {
  static const auto* arithmetic =
      new Types{"AddN", "AddV2", "Identity", "Mul", "Neg", "Pack", "Sqrt", "Square", "Sum", "UnsortedSegmentSum"};
  auto added = known->emplace(&edge, false);  // false for a way in a circle
  if (!added.second) return added.first->second;
  const Node& node = *edge.dst();
  if (edge.src()->output_type(edge.src_output()) != tensorflow::DT_FLOAT) return false;
  bool ends = false;
  if (IsUpdate(node, edge.dst_input())) {
    const Edge* handle = InputOf(node, 0);
    const Node* variable = handle == nullptr ? nullptr : VariableOf(handle->src());
    ends = options_.tables.empty() || (variable != nullptr && options_.IsNamed(variable->name()));
  } else if (IsOf(*arithmetic, node)) {
    for (const Edge* next : node.out_edges()) {
      if (next->IsControlEdge() || !next->dst()->IsOp()) continue;
      ends = !Crosses(*next) && EndsInUpdates(*next, known);
      if (!ends) break;
    }
  }
  (*known)[&edge] = ends;
  return ends;
}

const tensorflow::NodeDef* FindVariable(const std::string& beginning, const tensorflow::GraphDef& graph) {
  for (const tensorflow::NodeDef& node : graph.node()) {
    if (Variables().count(node.op()) > 0 && absl::StartsWith(node.name(), beginning)) return &node;
  }
  return nullptr;
}

}  // namespace

bool CompressOptions::IsNamed(absl::string_view variable) const {
  return tables.empty() || std::any_of(tables.begin(), tables.end(), [&](const std::string& beginning) {
           return absl::StartsWith(variable, beginning);
         });
}

void SetCompressByDefault(CompressOptions options) {
  Default& one = TheDefault();
  MutexLock lock(one.mutex);
  one.options = std::move(options);
}

TfStatus CompressOptions::ReadCompression(absl::string_view word) {
  if (word == "bf16") {
    compression = Compression::kBf16;
  } else if (word == "int8") {
    compression = Compression::kInt8;
  } else if (word == "" || word == "off") {
    compression = Compression::kOff;
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("fusewire: compression is \"", word, "\"; it can be \"bf16\", \"int8\" or \"off\""));
  }
  return TfStatus();
}

void CompressOptions::ReadTables(absl::string_view words) {
  tables = absl::StrSplit(words, ',', absl::SkipWhitespace());
}

TfStatus ReadCompressOptions(const tensorflow::ConfigProto& config, CompressOptions* out) {
  {
    Default& one = TheDefault();
    MutexLock lock(one.mutex);
    *out = one.options;
  }
  // A server's and a session's config are merged, the session's last.
  for (const auto& optimizer : config.graph_options().rewrite_options().custom_optimizers()) {
    if (optimizer.name() != "fusewire") continue;
    const auto& given = optimizer.parameter_map();
    auto option = given.find(kUniqueIds);
    if (option != given.end()) out->unique_ids = option->second.b();
    option = given.find(kTables);
    if (option != given.end()) out->ReadTables(option->second.s());
    option = given.find(kCompression);
    if (option != given.end()) TF_RETURN_IF_ERROR(out->ReadCompression(option->second.s()));
    option = given.find(kStaleness);
    if (option != given.end()) out->staleness = std::max<int64_t>(0, option->second.i());
  }
  out->unique_ids |= out->staleness > 0;
  return TfStatus();
}

TfStatus CheckOptions(const CompressOptions& options, const tensorflow::GraphDef& graph) {
  if (!options.any()) return TfStatus();
  if (options.staleness > 0) {
    for (const tensorflow::NodeDef& node : graph.node()) {
      if (absl::EndsWith(node.op(), kGathering))
        return absl::InvalidArgumentError(absl::StrCat(
            "fusewire: staleness=", options.staleness, ", and the graph has ", node.op(), " (", node.name(),
            "): the gradients of SyncReplicasOptimizer are to be of one version, and so are "
            "its rows. Leave out staleness, or the optimizer"));
    }
  }
  for (const std::string& beginning : options.tables) {
    const tensorflow::NodeDef* node = FindVariable(beginning, graph);
    if (node == nullptr)
      return absl::InvalidArgumentError(
          absl::StrCat("fusewire: compressed_tables names \"", beginning,
                       "\", and the graph has no variable whose name begins so. Give the beginning of its name in the "
                       "graph, such as \"linear/\", or leave the option out: then all tables are meant"));
    DataType type = tensorflow::DT_INVALID;
    if (options.compression != Compression::kOff && tensorflow::TryGetNodeAttr(*node, "dtype", &type) &&
        type != tensorflow::DT_FLOAT)
      return absl::InvalidArgumentError(absl::StrCat("fusewire: compressed_tables names \"", node->name(),
                                                     "\", which holds ", tensorflow::DataTypeString(type),
                                                     "; compression is for float tables"));
  }
  return TfStatus();
}

TfStatus Compress(const CompressOptions& options, Graph* graph, Compressed* done) {
  return Compressor(options, graph, done).Work();
}

TfStatus CompressPass::Run(const tensorflow::GraphOptimizationPassOptions& options) {
  if (options.session_options == nullptr || options.graph == nullptr || *options.graph == nullptr) return TfStatus();
  if (options.is_function_graph || !options.debug_filename_prefix.empty() || AreGraphsHeld()) return TfStatus();
  CompressOptions wanted;
  TF_RETURN_IF_ERROR(ReadCompressOptions(options.session_options->config, &wanted));
  if (!wanted.any()) return TfStatus();
  Compressed done;
  TF_RETURN_IF_ERROR(Compress(wanted, options.graph->get(), &done));
  if (!done.any()) return TfStatus();
  tensorflow::FixupSourceAndSinkEdges(options.graph->get());
  LOG(INFO) << absl::StrCat("fusewire: ids sent once: of ", done.lookups, " lookups and ", done.sums,
                            " gradients; rows used again: of ", done.caches, " lookups; compressed: ", done.rows,
                            " tensors of rows and ", done.gradients, " gradients");
  return TfStatus();
}

}  // namespace fusewire::tf
