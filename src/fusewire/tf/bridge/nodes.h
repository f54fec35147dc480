// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What a pass over a graph asks about single nodes.
// Home: any thread. Owns: nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <tensorflow/core/framework/node_def_util.h>
#include <tensorflow/core/framework/tensor.h>
#include <tensorflow/core/graph/graph.h>

namespace fusewire::tf {

// Null: it has no such input.
inline const tensorflow::Edge* InputOf(const tensorflow::Node& node, int index) {
  const tensorflow::Edge* edge = nullptr;
  return node.input_edge(index, &edge).ok() ? edge : nullptr;
}

// The whole numbers of a constant, one or a list of them. `edge` may be null.
inline std::optional<std::vector<int64_t>> NumbersOf(const tensorflow::Edge* edge) {
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
