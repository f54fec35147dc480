// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/bridge/names.h"

#include <algorithm>
#include <tuple>

#include <absl/strings/str_join.h>

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
