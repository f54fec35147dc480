// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What an operation writes of what the task holds: rows of variables, by its indices, rows of tables, by its keys, or
// whole ones. An operation that is not known counts as a write of everything. For snapshots; without them nothing is
// marked.
// Home: any thread. Owns: nothing; the inventory has the marks. Fails: never.
#pragma once

#include <memory>
#include <vector>

#include <tensorflow/core/framework/tensor.h>
#include <tensorflow/core/graph/graph.h>
#include "fusewire/tf/state/inventory.h"

namespace fusewire::tf {

class Writes {
 public:
  // Null: it writes nothing that outlives its step.
  static std::unique_ptr<const Writes> Of(const tensorflow::Node& node, Inventory* inventory);

  // The input with the numbers of the rows, or with the keys; -1: whole variables and tables.
  int indices() const { return indices_; }
  // After the operation has run, or failed. `indices` is null without such an input.
  void Mark(const tensorflow::Tensor* indices) const;

 private:
  explicit Writes(Inventory* inventory) : inventory_(inventory) {}

  Inventory* const inventory_;
  std::vector<WriteMarks*> marks_;
  bool is_all_ = false;
  int indices_ = -1;
};

}  // namespace fusewire::tf
