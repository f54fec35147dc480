// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The servers of this process that cut the graphs of their sessions. A graph pass does not know its session's server,
// but it sees the session's devices, whose incarnations are unique.
// Home: any thread. Owns: what is registered, until the process ends, as TensorFlow's servers live.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace fusewire::tf {

enum class StarMode { kOff, kFull, kLite };

struct StarHome {
  StarMode mode = StarMode::kOff;
  std::string protocol;  // for logs
  // Whether this task accepts parts of a graph; may wait for its answer.
  std::function<bool(const std::string& task)> reaches;
};

void RegisterHome(uint64_t device_incarnation, StarHome home);
// Null if there is none.
const StarHome* FindHome(uint64_t device_incarnation);

}  // namespace fusewire::tf
