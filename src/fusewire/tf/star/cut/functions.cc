// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/cut/functions.h"

#include <tensorflow/core/util/device_name_utils.h>
#include "fusewire/tf/star/cut/kinds.h"

namespace fusewire::tf {

using tensorflow::DeviceNameUtils;
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

}  // namespace fusewire::tf
