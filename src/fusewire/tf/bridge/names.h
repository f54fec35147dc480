// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// TensorFlow's long names in short, for people: in profiles, and at the status port.
// Home: any thread. Fails: never; a text that is not such a name stays as it is.
#pragma once

#include <string>
#include <vector>

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <absl/strings/string_view.h>
#include <tensorflow/core/framework/graph.pb.h>

namespace fusewire::tf {

// fusewire.prefetch sets it on operations that read for the next step.
constexpr const char* kAheadAttribute = "_fusewire_ahead";

// "/job:ps/replica:0/task:1/device:CPU:0", or without the device -> "ps:1"; and "ps:1 host:2222", as a peer's greeting
// says it.
inline std::string ShortTask(absl::string_view name) {
  constexpr absl::string_view kJob = "/job:", kTask = "/task:";
  if (!absl::StartsWith(name, kJob)) return std::string(name.substr(0, name.find(' ')));
  const absl::string_view rest = name.substr(kJob.size());
  const size_t job_end = rest.find('/'), task = rest.find(kTask);
  if (job_end == absl::string_view::npos || task == absl::string_view::npos) return std::string(name);
  const absl::string_view number = rest.substr(task + kTask.size());
  return absl::StrCat(rest.substr(0, job_end), ":", number.substr(0, number.find('/')));
}

// "/job:ps/replica:0/task:1/device:CPU:0" -> "/job:ps/replica:0/task:1"
inline absl::string_view TaskOfDevice(absl::string_view device) { return device.substr(0, device.find("/device:")); }

// Of a tensor that crosses tasks, as a key names it: "edge_7_weights/read" -> "weights/read".
inline absl::string_view ShortEdge(absl::string_view edge) {
  constexpr absl::string_view kEdge = "edge_";
  if (!absl::StartsWith(edge, kEdge)) return edge;
  size_t at = kEdge.size();
  while (at < edge.size() && edge[at] >= '0' && edge[at] <= '9') ++at;
  const bool has_name = at > kEdge.size() && at + 1 < edge.size() && edge[at] == '_';
  return has_name ? edge.substr(at + 1) : edge;
}

// The same of a whole key, source;incarnation;target;edge;frame.
inline absl::string_view EdgeOfKey(absl::string_view key) {
  const std::vector<absl::string_view> parts = absl::StrSplit(key, ';');
  return ShortEdge(parts.size() == 5 ? parts[3] : key);
}

// Of a part of a graph that a parameter server runs: its variables, the largest first, and whether it changes them:
// "table, weights and 3 more (update)". Without variables: the operation that makes its first result.
std::string NameOfPart(const tensorflow::GraphDef& part);

}  // namespace fusewire::tf
