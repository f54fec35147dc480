// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What only a later group of the same place uses is computed there: otherwise its results would be kept for it, one by
// one.
// Home: any thread. Owns: nothing. Fails: never.
#pragma once

#include <functional>
#include <vector>

#include <tensorflow/core/graph/graph.h>

namespace fusewire::tf {

// A node's group is that of its place and round.
struct Placed {
  static constexpr int kNowhere = -1;
  int place = kNowhere;
  int round = 0;
  bool may_move = false;  // it is a node for itself, always runs, waits for nobody, and makes no handle
};

// `order`: each node behind its inputs. `is_copied`: of an edge from what each group has a copy of. `placed`: by node
// id.
void Postpone(const std::vector<tensorflow::Node*>& order,
              const std::function<bool(const tensorflow::Edge*)>& is_copied, std::vector<Placed>* placed);

}  // namespace fusewire::tf
