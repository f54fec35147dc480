// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/bridge/graphs.h"

#include <utility>

#include <tensorflow/core/framework/node_def_util.h>
#include <tensorflow/core/framework/tensor.h>
#include <tensorflow/core/platform/mutex.h>

namespace fusewire::tf {
namespace {

// An explicit instantiation may name private members. Another TensorFlow without these members does not compile.
template <auto table, auto mutex>
struct InsideGraphMgr {
  friend auto TableOf(tensorflow::GraphMgr* graphs) { return &(graphs->*table); }
  friend auto MutexOf(tensorflow::GraphMgr* graphs) { return &(graphs->*mutex); }
};
auto TableOf(tensorflow::GraphMgr* graphs);
auto MutexOf(tensorflow::GraphMgr* graphs);
template struct InsideGraphMgr<&tensorflow::GraphMgr::table_, &tensorflow::GraphMgr::mu_>;

}  // namespace

void ReplaceExecutor(tensorflow::GraphMgr* graphs, const std::string& handle, const WrapExecutor& wrap) {
  tensorflow::mutex_lock lock(*MutexOf(graphs));
  auto found = TableOf(graphs)->find(handle);
  if (found == TableOf(graphs)->end() || found->second->units.size() != 1) return;
  auto& unit = found->second->units.front();
  if (unit.graph == nullptr || unit.device == nullptr || unit.root == nullptr) return;
  tensorflow::FunctionLibraryRuntime* library = found->second->proc_flr->GetFLR(unit.device->name());
  if (library == nullptr) return;
  std::unique_ptr<tensorflow::Executor> usual(unit.root);
  unit.root = wrap(RegisteredGraph{unit.graph.get(), unit.device, library}, std::move(usual)).release();
}

const tensorflow::Edge* InputOf(const tensorflow::Node& node, int index) {
  const tensorflow::Edge* edge = nullptr;
  return node.input_edge(index, &edge).ok() ? edge : nullptr;
}

std::optional<std::vector<int64_t>> NumbersOf(const tensorflow::Edge* edge) {
  tensorflow::Tensor value;
  if (edge == nullptr || !tensorflow::GetNodeAttr(edge->src()->attrs(), "value", &value).ok()) return std::nullopt;
  const bool is_short = value.dtype() == tensorflow::DT_INT32;
  if (value.dims() > 1 || (!is_short && value.dtype() != tensorflow::DT_INT64)) return std::nullopt;
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < value.NumElements(); ++i)
    numbers.push_back(is_short ? value.flat<int32_t>()(i) : value.flat<int64_t>()(i));
  return numbers;
}

}  // namespace fusewire::tf
