// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/bridge/names.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

namespace fusewire::tf {
namespace {

constexpr size_t kVariablesNamed = 2;

bool IsVariable(absl::string_view op) {
  return op == "Variable" || op == "VariableV2" || absl::EndsWith(op, "VarHandleOp");
}

bool Changes(absl::string_view op) {
  return absl::StartsWith(op, "Assign") || absl::StrContains(op, "Apply") || absl::StrContains(op, "Scatter");
}

double ElementsOf(const tensorflow::NodeDef& variable) {
  double elements = 1;
  const auto shape = variable.attr().find("shape");
  if (shape == variable.attr().end()) return 0;
  for (const auto& dim : shape->second.shape().dim()) elements *= static_cast<double>(dim.size());
  return elements;
}

std::string NameOfFirstResult(const tensorflow::GraphDef& part) {
  std::string name;
  for (const tensorflow::NodeDef& node : part.node()) {
    if (node.op() == "_Retval" && node.input_size() > 0) return node.input(0).substr(0, node.input(0).find(':'));
    if (name.empty() && node.op() != "_Arg" && node.op() != "Const") name = node.name();
  }
  return name;
}

}  // namespace

std::string ShortTask(absl::string_view name) {
  constexpr absl::string_view kJob = "/job:", kTask = "/task:";
  if (!absl::StartsWith(name, kJob)) return std::string(name.substr(0, name.find(' ')));
  const absl::string_view rest = name.substr(kJob.size());
  const size_t job_end = rest.find('/'), task = rest.find(kTask);
  if (job_end == absl::string_view::npos || task == absl::string_view::npos) return std::string(name);
  const absl::string_view number = rest.substr(task + kTask.size());
  return absl::StrCat(rest.substr(0, job_end), ":", number.substr(0, number.find('/')));
}

absl::string_view TaskOfDevice(absl::string_view device) { return device.substr(0, device.find("/device:")); }

absl::string_view ShortEdge(absl::string_view edge) {
  constexpr absl::string_view kEdge = "edge_";
  if (!absl::StartsWith(edge, kEdge)) return edge;
  size_t at = kEdge.size();
  while (at < edge.size() && edge[at] >= '0' && edge[at] <= '9') ++at;
  const bool has_name = at > kEdge.size() && at + 1 < edge.size() && edge[at] == '_';
  return has_name ? edge.substr(at + 1) : edge;
}

absl::string_view EdgeOfKey(absl::string_view key) {
  const std::vector<absl::string_view> parts = absl::StrSplit(key, ';');
  return ShortEdge(parts.size() == 5 ? parts[3] : key);
}

std::string NameOfPart(const tensorflow::GraphDef& part) {
  std::vector<std::tuple<double, absl::string_view>> found;
  bool changes = false;
  for (const tensorflow::NodeDef& node : part.node()) {
    changes = changes || Changes(node.op());
    if (IsVariable(node.op())) found.emplace_back(-ElementsOf(node), node.name());
  }
  std::sort(found.begin(), found.end());
  std::vector<absl::string_view> names;
  for (const auto& [size, name] : found) {
    // An optimizer's, as weights/Adagrad beside weights.
    const bool is_slot = std::any_of(found.begin(), found.end(), [name = name](const auto& each) {
      return absl::StartsWith(name, absl::StrCat(std::get<1>(each), "/"));
    });
    if (!is_slot) names.push_back(name);
  }
  if (names.empty()) return NameOfFirstResult(part);
  const size_t more = names.size() > kVariablesNamed ? names.size() - kVariablesNamed : 0;
  names.resize(names.size() - more);
  return absl::StrCat(absl::StrJoin(names, ", "), more > 0 ? absl::StrCat(" and ", more, " more") : "",
                      changes ? " (update)" : "");
}

}  // namespace fusewire::tf
