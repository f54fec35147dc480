// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// TensorFlow's long names, as people say them: in profiles, and at the status port.
// Home: any thread. Fails: never; a text that is no such name stays as it is.
#pragma once

#include <string>

#include <absl/strings/string_view.h>
#include <tensorflow/core/framework/graph.pb.h>

namespace fusewire::tf {

// "/job:ps/replica:0/task:1/device:CPU:0", or without the device -> "ps:1"; and "ps:1 host:2222", as a peer's greeting
// says it.
std::string ShortTask(absl::string_view name);

// "/job:ps/replica:0/task:1/device:CPU:0" -> "/job:ps/replica:0/task:1"
absl::string_view TaskOfDevice(absl::string_view device);

// Of a tensor that crosses tasks, as a key names it: "edge_7_weights/read" -> "weights/read".
absl::string_view ShortEdge(absl::string_view edge);
// The same of a whole key, source;incarnation;target;edge;frame.
absl::string_view EdgeOfKey(absl::string_view key);

// Of a part of a graph that a parameter server runs: its variables, the largest first, and whether it changes them:
// "table, weights and 3 more (update)". Without variables: the operation that makes its first result.
std::string NameOfPart(const tensorflow::GraphDef& part);

}  // namespace fusewire::tf
