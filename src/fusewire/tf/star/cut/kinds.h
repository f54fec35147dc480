// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The properties of single operations that matter to star_server.
// Home: any thread.
#pragma once

#include <string>

#include <tensorflow/core/framework/types.h>
#include <tensorflow/core/graph/graph.h>

namespace fusewire::tf {

// Operations whose result may wait for other steps. A group may wait for one only if all its nodes do.
bool MayBlock(const std::string& op);
// It may take long in any run, since it waits for other steps, or for files.
bool MayTakeLong(const std::string& op);
// Operations that belong to the session or to other tasks, and not to a parameter server's step.
bool BelongsElsewhere(const std::string& op);
// Of a resource, which can't be moved.
bool IsHandle(tensorflow::DataType type);
bool HasInputs(const tensorflow::Node& node);
// Not that of tf.switch_case, whose branches have numbers.
bool IsSwitchOfTwo(const tensorflow::Node& node);
// A variable, a table, a constant: it is named, not computed.
bool IsNamed(const tensorflow::Node& node);

}  // namespace fusewire::tf
