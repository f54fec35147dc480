// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Facts about the functions that a node calls, by its own name or by an attribute, and about those that they call.
// Home: one thread. Owns: the facts found so far. Fails: never; a missing function does nothing.
#pragma once

#include <map>
#include <string>

#include <tensorflow/core/framework/function.h>
#include <tensorflow/core/graph/graph.h>

namespace fusewire::tf {

class Functions {
 public:
  // `library` outlives it; null: there are none.
  explicit Functions(const tensorflow::FunctionLibraryDefinition* library) : library_(library) {}

  struct Facts {
    bool may_block = false;     // one of its operations may, see MayBlock
    bool is_elsewhere = false;  // one of them is on another device than the node, or belongs to the session
  };
  Facts Of(const tensorflow::Node& node);

 private:
  Facts OfName(const std::string& name, const std::string& device);
  Facts OfCalled(const tensorflow::NodeDef& def, const std::string& device);

  const tensorflow::FunctionLibraryDefinition* const library_;
  std::map<std::pair<std::string, std::string>, Facts> known_;  // by name and the caller's device
};

}  // namespace fusewire::tf
