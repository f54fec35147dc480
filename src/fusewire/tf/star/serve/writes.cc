// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/serve/writes.h"

#include <string>

#include <absl/strings/match.h>
#include "fusewire/tf/bridge/graphs.h"
#include "fusewire/tf/star/cut/grouping.h"

namespace fusewire::tf {

using tensorflow::Edge;
using tensorflow::Node;

namespace {

// Sparse updates of variables along their first dimension.
bool WritesRows(const std::string& op) {
  if (absl::StartsWith(op, "ResourceScatterNd") || absl::StartsWith(op, "ScatterNd")) return false;
  for (const char* start : {"ResourceSparseApply", "SparseApply", "ResourceScatter", "Scatter"}) {
    if (absl::StartsWith(op, start)) return true;
  }
  return false;
}

// Updates of tables by their keys.
bool WritesKeys(const std::string& op) {
  for (const char* start : {"LookupTableInsert", "LookupTableRemove", "TFRA>CuckooHashTableInsert",
                            "TFRA>CuckooHashTableRemove", "TFRA>CuckooHashTableAccum"}) {
    if (absl::StartsWith(op, start)) return true;
  }
  return false;
}

// Its state is only its own position: it has no access to anything else.
bool IsGenerator(const std::string& op) {
  return absl::StartsWith(op, "Random") || op == "TruncatedNormal" || op == "Multinomial" ||
         op == "ParameterizedTruncatedNormal";
}

// -1: none. Its arguments are one input each.
int IndicesOf(const Node& node) {
  const tensorflow::OpDef& def = node.op_def();
  const char* const name = WritesRows(node.type_string()) ? "indices" : WritesKeys(node.type_string()) ? "keys" : "";
  for (int i = 0; def.input_arg_size() == node.num_inputs() && i < def.input_arg_size(); ++i) {
    if (def.input_arg(i).name() == name) return i;
  }
  return -1;
}

// The operation that has made the handle, or the reference.
const Node* MakerOf(const Node& node, int input) {
  const Edge* edge = InputOf(node, input);
  while (edge != nullptr && (edge->src()->IsIdentity() || edge->src()->type_string() == "RefIdentity"))
    edge = InputOf(*edge->src(), 0);
  return edge == nullptr ? nullptr : edge->src();
}

}  // namespace

std::unique_ptr<const Writes> Writes::Of(const Node& node, Inventory* inventory) {
  if (OnlyReads(node) || IsGenerator(node.type_string()) || node.IsArg() || node.IsRetval()) return nullptr;
  if (SavesFiles(node.type_string()) || node.type_string() == "MergeV2Checkpoints") return nullptr;
  std::unique_ptr<Writes> writes(new Writes(inventory));
  for (int i = 0; i < node.num_inputs(); ++i) {
    const tensorflow::DataType type = node.input_type(i);
    if (type != tensorflow::DT_RESOURCE && !tensorflow::IsRefType(type)) continue;
    const Node* maker = MakerOf(node, i);
    Holding holding;
    WriteMarks* marks = maker != nullptr && HoldingOf(maker->def(), &holding) ? inventory->MarksOf(holding) : nullptr;
    writes->is_all_ = writes->is_all_ || marks == nullptr;
    writes->marks_.push_back(marks);
  }
  // It has state, and no handle that says which: a function's operations may have theirs.
  writes->is_all_ = writes->is_all_ || writes->marks_.empty();
  if (!writes->is_all_) writes->indices_ = IndicesOf(node);
  return writes;
}

void Writes::Mark(const tensorflow::Tensor* indices) const {
  if (is_all_) return inventory_->MarkAll();
  for (WriteMarks* marks : marks_) {
    if (indices == nullptr) {
      marks->Whole();
    } else {
      marks->Rows(*indices);
    }
  }
}

}  // namespace fusewire::tf
