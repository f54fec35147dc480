// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The gradient of a table has a row for each id of a batch. TensorFlow's optimizers add the rows of equal ids with nine
// small operations for each table, which cost more than the sums. In a part they become one, with the same bits.
// Home: any thread. Fails: never; what does not look like such a sum stays as it is.
#include "fusewire/tf/star/serve/part.h"

#include <algorithm>
#include <optional>
#include <set>

#include <absl/strings/str_cat.h>
#include <tensorflow/core/framework/node_def_util.h>
#include <tensorflow/core/framework/op.h>
#include <tensorflow/core/framework/op_kernel.h>
#include <tensorflow/core/framework/shape_inference.h>
#include <tensorflow/core/graph/algorithm.h>
#include <tensorflow/core/graph/node_builder.h>
#include "fusewire/tf/bridge/graphs.h"

namespace fusewire::tf {

using tensorflow::DataType;
using tensorflow::DT_DOUBLE;
using tensorflow::DT_FLOAT;
using tensorflow::DT_INT32;
using tensorflow::DT_INT64;
using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::Tensor;
using tensorflow::TensorShape;

namespace {

constexpr const char* kSum = "_FusewireSumRows";

bool IsOp(const Node* node, const char* op) { return node->type_string() == op; }

DataType TypeOf(const Node* node, const char* attribute) {
  DataType type = tensorflow::DT_INVALID;
  return tensorflow::GetNodeAttr(node->attrs(), attribute, &type).ok() ? type : tensorflow::DT_INVALID;
}

// Nothing else in the graph waits for it, and it waits for its inputs alone.
bool HasNoControls(const Node* node) {
  for (const Edge* edge : node->in_edges()) {
    if (edge->IsControlEdge() && edge->src()->IsOp()) return false;
  }
  for (const Edge* edge : node->out_edges()) {
    if (edge->IsControlEdge() && edge->dst()->IsOp()) return false;
  }
  return true;
}

// All that uses this output.
std::vector<const Edge*> UsersOf(const Node* node, int output) {
  std::vector<const Edge*> users;
  for (const Edge* edge : node->out_edges()) {
    if (!edge->IsControlEdge() && edge->src_output() == output) users.push_back(edge);
  }
  return users;
}

bool Are(const Edge* edge, const std::vector<int64_t>& wanted) { return NumbersOf(edge) == wanted; }

// A sum as TensorFlow's optimizers build it:
//   Unique(ids) -> ids once, places;  UnsortedSegmentSum(rows, places, Shape(ids once)[0])
// and in front of it, by the gradient of a lookup:
//   rows = Reshape(values, Concat(count of ids, shape of a row))
struct Sum {
  Node *sum, *unique;
  Edge const *values, *ids;
  const Edge* shape;  // the beginning of the rows' shape, which ends with `row`; null: the values have it
  std::vector<int64_t> row;
};

// The length of Unique's first output.
bool IsLengthOf(const Node* unique, const Edge* edge) {
  const Node* slice = edge->src();
  if (!IsOp(slice, "StridedSlice") || !HasNoControls(slice)) return false;
  for (const char* mask : {"begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"}) {
    int bits = -1;
    const int wanted = std::string(mask) == "shrink_axis_mask" ? 1 : 0;
    if (!tensorflow::GetNodeAttr(slice->attrs(), mask, &bits).ok() || bits != wanted) return false;
  }
  if (!Are(InputOf(*slice, 1), {0}) || !Are(InputOf(*slice, 2), {1}) || !Are(InputOf(*slice, 3), {1})) return false;
  const Edge* shape = InputOf(*slice, 0);
  if (shape == nullptr || !IsOp(shape->src(), "Shape") || !HasNoControls(shape->src())) return false;
  const Edge* whole = InputOf(*shape->src(), 0);
  return whole != nullptr && whole->src() == unique && whole->src_output() == 0;
}

// The reshaping in front of the sum need not be done: the fused operation takes the parts of the shape.
void TakeUnshaped(Sum* sum) {
  const Node* rows = sum->values->src();
  if (!IsOp(rows, "Reshape") || !HasNoControls(rows)) return;
  const Edge *values = InputOf(*rows, 0), *shape = InputOf(*rows, 1);
  if (values == nullptr || shape == nullptr || TypeOf(rows, "Tshape") != DT_INT32) return;
  const Node* concat = shape->src();
  if (!IsOp(concat, "ConcatV2") || concat->num_inputs() != 3 || !HasNoControls(concat)) return;
  const Edge* begin = InputOf(*concat, 0);
  const auto row = NumbersOf(InputOf(*concat, 1));
  if (begin == nullptr || !Are(InputOf(*concat, 2), {0}) || !row.has_value()) return;
  if (std::any_of(row->begin(), row->end(), [](int64_t size) { return size < 0; })) return;
  sum->values = values;
  sum->shape = begin;
  sum->row = *row;
}

std::optional<Sum> FindSum(Node* node) {
  if (!IsOp(node, "UnsortedSegmentSum") || !HasNoControls(node)) return std::nullopt;
  const DataType type = TypeOf(node, "T");
  const Edge *values = InputOf(*node, 0), *places = InputOf(*node, 1), *count = InputOf(*node, 2);
  if ((type != DT_FLOAT && type != DT_DOUBLE) || values == nullptr || places == nullptr || count == nullptr)
    return std::nullopt;
  Node* unique = places->src();
  if (!IsOp(unique, "Unique") || places->src_output() != 1 || TypeOf(unique, "out_idx") != DT_INT32)
    return std::nullopt;
  const DataType of_ids = TypeOf(unique, "T");
  const Edge* ids = InputOf(*unique, 0);
  if ((of_ids != DT_INT32 && of_ids != DT_INT64) || ids == nullptr || !HasNoControls(unique)) return std::nullopt;
  if (UsersOf(unique, 1).size() != 1 || !IsLengthOf(unique, count)) return std::nullopt;
  Sum sum{node, unique, values, ids, nullptr, {}};
  TakeUnshaped(&sum);
  return sum;
}

void Redirect(Graph* graph, const Node* from, int output, Node* to, int to_output) {
  for (const Edge* edge : UsersOf(from, output)) {
    Node* user = edge->dst();
    const int input = edge->dst_input();
    graph->RemoveEdge(edge);
    graph->AddEdge(to, to_output, user, input);
  }
}

// Also removes the nodes that only this sum used.
void RemoveUnused(Graph* graph, Node* node) {
  std::set<Node*> waiting{node};
  while (!waiting.empty()) {
    Node* next = *waiting.begin();
    waiting.erase(waiting.begin());
    bool is_used = !next->IsOp() || next->IsArg() || next->op_def().is_stateful();
    for (const Edge* edge : next->out_edges()) is_used = is_used || edge->dst()->IsOp();
    if (is_used) continue;
    for (const Edge* edge : next->in_edges()) waiting.insert(edge->src());
    graph->RemoveNode(next);
  }
}

bool Fuse(Graph* graph, const Sum& sum) {
  Node* fused = nullptr;
  std::vector<tensorflow::NodeBuilder::NodeOut> shape;
  if (sum.shape != nullptr) shape.emplace_back(sum.shape->src(), sum.shape->src_output());
  const TfStatus made = tensorflow::NodeBuilder(absl::StrCat(sum.sum->name(), "/fusewire"), kSum)
                            .Input(sum.values->src(), sum.values->src_output())
                            .Input(sum.ids->src(), sum.ids->src_output())
                            .Input(shape)
                            .Attr("row", sum.row)
                            .Finalize(graph, &fused);
  if (!made.ok()) return false;
  fused->set_requested_device(sum.sum->requested_device());
  fused->set_assigned_device_name(sum.sum->assigned_device_name());
  Redirect(graph, sum.sum, 0, fused, 0);
  Redirect(graph, sum.unique, 0, fused, 1);
  RemoveUnused(graph, sum.sum);
  return true;
}

// ---- the operation ----

template <class T, class Id>
class SumRowsOp final : public tensorflow::OpKernel {
 public:
  explicit SumRowsOp(tensorflow::OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("row", &row_));
  }

  void Compute(tensorflow::OpKernelContext* context) override {
    const Tensor &values = context->input(0), &ids = context->input(1);
    const int64_t count = ids.NumElements();
    TensorShape shape;
    OP_REQUIRES_OK(context, FindShape(context, &shape));
    OP_REQUIRES(context,
                ids.dims() == 1 && count < INT32_MAX && shape.dims() > 0 && shape.dim_size(0) == count &&
                    shape.num_elements() == values.NumElements(),
                absl::InvalidArgumentError(absl::StrCat("a gradient of shape ", values.shape().DebugString(),
                                                        ", read as ", shape.DebugString(), ", for ids of shape ",
                                                        ids.shape().DebugString())));
    const int64_t length = count == 0 ? 0 : values.NumElements() / count;
    Places places(ids.flat<Id>().data(), static_cast<size_t>(count));
    const auto once = static_cast<int64_t>(places.once.size());
    shape.set_dim(0, once);
    Tensor *sums = nullptr, *unique = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, shape, &sums));
    OP_REQUIRES_OK(context, context->allocate_output(1, TensorShape({once}), &unique));
    std::copy(places.once.begin(), places.once.end(), unique->flat<Id>().data());
    Add(values.flat<T>().data(), places, static_cast<size_t>(length), sums->flat<T>().data());
  }

 private:
  // The distinct ids in the order in which they come first, and each id's place among them.
  struct Places {
    Places(const Id* ids, size_t count) : of(count) {
      size_t size = 16;
      while (size < 2 * count) size *= 2;
      std::vector<int32_t> table(size, -1);
      once.reserve(count);
      for (size_t i = 0; i < count; ++i) {
        size_t at = Hash(ids[i]) & (size - 1);
        while (table[at] >= 0 && once[static_cast<size_t>(table[at])] != ids[i]) at = (at + 1) & (size - 1);
        if (table[at] < 0) {
          table[at] = static_cast<int32_t>(once.size());
          once.push_back(ids[i]);
        }
        of[i] = table[at];
      }
    }
    static size_t Hash(Id id) {
      uint64_t bits = static_cast<uint64_t>(id) * 0x9E3779B97F4A7C15ULL;
      return static_cast<size_t>(bits ^ (bits >> 32));
    }
    std::vector<Id> once;
    std::vector<int32_t> of;
  };

  TfStatus FindShape(tensorflow::OpKernelContext* context, TensorShape* shape) const {
    *shape = context->input(0).shape();
    if (context->num_inputs() == 2) return TfStatus();
    const auto begin = context->input(2).flat<int32_t>();
    std::vector<int64_t> sizes(begin.data(), begin.data() + begin.size());
    sizes.insert(sizes.end(), row_.begin(), row_.end());
    *shape = TensorShape();
    int64_t rest = context->input(0).NumElements();
    const auto unknown = std::find(sizes.begin(), sizes.end(), -1);  // as Reshape takes it
    for (auto size = sizes.begin(); unknown != sizes.end() && size != sizes.end(); ++size) {
      if (size != unknown && *size > 0) rest /= *size;
    }
    if (unknown != sizes.end()) *unknown = rest;
    for (int64_t size : sizes) TF_RETURN_IF_ERROR(shape->AddDimWithStatus(size));
    return TfStatus();
  }

  // In the order of the rows, onto zeros: as UnsortedSegmentSum.
  static void Add(const T* values, const Places& places, size_t length, T* sums) {
    std::fill(sums, sums + places.once.size() * length, T(0));
    for (int32_t place : places.of) {
      T* sum = sums + static_cast<size_t>(place) * length;
      for (size_t k = 0; k < length; ++k) sum[k] += values[k];
      values += length;
    }
  }

  std::vector<int64_t> row_;
};

#define FUSEWIRE_SUM_ROWS(type, id)                                                                                 \
  REGISTER_KERNEL_BUILDER(                                                                                          \
      Name("_FusewireSumRows").Device(tensorflow::DEVICE_CPU).TypeConstraint<type>("T").TypeConstraint<id>("Tids"), \
      SumRowsOp<type, id>)
FUSEWIRE_SUM_ROWS(float, int32_t);
FUSEWIRE_SUM_ROWS(float, int64_t);
FUSEWIRE_SUM_ROWS(double, int32_t);
FUSEWIRE_SUM_ROWS(double, int64_t);
#undef FUSEWIRE_SUM_ROWS

REGISTER_OP("_FusewireSumRows")
    .Input("values: T")
    .Input("ids: Tids")
    .Input("shape: shapes * int32")
    .Output("sums: T")
    .Output("unique: Tids")
    .Attr("T: {float, double}")
    .Attr("Tids: {int32, int64}")
    .Attr("shapes: int >= 0")
    .Attr("row: list(int)")
    .SetShapeFn(tensorflow::shape_inference::UnknownShape);

}  // namespace

int FuseRowSums(Graph* graph) {
  int fused = 0;
  std::vector<Node*> sums;
  for (Node* node : graph->op_nodes()) {
    if (IsOp(node, "UnsortedSegmentSum")) sums.push_back(node);
  }
  for (Node* node : sums) {
    const std::optional<Sum> sum = FindSum(node);
    if (sum.has_value() && Fuse(graph, *sum)) ++fused;
  }
  if (fused > 0) tensorflow::FixupSourceAndSinkEdges(graph);
  return fused;
}

}  // namespace fusewire::tf
