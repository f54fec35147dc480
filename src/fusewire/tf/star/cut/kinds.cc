// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/cut/kinds.h"

#include <algorithm>
#include <initializer_list>

#include <absl/strings/match.h>
#include "fusewire/tf/bridge/compat.h"

namespace fusewire::tf {

using tensorflow::DataType;
using tensorflow::Edge;
using tensorflow::Node;

namespace {

bool HasAnyOf(const std::string& op, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(), [&op](const char* word) { return absl::StrContains(op, word); });
}

}  // namespace

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
